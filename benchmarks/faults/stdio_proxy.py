"""A proxy that makes a stdio server fail: `stdio_proxy.py SETTINGS COMMAND…`.

Every line passes through it in both directions. A call picked by the plan meets its fault, and injected
faults are written to the ledger.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from ledger import Ledger
from plan import MAX_MESSAGE_BYTES, TIMEOUT_SECONDS, Plan, Settings

LATE_SECONDS = 0.7
_JUNK = b"junk " * 1_000 + b"\n"


class Proxy:
    """One server process and the faults it meets."""

    def __init__(self, settings: Settings, command: list[str]) -> None:
        self._ledger = Ledger(settings.folder, settings.server)
        self._name = self._ledger.next_process()
        self._plan = Plan(settings, self._name)
        self._out = threading.Lock()
        self._pending: dict[Any, str] = {}
        """By a call's id: what happens to its reply."""
        self._is_hung = False
        self._start_fault = self._plan.at_start()
        self._child = self._started(command)

    def run(self) -> None:
        threading.Thread(target=self._pass_replies, daemon=True).start()
        for line in sys.stdin.buffer:
            if not self._is_hung:
                self._pass_request(line)
        if self._is_hung:
            threading.Event().wait()  # a hung server does not notice that its stdin was closed
        self._child.stdin.close()  # type: ignore[union-attr]
        self._end(self._child.wait())

    def _started(self, command: list[str]) -> "subprocess.Popen[bytes]":
        if self._start_fault == "dies at start":
            self._ledger.fault(self._start_fault, None, self._name)
            print("cannot start", file=sys.stderr)
            os._exit(1)
        if self._start_fault == "starts late":
            self._ledger.fault(self._start_fault, None, self._name)
            time.sleep(2 * LATE_SECONDS)
        setpriv = shutil.which("setpriv")
        alone = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        return subprocess.Popen([*alone, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _pass_request(self, line: bytes) -> None:
        request = json.loads(line)
        if request.get("method") != "tools/call":
            self._give(line)
            return
        fault = self._plan.at_call()
        if fault is not None:
            self._ledger.fault(fault, request, self._name)
        if fault not in ("killed before the call", "hangs"):
            self._ledger.call(request, self._name)
        self._meet(fault, request["id"], line)

    def _meet(self, fault: str | None, call_id: Any, line: bytes) -> None:
        """Faults that happen before the reply; the others wait in `_pending` for it."""
        if fault == "killed before the call":
            self._kill()
        if fault == "hangs":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._is_hung = True
            return
        if fault == "floods stderr":
            _flood_stderr(20_000_000)
        elif fault == "writes junk":
            self._write(_JUNK * 40)
        elif fault == "floods stdout":
            for _ in range(20 * MAX_MESSAGE_BYTES // len(_JUNK)):
                self._write(_JUNK)
        elif fault == "out of memory":
            self._exhaust_memory()
        elif fault is not None:
            self._pending[call_id] = fault
        self._give(line)

    def _give(self, line: bytes) -> None:
        try:
            self._child.stdin.write(line)  # type: ignore[union-attr]
            self._child.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            self._end(self._child.wait())

    def _exhaust_memory(self) -> None:
        """Allow the server 8 MB more, then send it a message that needs 48 MB."""
        pages = int(Path(f"/proc/{self._child.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 8_000_000
        resource.prlimit(self._child.pid, resource.RLIMIT_AS, (limit, limit))
        notice = {"jsonrpc": "2.0", "method": "notifications/padded", "params": {"padding": "x" * 48_000_000}}
        self._give(json.dumps(notice).encode() + b"\n")

    def _pass_replies(self) -> None:
        for line in self._child.stdout:  # type: ignore[union-attr]
            fault = self._pending.pop(_id_of(line), None) if self._pending else None
            if not self._is_hung:
                self._pass_reply(line, fault)
        if not self._is_hung:
            self._end(self._child.wait())

    def _pass_reply(self, line: bytes, fault: str | None) -> None:
        if fault == "killed after the call":
            self._kill()
        elif fault == "answers late":
            threading.Timer(LATE_SECONDS, self._write, [line]).start()
        elif fault == "answers after the time-out":
            threading.Timer(TIMEOUT_SECONDS + LATE_SECONDS, self._write, [line]).start()
        elif fault == "garbles a reply":
            self._write(line[: len(line) // 2] + b"\n")
        elif fault == "answers twice":
            self._write(line + line)
        elif fault == "pads a reply":
            self._write(_padded(line, MAX_MESSAGE_BYTES // 2))
        elif fault != "never answers":
            self._write(line)

    def _write(self, data: bytes) -> None:
        with self._out:
            try:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                self._kill()

    def _kill(self) -> NoReturn:
        self._child.kill()
        self._end(self._child.wait())

    def _end(self, code: int) -> NoReturn:
        os._exit(code if code >= 0 else 128 - code)


def _flood_stderr(num_bytes: int) -> None:
    """The server shares our stderr, and Node makes it non-blocking."""
    for _ in range(num_bytes // len(_JUNK)):
        left = _JUNK
        while left:
            select.select([], [2], [])
            with contextlib.suppress(BlockingIOError):
                left = left[os.write(2, left) :]


def _id_of(line: bytes) -> Any:
    try:
        return json.loads(line).get("id")
    except ValueError:
        return None


def _padded(line: bytes, num_bytes: int) -> bytes:
    reply = json.loads(line)
    if "result" in reply:
        reply["result"].setdefault("content", []).append({"type": "text", "text": "x" * num_bytes})
    return json.dumps(reply).encode() + b"\n"


if __name__ == "__main__":
    Proxy(Settings.parsed(sys.argv[1]), sys.argv[2:]).run()
