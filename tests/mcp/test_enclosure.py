"""A server that names no data can still write anywhere, but nothing reaches the files of the user."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import SERVERS, ask, leased, spec_of
from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.surroundings import installer
from turnwise.mcp.spec import ServerSpec

SCRIBE = str(SERVERS / "faulty.py")
# Runs in a namespace of the test, where the disk that it is given is mounted below a folder.
NESTED = """
import asyncio, sys
from pathlib import Path
from turnwise.mcp.processes.mount_table import mount_points
from turnwise.mcp.processes.private_folders import find_enclosure
from turnwise.mcp.processes.scratch import Scratch
from turnwise.mcp.processes.walls import open_namespace, run_inside

async def main(disk):
    assert disk in [point.folder for point in mount_points(Path("/proc/self"))]
    scratch = Scratch()
    namespace = await open_namespace(await find_enclosure([disk.parent], [], [], scratch), scratch)
    script = f"cat '{disk}/file'; echo new > '{disk}/file'; cat '{disk}/file'"
    assert await run_inside(namespace, ["sh", "-c", script]) == b"real\\nnew\\n"
    await namespace.close()
    scratch.close()
    assert (disk / "file").read_text() == "real\\n"

asyncio.run(main(Path(sys.argv[1])))
"""


def scribe(home: Path, command: str = sys.executable, **options: Any) -> ServerSpec:
    block = {"command": command, "args": [SCRIBE], "env": {"HOME": str(home)}}
    return spec_of("scribe", {**block, "turnwise": {"num_warm": 0, **options}})


async def read(toolbox: Any, path: str | Path) -> str:
    return (await ask(toolbox, "read_file", path=str(path))).content


async def write(toolbox: Any, path: str | Path, text: str = "changed") -> str:
    return (await ask(toolbox, "write_file", path=str(path), text=text)).content


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kept.txt").write_text("as it was")
    return tmp_path / "home"


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder outside of the home, the working directory and the temporary folders."""
    folder = Path("/opt") / f"turnwise-test-{os.getpid()}"
    try:
        folder.mkdir()
    except PermissionError:
        pytest.skip("only root can write outside of its home")
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


async def test_files_that_a_server_writes_end_with_the_episode(home: Path, elsewhere: Path) -> None:
    places = [home / "kept.txt", Path("/var/tmp/turnwise-scribe"), Path.cwd() / "turnwise-scribe.txt"]
    async with nothing_leaks(), Pool([scribe(home)]) as pool:
        for episode in ("first", "second"):
            async with pool.lease(["scribe"], episode) as toolbox:
                assert await read(toolbox, "~/kept.txt") == "as it was"
                for place in places:
                    assert await write(toolbox, place) == "written"
                    assert await read(toolbox, place) == "changed"
                assert await write(toolbox, elsewhere / "new.txt") == "failed: Read-only file system"
        assert not pool.exposure("scribe").is_refused
        assert pool.exposure("scribe").is_enclosed
    assert places[0].read_text() == "as it was"
    assert [place.exists() for place in places[1:]] == [False, False]
    assert list(elsewhere.iterdir()) == []


async def test_with_real_data_a_server_changes_the_files_of_the_user(home: Path) -> None:
    async with leased(scribe(home, data="real")) as toolbox:
        assert await write(toolbox, "~/kept.txt") == "written"
    assert (home / "kept.txt").read_text() == "changed"


async def test_an_installing_program_fills_its_real_cache_once(home: Path, tmp_path: Path) -> None:
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    # as npx does: what is in the cache is not fetched again
    fetch = 'if [ ! -e "$HOME/.npm/package" ]; then echo fetched >> "$HOME/.npm/package"; fi'
    tell = 'echo "$npm_config_offline $(readlink /proc/self/ns/net)" > "$HOME/.npm/started"'
    npx.write_text(f'#!/bin/sh\n{fetch}\n{tell}\nexec {sys.executable} "$@"\n')
    npx.chmod(0o755)
    async with Pool([scribe(home, str(npx))]) as pool:
        for episode in ("first", "second"):
            async with pool.lease(["scribe"], episode) as toolbox:
                assert await read(toolbox, "~/.npm/package") == "fetched\n"
                await write(toolbox, "~/.npm/package", "by the model")
                offline, network = (await read(toolbox, "~/.npm/started")).split()
                assert (offline, network != os.readlink("/proc/self/ns/net")) == ("true", True)
    assert (home / ".npm" / "package").read_text() == "fetched\n"
    assert (home / ".npm" / "started").read_text().split() == [os.readlink("/proc/self/ns/net")]
    assert installer(scribe(home)) is None


@pytest.mark.parametrize(
    ("online", "offline", "error"),
    [
        ("exit 1", "true", ""),
        ("echo ENOTFOUND >&2; exit 1", "echo ENOTCACHED >&2; exit 1", "ENOTFOUND"),
        ("sleep 60", "exit 1", "to install it; is its package registry reachable"),
        ("true", "echo ENOTCACHED >&2; exit 1", '"turnwise": {"network": true} in its entry opens'),
    ],
    ids=["cached and no network", "not cached and no network", "waiting for it", "network and no cache"],
)
async def test_an_installing_program_without_network_uses_its_cache(
    home: Path, tmp_path: Path, online: str, offline: str, error: str
) -> None:
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    start = f'if [ -n "$npm_config_offline" ]; then {offline}; else {online}; fi; exec {sys.executable} "$@"'
    npx.write_text(f"#!/bin/sh\n{start}\n")
    npx.chmod(0o755)
    seconds = 4 if "sleep" in online else 60
    async with Pool([scribe(home, str(npx), connect_seconds=seconds)]) as pool:
        failed = await pool.connect()
        assert bool(failed) is bool(error)
        assert not error or error in str(failed["scribe"])


def test_the_cache_of_an_installing_program_may_be_named_in_its_environment(tmp_path: Path) -> None:
    block = {"command": "uvx", "args": ["x"], "env": {"HOME": "/h", "UV_CACHE_DIR": str(tmp_path)}}
    installing = installer(spec_of("scribe", block))
    assert installing is not None
    assert installing.caches == (Path("/h/.cache/uv"), Path("/h/.local/share/uv"), tmp_path)


def test_a_file_system_mounted_below_a_private_folder_is_private_too(tmp_path: Path) -> None:
    disk = tmp_path / "data" / "disk"
    disk.mkdir(parents=True)
    mount = (
        f"mount -t tmpfs tmpfs '{disk}'; echo real > '{disk}/file'; exec {sys.executable} -c \"$0\" '{disk}'"
    )
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *as_root, "sh", "-c", mount, NESTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
