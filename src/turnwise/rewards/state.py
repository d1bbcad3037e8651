"""Rewards for changes: exactly the expected writes, and probes of the servers' state."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.rewards.answer import is_same
from turnwise.rewards.exchanges import holds_throughout
from turnwise.types import Cause, ExpectedWrite, Fault, Tool, ToolCall, ToolResult, Trajectory
from turnwise.types.protocols import RewardDown

_MADE = {Cause.OK, Cause.TOO_LARGE}
"""Causes after which the change was made: the server replied, even if the reply was too large to read."""

_NEVER_MADE = {Cause.BREAKER_OPEN, Cause.SPAWN_FAILED, Cause.NOT_RECORDED}
"""Infrastructure faults before the call reached a server; after others it is unknown if it was made."""

_PERHAPS_MADE = {Cause.TOO_SLOW, Cause.BROKE_SERVER}
"""Faults of the model after which it is unknown if the change was made."""


async def writes(trajectory: Trajectory) -> float:
    """Return 1 if exactly the expected changes were made, each once, or if the truth does not say."""
    return float(holds_throughout(makes_writes, trajectory))


async def probes(trajectory: Trajectory) -> float:
    """Return 1 if every probe at the end of its exchange got the answer that the truth expects."""
    return float(holds_throughout(passes_probes, trajectory))


def makes_writes(trajectory: Trajectory) -> bool:
    expected = trajectory.task.truth.writes
    if expected is None:
        return True
    writes = changes(trajectory)
    if _is_unclear(trajectory) or len(writes) != len(expected):
        return False
    fits = [[number for number, call in enumerate(writes) if _fits(write, *call)] for write in expected]
    return _pairs_off(fits)


def changes(trajectory: Trajectory) -> list[tuple[str, Mapping[str, Any]]]:
    """Return every change that was made, in order: the tool and the arguments that the server received.

    A tool that is not marked read-only may change something, so its calls count.
    """
    tools = {tool.name: tool for tool in trajectory.tools}
    writes: list[tuple[str, Mapping[str, Any]]] = []
    for call, result in trajectory.calls:
        tool = tools.get(call.name)
        if tool is not None and tool.is_read_only:
            continue
        if result.fault is Fault.INFRA and result.cause not in _NEVER_MADE:
            raise RewardDown(f"{call.name} ended in {result.cause.value}: whether it was done is not known")
        if result.cause in _MADE:
            writes.append((call.name, _arguments(call, result, tool)))
    return writes


def _is_unclear(trajectory: Trajectory) -> bool:
    """Return whether a change may have been made in a call that was cut off or that the model let fail."""
    readers = {tool.name for tool in trajectory.tools if tool.is_read_only}
    is_cut = any(len(turn.results) < len(turn.parsed.calls) for turn in trajectory.turns)
    return is_cut or any(
        result.cause in _PERHAPS_MADE and call.name not in readers for call, result in trajectory.calls
    )


def _arguments(call: ToolCall, result: ToolResult, tool: Tool | None) -> dict[str, Any]:
    """Return the arguments as the tool received them: repaired names, and the schema's defaults."""
    properties = tool.input_schema.get("properties", {}) if tool is not None else {}
    defaults = {
        name: spec["default"]
        for name, spec in (properties.items() if isinstance(properties, Mapping) else ())
        if isinstance(spec, Mapping) and "default" in spec
    }
    return defaults | result.sent(call.arguments)


def _fits(expected: ExpectedWrite, tool: str, arguments: Mapping[str, Any]) -> bool:
    return expected.tool == tool and all(
        name in arguments and is_equal(value, arguments[name]) for name, value in expected.arguments.items()
    )


def is_equal(wanted: object, found: object) -> bool:
    """Return whether values are equal, spaces around texts aside; unlike `is_within`, keys must be equal."""
    if isinstance(wanted, Mapping):
        return (
            isinstance(found, Mapping)
            and wanted.keys() == found.keys()
            and all(is_equal(value, found[key]) for key, value in wanted.items())
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(wanted) == len(found)
            and all(map(is_equal, wanted, found))
        )
    return is_same(wanted, found)


def _pairs_off(fits: Sequence[Sequence[int]]) -> bool:
    """Return whether each expected change can be paired with a different change that was made.

    `fits[i]` lists the made changes that fit the expected change i. A greedy pairing is not enough:
    `{channel}` must not take the only post that also has the text.
    """
    owner: dict[int, int] = {}

    def place(expected: int, tried: set[int]) -> bool:
        for change in fits[expected]:
            if change not in tried:
                tried.add(change)
                if change not in owner or place(owner[change], tried):
                    owner[change] = expected
                    return True
        return False

    return all(place(expected, set()) for expected in range(len(fits)))


def passes_probes(trajectory: Trajectory) -> bool:
    """Return whether every probe got an answer that it accepts; RewardDown if one was not run."""
    for probe in trajectory.task.truth.probes:
        answers = [result for result in trajectory.probes if result.probe == probe]
        if not answers and trajectory.stop.is_forfeit:
            return False
        if not answers:
            raise RewardDown(f"the state was never asked for: no result of the probe {probe.tool}")
        if not all(probe.accepts(result.content, is_error=result.is_error) for result in answers):
            return False
    return True
