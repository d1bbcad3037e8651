"""`turnwise runs` and `turnwise runs clean`: the runs of a folder, from the command line."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.mistakes import reports_mistakes
from turnwise.cli.options import AsJson, fail

if TYPE_CHECKING:
    from turnwise.records.run_list import RunLine

app = typer.Typer(rich_markup_mode=None)

Folder = Annotated[Path, typer.Option("--in", help="The folder that the runs are in.")]


@app.callback(invoke_without_command=True)
@reports_mistakes
def runs(context: typer.Context, folder: Folder = Path("runs"), as_json: AsJson = False) -> None:
    """List runs: steps, held-out success, when and how they ended.

    Example: turnwise runs
    """
    if context.invoked_subcommand is not None:
        context.obj = folder
        return
    from turnwise.records.run_list import list_runs

    runs = list_runs(folder)
    if as_json:
        rows = [{**asdict(run), "folder": str(run.folder)} for run in runs]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    if not runs:
        print(f"no runs in {folder}")
        return
    _print_table(runs)


@app.command()
@reports_mistakes
def clean(
    context: typer.Context,
    names: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs to remove; without names, those that ended without a step."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them without asking.")] = False,
) -> None:
    """Remove runs that never made a step, or the runs that you name. What is removed cannot be brought back.

    Example: turnwise runs clean
    """
    from turnwise.records.run_list import num_bytes, removable, remove
    from turnwise.system.terminal import counted, printable

    runs = removable(context.obj, names or [])
    if not runs:
        print(f"nothing to remove: no run in {context.obj} ended without a step")
        return
    for run in runs:
        steps = counted(run.num_steps, "step")
        print(printable(f"{run.folder}: {steps}, {num_bytes(run) / 1e6:,.1f} MB, {run.state}"))
    if not yes:
        if not sys.stdin.isatty():
            fail("nothing was removed: --yes removes these without asking")
        if not typer.confirm(f"Remove {counted(len(runs), 'run')}?"):
            fail("nothing was removed")
    for run in runs:
        remove(run)
    print(f"removed {counted(len(runs), 'run')}")


def _print_table(runs: "list[RunLine]") -> None:
    from rich.console import Console

    from turnwise.system.terminal import figure_table, printable

    headers = ("run", "recipe", "model", "steps", "success", "began", "state")
    rows = [[printable(cell) for cell in _cells(run)] for run in runs]
    width = Console().width if sys.stdout.isatty() else sys.maxsize
    for line in figure_table(headers, rows, width):
        print(line)
    for run in runs:
        if run.reason:
            [first, *_] = run.reason.splitlines()
            print(printable(f"{run.folder.name}: {run.state}: {first}"))


def _cells(run: "RunLine") -> list[str]:
    planned = "?" if run.num_planned is None else run.num_planned
    rates = (run.success_before, run.success_after)
    success = [f"{value:.2f}" if value is not None else "-" for value in rates]
    return [
        run.folder.name,
        run.recipe_file or "-",
        Path(run.model).name,  # of a folder or a hub name; --json has all of it
        f"{run.num_steps}/{planned}",
        " → ".join(success) if success != ["-", "-"] else "-",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        run.state,
    ]
