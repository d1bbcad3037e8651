"""Specs and running processes of the tiny server in servers/notes.py.

Its processes are forks of a Python that has imported the SDK already.
"""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tests import warm
from tests.mcp.leases import SERVERS, spec_of
from turnwise.mcp.spec import ServerSpec

SERVER = SERVERS / "notes.py"


def notes_block(*args: str, env: Mapping[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """The server's block of an `mcp.json`."""
    return {
        "command": warm.light(),
        "args": [str(SERVER), *args],
        "env": dict(env or {}),
        "turnwise": {"timeout_seconds": 20, **options},
    }


def notes_spec(*args: str, env: Mapping[str, str] | None = None, **options: Any) -> ServerSpec:
    return spec_of("notes", notes_block(*args, env=env, **options))


@contextlib.contextmanager
def notes_over_http(*args: str) -> Iterator[str]:
    """The URL of a server that runs while the context is open."""
    command = [warm.light(), str(SERVER), "--http", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" at ")[1].strip()
        finally:
            process.terminate()
            process.wait(10)


def http_spec(url: str, **options: Any) -> ServerSpec:
    return spec_of("notes", {"url": url, "turnwise": options})
