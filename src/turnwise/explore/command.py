"""Explore the servers of an mcp.json, show progress, and write the tasks and the report."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from turnwise.explore.continuation import FILE as PROGRESS
from turnwise.explore.continuation import Earlier, read_earlier
from turnwise.explore.continuation import as_json as progress_json
from turnwise.explore.driver import Explorer, in_another_time_zone
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.explore.politeness import polite
from turnwise.explore.report.recording import write_cassette
from turnwise.explore.report.report_json import as_json
from turnwise.explore.report.terminal import print_exploration
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.free_path import move_to_free, require_free
from turnwise.system.files.regular_files import Damaged, make_private_folder, read_named_text
from turnwise.system.interruption import interrupted_as_by_ctrl_c
from turnwise.system.terminal import printable
from turnwise.tasks.load import save, save_new
from turnwise.tasks.selection import SPLITS

REPORT = "report.json"
CASSETTE = "cassette.jsonl"


class ExploreCommand:
    """`turnwise explore`, with everything it needs."""

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        out: Path | None,
        options: ExploreOptions,
        console: Console,
        *,
        next_command: str = "",
    ) -> None:
        self._specs = specs
        self._out = out
        self._options = options
        self._console = console
        self._next_command = next_command
        """What the report recommends if there are tasks."""

    def run_here(self) -> Exploration:
        """Run in the main thread of a command, where SIGTERM and a hang-up are handled like Ctrl-C."""
        with interrupted_as_by_ctrl_c():
            return asyncio.run(self.run())

    async def run(self) -> Exploration:
        """Explore, and write what was found: all of it, or what there was when the user pressed Ctrl-C."""
        self._check()
        earlier = None if self._out is None else read_earlier(self._out)
        if earlier is not None:
            self._introduce(earlier)
        was_interrupted = False
        specs = [polite(spec) for spec in self._specs]
        async with Pool(specs) as pool, Pool(list(map(in_another_time_zone, specs))) as later:
            explorer = Explorer(pool, later, specs, self._options, self._say, earlier)
            try:
                await explorer.run()
            except asyncio.CancelledError:
                was_interrupted = True
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
            exploration = explorer.result(was_interrupted=was_interrupted)
            if earlier is not None and not explorer.has_verified_earlier:
                raise ValueError(
                    f"{self._out}: interrupted before its tasks were verified; nothing was changed"
                )
            if self._out is not None:
                write(explorer, exploration, self._out, is_new=earlier is None)
            self._report(exploration)  # before the servers end, which Ctrl-C may cut short
        return exploration

    def _report(self, exploration: Exploration) -> None:
        print_exploration(exploration, console=self._console, next_command=self._next_command)
        if self._out is not None:
            names = [*(f"{split}.jsonl" for split in SPLITS), REPORT, CASSETTE]
            self._say(f"written to {self._out}: {', '.join(names)}")

    def _introduce(self, earlier: Earlier) -> None:
        """Say what this exploration goes on from."""
        self._say(f"{self._out}: has {len(earlier.tasks)} tasks; their plans are played again first")
        if earlier.progress.seed != self._options.seed:
            self._say(
                f"the seed was {earlier.progress.seed} and is {self._options.seed} now: other values are "
                "tried; tasks keep their splits"
            )

    def _check(self) -> None:
        """Raise ValueError if an option is wrong, or if a file would be overwritten."""
        known = [spec.name for spec in self._specs]
        for name in self._options.writable:
            if name not in known:
                raise ValueError(f"writes: no server {name!r}; the servers are {', '.join(known)}")
        if self._out is not None and not (self._out / PROGRESS).exists():
            for name in (*(f"{split}.jsonl" for split in SPLITS), REPORT, CASSETTE):
                require_free(self._out / name)

    def _say(self, line: str) -> None:
        self._console.print(printable(line), markup=False, soft_wrap=True)


def write(explorer: Explorer, exploration: Exploration, folder: Path, *, is_new: bool) -> None:
    """Write all files: a new exploration over nothing, a later one over its own files."""
    make_private_folder(folder)
    save_tasks = save_new if is_new else save
    for split in SPLITS:
        save_tasks(exploration.tasks_of(split), folder / f"{split}.jsonl")
    report = json.dumps(as_json(exploration), indent=1) + "\n"
    progress = json.dumps(progress_json(explorer.progress), indent=1) + "\n"
    files = [(REPORT, report.encode()), (PROGRESS, progress.encode())]
    for name, content in files:
        part = folder / f".new-{name}"
        write_atomically(part, content)
        _put(part, folder / name, is_new=is_new)
    tools = [tool for server in exploration.servers for tool in server.tools]
    part = folder / f".new-{CASSETTE}"
    write_cassette(part, tools, explorer.episodes)
    _put(part, folder / CASSETTE, is_new=is_new)


def _put(part: Path, place: Path, *, is_new: bool) -> None:
    if is_new:
        move_to_free(part, place)
    else:
        part.replace(place)


def user_values(path: Path) -> dict[str, list[Any]]:
    """Read the user's values: an object of lists by parameter name."""
    try:
        rows = json.loads(read_named_text(path))
    except Damaged as error:
        raise ValueError(f"--values {error}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"--values {path}: cannot be read: {error}") from None
    if not isinstance(rows, dict):
        raise ValueError(f"--values {path}: expected an object of lists by parameter name")
    return named_values(rows)


def named_values(listed_by_name: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the user's values; a single value stands for a list of one."""
    return {name: listed if isinstance(listed, list) else [listed] for name, listed in listed_by_name.items()}
