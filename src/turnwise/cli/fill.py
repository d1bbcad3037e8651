"""`turnwise tasks check --fill`: make the calls of demonstrations that have no results, and write these."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from turnwise.config import Recipe
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards, parts_of
from turnwise.run.demonstrations.replay import fill_results
from turnwise.setup.servers import ReadyServers
from turnwise.tasks.load import PlacedTask, Problem, save_new


def offer_to_fill(placed: Sequence[PlacedTask]) -> None:
    """Print for each file how many demonstrations lack results, and the command that makes their calls."""
    for file in dict.fromkeys(item.file for item in placed):
        shown = [item.task for item in placed if item.file == file and item.task.demonstration]
        num_lacking = sum(task.lacks_results for task in shown)
        if num_lacking:
            print(
                f"{file}: {num_lacking} of {len(shown)} demonstrations have no results; "
                f"turnwise tasks check {file} --fill NEW_FILE makes their calls and writes them"
            )


async def fill_file(
    placed: Sequence[PlacedTask], target: Path, pool: Pool, recipe: Recipe, servers: ReadyServers
) -> list[Problem]:
    """Make the missing calls and write the tasks; return a problem for each demonstration dropped."""
    num_lacking = sum(item.task.lacks_results for item in placed)
    if not num_lacking:
        print("every demonstration has its results")
        return []
    async with Rewards(parts_of(recipe.rewards)) as rewards:
        with Progress(transient=True) as bar:
            shown = bar.add_task("making calls")
            found = await fill_results(
                placed,
                pool,
                rewards,
                servers.live,
                on_progress=lambda done, total: bar.update(shown, completed=done, total=total),
            )
    target = save_new(found.tasks, target)
    num_filled = num_lacking - len(found.dropped)
    print(f"{target}: {len(found.tasks)} tasks; {num_filled} of {num_lacking} demonstrations filled")
    places = {item.task.id: item for item in placed}
    return [
        Problem(places[rejected.task_id].file, places[rejected.task_id].row, "demonstration", rejected.reason)
        for rejected in found.dropped
    ]
