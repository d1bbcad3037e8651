"""One of several workers that play the same tasks on one remote server, as a separate program.

python -m tests.rollout.worker RECIPE NUM_WORKERS OUT   ->   OUT, and the counts of lost episodes
"""

import asyncio
import json
import sys
from pathlib import Path

from turnwise.config import read_recipe
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.setup.bench import open_workbench
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve


async def main(recipe_file: Path, num_workers: int, out: Path) -> None:
    recipe = read_recipe(recipe_file, {"engine.kind": "scripted"})
    run = resolve(RunRequest(recipe), recipe, ("train",))
    tasks = run.tasks_of("train")
    async with open_workbench(run, tasks, num_workers=num_workers) as bench:
        collector = bench.collector()
        with TrajectoryWriter(out) as writer:
            async with collector.collecting(tasks, len(tasks)) as groups:
                async for group in groups:
                    for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
                        writer.write(StoredEpisode(trajectory, reward))
    progress = collector.progress
    lost = {str(stop): count for stop, count in progress.failures.items()}
    print(json.dumps({"num_groups": progress.num_groups, "lost": lost, "last": progress.last_failure}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
