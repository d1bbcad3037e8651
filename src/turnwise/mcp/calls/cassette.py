"""Records every tool call to an append-only file, and answers calls from one without the servers.

A call is found again by server, tool, canonical arguments and *state*: a digest of the calls that changed
something on that server earlier in the episode. A recording therefore also serves another episode that
reached the same state by the same steps, and no other one. If the same call was made several times in the
same state (an API whose answers drift), the n-th call gets the n-th answer, and further calls get the last.
"""

import hashlib
import io
import json
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from turnwise.system.files.regular_files import open_to_read
from turnwise.types import Cause, Fault, Tool

logger = logging.getLogger(__name__)

FORMAT = 1
_KEY_FIELDS = ("episode", "server", "tool", "arguments", "state", "occurrence")


class Mode(StrEnum):
    """How a cassette handles a call."""

    RECORD = "record"
    REPLAY = "replay"
    REPLAY_OR_CALL = "replay_or_call"


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies a call by everything that its answer can depend on."""

    episode: str
    server: str
    tool: str
    arguments: str
    state: str
    occurrence: int = 0
    """How many times this episode has already made the same call in the same state."""

    @property
    def anywhere(self) -> tuple[str, ...]:
        """The key without episode and occurrence: the same call in any episode."""
        return self.server, self.tool, self.arguments, self.state

    def __str__(self) -> str:
        return f"{self.server}/{self.tool}({self.arguments})"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded answer: sanitised and redacted text, not yet cut to a token budget."""

    content: str
    cause: Cause
    seconds: float


class NotRecorded(LookupError):
    """The cassette has no such call."""


def canonical(arguments: Mapping[str, Any]) -> str:
    """Serialise arguments so that equal ones give the same text: sorted keys, no spaces, 5.0 as 5."""
    return json.dumps(_plain(arguments), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


class History:
    """Numbers one episode's calls, and tracks the state digest of each server."""

    def __init__(self, episode: str) -> None:
        self._episode = episode
        self._states: dict[str, str] = {}
        self._num_calls = 0
        self._num_made: Counter[tuple[str, ...]] = Counter()

    def place(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[CallKey, int]:
        """Return the call's key and its index in the episode; a call that may write changes the state."""
        state = self._states.get(tool.server, "")
        key = CallKey(self._episode, tool.server, tool.server_tool, canonical(arguments), state)
        key = replace(key, occurrence=self._num_made[key.anywhere])
        self._num_made[key.anywhere] += 1
        index = self._num_calls
        self._num_calls += 1
        if not tool.is_read_only:
            step = "\x00".join((state, key.tool, key.arguments))
            self._states[tool.server] = hashlib.sha256(step.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return key, index


class Cassette:
    """An open recording. Lines: `{"kind": "tools" | "call", ...}`; torn lines are skipped with a warning."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path = path
        self.mode = mode
        self.num_torn = 0
        self.num_replayed = 0
        self._tools: dict[str, tuple[Tool, ...]] = {}
        # The inner key is the occurrence: re-recording an episode replaces its earlier answers.
        self._calls: dict[tuple[str, ...], dict[int, Recorded]] = defaultdict(dict)
        self._calls_anywhere: dict[tuple[str, ...], dict[int, Recorded]] = defaultdict(dict)
        if mode is Mode.REPLAY and not path.exists():
            raise ValueError(f"cassette {path}: no such file")
        if path.exists():
            self._read()
        self._file = None if mode is Mode.REPLAY else _open_for_append(path)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of each recorded server, so that a replay needs no server at all."""
        return self._tools

    def record_tools(self, server: str, tools: Sequence[Tool]) -> None:
        if self._tools.get(server) != tuple(tools):
            self._tools[server] = tuple(tools)
            self._append({"kind": "tools", "server": server, "tools": [asdict(tool) for tool in tools]})

    def record(self, key: CallKey, index: int, answer: Recorded) -> None:
        self._append({"kind": "call", "index": index, **asdict(key), **asdict(answer)})
        self._keep(key, answer)

    def find(self, key: CallKey) -> Recorded:
        """Return the recorded answer: this episode's own, else any episode's for the same call and state."""
        answers = self._calls.get((key.episode, *key.anywhere)) or self._calls_anywhere.get(key.anywhere, {})
        if self.mode is Mode.REPLAY_OR_CALL:
            # A recorded infrastructure fault is not an answer: make the call instead of replaying the fault.
            answers = {number: it for number, it in answers.items() if it.cause.fault is not Fault.INFRA}
        if not answers:
            raise NotRecorded(f"{key} (episode {key.episode!r}) is not in {self.path}")
        self.num_replayed += 1
        return answers.get(key.occurrence) or answers[max(answers)]

    def _append(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None
        line = json.dumps({"v": FORMAT, **record}, ensure_ascii=False, separators=(",", ":")) + "\n"
        # One write of the whole line: a killed process leaves at most one torn line, at the end.
        data = line.encode("utf-8", "surrogatepass")
        while data:
            data = data[os.write(self._file, data) :]

    def _read(self) -> None:
        with io.BufferedReader(open_to_read(self.path, follows_links=True)) as lines:
            for number, line in enumerate(lines, start=1):
                if line.isspace():
                    continue  # two writers have ended the same torn line
                try:
                    record = json.loads(line)
                except ValueError:
                    self.num_torn += 1
                    continue
                except RecursionError:
                    raise ValueError(f"{self.path}:{number}: nested too deeply for a cassette") from None
                try:
                    self._take(record)
                except (KeyError, TypeError, ValueError) as error:
                    where = f"{self.path}:{number}"
                    raise ValueError(f"{where}: not a cassette of format {FORMAT}: {error}") from None
        if self.num_torn:
            logger.warning("cassette %s: skipped %d torn line(s)", self.path, self.num_torn)

    def _take(self, record: dict[str, Any]) -> None:
        """Store one line's record; raises KeyError, TypeError or ValueError if it is not one of ours."""
        if record["v"] != FORMAT:
            raise ValueError(f"format {record['v']!r}")
        if record["kind"] == "tools":
            self._tools[record["server"]] = tuple(Tool(**tool) for tool in record["tools"])
            return
        if record["kind"] != "call":
            raise ValueError(f"kind {record['kind']!r}")
        key = CallKey(*(record[name] for name in _KEY_FIELDS))
        self._keep(key, Recorded(record["content"], Cause(record["cause"]), record["seconds"]))

    def _keep(self, key: CallKey, answer: Recorded) -> None:
        self._calls[key.episode, *key.anywhere][key.occurrence] = answer
        self._calls_anywhere[key.anywhere][key.occurrence] = answer


def _open_for_append(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.lseek(file, 0, os.SEEK_END)
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")  # end a killed writer's torn line, so that ours starts on a new one
    return file
