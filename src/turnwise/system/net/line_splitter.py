"""Split a byte stream that arrives in chunks of any size into lines, in linear time and bounded memory."""

from dataclasses import dataclass

_EDGE_BYTES = 256


@dataclass(frozen=True, slots=True)
class BoundedLine:
    """One line without its newline. Of a line over the limit only the first and last 256 bytes are kept."""

    data: bytes
    num_bytes: int
    is_cut: bool

    @property
    def is_blank(self) -> bool:
        return not self.data or self.data.isspace()


class LineSplitter:
    """Joins chunks into lines; holds at most `max_bytes` of an unfinished one."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._head = b""
        self._tail = b""
        self.num_skipped_bytes = 0
        """Bytes dropped of the line now being read; 0 while it is within bounds."""

    def feed(self, chunk: bytes) -> list[BoundedLine]:
        """The lines that this chunk completes. Empty ones are skipped, so a flood of them costs little."""
        *finished, rest = chunk.split(b"\n")
        lines = []
        for part in finished:
            if part or self._held or self.num_skipped_bytes:
                self._hold(part)
                lines.append(self._take())
        self._hold(rest)
        return lines

    def _hold(self, part: bytes) -> None:
        if self.num_skipped_bytes:
            self.num_skipped_bytes += len(part)
            self._tail = (self._tail + part)[-_EDGE_BYTES:]
            return
        self._held += part
        if len(self._held) > self._max_bytes:
            self._head, self._tail = bytes(self._held[:_EDGE_BYTES]), bytes(self._held[-_EDGE_BYTES:])
            self.num_skipped_bytes = len(self._held)
            self._held = bytearray()

    def _take(self) -> BoundedLine:
        if self.num_skipped_bytes:
            line = BoundedLine(self._head + b"\n" + self._tail, self.num_skipped_bytes, is_cut=True)
            self.num_skipped_bytes = 0
            return line
        line = BoundedLine(bytes(self._held), len(self._held), is_cut=False)
        self._held.clear()
        return line
