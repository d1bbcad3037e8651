"""Runs every hostile snippet behind both walls: none escapes, none hangs, and the next execution is clean."""

import asyncio
import contextlib
import os
import secrets
import socket
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.attack import BOTH, PRELUDE, Attack
from tests.sandbox.attacks_on_files import FILE_ATTACKS
from tests.sandbox.attacks_on_kernel import KERNEL_ATTACKS
from tests.sandbox.attacks_on_resources import RESOURCE_ATTACKS
from tests.sandbox.processes import descendants
from turnwise.sandbox import Execution, Kind, Sandbox, SandboxIsolation, SandboxLimits
from turnwise.sandbox.isolation import trial

ATTACKS = [*FILE_ATTACKS, *KERNEL_ATTACKS, *RESOURCE_ATTACKS]
LIMITS = SandboxLimits(
    wall_seconds=1.5,
    cpu_seconds=5,
    memory_bytes=128 << 20,
    output_bytes=16 << 10,
    value_bytes=64 << 10,
    file_bytes=4 << 20,
    num_processes=16,
    tmp_bytes=8 << 20,
)
SETTLE_SECONDS = 5.0
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
    """What the test has put on its own machine for attacks to find."""

    facts: dict[str, Any]
    secret: str
    canaries: tuple[Path, ...]
    listeners: tuple[socket.socket, ...]

    def fingerprint(self) -> list[tuple[bytes, int, int, int, set[str]]]:
        told = []
        for path in self.canaries:
            stat = path.stat()
            told.append(
                (
                    path.read_bytes(),
                    stat.st_mode,
                    stat.st_mtime_ns,
                    stat.st_uid,
                    {p.name for p in path.parent.iterdir() if p.name.startswith(path.name[:12])},
                )
            )
        return told

    def num_callers(self) -> int:
        """Listeners that something has reached."""
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
        "project": str(Path(__file__).parents[2]),
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


class Box:
    """One sandbox with one worker, so that each execution follows the last one in the same zygote."""

    def __init__(self, runner: asyncio.Runner, sandbox: Sandbox) -> None:
        self._runner, self._sandbox = runner, sandbox
        self.run("1")
        self.resting = self.settled(None)

    def run(self, code: str, variables: dict[str, Any] | None = None) -> Execution:
        return self._runner.run(self._sandbox.run(code, variables))

    def settled(self, expected: int | None) -> int:
        """How many processes there are once the next child waits for its code."""
        deadline = time.monotonic() + SETTLE_SECONDS
        count = len(descendants(os.getpid()))
        while count != expected and time.monotonic() < deadline:
            time.sleep(0.002 if expected is not None else 0.3)
            before, count = count, len(descendants(os.getpid()))
            if expected is None and before == count:
                break
        return count


@pytest.fixture(scope="module")
def open_box() -> Iterator[Callable[[Kind], Box]]:
    """Gives the box of a kind, and keeps it until one of another kind is asked for."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        boxes: dict[Kind, Box] = {}

        def get(kind: Kind) -> Box:
            if kind not in boxes:
                if failure := trial(kind):
                    # In CI a wall that does not stand is a failure: a broken sandbox must not pass.
                    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{kind}: {failure}")
                stack.close()
                boxes.clear()
                sandbox = Sandbox(LIMITS, num_workers=1, walls=SandboxIsolation(kind, ""))
                runner.run(sandbox.__aenter__())
                stack.callback(lambda: runner.run(sandbox.__aexit__(None, None, None)))
                boxes[kind] = Box(runner, sandbox)
            return boxes[kind]

        yield get


CASES = [
    pytest.param(kind, attack, id=f"{kind}-{attack.name.replace(' ', '_')}")
    for kind in BOTH
    for attack in ATTACKS
    if kind in attack.kinds
]


@pytest.mark.parametrize(("kind", "attack"), CASES)
def test_hostile_code_gets_nowhere(
    kind: Kind, attack: Attack, open_box: Callable[[Kind], Box], host: Host
) -> None:
    box = open_box(kind)
    before = host.fingerprint()
    started = time.monotonic()
    execution = box.run(PRELUDE + textwrap.dedent(attack.code), {"host": host.facts})
    seconds = time.monotonic() - started

    told = execution.stdout + execution.value + execution.error
    assert "ESCAPED" not in told
    assert host.secret not in told
    assert attack.seen in execution.stdout
    assert execution.stopped in attack.stops
    assert attack.error in execution.error
    if attack.is_fine:
        assert execution.error == ""
    assert len(execution.stdout.encode()) <= 3 * LIMITS.output_bytes
    assert seconds < LIMITS.wall_seconds + 2
    assert host.fingerprint() == before
    assert host.num_callers() == 0

    assert box.run(NEXT).value_json == "[2,[]]"
    assert box.settled(box.resting) == box.resting


def test_the_battery_is_large() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    for kind in BOTH:
        assert sum(kind in attack.kinds for attack in ATTACKS) >= 60
