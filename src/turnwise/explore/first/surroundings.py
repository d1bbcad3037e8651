"""What a plan must leave as it is: reading calls that show it, and known ways to change something else."""

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnwise.explore.first.change import Change
from turnwise.explore.first.day_dependence import Today
from turnwise.explore.first.entities import leaves
from turnwise.explore.first.observation import Observation
from turnwise.mcp.calls.results import CUT_MARK
from turnwise.types import StateProbe, ToolCall, ToolResult

_NUM_WITNESSES = 24
"""Reading calls that are made after an episode to see what it left unchanged."""
_MAX_CHARS = 2_000
"""Longer answers are not compared as a whole: they would be in every task."""
_MIN_CHARS = 3
_STAMP = re.compile(r"\d*:\d\d|\d{4}-\d\d[-\d]*|\d{6,}")
"""What may be a time: two sessions at the same time agree on it."""


@dataclass(frozen=True, slots=True)
class SideChange:
    """A change that a task does not ask for, and probes that show it."""

    call: ToolCall
    probes: tuple[StateProbe, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the servers besides a plan."""

    observations: tuple[Observation, ...] = ()
    """Reading calls whose whole answers repeat in fresh sessions."""
    changes: tuple[Change, ...] = ()
    has_secret: Callable[[str], bool] = lambda _: False

    def witnesses(self, servers: Sequence[str], probes: Sequence[StateProbe]) -> tuple[StateProbe, ...]:
        """Return reading calls of these servers that are not among the probes.

        If some of their tools have shown a change before, only those: the others would not show one.
        """
        telling = {probe.tool for change in self.changes for probe in change.probes}
        known = [seen for seen in self.observations if seen.tool.server in servers]
        chosen = [seen for seen in known if seen.tool.name in telling] or known
        places: dict[str, int] = {}
        turns: list[tuple[int, StateProbe]] = []
        for seen in chosen:
            places[seen.tool.name] = places.get(seen.tool.name, -1) + 1
            turns.append((places[seen.tool.name], _reading(seen)))
        asked = {_key(probe.tool, probe.arguments) for probe in probes}
        in_turns = [probe for _, probe in sorted(turns, key=lambda turn: turn[0])]
        others = [probe for probe in in_turns if _key(probe.tool, probe.arguments) not in asked]
        return tuple(others[:_NUM_WITNESSES])

    def settled(
        self, asked: Sequence[StateProbe], first: Sequence[ToolResult], second: Sequence[ToolResult]
    ) -> list[tuple[StateProbe, ToolResult]]:
        """Return the probes with the whole answers that two sessions agreed on, each with its first answer.

        A probe that expects a text stays without agreement; one that expects nothing is left out.
        """
        found: list[tuple[StateProbe, ToolResult]] = []
        for probe, one, other in zip(asked, first, second, strict=True):
            if one.content == other.content and not one.is_error and self._may_state(probe, one.content):
                found.append((replace(probe, equals=one.content), one))
            elif probe.contains or probe.lacks:
                found.append((probe, one))
        return found

    def _may_state(self, probe: StateProbe, answer: str) -> bool:
        """Return whether an answer may stand in a task: it is short, holds at any time, and has no secret.

        What looks like a time must have been in the answer to the same call long before.
        """
        key = _key(probe.tool, probe.arguments)
        before = [
            seen.document.text
            for seen in self.observations
            if _key(seen.tool.name, seen.plain_arguments) == key
        ]
        known = {*_STAMP.findall(f"{probe.arguments} {probe.contains} {before}")}
        today = Today(datetime.datetime.now(datetime.UTC))
        is_short = bool(answer.strip()) and len(answer) <= _MAX_CHARS and not CUT_MARK.search(answer)
        is_lasting = known.issuperset(_STAMP.findall(answer)) and not today.is_named(
            answer, str(probe.arguments)
        )
        return is_short and is_lasting and not self.has_secret(answer)

    def overwriting(
        self, write: ToolCall, server: str, witnesses: Sequence[StateProbe]
    ) -> Iterator[SideChange]:
        """Yield this write to other things, those first that no witness reads."""
        witnessed = {_key(probe.tool, probe.arguments) for probe in witnesses}
        readings = {
            _key(one.tool, one.arguments): (one, name) for one, name in self._readings_of_things(server)
        }
        for _, (reading, name) in sorted(readings.items(), key=lambda item: item[0] in witnessed):
            own, thing = write.arguments.get(name), reading.arguments[name]
            rest = {other: value for other, value in write.arguments.items() if other != name}
            text = max((leaf for leaf in leaves(rest) if isinstance(leaf, str)), key=len, default="")
            if isinstance(own, str) and isinstance(thing, str) and own != thing and len(text) >= _MIN_CHARS:
                call = replace(write, arguments={**write.arguments, name: thing})
                yield SideChange(call, (replace(reading, contains=text),))

    def _readings_of_things(self, server: str) -> Iterator[tuple[StateProbe, str]]:
        """Yield reading calls of things with the argument that names the thing.

        Things are what such calls were given for the argument, and what answers list in a column of its name.
        """
        known = [seen for seen in self.observations if seen.tool.server == server]
        listed: dict[str, dict[str, None]] = {}
        for row in (row for seen in known for table in seen.document.tables for row in table.rows):
            for column, cell in row.items():
                if isinstance(cell, str):
                    listed.setdefault(column, {})[cell] = None
        tools: set[str] = set()
        for seen in known:
            for name, value in seen.plain_arguments.items():
                more = () if seen.tool.name in tools else listed.get(name, ())
                for thing in (value, *more):
                    yield StateProbe(seen.tool.name, {**seen.plain_arguments, name: thing}), name
            tools.add(seen.tool.name)

    def others(self, write: ToolCall, server: str) -> Iterator[SideChange]:
        """Yield known changes of a server that are not this write, those of other tools first."""
        known = [change for change in self.changes if change.tool.server == server]
        for change in sorted(known, key=lambda change: change.tool.name == write.name):
            if _key(change.tool.name, change.arguments) != _key(write.name, write.arguments):
                yield SideChange(
                    replace(write, name=change.tool.name, arguments=change.arguments), change.probes
                )


def _reading(observation: Observation) -> StateProbe:
    return StateProbe(observation.tool.name, observation.plain_arguments)


def _key(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{tool} {json.dumps(dict(arguments), sort_keys=True, default=str)}"
