"""A `python` that starts with modules imported already: a fork of a server process, not a new interpreter.

A command that trains spends seconds on its imports, far more than on what a test lets it do. A fork has its
own working directory, environment, files and exit status. It cannot show that a command imports all that it
needs, so the same commands are also tested with `sys.executable`. All signals but SIGSTOP are forwarded.
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
from turnwise.models.places import smollm2_folder
from turnwise.worlds.market.services import DEFAULT_FILE
from turnwise.worlds.market.world import open_world

HERE = Path(__file__).parent
LIGHT = (
    "turnwise.cli",
    "turnwise.cli.tools",
    "turnwise.mcp.pool",
    "turnwise.mcp.serve",
    "turnwise.worlds.market.tools",
    "turnwise.worlds.market.python_tools",
    "turnwise.worlds.market.services",
)
"""The imports of commands without a model; torch is not one of them."""
HEAVY = (
    *LIGHT,
    "peft",
    "renderers",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.auto.modeling_auto",
    "turnwise.run.loop",
    "turnwise.run.start_up",
    "turnwise.cli.chat",
    "uvicorn",
)


@functools.cache
def python(*modules: str) -> str:
    """The path of such a `python`, one for this process; `turnwise` and `mcp.json` are in the same folder."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
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
    """Our five servers as in their file, started as forks."""
    return load(Path(light()).with_name("mcp.json"), environ)


@functools.cache
def _world() -> Path:
    """The file of the embedded world, one for this process."""
    folder = Path(tempfile.mkdtemp(prefix="warm-cache-"))
    atexit.register(shutil.rmtree, folder)
    open_world(0, cache_dir=folder)
    [file] = folder.iterdir()
    return file


def share_world(home: Path) -> None:
    """Put the embedded world into a home, where every server of the first command would make it."""
    place = home / ".cache" / "turnwise" / _world().name
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.hardlink_to(_world())
    except OSError:  # on another file system
        shutil.copyfile(_world(), place)


def share_smollm2(home: Path) -> None:
    """Put SmolLM2 into a home, where the first command would spend half a minute on converting it."""
    converted = smollm2_folder()
    place = home / ".cache" / "turnwise" / converted.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(converted)


def light() -> str:
    return python(*LIGHT)


def heavy() -> str:
    return python(*HEAVY)
