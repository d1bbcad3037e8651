"""`turnwise worlds`: generated servers and verified tasks, from the command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def worlds(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("worlds"),
    num: Annotated[int, typer.Option(min=1, help="How many servers.")] = 250,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
) -> None:
    """Make MCP servers and verified tasks from a seed.

    Writes mcp.json, tasks by split and a recipe. The domains of the splits differ. The plan of
    every task is run twice.

    Example: turnwise worlds --num 250 --out worlds
    """
    from rich.console import Console
    from rich.progress import Progress

    from turnwise.worlds.generated.folder import write_worlds

    with Progress(transient=True, console=Console(file=sys.stderr)) as bar:
        shown = bar.add_task("making worlds", total=num)
        written = write_worlds(out, num=num, seed=seed, on_progress=lambda n: bar.update(shown, completed=n))
    for split, tasks in written.tasks.items():
        print(f"{out / split}.jsonl: {len(tasks)} tasks")
    print(f"turnwise train {out / 'recipe.toml'}   trains on them")
