"""Probes of a change: reading calls whose answers show that it was made, and nothing else was."""

from collections.abc import Iterator, Sequence

from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Call
from turnwise.explore.survey.refusals import leaves
from turnwise.explore.survey.snapshots import Snapshot, Volatile, without_clock
from turnwise.types import StateProbe

_MAX_WHOLE_CHARS = 3_000
"""Longer answers are not compared as a whole: they would be in every task."""
_MAX_PROBES = 4
_MIN_CHARS = 2


def probes_of(
    call: Call, before: Snapshot, after: Snapshot, others: Sequence[Snapshot], volatile: Volatile
) -> tuple[StateProbe, ...]:
    """Choose probes that fail before, hold after, and tell the change from the other snapshots."""
    candidates = [
        (probe, key)
        for key, answer in after.items()
        if key in before and not answer.is_error and answer.call.tool not in volatile.tools
        for probe in _candidates(call, before[key], answer, volatile)
        if _holds(probe, answer) and not _holds(probe, before[key])
    ]
    if not candidates:
        return ()
    candidates.sort(key=lambda one: (not one[0].equals, len(one[0].expected)))
    chosen = [candidates[0]]
    for other in others:
        known = [one for one in chosen if one[1] in other]
        if known and all(_holds(probe, other[key]) for probe, key in known):
            telling = [one for one in candidates if one[1] in other and not _holds(one[0], other[one[1]])]
            chosen += telling[:1]
    tools = {probe.tool for probe, _ in chosen}
    chosen += [one for one in candidates if one[0].tool not in tools][: max(0, 2 - len(chosen))]
    unique = {repr(probe): probe for probe, _ in chosen}
    return tuple(unique.values())[:_MAX_PROBES]


def _holds(probe: StateProbe, answer: Answer) -> bool:
    return probe.accepts(answer.text, is_error=answer.is_error)


def _candidates(call: Call, before: Answer, after: Answer, volatile: Volatile) -> Iterator[StateProbe]:
    tool, arguments = after.call.tool, after.call.arguments
    has_clock = without_clock(after.text) != after.text
    is_steady = not any(one[0] == tool for one in volatile.columns) and not has_clock
    if is_steady and after.text.strip() and len(after.text) <= _MAX_WHOLE_CHARS and not is_cut(after.text):
        yield StateProbe(tool, arguments, equals=after.text)
    for text in _texts(call, after, before):
        yield StateProbe(tool, arguments, contains=text)
    for text in _texts(call, before, after):
        yield StateProbe(tool, arguments, lacks=text)


def _texts(call: Call, one: Answer, other: Answer) -> Iterator[str]:
    """Yield what stands in one answer and not in the other: lines, then values of the call."""
    lines = [line for line in one.text.split("\n") if line.strip() and line not in other.text]
    for line in lines[:3]:
        bare = line.strip().rstrip(",")
        if len(bare) <= 200 and without_clock(bare) == bare:
            yield bare
    for leaf in leaves(call.arguments):
        text = str(leaf)
        if len(text) >= _MIN_CHARS and text in one.text and text not in other.text:
            yield text
