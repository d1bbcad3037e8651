"""One of our five servers as a `Service`, on the embedded world or on its real provider."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from turnwise.mcp.serve import Service
from turnwise.worlds.market.contract import WRITES, contract, service_of

SERVERS = ("fmp", "polygon", "tavily", "python", "slack")

DEFAULT_FILE = Path(str(files("turnwise.worlds.market").joinpath("mcp.json")))
"""An `mcp.json` with the five servers, used if the user gives none."""


SYNTHETIC = (
    "Synthetic data of turnwise's embedded world. Most companies are invented; real tickers have their real "
    "name and industry, and every price, statement, date, person and article is invented."
)
"""The instructions that the embedded servers send to every client."""


class Backend(StrEnum):
    """Where a server's answers come from."""

    EMBEDDED = "embedded"
    LIVE = "live"


def check_backend(name: str, backend: Backend, environ: Mapping[str, str], *, may_write: bool) -> None:
    """Raise ValueError if this server cannot be served with these settings."""
    key = contract()["servers"][name]["key"]
    if backend is Backend.EMBEDDED:
        if may_write:
            raise ValueError("--allow-writes: goes with --backend live")
        return
    if key is None:
        raise ValueError(f"backend: {name} has no live provider; use embedded")
    if not environ.get(key):
        raise ValueError(f"backend: {name} live needs {key} in the environment or .env")
    if may_write and not any(tool["name"] in WRITES for tool in contract()["servers"][name]["tools"]):
        raise ValueError(f"--allow-writes: {name} has no tool that writes")


@contextlib.asynccontextmanager
async def open_service(
    name: str, backend: Backend, environ: Mapping[str, str], *, may_write: bool = False
) -> AsyncIterator[Service]:
    """Open the service and what it needs (world, HTTP client, sandbox), and close them on exit.

    `may_write` lets the tools of a live server write to the provider.
    """
    check_backend(name, backend, environ, may_write=may_write)
    if name == "python":
        from turnwise.worlds.market.python_tools import serve_python

        async with serve_python() as service:
            yield service
    elif backend is Backend.LIVE:
        from turnwise.worlds.market.live import live_backend

        async with live_backend(name, environ) as live:
            # Posts to the real Slack stay, so there is no state of an episode to drop.
            keep = _keep_everything if name == "slack" else None
            yield service_of(name, live, drop=keep, may_write=may_write)
    else:
        from turnwise.worlds.market.tools import embedded_backend

        embedded, drop = embedded_backend(name, seed=world_seed(environ))
        yield dataclasses.replace(service_of(name, embedded, drop=drop), instructions=SYNTHETIC)


def world_seed(environ: Mapping[str, str]) -> int:
    text = environ.get("TURNWISE_WORLD_SEED") or "0"
    if not text.isdigit():
        raise ValueError(f"TURNWISE_WORLD_SEED: expected a whole number, got {text!r}")
    return int(text)


async def _keep_everything(_episode: str) -> None:
    """Drop nothing."""
