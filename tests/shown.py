"""What commands are tried on: a tiny model, a notebook server, a task with its demonstration."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.rollout.stage import NOTEBOOK, task
from tests.run.stage import write_model
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.tasks.load import save
from turnwise.types import Cause, DemoTurn, Task, ToolCall, ToolResult


def shown_task(answer: str = "done", name: str = "shown") -> Task:
    """Two real calls and an answer; the right one is `done`."""
    calls = (ToolCall("1", "write", {"text": "a"}), ToolCall("2", "read", {}))
    results = (ToolResult("1", "written", Cause.OK, 0.0), ToolResult("2", '["a"]', Cause.OK, 0.0))
    return task(name, demonstration=(DemoTurn("", calls, results), DemoTurn(answer)))


def sound_setup(folder: Path) -> Path:
    """`recipe.toml` and all that it names, the folder itself again."""
    model = write_model(folder / "model")
    write_servers(folder, notebook={"command": sys.executable, "args": [str(NOTEBOOK)]})
    save([shown_task()], folder / "train.jsonl")
    (folder / "recipe.toml").write_text(
        f'model.path = "{model}"\ntools.mcp = "mcp.json"\ntasks.train = "train.jsonl"\n'
        f'run = {{folder = "{folder}/runs", tasks_per_step = 1}}\n'
        "rollout = {tokens_per_turn = 128, lockstep = true}\n"
    )
    return folder


def write_servers(folder: Path, **servers: Any) -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def recipe_in(folder: Path, *overrides: str) -> Recipe:
    return read_recipe(folder / "recipe.toml", parse_settings(overrides))
