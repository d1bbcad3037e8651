"""`turnwise engine`: serve a recipe's engine, from the command line."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import Overrides, fail
from turnwise.cli.recipes import Best, Step, chosen, requested_agent
from turnwise.cli.trust import Trust, consent


def engine(
    recipe: Annotated[
        Path | None,
        typer.Argument(help="The recipe (TOML) of the run that will use the engine, or a run's folder."),
    ] = None,
    port: Annotated[int, typer.Option(help="0 picks a free one.", min=0, max=65535)] = 8100,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that others can reach needs a token.")
    ] = "127.0.0.1",
    max_weights_gb: Annotated[
        float, typer.Option(help="Largest publication of weights to accept.", min=0.001)
    ] = 16.0,
    best: Best = False,
    step: Step = None,
    trust: Trust = False,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Serve the recipe's engine over HTTP. Training then samples on another GPU or machine.

    Give both sides the same recipe; the side that trains sets engine.kind=remote.

    Both sides read the token from TURNWISE_ENGINE_TOKEN.

    Example: turnwise engine recipe.toml, and turnwise train recipe.toml --set engine.kind=remote
    """
    import os

    which = chosen(best, step, recipe)
    request = requested_agent(recipe, overrides)
    read = request.read(consent(trust=trust))
    from turnwise.cli.engine_service import serve_engine
    from turnwise.engines.remote import TOKEN_VARIABLE
    from turnwise.setup.agent import trained_model
    from turnwise.setup.resolve import without_quantisation
    from turnwise.system.net.admission import TokenRequired

    token = os.environ.get(TOKEN_VARIABLE, "")
    serving = serve_engine(
        without_quantisation(read),
        None if request.run is None else trained_model(request.run, which)[0],
        host=host,
        port=port,
        token=token,
        max_weights_bytes=int(max_weights_gb * 1e9),
        say=lambda words: print(words, flush=True),
    )
    try:
        asyncio.run(serving)
    except ValueError as error:
        hint = f" (set {TOKEN_VARIABLE})" if isinstance(error, TokenRequired) else ""
        fail(f"{error}{hint}")
    except OSError as error:  # transformers raises it for a model that does not exist
        fail(f"model.path: {error}")
    except KeyboardInterrupt:  # before serving began
        raise typer.Exit(130) from None
