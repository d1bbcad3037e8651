"""Write the calls of an exploration as a cassette, so that its tasks can be played without the servers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnwise.explore.exploration import ToolFinding
from turnwise.explore.verdicts.repetition import PlayedCall
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.mcp.calls.cassette import Cassette, History, Mode, Recorded
from turnwise.types import Cause, Tool

MAX_BYTES = 50_000_000
"""Answers beyond this are not recorded."""

_EPISODE = "explore"


def write_cassette(path: Path, tools: Sequence[ToolFinding], episodes: Sequence[Sequence[PlayedCall]]) -> int:
    """Write the calls of these episodes, every one of which began in a fresh session; return their number.

    The tools are marked read-only if their calls were seen to change nothing. In a replay, an answer then
    does not depend on which of them were called before.
    """
    path.unlink(missing_ok=True)
    cassette = Cassette(path, Mode.RECORD)
    try:
        recorder = _Recorder(cassette, tools)
        for calls in episodes:
            recorder.add(calls)
        return recorder.num_calls
    finally:
        cassette.close()


class _Recorder:
    """Adds calls to a cassette, every call in the same state once."""

    def __init__(self, cassette: Cassette, findings: Sequence[ToolFinding]) -> None:
        self._cassette = cassette
        self._tools = {finding.tool.name: _as_observed(finding) for finding in findings}
        self._checkers = {
            tool.name: ArgumentChecker(
                tool.name, tool.input_schema, is_mending=True, may_guess=tool.is_read_only
            )
            for tool in self._tools.values()
        }
        self._known: set[tuple[str, ...]] = set()
        self._num_bytes = 0
        self.num_calls = 0
        for server, tools in _by_server(self._tools).items():
            cassette.record_tools(server, tools)

    def add(self, calls: Sequence[PlayedCall]) -> None:
        history = History(_EPISODE)
        for call in calls:
            tool = self._tools[call.tool]
            try:
                arguments = self._checkers[tool.name].check(call.arguments).arguments
            except BadArguments:
                return  # the tool's schema has changed since: a replay could not make this call
            key, index = history.place(tool, arguments)
            size = len(call.content)
            if (*key.anywhere, str(key.occurrence)) in self._known or self._num_bytes + size > MAX_BYTES:
                continue
            self._known.add((*key.anywhere, str(key.occurrence)))
            self._cassette.record(key, index, Recorded(call.content, Cause.OK, 0.0))
            self._num_bytes += size
            self.num_calls += 1


def _as_observed(finding: ToolFinding) -> Tool:
    was_seen = bool(finding.num_answers) or finding.tool.is_read_only
    return replace(finding.tool, is_read_only=finding.is_reader and was_seen)


def _by_server(tools: Mapping[str, Tool]) -> dict[str, list[Tool]]:
    found: dict[str, list[Tool]] = {}
    for tool in tools.values():
        found.setdefault(tool.server, []).append(tool)
    return found
