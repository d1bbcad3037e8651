"""Takes a server's name and a backend choice, gives its `Service`, open while the context lasts."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from turnwise.mcp.serve import Service
from turnwise.servers.contract import contract, service_of

SERVERS = ("fmp", "polygon", "tavily", "python", "slack")

DEFAULT_FILE = Path(str(files("turnwise.servers").joinpath("mcp.json")))
"""The five servers as an `mcp.json`, used where the user gives none."""


SYNTHETIC = (
    "Synthetic data of turnwise's embedded world. Most companies are invented; real tickers have their real "
    "name and industry, and every price, statement, date, person and article is invented."
)
"""What the embedded servers say about themselves to every client."""


class Backend(StrEnum):
    """Where a server's answers come from."""

    AUTO = "auto"
    EMBEDDED = "embedded"
    LIVE = "live"


def choose(name: str, backend: Backend, environ: Mapping[str, str]) -> Backend:
    """Settle `auto`: live if the server's key is set; `live` without its key is the user's mistake."""
    key = contract()["servers"][name]["key"]
    if key is None:
        if backend is Backend.LIVE:
            raise ValueError(f"backend: {name} has no live provider; use auto or embedded")
        return Backend.EMBEDDED
    if backend is Backend.LIVE and not environ.get(key):
        raise ValueError(f"backend: {name} live needs {key} in the environment")
    if backend is Backend.AUTO:
        return Backend.LIVE if environ.get(key) else Backend.EMBEDDED
    return backend


@contextlib.asynccontextmanager
async def open_service(name: str, backend: Backend, environ: Mapping[str, str]) -> AsyncIterator[Service]:
    """The service with what it needs behind it (world, HTTP client, sandbox), closed again on exit."""
    chosen = choose(name, backend, environ)
    if name == "python":
        from turnwise.servers.python import serve_python

        async with serve_python() as service:
            yield service
    elif chosen is Backend.LIVE:
        from turnwise.servers.live import live_backend

        async with live_backend(name, environ) as live:
            # Slack's posts are real and stay: there is nothing of an episode's to forget.
            yield service_of(name, live, drop=_keep_everything if name == "slack" else None)
    else:
        from turnwise.servers.embedded import embedded_backend

        embedded, drop = embedded_backend(name, seed=world_seed(environ))
        yield dataclasses.replace(service_of(name, embedded, drop=drop), instructions=SYNTHETIC)


def world_seed(environ: Mapping[str, str]) -> int:
    text = environ.get("TURNWISE_WORLD_SEED") or "0"
    if not text.isdigit():
        raise ValueError(f"TURNWISE_WORLD_SEED: expected a whole number, got {text!r}")
    return int(text)


async def _keep_everything(_episode: str) -> None:
    """Nothing to drop."""
