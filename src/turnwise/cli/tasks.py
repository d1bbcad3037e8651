"""`turnwise tasks make|check|convert`: task files, from the command line."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.mistakes import reports_mistakes
from turnwise.cli.options import McpOption, fail, servers_in

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.setup.servers import ReadyServers
    from turnwise.tasks.load import Problem

app = typer.Typer(help="Make, check and convert task files.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
@reports_mistakes
def make(
    folder: Annotated[Path, typer.Argument(help="Folder to write the three .jsonl files to.")] = Path(
        "tasks"
    ),
    train: Annotated[int, typer.Option(help="Tasks of each family for training.")] = 20,
    validation: Annotated[int, typer.Option(help="Tasks of each family for validation.")] = 4,
    test: Annotated[int, typer.Option(help="Tasks of each family held out for testing.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these families, or `conversations` for all those with several messages; all with one "
            "message by default."
        ),
    ] = None,
    world_seed: Annotated[int, typer.Option(help="Seed of the embedded world.")] = 0,
) -> None:
    """Make verified tasks over the embedded world. Every reference plan is run twice on real servers.

    Companies and phrasings of the three splits are disjoint.

    Example: turnwise tasks make data --train 50 --family quote_figure
    """
    from rich.progress import Progress

    from turnwise.mcp.pool import Pool
    from turnwise.mcp.spec import load
    from turnwise.rewards.outcome import is_success
    from turnwise.tasks.load import check_new, save_new
    from turnwise.tasks.proof.follow import ToolsDown
    from turnwise.tasks.proof.verification import WorldMismatch
    from turnwise.worlds.market.families import chosen_families
    from turnwise.worlds.market.families.making import Made, make_tasks
    from turnwise.worlds.market.services import DEFAULT_FILE
    from turnwise.worlds.market.world import open_world

    try:
        chosen = chosen_families(family or ())
    except ValueError as error:
        fail(f"--family {error}")
    counts = {"train": train, "validation": validation, "test": test}
    for split in counts:
        check_new(folder / f"{split}.jsonl")

    async def run() -> Made:
        embedded = load(DEFAULT_FILE, {"TURNWISE_WORLD_SEED": str(world_seed)})
        async with Pool(embedded) as pool:
            with Progress(transient=True) as bar:
                shown = bar.add_task("verifying plans")
                return await make_tasks(
                    open_world(world_seed).market,
                    pool.lease,
                    counts,
                    earns=is_success,
                    seed=seed,
                    families=chosen,
                    on_progress=lambda done, total: bar.update(shown, completed=done, total=total),
                )

    try:
        making = asyncio.run(run())
    except (WorldMismatch, ToolsDown) as error:
        fail(str(error))
    for split in counts:
        tasks = making.of_split(split)
        print(f"{save_new(tasks, folder / f'{split}.jsonl')}: {len(tasks)} tasks")
    for rejected in making.rejected:
        print(f"rejected {rejected.task_id}: {rejected.reason}")
    for place, count in making.short.items():
        print(f"{place}: {count} fewer than asked for, the world has no more")


@app.command()
@reports_mistakes
def check(
    files: Annotated[list[Path], typer.Argument(help="Task files; splits must be disjoint.")],
    mcp: McpOption = None,
    recipe: Annotated[
        Path | None,
        typer.Option(help="Check against this recipe's rewards and servers; against `outcome` by default."),
    ] = None,
    fill: Annotated[
        Path | None,
        typer.Option(
            help="Make the calls of demonstrations that have no results, and write the tasks with them to "
            "this new file."
        ),
    ] = None,
) -> None:
    """Check task files against the servers' real tools. The exit code is 1 if there are problems.

    A ticker that the embedded world lacks is a warning: a task may ask about it and still be played. So is a
    shortcut that earns the reward: giving up, calling every tool once, the right answer without a call. With
    --fill, a demonstration that fails or does not earn its reward is a problem, and its task is written
    without it. A call that could change something real is not made.

    Example: turnwise tasks check tasks/*.jsonl --mcp mcp.json
    """
    from turnwise.cli.recipes import read_recipe
    from turnwise.setup.servers import servers_of
    from turnwise.tasks.load import check_new
    from turnwise.tasks.proof.follow import ToolsDown

    if fill is not None and len(files) > 1:
        fail(f"--fill {fill}: give one task file, not {len(files)}")
    settings = read_recipe(recipe, [])
    if settings.environment:
        fail("--recipe: tools of an environment are known only in an episode: use `turnwise train --dry-run`")
    if fill is not None:
        check_new(fill)
    servers = servers_in(mcp) if mcp or not recipe else servers_of(settings)
    try:
        problems, warnings = asyncio.run(_find_problems(files, settings, servers, fill))
    except ToolsDown as error:
        fail(str(error))
    if fill is not None and not fill.exists():
        print(f"{fill}: not written")
    _report(problems, warnings)


async def _find_problems(
    files: Sequence[Path], settings: "Recipe", servers: "ReadyServers", fill: Path | None
) -> "tuple[list[Problem], list[Problem]]":
    """Return problems and warnings; if `fill` is given and there are no problems, write the filled tasks."""
    from turnwise.cli.fill import fill_file, offer_to_fill
    from turnwise.mcp.pool import Pool
    from turnwise.rewards import is_success, parts_of, why_unscorable_by
    from turnwise.rewards.outcome import is_decidable
    from turnwise.tasks.check import check_files
    from turnwise.tasks.load import PlacedTask, read
    from turnwise.tasks.shortcuts import find_shortcuts
    from turnwise.worlds.market.unknown_tickers import unknown_tickers

    tools = settings.tools
    async with Pool(
        servers.specs, max_result_tokens=tools.max_result_tokens, is_mending=tools.mend_arguments
    ) as pool:
        for error in (await pool.connect()).values():
            fail(str(error))
        placed = [item for file in files for item in read(file) if isinstance(item, PlacedTask)]
        problems = check_files(files, pool.tools, why_unscorable_by(parts_of(settings.rewards)), servers.live)
        if fill is not None and not problems:
            problems = await fill_file(placed, fill, pool, settings, servers)
        elif fill is None:
            offer_to_fill(placed)
        decidable = [item for item in placed if is_decidable(item.task)] if not problems else []
        shortcuts = find_shortcuts(decidable, pool.tools, is_success)
        return problems, [*await unknown_tickers(placed, servers.embedded, pool), *shortcuts]


def _report(problems: "Sequence[Problem]", warnings: "Sequence[Problem]") -> None:
    """Print problems and warnings; exit code 1 on problems."""
    from turnwise.system.terminal import printable

    for line in (*(f"warning: {warning}" for warning in warnings), *map(str, problems)):
        print(printable(line))
    counts = f"{len(problems)} problems" if problems else "no problems"
    print(f"{counts}, {len(warnings)} warnings" if warnings else counts)
    if problems:
        raise typer.Exit(1)


@app.command()
@reports_mistakes
def convert(
    source: Annotated[Path, typer.Argument(help="JSON, JSONL or Parquet, in any known layout.")],
    target: Annotated[Path, typer.Argument(help="JSON, JSONL or Parquet, by its file name.")],
    mcp: McpOption = None,
    demonstrations: Annotated[
        bool,
        typer.Option(
            help="Make the calls of recorded conversations again, and keep those that hold as demonstrations."
        ),
    ] = True,
) -> None:
    """Read tasks in any known layout and write them in turnwise's own.

    Recorded calls are made again on the servers, unless they could change your own data. --no-demonstrations
    makes no call. Tasks that only a judge can score go to a file next to the others, TARGET-open.

    Example: turnwise tasks convert data/processed/train.json tasks/train.jsonl
    """
    from rich.progress import Progress

    from turnwise.mcp.pool import Pool
    from turnwise.rewards.outcome import is_decidable, is_success
    from turnwise.run.demonstrations.replay import Demonstrated, demonstrated
    from turnwise.setup.bench import require_harmless, used_servers
    from turnwise.system.terminal import printable
    from turnwise.tasks.load import Problem, check_new, read, save_new
    from turnwise.tasks.proof.follow import ToolsDown
    from turnwise.worlds.market.earlier_rows import with_truths

    opened = target.with_stem(f"{target.stem}-open")
    for file in (target, opened):
        check_new(file)
    servers = servers_in(mcp)

    async def run() -> Demonstrated:
        async with Pool(servers.specs) as pool:
            for error in (await pool.connect()).values():
                typer.echo(printable(f"warning: {error}"), err=True)
            placed = []
            for item in read(source, tool_servers={tool.name: tool.server for tool in pool.tools}):
                if isinstance(item, Problem):
                    raise ValueError(str(item))
                placed.append(item)
            if not demonstrations:
                return Demonstrated(tuple(item.task for item in placed), ())
            placed = await with_truths(placed, pool.tools, servers.embedded, pool.lease, is_success)
            if recorded := [item.task for item in placed if item.recording is not None]:
                require_harmless(pool, used_servers(recorded, [tool.server for tool in pool.tools]))
            with Progress(transient=True) as bar:
                shown = bar.add_task("playing recordings again")
                return await demonstrated(
                    placed,
                    pool,
                    on_progress=lambda done, total: bar.update(shown, completed=done, total=total),
                )

    try:
        converted = asyncio.run(run())
    except ToolsDown as error:
        fail(str(error))
    for dropped in converted.dropped:
        print(printable(f"no demonstration for {dropped.task_id}: {dropped.reason}"))
    proven = [task for task in converted.tasks if is_decidable(task)] or converted.tasks
    print(
        f"{save_new(proven, target)}: {len(proven)} tasks, {converted.num_kept} with a demonstration; "
        f"{len(converted.dropped)} recorded conversations dropped"
    )
    if judged := [task for task in converted.tasks if task not in proven]:
        print(f"{save_new(judged, opened)}: {len(judged)} tasks that only a `judge` can score")
