"""The memory limit holds for all processes of an execution together."""

import textwrap
from collections.abc import AsyncIterator

import pytest

from tests.system.sandbox.boxes import sandboxed
from turnwise.system.sandbox import ExecutionStop, Sandbox
from turnwise.system.sandbox.layout import PACKAGES

IN_MANY_PROCESSES = """
import ctypes, gc, os, time
gc.unfreeze()
pages = {{id(item) >> 12: id(item) for item in gc.get_objects()}}
for _ in range(14):
    if os.fork() == 0:
        {code}
        time.sleep(60)
time.sleep(60)
"""


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    pytest.importorskip("pandas")
    limits = {"wall_seconds": 20, "memory_bytes": 128 << 20, "num_processes": 16}
    async with sandboxed(packages=PACKAGES, **limits) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    "code",
    ["kept = bytearray(40 << 20)", "[ctypes.memmove(address, address, 1) for address in pages.values()]"],
    ids=["private memory", "copies of the interpreter's memory"],
)
async def test_many_processes_share_one_limit(sandbox: Sandbox, code: str) -> None:
    assert (await sandbox.run(IN_MANY_PROCESSES.format(code=code))).stopped is ExecutionStop.MEMORY


async def test_memory_that_processes_share_with_the_interpreter_is_not_counted(sandbox: Sandbox) -> None:
    code = """
    import os, time
    pids = []
    for _ in range(14):
        pids.append(os.fork())
        if pids[-1] == 0:
            time.sleep(0.5)
            os._exit(0)
    [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 14
    """
    execution = await sandbox.run(textwrap.dedent(code))
    assert (execution.value, execution.stopped) == ("True", ExecutionStop.NONE)
