"""`turnwise doctor`: what a run would trip over, from the command line."""

import asyncio
import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import AsJson, Overrides, fail, mcp_file, servers_in

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.setup.servers import ReadyServers


def doctor(
    recipe: Annotated[
        Path | None,
        typer.Argument(help="A recipe (TOML; defaults if absent), or an mcp.json to check its servers only."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only plan the memory of a run, without loading any weights.")
    ] = False,
    memory: Annotated[
        float | None,
        typer.Option(help="With --plan: GB of the device to plan for; this machine's if absent."),
    ] = None,
    disk: Annotated[float, typer.Option(help="GB that must be free where runs are stored.")] = 2.0,
    as_json: AsJson = False,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Check a setup: machine, servers, tasks, model, a few episodes.

    Each finding says what to do about it. Exit code 1 if something that a run needs is bad. Secrets are never
    printed.

    Example: turnwise doctor cpu
    """
    from rich.console import Console

    if plan:
        _plan(recipe, memory, as_json=as_json, overrides=overrides)
        return
    if memory is not None:
        fail("--memory goes with --plan")

    servers, settings = _setup(recipe, overrides)
    from turnwise.cli.recipes import with_generated_tasks
    from turnwise.run.checks import Finding, FindingLevel, examine, print_finding, verdict
    from turnwise.system.terminal import printable

    console = Console(emoji=False, highlight=False)

    async def look() -> list[Finding]:
        findings = []
        name = "RECIPE" if recipe is None else shlex.quote(str(recipe))
        async for finding in examine(servers, settings, needed_bytes=int(disk * 1e9), recipe_name=name):
            findings.append(finding)
            if not as_json:
                print_finding(finding, console)
        return findings

    if settings is None:
        findings = asyncio.run(look())
    else:
        with with_generated_tasks(settings) as settings:
            findings = asyncio.run(look())
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=1))
    if not as_json:
        console.print(printable(verdict(findings)), soft_wrap=True, markup=False)
    if any(finding.level is FindingLevel.BAD for finding in findings):
        raise typer.Exit(1)


def _plan(path: Path | None, memory: float | None, *, as_json: bool, overrides: list[str]) -> None:
    """Print the memory plan of a run; exit code 1 if it does not fit into the free memory."""
    from rich.console import Console

    from turnwise.cli.recipes import read_recipe

    recipe = read_recipe(path, overrides)
    from turnwise.models.device_memory import Memory
    from turnwise.run.checks.memory_table import as_json as plan_as_json
    from turnwise.run.checks.memory_table import print_plan
    from turnwise.setup.memory import plan_for_recipe
    from turnwise.setup.resolve import without_quantisation

    limit = None if memory is None else Memory(int(memory * 1e9), int(memory * 1e9))
    planned = plan_for_recipe(without_quantisation(recipe), limit)
    if as_json:
        print(json.dumps(plan_as_json(planned), indent=1))
    else:
        print_plan(planned, Console(emoji=False, highlight=False))
    if planned.memory is not None and not planned.fits:
        raise typer.Exit(1)


def _setup(path: Path | None, overrides: list[str]) -> "tuple[ReadyServers, Recipe | None]":
    """Return the servers and their recipe; an mcp.json has servers and no recipe."""
    from turnwise.cli.recipes import read_recipe

    if path is not None and path.suffix == ".json":
        if overrides:
            fail("--set changes a recipe, not an mcp.json")
        return servers_in(path), None
    recipe = read_recipe(path, overrides)
    from turnwise.setup.servers import servers_of
    from turnwise.worlds.market.services import DEFAULT_FILE

    return servers_of(recipe, mcp_file(None) if path is None else DEFAULT_FILE), recipe
