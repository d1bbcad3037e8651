"""`turnwise model build`: the model that comes with turnwise, made again."""

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import fail

app = typer.Typer(help="Make the embedded model.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _commands() -> None:
    """Make the embedded model."""


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="The folder to be made.")] = Path("runs/model"),
    seed: Annotated[
        int,
        typer.Option(help="The same seed gives the same weights, on the same machine."),
    ] = 6,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, or auto for the best there is.")] = "cpu",
    keep_stages: Annotated[
        bool, typer.Option("--keep-stages", help="Leave what the stages came to in OUT.stages.")
    ] = False,
) -> None:
    """Make the embedded model from nothing: lessons by the real servers, a tokenizer, supervised learning.

    It takes about an hour on two cores, ten minutes with a GPU. After a kill the same command goes on
    where it was.

    Example: turnwise model build --out runs/model
    """
    # Torch's threads share the cores with the servers: where they wait, they must not spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if out.exists() and any(out.iterdir()):
        fail(f"--out {out}: is not empty")
    from turnwise.embedded.build import BuildPlan, gather, stages_of
    from turnwise.embedded.build import build as teach
    from turnwise.tasks.make import Mismatch
    from turnwise.tasks.plan import ToolsDown

    def say(line: str) -> None:
        print(line, flush=True)

    started, plan = time.perf_counter(), BuildPlan(device=device)
    try:
        built = teach(out, plan, asyncio.run(gather(plan, say)), seed=seed, say=say)
    except (ValueError, Mismatch, ToolsDown) as error:
        fail(str(error))
    if not keep_stages:
        shutil.rmtree(stages_of(out))
    minutes = (time.perf_counter() - started) / 60
    size = f"{built.num_parameters:,} parameters, {built.num_bytes / 1e6:.1f} MB"
    print(f"{built.folder}: {size}, {minutes:.1f} minutes")
