"""`turnwise export` and `turnwise chat`: trained models, from the command line."""

from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import Overrides
from turnwise.cli.recipes import Best, Step, check_run, chosen, requested_agent, run_async
from turnwise.cli.trust import Trust, consent


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path, typer.Option(help="Folder to write the model to; it must not exist yet.")],
    adapter: Annotated[
        bool,
        typer.Option("--adapter", help="Write only the LoRA adapter, in peft's format; merged by default."),
    ] = False,
    best: Best = False,
    step: Step = None,
) -> None:
    """Write a run's model as transformers and vLLM load it. --adapter writes only the LoRA adapter.

    Example: turnwise export runs/cpu-20261115-070000 --out model && turnwise eval cpu --set
    model.path=model
    """
    which = chosen(best, step, run)
    check_run(run)
    from turnwise.setup.export import export_run

    exported = export_run(run, out, which=which, is_adapter=adapter)
    kind = "adapter" if adapter else "model"
    print(f"{exported.folder}: the {kind} after {exported.step} steps, {exported.num_bytes / 1e6:,.1f} MB")


def chat(
    path: Annotated[Path, typer.Argument(help="A run's folder, or a recipe (TOML) for its untrained model.")],
    best: Best = False,
    step: Step = None,
    trust: Trust = False,
    temperature: Annotated[float, typer.Option(help="0 is greedy: always the most likely token.")] = 0.0,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Talk to a trained agent and see how it calls its real tools.

    Example: turnwise chat runs/cpu-20261115-070000
    """
    from rich.console import Console

    which = chosen(best, step, path)
    request = requested_agent(path, overrides)
    read = request.read(consent(trust=trust))
    from turnwise.cli.chat import lines_of, talk
    from turnwise.setup.agent import resolve_agent

    console = Console(emoji=False, highlight=False)
    agent = resolve_agent(request, read, "train", which)
    run_async(talk(agent, temperature=temperature, console=console, ask=lines_of("> ")))
