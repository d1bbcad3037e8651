"""Find verified tasks for servers from Python, as `turnwise explore` does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from turnwise.api.request import NO_SETTINGS
from turnwise.explore.command import ExploreCommand, named_values
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.explore.writing.model import ChatModel, ModelSource
from turnwise.setup.servers import load_servers
from turnwise.setup.writing_model import OwnModel
from turnwise.system.background import run_in_thread


def explore(
    mcp: str | Path,
    *,
    out: str | Path | None = None,
    num_tasks: int = 300,
    minutes: float = 5.0,
    pause: float = 60.0,
    seed: int = 0,
    values: Mapping[str, Sequence[Any]] = NO_SETTINGS,
    writes: Sequence[str] = (),
    writer: tuple[str, str] | None = None,
    quiet: bool = False,
) -> Exploration:
    """Call the servers' tools, compose questions about the answers, and return those that are proven.

    Ctrl-C returns what was found until then. `tasks_of("train")` of the result is for `train(tasks=…)`.

    mcp: the servers' mcp.json.
    out: a folder for the task files and the report; nothing is written without it. The tasks of an earlier
        exploration there are kept if they still hold.
    num_tasks, minutes: stop at this number of tasks, or after this time.
    pause: seconds after which all tasks are played once more; what moved meanwhile is not asked.
    seed: the same seed and the same data of the servers give the same tasks.
    values: values to try, by parameter name.
    writes: servers whose real data may be changed; others are changed in private copies only.
    writer: URL and model of an OpenAI-compatible endpoint that chooses, words and joins the tasks; the URL
        `self` loads the model here.
    quiet: print neither progress nor the report.
    """
    specs = load_servers(Path(mcp)).specs
    model = None if writer is None else model_source(*writer)
    options = ExploreOptions(num_tasks, minutes, seed, tuple(writes), named_values(values), model, pause)
    console = Console(quiet=quiet, emoji=False, highlight=False)
    command = ExploreCommand(specs, None if out is None else Path(out), options, console)
    return run_in_thread(command.run)


def model_source(url: str, model: str) -> ModelSource:
    """The model that writes: at an endpoint, or for the URL `self` loaded on this machine."""
    return OwnModel(model) if url == "self" else ChatModel(url, model)
