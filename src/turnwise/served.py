"""Takes a recipe, serves its engine over HTTP until it is stopped: `turnwise engine`."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from turnwise.addresses import url_of
from turnwise.admission import Admission
from turnwise.config import Recipe
from turnwise.engines.server import Server
from turnwise.protocols import EngineDown
from turnwise.types import Sampling

SERVED = ("transformers", "vllm")
"""Kinds that sample from weights of their own."""
IDLE_SECONDS = 75
"""For which an unused connection is kept; more than the client's own."""


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
    """Until interrupted or terminated. ValueError for the user's mistakes.

    `model` is sampled in the place of the recipe's. Nobody is let in before a first token was sampled.
    """
    kind = recipe.engine.kind
    if kind not in SERVED:
        raise ValueError(f"engine.kind is {kind!r}: only {' and '.join(SERVED)} can be served")
    admission = Admission(host, token)
    from turnwise.workbench import open_engine  # torch, seconds after which no mistake should be told

    async with contextlib.AsyncExitStack() as exits:
        listener = exits.enter_context(_bound(host, port))
        engine = await open_engine(recipe, exits, model)
        try:
            await engine.complete([0], Sampling(max_tokens=1), 0)
        except EngineDown as error:
            raise ValueError(f"engine.kind {kind!r}: {error}") from None
        server = Server(engine, kind=kind, model=recipe.model.path, max_weights_bytes=max_weights_bytes)
        # no access log; and no server name, date or proxy headers that nobody asks for
        config = uvicorn.Config(
            server.application(admission),
            log_level="warning",
            access_log=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
        )
        say(f"{url_of(host, listener.getsockname()[1])}  {kind}, {recipe.model.path}  (Ctrl-C ends it)")
        await _Ending(config).serve(sockets=[listener])


class _Ending(uvicorn.Server):
    """Ends by a signal and then lets the program end its way: the engine may have a process of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(each)


def _bound(host: str, port: int) -> socket.socket:
    """Bound but not listening: who asks before the engine is there is refused, and looks again."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or asyncio leaves Nagle's algorithm on, which costs 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ValueError(f"--host {host} --port {port}: {error.strerror}") from None
    return listener
