"""Two hosts and a network line between them that is slow, loses packets and can be cut.

The hosts are network namespaces, with one tun device each. Packets of one host reach the other after a delay,
or never; the TCP on top is that of the kernel. (The kernel's netem does the same if it was built; this needs
no kernel module, and without root only access to /dev/net/tun.)
"""

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_NEAR, _FAR = "10.77.0.1", "10.77.0.2"
_TUN = "/dev/net/tun"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h


class Host:
    """A network namespace, which lives as long as the process started in it."""

    def __init__(self, address: str) -> None:
        self.address = address
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            holding = [sys.executable, __file__, address, str(theirs.fileno())]
            self._process = subprocess.Popen(
                ["unshare", *as_root, "--net", *holding],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            theirs.close()
            _, found, _, _ = socket.recv_fds(ours, 1, 1)
        if not found:
            raise OSError(self._process.communicate()[1].strip().rpartition("\n")[2])
        [self.device] = found

    def inside(self, *command: str) -> list[str]:
        """The command line that runs this command on the host."""
        as_root = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self._process.pid}", *as_root, "--net", *command]

    def close(self) -> None:
        self._process.communicate("")
        os.close(self.device)


class Line:
    """Carries packets between two hosts, in a thread."""

    def __init__(self, *, delay_seconds: float, loss: float, seed: int = 0) -> None:
        self.delay_seconds = delay_seconds
        self.loss = loss
        """Share of packets that are lost; 1 is a cut line."""
        self.num_carried = 0
        self.num_lost = 0
        with contextlib.ExitStack() as opened:
            self.near = Host(_NEAR)
            opened.callback(self.near.close)
            self.far = Host(_FAR)
            opened.callback(self.far.close)
            self._opened = opened.pop_all()
        self._random = random.Random(seed)
        self._is_closing = False
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self._thread.join()
        self._opened.close()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        before, self.loss = self.loss, 1.0
        try:
            yield
        finally:
            self.loss = before

    def _carry(self) -> None:
        under_way: list[tuple[float, int, int, bytes]] = []
        with selectors.DefaultSelector() as ready:
            ready.register(self.near.device, selectors.EVENT_READ, self.far.device)
            ready.register(self.far.device, selectors.EVENT_READ, self.near.device)
            while not self._is_closing:
                until = under_way[0][0] - time.monotonic() if under_way else 0.1
                for key, _ in ready.select(min(max(until, 0.0), 0.1)):
                    packet = os.read(key.fd, 65_536)
                    if self._random.random() < self.loss:
                        self.num_lost += 1
                        continue
                    self.num_carried += 1
                    arrival = time.monotonic() + self.delay_seconds
                    heapq.heappush(under_way, (arrival, self.num_carried, key.data, packet))
                while under_way and under_way[0][0] <= time.monotonic():
                    _, _, device, packet = heapq.heappop(under_way)
                    os.write(device, packet)


def why_none() -> str:
    """Why this machine cannot have such a line; empty if it can."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} here"
    if not Path(_TUN).exists():
        return f"no {_TUN} here"
    try:
        Host(_NEAR).close()
    except OSError as error:
        return f"cannot create a network namespace with a tun device: {error}"
    return ""


def _hold(address: str, channel: int) -> None:
    """In the namespace: create its device, pass it to the line, and stay until the channel closes."""
    device = os.open(_TUN, os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"line", _IFF_TUN | _IFF_NO_PI))
    for words in (f"addr add {address}/24 dev line", "link set line up", "link set lo up"):
        subprocess.run(["ip", *words.split()], check=True)
    with socket.socket(fileno=channel) as given:
        socket.send_fds(given, [b"."], [device])
    os.close(device)
    sys.stdin.read()


if __name__ == "__main__":
    _hold(sys.argv[1], int(sys.argv[2]))
