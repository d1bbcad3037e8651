"""A second exploration goes on from the first; the cassette answers the plans without the servers."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from tests.explore.exploring import SERVERS, entry_of, specs_of
from turnwise.explore.command import CASSETTE, ExploreCommand
from turnwise.explore.continuation import FILE, read_earlier
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load as load_specs
from turnwise.rewards.outcome import is_success
from turnwise.tasks.load import load
from turnwise.tasks.proof.verdict import episode_of
from turnwise.tasks.selection import SPLITS
from turnwise.types import DemoTurn, Task, ToolCall

NUM_TASKS = 10
SECRET = "sk-4fP9wQ7xZr2LmT8vKb3NdY6c"


def explore(folder: Path, out: Path, num_tasks: int = NUM_TASKS, seed: int = 0) -> Exploration:
    options = ExploreOptions(num_tasks=num_tasks, minutes=20, seed=seed, pause_seconds=0)
    specs = load_specs(folder / "mcp.json")
    return asyncio.run(ExploreCommand(specs, out, options, Console(quiet=True)).run())


def started(folder: Path, out: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "turnwise",
        "explore",
        str(folder / "mcp.json"),
        "--out",
        str(out),
        "--pause",
        "0",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tasks_in(folder: Path) -> list[Task]:
    return [task for split in SPLITS for task in load(folder / f"{split}.jsonl")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server that works on its own copy, its mcp.json, and the tasks of an exploration."""
    folder = tmp_path_factory.mktemp("continuing")
    shutil.copy(SERVERS / "notes.py", folder)
    entry = entry_of(folder / "notes.py")
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    explore(folder, folder / "tasks")
    return folder


@pytest.fixture
def tasks(folder: Path, tmp_path: Path) -> Path:
    """A copy of the explored tasks."""
    return Path(shutil.copytree(folder / "tasks", tmp_path / "tasks"))


async def test_the_cassette_answers_every_plan_without_a_server(tasks: Path) -> None:
    found = tasks_in(tasks)
    assert any(task.truth.probes for task in found)
    async with Pool((), cassette=Cassette(tasks / CASSETTE, Mode.REPLAY)) as pool:
        for task in found:
            async with pool.lease(task.servers, f"train/{task.id}") as toolbox:
                turns = []
                for shown in task.demonstration:
                    results = tuple(await toolbox.call(shown.calls)) if shown.calls else ()
                    turns.append(DemoTurn(shown.text, shown.calls, results))
                is_done = True
                for probe in task.truth.probes:
                    [result] = await toolbox.call([ToolCall("probe", probe.tool, probe.arguments)])
                    is_done = is_done and not result.is_error and probe.contains in result.content
                tools = tuple(toolbox.tools)
            assert is_success(episode_of(task, turns, tools, is_done=is_done)), task.prompt[0].content


async def test_calls_that_read_may_come_in_another_order_than_they_were_recorded(tasks: Path) -> None:
    async with Pool((), cassette=Cassette(tasks / CASSETTE, Mode.REPLAY)) as pool:
        async with pool.lease(["notes"], "other") as toolbox:
            made = [call for task in tasks_in(tasks) for turn in task.demonstration for call in turn.calls]
            read = {str(call.arguments): call for call in made if call.name == "read_note"}
            assert len(read) > 1
            for call in [*read.values(), *list(read.values())[::-1]]:
                [result] = await toolbox.call([call])
                assert not result.is_error, result.content


@dataclass(frozen=True, slots=True)
class Second:
    """A second exploration, after the data has changed and the user has removed a task."""

    found: Exploration
    before: dict[str, Task]
    after: dict[str, Task]
    removed: str
    refuted: set[str]
    entities: dict[str, list[str]]


@pytest.fixture(scope="module")
def second(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Second:
    tasks = Path(shutil.copytree(folder / "tasks", tmp_path_factory.mktemp("second") / "tasks"))
    before = {task.id: task for task in tasks_in(tasks)}
    removed, *kept = (tasks / "train.jsonl").read_text().splitlines()
    (tasks / "train.jsonl").write_text("\n".join(kept) + "\n")
    server = (folder / "notes.py").read_text()
    (folder / "notes.py").write_text(server.replace("12 tomato", "13 tomato"))
    found = explore(folder, tasks, num_tasks=NUM_TASKS + 2, seed=1)
    (folder / "notes.py").write_text(server)
    return Second(
        found,
        before,
        {task.id: task for task in tasks_in(tasks)},
        json.loads(removed)["id"],
        {name for name, task in before.items() if "12 tomato" in f"{task.demonstration} {task.truth.probes}"},
        {name: it["entities"] for name, it in json.loads((tasks / FILE).read_text())["origins"].items()},
    )


def test_a_second_exploration_keeps_the_tasks_and_adds_others(second: Second) -> None:
    kept = set(second.before) - second.refuted - {second.removed}
    assert second.found.num_kept == len(kept)
    assert set(second.after) - set(second.before)
    for name in kept:
        assert second.after[name] == second.before[name]


def test_an_entity_keeps_its_split(second: Second) -> None:
    splits: dict[str, set[str]] = {}
    for task in second.after.values():
        for entity in second.entities[task.id]:
            splits.setdefault(entity, set()).add(task.split)
    assert all(len(found) == 1 for found in splits.values())


def test_tasks_that_the_data_refutes_are_dropped(second: Second) -> None:
    refuted = second.refuted - {second.removed}
    assert refuted
    assert second.found.dropped["the data has changed"]
    assert sum(second.found.dropped.values()) == len(refuted)
    for name in refuted & set(second.after):
        assert second.after[name] != second.before[name]


def test_a_task_that_the_user_removed_does_not_come_back(second: Second) -> None:
    assert second.removed not in second.after


def test_tasks_of_another_origin_are_not_overwritten(folder: Path, tasks: Path) -> None:
    before = (tasks / "train.jsonl").read_text()
    own = (
        before
        + json.dumps({"id": "mine", "prompt": "Say hello.", "truth": {"answer": {"value": "hello"}}})
        + "\n"
    )
    (tasks / "train.jsonl").write_text(own)
    with pytest.raises(ValueError, match="'mine' is not from an exploration"):
        explore(folder, tasks)
    assert (tasks / "train.jsonl").read_text() == own


def test_tasks_of_a_server_that_is_gone_stay_as_they_are(folder: Path, tasks: Path, tmp_path: Path) -> None:
    [spec] = specs_of(tmp_path, "no_tools")
    command = ExploreCommand([spec], tasks, ExploreOptions(), Console(quiet=True))
    before = (tasks / "train.jsonl").read_bytes()
    with pytest.raises(ValueError, match="use server 'notes': it is not there now"):
        asyncio.run(command.run())
    assert (tasks / "train.jsonl").read_bytes() == before


def test_sigterm_writes_what_was_found_without_the_secrets_of_a_server(folder: Path, tmp_path: Path) -> None:
    """The server states its key in an answer."""
    server = (folder / "notes.py").read_text().replace("from typing", "import os\nfrom typing", 1)
    (tmp_path / "notes.py").write_text(
        server.replace('"Water the', 'os.environ["NOTES_API_KEY"] + " Water the')
    )
    run = {**entry_of(tmp_path / "notes.py"), "env": {"NOTES_API_KEY": SECRET}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": run}}))
    out = tmp_path / "tasks"
    with started(tmp_path, out) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("verified:"):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stdout.read()
    assert f"written to {out}" in " ".join(rest.split())
    earlier = read_earlier(out)
    assert earlier is not None
    assert earlier.tasks
    assert "Water the 12" in (out / CASSETTE).read_text()
    for file in out.iterdir():
        assert SECRET not in file.read_text()


def test_a_second_ctrl_c_ends_at_once(folder: Path, tmp_path: Path) -> None:
    with started(folder, tmp_path / "tasks") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
