"""`turnwise engine`: serve a recipe's engine over HTTP until it is stopped."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from turnwise.config import Recipe
from turnwise.engines.server import Server
from turnwise.system.net.addresses import url_of
from turnwise.system.net.admission import Admission
from turnwise.system.net.http_serving import bound_socket, server_config
from turnwise.types import Sampling
from turnwise.types.protocols import EngineDown

SERVED = ("transformers", "vllm")
"""Engine kinds that can be served: those that hold weights."""
IDLE_SECONDS = 75
"""How long an idle connection is kept; longer than the client keeps its own."""


async def serve_engine(
    recipe: Recipe,
    model: Any = None,
    *,
    host: str,
    port: int,
    token: str,
    max_weights_bytes: int,
    say: Callable[[str], None],
) -> None:
    """Serve until interrupted or terminated; ValueError for the user's mistakes.

    `model` replaces the recipe's model. No request is accepted before a first token has been sampled.
    """
    kind = recipe.engine.kind
    if kind not in SERVED:
        raise ValueError(f"engine.kind is {kind!r}: only {' and '.join(SERVED)} can be served")
    admission = Admission(host, token)
    # these import torch, which takes seconds: report mistakes before that
    from turnwise.setup.bench import open_engine
    from turnwise.setup.memory import with_engine_sizes

    async with contextlib.AsyncExitStack() as exits:
        listener = exits.enter_context(bound_socket(host, port))
        engine = await open_engine(with_engine_sizes(recipe), exits, model)
        try:
            await engine.complete([0], Sampling(max_tokens=1), 0)
        except EngineDown as error:
            raise ValueError(f"engine.kind {kind!r}: {error}") from None
        server = Server(engine, kind=kind, model=recipe.model.path, max_weights_bytes=max_weights_bytes)
        # no server or proxy headers
        config = server_config(
            server.application(admission),
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
        )
        listener.listen(config.backlog)  # whoever reads the address below may connect at once
        say(f"{url_of(host, listener.getsockname()[1])}  {kind}, {recipe.model.path}  (Ctrl-C ends it)")
        await _Ending(config).serve(sockets=[listener])


class _Ending(uvicorn.Server):
    """Stops on a signal without re-raising it, so that the engine's process is shut down properly."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
