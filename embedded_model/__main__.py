"""Build the embedded model and the demo's tasks, from the root of a checkout.

python -m embedded_model build --out runs/model
python -m embedded_model tasks runs/demo-tasks
"""

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import fail

app = typer.Typer(
    help="Build the embedded model and the demo's tasks.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("runs/model"),
    seed: Annotated[int, typer.Option(help="A seed gives the same weights on the same CPU.")] = 6,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, or auto for the best available.")] = "cpu",
    keep_stages: Annotated[
        bool, typer.Option("--keep-stages", help="Keep the checkpoints of the stages in OUT.stages.")
    ] = False,
) -> None:
    """Build the embedded model from nothing: lessons on the real servers, a tokenizer, supervised learning.

    It takes about an hour on two cores, ten minutes with a GPU. After a kill, the same command resumes.
    """
    # Torch's threads share the cores with the servers, so they must not spin while they wait.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if out.exists() and any(out.iterdir()):
        fail(f"--out {out}: is not empty")
    from embedded_model.build import BuildPlan, gather, stages_of
    from embedded_model.build import build as teach
    from turnwise.tasks.proof.follow import ToolsDown
    from turnwise.tasks.proof.verification import WorldMismatch

    def say(line: str) -> None:
        print(line, flush=True)

    started, plan = time.perf_counter(), BuildPlan(device=device)
    try:
        built = teach(out, plan, asyncio.run(gather(plan, say)), seed=seed, say=say)
    except (ValueError, WorldMismatch, ToolsDown) as error:
        fail(str(error))
    if not keep_stages:
        shutil.rmtree(stages_of(out))
    minutes = (time.perf_counter() - started) / 60
    size = f"{built.num_parameters:,} parameters, {built.num_bytes / 1e6:.1f} MB"
    print(f"{built.folder}: {size}, {minutes:.1f} minutes")


@app.command()
def tasks(
    folder: Annotated[Path, typer.Argument(help="Where the three .jsonl files go.")],
    train: Annotated[int, typer.Option(help="Tasks of each family for training.")] = 120,
    validation: Annotated[int, typer.Option(help="Tasks of each family for validation.")] = 5,
    test: Annotated[int, typer.Option(help="Tasks of each family held out for testing.")] = 20,
) -> None:
    """Make the demo's tasks; the defaults give the files in recipes/cpu."""
    from embedded_model.lessons import make_demo_tasks
    from turnwise.tasks.load import save

    num_by_split = {"train": train, "validation": validation, "test": test}
    made = asyncio.run(make_demo_tasks(num_by_split))
    for split in num_by_split:
        of_split = [task for task in made if task.split == split]
        save(of_split, folder / f"{split}.jsonl")
        print(f"{folder / split}.jsonl: {len(of_split)} tasks")


if __name__ == "__main__":
    app()
