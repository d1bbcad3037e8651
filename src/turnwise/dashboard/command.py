"""`turnwise view`: serve the page until interrupted, or write it to one file."""

import contextlib
import math
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from turnwise.dashboard.export import export
from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.runs import Runs, default_cache
from turnwise.dashboard.server import application
from turnwise.dashboard.watch import Watch
from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.free_path import move_to_free, require_free
from turnwise.system.net.addresses import is_loopback, url_of
from turnwise.system.net.http_serving import bound_socket, server_config


def open_runs(paths: Sequence[Path], cache: Path | None = None) -> Runs:
    """Open the runs under `paths`. ValueError if there are none."""
    return Runs(paths, cache or default_cache())


def serve(runs: Runs, *, host: str, port: int, token: str, say: Callable[[str], None]) -> None:
    """Serve the page until interrupted. ValueError if the port is in use.

    Without a token, a host that is not a loopback address gets a random one.
    """
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with bound_socket(host, port) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        app = application(
            runs, Watch(runs), RequestGuard(host, port, token), is_ending=lambda: server.should_exit
        )
        server = uvicorn.Server(server_config(app, timeout_graceful_shutdown=2))
        say(f"{address(host, port, token)}  (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after a Ctrl-C
            server.run(sockets=[listener])


def address(host: str, port: int, token: str) -> str:
    """The URL to open in a browser."""
    return f"{url_of(host, port)}/{'?token=' + token if token else ''}"


def write_export(runs: Runs, out: Path) -> tuple[Path, int]:
    """Write the export and return its path and size in bytes. ValueError if there is such a file already."""
    require_free(out)
    for run in runs:
        run.refresh(seconds=math.inf)
        run.count(deadline=math.inf)
    content = export(runs)
    part = out.with_name(f".{out.name}.part")
    write_atomically(part, content)
    return move_to_free(part, out), len(content)
