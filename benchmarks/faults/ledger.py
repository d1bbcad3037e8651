"""The ledger of calls and faults on the wire; proxies write to it through a socket, also from inside walls.

Standard library only, because a proxy starts with every server process and must start quickly.
"""

import contextlib
import json
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

EPISODE_KEY = "io.turnwise/episode"
_MAX_BYTES = 1 << 20


class Ledger:
    """One line per call seen and per fault injected, by all proxies."""

    def __init__(self, folder: str, server: str) -> None:
        self._server = server
        self._keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._keeper.connect(_address(folder))

    def next_process(self) -> str:
        """The name of the next process of this server: `sqlite 7`."""
        self._keeper.send(json.dumps({"kind": "start", "server": self._server}).encode())
        return f"{self._server} {self._keeper.recv(100).decode()}"

    def call(self, request: dict[str, Any], process: str) -> None:
        self._line("call", request, process, "")

    def fault(self, fault: str, request: dict[str, Any] | None, process: str) -> None:
        self._line("fault", request or {}, process, fault)

    def _line(self, kind: str, request: dict[str, Any], process: str, fault: str) -> None:
        params = request.get("params") or {}
        record = {
            "kind": kind,
            "at": time.monotonic(),
            "server": self._server,
            "fault": fault,
            "tool": params.get("name", ""),
            "arguments": params.get("arguments", {}),
            "episode": (params.get("_meta") or {}).get(EPISODE_KEY, ""),
            "process": process,
        }
        self._keeper.send(json.dumps(record).encode())


def _address(folder: str) -> str:
    """An abstract address: a socket in the file system could not be reached from inside walls."""
    return f"\0{folder}"


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Write what the proxies say to `ledger.jsonl`, and count their processes."""
    stopping, stop = socket.socketpair()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door,
        (folder / "ledger.jsonl").open("w") as file,
        selectors.DefaultSelector() as waiting,
        stopping,
        stop,
    ):
        door.bind(_address(str(folder)))
        door.listen(1000)
        for readable in (door, stopping):
            waiting.register(readable, selectors.EVENT_READ)
        thread = threading.Thread(target=_keep, args=(door, stopping, waiting, file))
        thread.start()
        try:
            yield
        finally:
            stop.close()
            thread.join()


def _keep(
    door: socket.socket, stopping: socket.socket, waiting: selectors.BaseSelector, file: IO[str]
) -> None:
    counts = Counter[str]()
    while True:
        for key, _ in waiting.select():
            readable = key.fileobj
            assert isinstance(readable, socket.socket)
            if readable is stopping:
                for open_one in list(waiting.get_map().values()):
                    open_one.fileobj.close()  # type: ignore[union-attr]
                return
            if readable is door:
                waiting.register(door.accept()[0], selectors.EVENT_READ)
                continue
            with contextlib.suppress(ConnectionError):
                if said := readable.recv(_MAX_BYTES):
                    _note(json.loads(said), readable, counts, file)
                    continue
            waiting.unregister(readable)
            readable.close()


def _note(record: dict[str, Any], proxy: socket.socket, counts: Counter[str], file: IO[str]) -> None:
    if record["kind"] == "start":
        counts[record["server"]] += 1
        proxy.send(str(counts[record["server"]]).encode())
    else:
        file.write(json.dumps(record) + "\n")
        file.flush()
