"""A full disk is judged by its file system: no text of a server or of a model looks like one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.leases import ask, leased, script_spec
from turnwise.mcp.calls.exhaustion import is_full
from turnwise.types import Cause

ON_A_SMALL_DISK = """
import asyncio, os, sys, tempfile
from pathlib import Path
from tests.mcp.leases import ask, script_spec
from turnwise.mcp.calls.exhaustion import is_full
from turnwise.mcp.pool import Pool

DISK = Path(tempfile.gettempdir())
NOTE = f"{DISK}/turnwise-episodes-{os.getuid()}/faulty/note"

async def causes(pool, fill, size):
    async with pool.lease(["faulty"], f"{fill} {size}") as toolbox:
        if fill:
            (DISK / "filler").write_bytes(b"x" * (16 << 20))
        results = [await ask(toolbox, "write_file", path=NOTE, text="x" * size) for _ in range(2)]
        assert "No space" in results[-1].content or not fill, results
        print(*(result.cause for result in results), is_full([DISK]))
        (DISK / "filler").unlink(missing_ok=True)

async def main():
    async with Pool([script_spec("faulty", "${EPISODE_DIR}", num_warm=0)]) as pool:
        await causes(pool, fill=False, size=1_000)
        await causes(pool, fill=True, size=6_000_000)
        await causes(pool, fill=False, size=18_000_000)

asyncio.run(main())
"""


def test_a_disk_is_full_if_others_filled_it_and_not_if_the_episode_did(tmp_path: Path) -> None:
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f"mount -t tmpfs -o size=20m tmpfs '{tmp_path}'"
    argv = ["unshare", *as_root, "--mount", "sh", "-c", f'{mount}; exec {sys.executable} -c "$0"']
    if subprocess.run([*argv[:-1], mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [*argv, ON_A_SMALL_DISK], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.stdout.splitlines() == ["ok ok False", "upstream upstream True", "ok ok True"], ran.stderr


@pytest.mark.parametrize("what", ["full_disk", "rpc_full_disk"])
async def test_an_error_that_spells_a_full_disk_is_an_error_of_the_tool(what: str) -> None:
    async with leased(script_spec("faulty")) as toolbox:
        assert (await ask(toolbox, "write", what=what)).cause is Cause.TOOL_ERROR


def test_a_folder_that_is_gone_is_not_full(tmp_path: Path) -> None:
    assert not is_full([tmp_path / "gone"])
