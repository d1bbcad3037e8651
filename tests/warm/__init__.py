"""Takes names of modules, gives a `python` that starts with them imported already: a fork, not a new start.

A command that trains spends seconds on its imports, far more than on what a test has it do. A fork is a
process with a folder, environment, files and end of its own; what it cannot show is that a command imports
all it needs, so there are tests of the same commands by `sys.executable`. Signals are handed on to it, but
for SIGSTOP, which no process can take itself.
"""

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from turnwise.mcp.spec import ServerSpec, load
from turnwise.servers.services import DEFAULT_FILE

HERE = Path(__file__).parent
SHARED_MEMORY = Path("/dev/shm")
LIGHT = (
    "turnwise.cli",
    "turnwise.commands.tools",
    "turnwise.mcp.pool",
    "turnwise.mcp.serve",
    "turnwise.servers.embedded",
    "turnwise.servers.python",
    "turnwise.servers.services",
)
"""What commands without a model import; torch is not among it."""
HEAVY = (
    *LIGHT,
    "peft",
    "renderers",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.auto.modeling_auto",
    "turnwise.run.loop",
    "turnwise.run.training_run",
    "turnwise.commands.chat",
    "uvicorn",
)


@functools.cache
def python(*modules: str) -> str:
    """The path of such a `python`, one for all in this process; `turnwise` and `mcp.json` are beside it."""
    # Not in /tmp: that folder is private to a server of an episode, and no socket can be reached through it.
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir=place))
    address = folder / "socket"
    with (folder / "errors").open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), str(address), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", (folder / "errors").read_text()

    def end() -> None:
        server.communicate(timeout=60)
        shutil.rmtree(folder)

    atexit.register(end)
    source = (HERE / "stub.py").read_text()
    for name, before in (("python", []), ("turnwise", ["-m", "turnwise"])):
        stub = folder / name
        stub.write_text(f"#!{sys.executable} -ISB\nADDRESS, BEFORE = {str(address)!r}, {before}\n{source}")
        stub.chmod(0o700)
    servers = DEFAULT_FILE.read_text().replace('"turnwise"', json.dumps(str(folder / "turnwise")))
    (folder / "mcp.json").write_text(servers)
    return str(folder / "python")


def built_in(environ: Mapping[str, str]) -> tuple[ServerSpec, ...]:
    """The five servers of ours, as their file has them but for how they start."""
    return load(Path(light()).with_name("mcp.json"), environ)


def light() -> str:
    return python(*LIGHT)


def heavy() -> str:
    return python(*HEAVY)
