"""`turnwise init`: the files of a first run of one's own, from the command line."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import McpOption, fail, servers_in


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to.")] = Path(),
    mcp: McpOption = None,
) -> None:
    """Write a recipe, three tasks and a reward to start from. No file is overwritten.

    The servers are started once to list their tools. The recipe names the largest model that this machine
    can train.

    Example: turnwise init my-run --mcp mcp.json
    """
    from turnwise.commands.model_choice import largest_model, this_machine
    from turnwise.commands.starter import Setup, check_free, describe_model, write_starter
    from turnwise.commands.tools import list_tools
    from turnwise.runtime.terminal import printable

    check_free(folder)
    own = mcp or (Path("mcp.json") if Path("mcp.json").exists() else None)
    listing = asyncio.run(list_tools(servers_in(mcp).specs))
    if listing.failures:
        fail("; ".join(f"server {name}: {why}" for name, why in listing.failures.items()))
    machine = this_machine()
    is_embedded = own is None and machine.device == "cpu"
    setup = Setup(machine, None if is_embedded else largest_model(machine), own, listing.tools)
    for file in write_starter(folder, setup):
        print(file)
    name = "embedded" if setup.model is None else setup.model.path
    print(f"model: {name}, {describe_model(setup)}")
    for words in listing.problems.values():
        print(printable(f"warning: {words}"))
    for server in (name for name, kind in listing.isolation.items() if own and kind == "process"):
        print(
            printable(
                f"note: every episode starts {server} anew; if it keeps nothing between calls, "
                '"turnwise": {"isolation": "shared"} in its entry of mcp.json is faster'
            )
        )
    go = "" if folder == Path() else f"cd {folder} && "
    print(f"next: {'edit tasks.jsonl, then ' if own else ''}{go}turnwise train --dry-run recipe.toml")
