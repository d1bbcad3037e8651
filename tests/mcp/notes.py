"""Gives specs and running processes of the tiny server in servers/notes.py."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnwise.mcp.spec import ServerSpec, parse

SERVER = Path(__file__).parent / "servers" / "notes.py"


def notes_block(*args: str, env: Mapping[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """The server's block of an `mcp.json`."""
    return {
        "command": sys.executable,
        "args": [str(SERVER), *args],
        "env": dict(env or {}),
        "turnwise": {"timeout_seconds": 20, **options},
    }


def notes_spec(*args: str, env: Mapping[str, str] | None = None, **options: Any) -> ServerSpec:
    [spec] = parse({"notes": notes_block(*args, env=env, **options)}, {}, directory=Path.cwd())
    return spec


@contextlib.contextmanager
def notes_over_http(*args: str) -> Iterator[str]:
    """The URL of a server that runs while the context lasts."""
    with subprocess.Popen(
        [sys.executable, str(SERVER), "--http", *args], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" at ")[1].strip()
        finally:
            process.terminate()
            process.wait(10)


def http_spec(url: str, headers: Mapping[str, str] | None = None, **options: Any) -> ServerSpec:
    block = {"url": url, "headers": dict(headers or {}), "turnwise": options}
    [spec] = parse({"notes": block}, {}, directory=Path.cwd())
    return spec
