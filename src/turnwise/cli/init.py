"""`turnwise init`: the files of a first run of one's own, from the command line."""

import asyncio
import shlex
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import McpOption, fail, servers_in


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to.")] = Path(),
    mcp: McpOption = None,
    explore: Annotated[
        bool,
        typer.Option("--explore", help="Find verified tasks first, as turnwise explore does, in 5 minutes."),
    ] = False,
) -> None:
    """Write a recipe, three tasks and a reward to start from. No file is overwritten.

    The servers are started once to list their tools. The recipe names the largest model that this machine
    can train, or one that is already here if the Hugging Face hub cannot be reached.

    Example: turnwise init my-run --mcp mcp.json
    """
    from turnwise.cli.model_choice import ModelAdvice, choose_model, this_machine
    from turnwise.cli.starter import Setup, check_free, describe_model, write_starter
    from turnwise.mcp.listing import list_tools
    from turnwise.system.terminal import printable

    check_free(folder, is_explored=explore)
    own = mcp or (Path("mcp.json") if Path("mcp.json").exists() else None)
    listing = asyncio.run(list_tools(servers_in(mcp).specs))
    if listing.failures:
        fail("; ".join(f"server {name}: {why}" for name, why in listing.failures.items()))
    machine = this_machine()
    is_embedded = own is None and machine.device == "cpu"
    explored = _explored(folder, own) if explore else None
    advice = ModelAdvice(None) if is_embedded else choose_model(machine)
    setup = Setup(machine, advice.choice, own, listing.tools, explored)
    for file in write_starter(folder, setup):
        print(file)
    name = "embedded" if setup.model is None else setup.model.path
    print(f"model: {name}, {describe_model(setup)}")
    if advice.note:
        print(printable(f"note: {advice.note}"))
    for words in listing.problems.values():
        print(printable(f"warning: {words}"))
    for server in (name for name, kind in listing.isolation.items() if own and kind == "process"):
        print(
            printable(
                f"note: every episode starts {server} anew; if it keeps nothing between calls, "
                '"turnwise": {"isolation": "shared"} in its entry of mcp.json is faster'
            )
        )
    edit = "edit tasks.jsonl, then " if own and not explore else ""
    print(f"next: {edit}turnwise train --dry-run {shlex.quote(str(folder / 'recipe.toml'))}")


def _explored(folder: Path, mcp: Path | None) -> Path:
    """Explore the servers and return the folder with the tasks. Exits if there are too few to train on."""
    from rich.console import Console

    from turnwise.cli.starter import MIN_EXPLORED_TASKS
    from turnwise.explore.command import ExploreCommand
    from turnwise.explore.options import ExploreOptions
    from turnwise.system.terminal import counted

    out = folder / "tasks"
    console = Console(emoji=False, highlight=False)
    found = ExploreCommand(servers_in(mcp).specs, out, ExploreOptions(), console).run_here()
    num_found = len(found.tasks_of("train"))
    if num_found < MIN_EXPLORED_TASKS:
        fail(
            f"{counted(num_found, 'training task')} found, and with fewer than {MIN_EXPLORED_TASKS} a model "
            f"learns the answers, not the tools; {out / 'report.json'} says what kept others out. "
            "No recipe was written"
        )
    return out
