"""A server that names no data can still write anywhere: nothing that it writes reaches the user's files."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from turnwise.mcp.mount_table import mount_points
from turnwise.mcp.pool import Pool
from turnwise.mcp.private_folders import Enclosure, Mount, Namespace, Way, open_namespace, with_real
from turnwise.mcp.scratch import Scratch
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.mcp.surroundings import caches
from turnwise.types import ToolCall

SCRIBE = str(Path(__file__).parent / "servers" / "scribe.py")


def scribe(home: Path, command: str = sys.executable, **options: Any) -> ServerSpec:
    block = {
        "command": command,
        "args": [SCRIBE],
        "env": {"HOME": str(home)},
        "turnwise": {"num_warm": 0, **options},
    }
    [spec] = parse({"scribe": block}, {}, directory=Path.cwd())
    return spec


async def call(toolbox: Any, name: str, **arguments: Any) -> str:
    [result] = await toolbox.call([ToolCall("1", name, arguments)])
    return str(result.content)


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


async def test_what_a_server_writes_by_itself_is_gone_with_the_episode(home: Path, elsewhere: Path) -> None:
    places = [home / "kept.txt", Path("/var/tmp/turnwise-scribe"), Path.cwd() / "turnwise-scribe.txt"]

    async with nothing_leaks(), Pool([scribe(home)]) as pool:
        for number in range(2):
            async with pool.lease(["scribe"], f"episode-{number}") as toolbox:
                assert await call(toolbox, "read", path="~/kept.txt") == "as it was"
                for place in places:
                    assert await call(toolbox, "write", path=str(place), text="changed") == "written"
                    assert await call(toolbox, "read", path=str(place)) == "changed"
                outside = str(elsewhere / "new.txt")
                said = await call(toolbox, "write", path=outside, text="changed")
                assert said == "failed: Read-only file system"
        assert not pool.exposure("scribe").is_refused
        assert pool.exposure("scribe").leak == ""
    assert places[0].read_text() == "as it was"
    assert [place.exists() for place in places[1:]] == [False, False]
    assert list(elsewhere.iterdir()) == []


async def test_with_real_data_a_server_writes_where_it_wants(home: Path) -> None:
    async with Pool([scribe(home, data="real")]) as pool, pool.lease(["scribe"], "1") as toolbox:
        assert await call(toolbox, "write", path="~/kept.txt", text="changed") == "written"
    assert (home / "kept.txt").read_text() == "changed"


async def test_a_program_that_installs_its_server_fills_its_real_cache_once(
    home: Path, tmp_path: Path
) -> None:
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    # as npx does: what is in the cache is not fetched again
    npx.write_text(
        f'#!/bin/sh\nif [ ! -e "$HOME/.npm/package" ]; then echo fetched >> "$HOME/.npm/package"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    npx.chmod(0o755)

    async with Pool([scribe(home, str(npx))]) as pool:
        for number in range(2):
            async with pool.lease(["scribe"], str(number)) as toolbox:
                assert await call(toolbox, "read", path="~/.npm/package") == "fetched\n"
                await call(toolbox, "write", path="~/.npm/package", text="by the model")
    assert (home / ".npm" / "package").read_text() == "fetched\n"
    assert caches(scribe(home)) == ()


def inside(namespace: Namespace, command: str) -> str:
    done = subprocess.run(
        namespace.wrap(["sh", "-c", command], Path("/")), capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_file_system_below_a_private_folder_is_seen_through_it(tmp_path: Path) -> None:
    """Made in a namespace of the test's own, where a second file system is mounted below the folder."""
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.mcp.test_enclosure import check_nested\n"
        f"check_nested(Path({str(tmp_path)!r}))\n"
    )
    (tmp_path / "data" / "disk").mkdir(parents=True)
    mount = f"mount -t tmpfs tmpfs '{tmp_path}/data/disk'; echo real > '{tmp_path}/data/disk/file'"
    kind = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        ["unshare", "--mount", *kind, "sh", "-c", f'{mount}; exec {sys.executable} -c "$0"', script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def check_nested(folder: Path) -> None:
    """Runs inside that namespace."""
    from turnwise.mcp.private_folders import find_enclosure

    disk = folder / "data" / "disk"
    assert disk in [point.folder for point in mount_points()]

    async def main() -> None:
        scratch = Scratch()
        found = await find_enclosure([folder / "data"], [], [], scratch)
        namespace = await open_namespace(found.mounts, scratch)
        assert (
            inside(namespace, f"cat '{disk}/file'; echo new > '{disk}/file'; cat '{disk}/file'")
            == "real\nnew\n"
        )
        namespace.close()
        scratch.close()

    asyncio.run(main())
    assert (disk / "file").read_text() == "real\n"


def test_real_folders_are_only_those_inside_private_ones() -> None:
    enclosure = Enclosure((Mount(Path("/home/u"), Way.OVERLAY), Mount(Path("/data"), Way.COPY)))
    added = with_real(enclosure, [Path("/home/u/.npm"), Path("/data/x"), Path("/elsewhere")])
    assert added[2:] == (Mount(Path("/home/u/.npm"), Way.REAL),)
