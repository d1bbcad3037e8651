"""A folder of worlds: the servers' `mcp.json`, tasks by split, a recipe and the table of coverage."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from turnwise.tasks.load import save
from turnwise.tasks.selection import SPLITS
from turnwise.types import Task
from turnwise.worlds.generated.coverage import coverage, coverage_text
from turnwise.worlds.generated.making import make_all
from turnwise.worlds.generated.world import world_name

_RECIPE = """\
# Learn from {num} generated servers: turnwise train {folder}/recipe.toml

[model]
path = "embedded"

[tools]
mcp = "mcp.json"

[tasks]
{files}

[rollout]
tokens_per_turn = 192
tokens_per_episode = {tokens}

[policy]
tuning = "full"

[optimizer]
learning_rate = 2e-4
"""
_EPISODE_TOKENS = 4_096
"""The context of the embedded model; larger models can have more."""


@dataclass(frozen=True, slots=True)
class WorldsFolder:
    """What was written: the files, and the tasks by split."""

    files: tuple[Path, ...]
    tasks: Mapping[str, tuple[Task, ...]]


def write_worlds(
    folder: Path, *, num: int, seed: int = 0, on_progress: Callable[[int], None] = lambda _: None
) -> WorldsFolder:
    """Make worlds and their tasks, and write the folder; ValueError if it holds worlds already."""
    if (folder / "mcp.json").exists():
        raise ValueError(f"{folder / 'mcp.json'}: already there; nothing was written")
    tasks = tasks_of_worlds(num, seed, on_progress)
    folder.mkdir(parents=True, exist_ok=True)
    for split, of_split in tasks.items():
        save(of_split, folder / f"{split}.jsonl")
    names = [f"{split}.jsonl" for split in tasks]
    lines = "\n".join(f'{split} = "{split}.jsonl"' for split in tasks)
    recipe = _RECIPE.format(num=num, folder=folder, files=lines, tokens=_EPISODE_TOKENS)
    table = coverage_text(coverage(task for of_split in tasks.values() for task in of_split))
    texts = {"mcp.json": mcp_text(num, seed), "recipe.toml": recipe, "coverage.md": table}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return WorldsFolder(tuple(folder / name for name in (*texts, *names)), tasks)


def tasks_of_worlds(
    num: int, seed: int, on_progress: Callable[[int], None] = lambda _: None
) -> dict[str, tuple[Task, ...]]:
    """Return the tasks of worlds 0 to `num` - 1 by split; a split without tasks is left out."""
    made = make_all(seed, num, on_progress)
    by_split = {split: tuple(task for task in made if task.split == split) for split in SPLITS}
    return {split: tasks for split, tasks in by_split.items() if tasks}


def mcp_text(num: int, seed: int) -> str:
    """Return an mcp.json with an entry for each world."""
    servers = {
        world_name(seed, number): {
            "command": "turnwise",
            "args": ["serve", world_name(seed, number)],
        }
        for number in range(num)
    }
    return json.dumps({"mcpServers": servers}, indent=1) + "\n"
