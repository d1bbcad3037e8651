"""Checks that the memory of an execution's processes is bounded for all of them together."""

import textwrap

import pytest

from tests.sandbox.boxes import sandboxed
from turnwise.sandbox import ExecutionStop
from turnwise.sandbox.layout import PACKAGES

TAKERS = {
    "private memory": "kept = bytearray(40 << 20)",
    "copies of the interpreter's memory": """
        for address in pages.values():
            ctypes.memmove(address, address, 1)
    """,
}
IN_MANY_PROCESSES = """
import ctypes, gc, os, time
gc.unfreeze()
pages = {{id(item) >> 12: id(item) for item in gc.get_objects()}}
for _ in range(14):
    if os.fork() == 0:
{taken}
        time.sleep(60)
time.sleep(60)
"""


@pytest.mark.parametrize("taken", TAKERS.values(), ids=TAKERS)
async def test_many_processes_share_one_limit(taken: str) -> None:
    pytest.importorskip("pandas")
    code = IN_MANY_PROCESSES.format(taken=textwrap.indent(textwrap.dedent(taken), 8 * " "))

    async with sandboxed(
        packages=PACKAGES, wall_seconds=20, memory_bytes=128 << 20, num_processes=16
    ) as sandbox:
        assert (await sandbox.run(code)).stopped is ExecutionStop.MEMORY


async def test_processes_that_only_share_what_was_there_are_not_counted_for_it() -> None:
    pytest.importorskip("pandas")
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

    async with sandboxed(
        packages=PACKAGES, wall_seconds=20, memory_bytes=128 << 20, num_processes=16
    ) as sandbox:
        execution = await sandbox.run(textwrap.dedent(code))
        assert (execution.value, execution.stopped) == ("True", ExecutionStop.NONE)
