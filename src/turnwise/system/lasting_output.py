"""Output that outlives its reader: once a pipe or terminal is gone, a stream writes to /dev/null."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

OnLost = Callable[[str], None]
"""Called with the stream and the reason, `stdout: Broken pipe`, in the thread that writes. It must not print:
that thread holds the stream's lock."""


class _LastingFile(io.FileIO):
    """A file descriptor that is pointed to /dev/null when a write to it fails, and stays open."""

    def __init__(self, name: str, descriptor: int, on_lost: OnLost) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._stream_name = name
        self._on_lost = on_lost

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (a device, not a path of ours)
                os.dup2(nowhere.fileno(), self.fileno())
            self._on_lost(f"{self._stream_name}: {error.strerror}")
            return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output(on_lost: OnLost) -> Iterator[None]:
    """Keep writes to stdout and stderr from failing while the block runs.

    A stream that is lost stays so after the block: what is written to it then goes to /dev/null. Streams
    without a file descriptor, such as a notebook's, are left as they are.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        _lasting(name, stream, on_lost) for name, stream in zip(("stdout", "stderr"), before, strict=True)
    )
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # Python has none if the descriptor was closed when it started
                stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(name: str, stream: Any, on_lost: OnLost) -> Any:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        descriptor = stream.fileno()
    except OSError:
        return stream
    file = _LastingFile(name, descriptor, on_lost)
    with contextlib.suppress(OSError):  # lost already: the next write finds out
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
