"""The third-party servers as blocks of an `mcp.json`; a test is skipped if its server is missing.

`tests/third_party/install.sh` puts them into `.tools/`. With CI=true a missing one is a failure, not a skip.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.mcp.leases import spec_of
from turnwise.mcp.spec import ServerSpec

TOOLS = Path(__file__).parents[2] / ".tools"
NODE_MODULES = TOOLS / "node" / "node_modules"
LEGACY_VERSION = "2025-11-25"
PLACES = {
    "everything": {"args": ["stdio"]},
    "filesystem": {"args": ["${EPISODE_DIR}"]},
    "memory": {"args": [], "env": {"MEMORY_FILE_PATH": "${EPISODE_DIR}/memory.jsonl"}},
    "sqlite": {"args": ["--db-path", "${EPISODE_DIR}/shop.db"]},
}
"""Arguments and variables with which a server keeps its data in the directory of the episode."""


def require(path: Path, *, by: str = "tests/third_party/install.sh") -> str:
    """The path of something that the script `by` installs; without it the test is skipped."""
    if not path.exists():
        _missing(f"{path} is missing: run `bash {by}`")
    return str(path)


@cache
def node() -> str:
    """Node 22 or newer: the one installed with the servers, or else that of the machine."""
    bundled = NODE_MODULES / ".bin" / "node"
    found = str(bundled) if bundled.exists() else shutil.which("node")
    if found is None:
        _missing("Node is missing: run `bash tests/third_party/install.sh`")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < 22:
        _missing(f"Node {version} is too old, 22 is needed: run `bash tests/third_party/install.sh`")
    return found


def command(server: str) -> list[str]:
    """The command of the server, without its arguments."""
    if server == "sqlite":
        return [require(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite")]
    return [
        node(),
        require(NODE_MODULES / "@modelcontextprotocol" / f"server-{server}" / "dist" / "index.js"),
    ]


def block(server: str, *args: str, **options: Any) -> dict[str, Any]:
    """The server's block of an `mcp.json`; without `args` it keeps its data in `${EPISODE_DIR}`."""
    program, *script = command(server)
    place = {"args": args} if args else PLACES[server]
    run = {**place, "command": program, "args": [*script, *place["args"]]}
    return {**run, "turnwise": {"num_warm": 0, **options}}


def spec(server: str, **options: Any) -> ServerSpec:
    return spec_of(server, block(server, **options))


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
