"""Reading calls that show what a change must leave as it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnwise.explore.records import Call, Survey
from turnwise.explore.verdicts.found_secrets import FoundSecrets
from turnwise.mcp.calls.results import CUT_MARK
from turnwise.types import StateProbe, ToolResult

_NUM_PER_SERVER = 12
_MAX_CHARS = 2_000
"""Longer answers are not compared as a whole: they would be in every task."""
_STAMP = re.compile(r"\d*:\d\d|\d{4}-\d\d[-\d]*|\d{6,}")
"""What may be a time: two sessions at the same time agree on it."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Readers of every server, with what they answered long before."""

    calls: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    """By server."""
    before: Mapping[str, str] = field(default_factory=dict)
    """By the key of a call: its answer in the survey."""

    def of(self, servers: Sequence[str], probes: Sequence[StateProbe]) -> tuple[StateProbe, ...]:
        """Return the reading calls of these servers that are not among the probes."""
        known = {Call("", probe.tool, probe.arguments) for probe in probes}
        calls = [call for server in servers for call in self.calls.get(server, ())]
        return tuple(
            StateProbe(call.tool, call.arguments)
            for call in calls
            if Call("", call.tool, call.arguments) not in known
        )

    def settled(
        self, asked: Sequence[StateProbe], first: Sequence[ToolResult], second: Sequence[ToolResult]
    ) -> list[tuple[StateProbe, ToolResult]]:
        """Return the probes with the whole answers that two sessions agreed on, each with its first answer.

        A probe that expects something stays without agreement; one that expects nothing is left out.
        """
        found: list[tuple[StateProbe, ToolResult]] = []
        for probe, one, other in zip(asked, first, second, strict=True):
            if one.content == other.content and not one.is_error and self._may_state(probe, one.content):
                found.append((replace(probe, equals=one.content), one))
            elif probe.contains or probe.lacks or probe.equals:
                found.append((probe, one))
        return found

    def _may_state(self, probe: StateProbe, answer: str) -> bool:
        """Return whether an answer may stand in a task: short, and no time that was not there before."""
        before = self.before.get(Call("", probe.tool, probe.arguments).key, "")
        known = {*_STAMP.findall(f"{probe.arguments} {probe.contains} {before}")}
        is_short = bool(answer.strip()) and len(answer) <= _MAX_CHARS and not CUT_MARK.search(answer)
        return is_short and known.issuperset(_STAMP.findall(answer))


def witnesses_of(survey: Survey, secrets: FoundSecrets) -> Witnesses:
    """Return readers of every server, those first that have shown a change, by turns of the tools.

    Answers that show a secret are left out: a task with one would be refused.
    """
    telling = {difference.reader for change in survey.changes for difference in change.differences}
    calls: dict[str, list[tuple[bool, int, Call]]] = {}
    before: dict[str, str] = {}
    for facts in survey.readers():
        if facts.is_pure:
            continue
        for place, answer in enumerate(facts.answers):
            if secrets.is_in(answer.text):
                continue
            calls.setdefault(facts.tool.server, []).append((answer.call not in telling, place, answer.call))
            before[answer.call.key] = answer.text
    chosen = {
        server: tuple(call for *_, call in sorted(found, key=lambda one: one[:2])[:_NUM_PER_SERVER])
        for server, found in calls.items()
    }
    return Witnesses(chosen, before)
