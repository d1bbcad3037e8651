"""Every hostile snippet behind both kinds of wall: none escapes or hangs, and the next execution is clean."""

import asyncio
import contextlib
import os
import secrets
import socket
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.system.sandbox.attack import BOTH, PRELUDE, Attack
from tests.system.sandbox.attacks_on_files import FILE_ATTACKS
from tests.system.sandbox.attacks_on_kernel import KERNEL_ATTACKS
from tests.system.sandbox.attacks_on_resources import RESOURCE_ATTACKS
from tests.system.sandbox.boxes import require
from tests.system.sandbox.processes import descendants
from turnwise.system.sandbox import ExecutionStop, Kind, Sandbox, SandboxIsolation, SandboxLimits

ATTACKS = [*FILE_ATTACKS, *KERNEL_ATTACKS, *RESOURCE_ATTACKS]
LIMITS = SandboxLimits(
    wall_seconds=4,
    cpu_seconds=5,
    memory_bytes=128 << 20,
    output_bytes=16 << 10,
    value_bytes=64 << 10,
    file_bytes=4 << 20,
    num_processes=16,
    tmp_bytes=8 << 20,
)
NEXT = """
import json, os
try:
    left = os.listdir("/tmp")
except PermissionError:
    left = []  # the fallback shows it no directory at all
[len(json.loads("[1, 2]")), left]
"""


@dataclass(frozen=True, slots=True)
class Host:
    """What the test puts on its machine for attacks to find."""

    facts: dict[str, Any]
    secret: str
    canaries: tuple[Path, ...]
    listeners: tuple[socket.socket, ...]

    def fingerprint(self) -> list[tuple[bytes, int, int, int, list[str]]]:
        """Contents, mode, time and owner of the canaries, and the files with similar names."""
        return [
            (
                *(path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns, path.stat().st_uid),
                sorted(near.name for near in path.parent.glob(f"{path.name[:12]}*")),
            )
            for path in self.canaries
        ]

    def num_callers(self) -> int:
        """The number of listeners that something has reached."""
        callers = 0
        for listener in self.listeners:
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_DGRAM:
                    listener.recv(16)
                else:
                    listener.accept()[0].close()
                callers += 1
        return callers


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    secret = secrets.token_hex(16)
    directory = tmp_path_factory.mktemp("host")
    canaries = (directory / "canary", Path.home() / f".turnwise-{secrets.token_hex(8)}")
    for canary in canaries:
        canary.write_text(secret)
        canary.chmod(0o644)
    for parent in [directory, *directory.parents]:
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)  # nothing but the sandbox may stand between the code and the canary
    listeners = _listen(directory, secret)
    os.environ["TURNWISE_CANARY"] = secret
    facts = {
        "canary": str(canaries[0]),
        "home_canary": str(canaries[1]),
        "project": str(Path(__file__).parents[3]),
        "pid": os.getpid(),
        "num_processes": LIMITS.num_processes,
        "tcp": listeners[0].getsockname()[1],
        "udp": listeners[1].getsockname()[1],
        "unix": str(directory / "stream"),
        "unix_datagram": str(directory / "datagram"),
        "abstract": f"turnwise-{secret[16:]}-stream",
        "abstract_datagram": f"turnwise-{secret[16:]}-datagram",
    }
    yield Host(facts, secret, canaries, listeners)
    del os.environ["TURNWISE_CANARY"]
    canaries[1].unlink()
    for listener in listeners:
        listener.close()


def _listen(directory: Path, secret: str) -> tuple[socket.socket, ...]:
    listeners = []
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, str(directory / "stream")),
        (socket.AF_UNIX, socket.SOCK_DGRAM, str(directory / "datagram")),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0turnwise-{secret[16:]}-stream"),
        (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0turnwise-{secret[16:]}-datagram"),
    ):
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        listeners.append(listener)
    for name in ("stream", "datagram"):
        (directory / name).chmod(0o777)
    return tuple(listeners)


@dataclass(slots=True)
class Box:
    """A sandbox with one worker, so that an execution runs in the same zygote as the one before it."""

    sandbox: Sandbox
    num_resting: int = 0
    """The processes of this test run while the sandbox waits for code."""

    async def wait_until_at_rest(self) -> None:
        """Until the next child of the zygote waits for its code and everything else has ended."""
        for _ in range(2500):
            if len(descendants(os.getpid())) == self.num_resting:
                return
            await asyncio.sleep(0.002)
        pytest.fail(f"{len(descendants(os.getpid()))} processes are left, not {self.num_resting}")


OpenBox = Callable[[Kind, bool], Awaitable[Box]]


async def opened(sandbox: Sandbox) -> Box:
    box = Box(sandbox)
    await sandbox.run("1")
    before = -1
    while before != box.num_resting:
        before = box.num_resting
        await asyncio.sleep(0.3)
        box.num_resting = len(descendants(os.getpid()))
    return box


@pytest.fixture(scope="module")
async def open_box() -> AsyncIterator[OpenBox]:
    """`await open_box(kind, is_timed)`: a box stays open until another one is asked for."""
    async with contextlib.AsyncExitStack() as stack:
        boxes: dict[tuple[Kind, bool], Box] = {}

        async def get(kind: Kind, is_timed: bool) -> Box:
            if (kind, is_timed) not in boxes:
                require(kind)
                await stack.aclose()
                boxes.clear()
                limits = replace(LIMITS, wall_seconds=0.6) if is_timed else LIMITS
                options: dict[str, Any] = {"packages": ()} if is_timed else {}
                sandbox = Sandbox(limits, num_workers=1, walls=SandboxIsolation(kind, ""), **options)
                boxes[kind, is_timed] = await opened(await stack.enter_async_context(sandbox))
            return boxes[kind, is_timed]

        yield get


CASES = [
    pytest.param(kind, is_timed, attack, id=f"{kind}-{attack.name.replace(' ', '_')}")
    for kind in BOTH
    for is_timed in (False, True)
    for attack in ATTACKS
    if kind in attack.kinds and is_timed == (attack.stops == (ExecutionStop.TIMEOUT,))
]
"""Attacks that run until the time limit have a box with a short one."""


@pytest.mark.parametrize(("kind", "is_timed", "attack"), CASES)
async def test_hostile_code_does_not_escape_and_leaves_nothing_behind(
    kind: Kind, is_timed: bool, attack: Attack, open_box: OpenBox, host: Host
) -> None:
    box = await open_box(kind, is_timed)
    before = host.fingerprint()
    started = time.monotonic()
    execution = await box.sandbox.run(PRELUDE + textwrap.dedent(attack.code), {"host": host.facts})
    seconds = time.monotonic() - started

    output = execution.stdout + execution.value + execution.error
    assert "ESCAPED" not in output
    assert host.secret not in output
    assert attack.seen in execution.stdout
    assert execution.stopped in attack.stops
    assert attack.error in execution.error
    if attack.is_fine:
        assert execution.error == ""
    assert len(execution.stdout.encode()) <= 3 * LIMITS.output_bytes
    assert seconds < LIMITS.wall_seconds + 2
    assert host.fingerprint() == before
    assert host.num_callers() == 0

    assert (await box.sandbox.run(NEXT)).value_json == "[2,[]]"
    await box.wait_until_at_rest()


def test_no_two_attacks_have_the_same_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
