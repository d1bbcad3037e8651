"""Episodes of a conversation that must earn nothing: what is done too early, left out or not asked for."""

from collections.abc import Iterator, Sequence

from turnwise.tasks.proof.verdict import Cheat, IsNeeded, every_call, without_call
from turnwise.types import DemoTurn

Exchanges = Sequence[Sequence[DemoTurn]]
"""The plan's turns for each user message; the last turn of each is the answer."""


def conversation_cheats(exchanges: Exchanges, is_needed: IsNeeded = every_call) -> Iterator[Cheat]:
    """Yield the cheats of a conversation by the turns of its plan, without those that are the plan itself."""
    plan = _joined(exchanges, {})
    for name, turns in _cheats(exchanges, is_needed):
        if turns != plan:
            yield name, turns


def _cheats(exchanges: Exchanges, is_needed: IsNeeded) -> Iterator[Cheat]:
    answers = [turns[-1] for turns in exchanges]
    calls = [_calls(turns) for turns in exchanges]
    at_once = DemoTurn("\n".join(answer.text for answer in answers))
    everything = [turn for turns in calls for turn in turns]
    yield "nothing is done", tuple(DemoTurn("") for _ in exchanges)
    yield "the answers without a call", tuple(answers)
    yield "every answer at once", (*everything, *(at_once for _ in exchanges))
    yield "everything with the first message", (*everything, *answers)
    for message in range(1, len(exchanges)):
        here, before = exchanges[message], exchanges[message - 1]
        if calls[message]:
            early = [*before[:-1], *calls[message], before[-1]]
            yield "done before it was asked for", _joined(exchanges, {message - 1: early, message: here[-1:]})
        yield "answered before it was asked", _joined(exchanges, {message - 1: [*before[:-1], here[-1]]})
        yield "the answer of the message before", _joined(exchanges, {message: [*here[:-1], before[-1]]})
    yield from _shortened(exchanges, is_needed)


def _shortened(exchanges: Exchanges, is_needed: IsNeeded) -> Iterator[Cheat]:
    for message, turns in enumerate(exchanges):
        for place, turn in enumerate(turns):
            for index, pair in enumerate(zip(turn.calls, turn.results, strict=True)):
                if not is_needed(*pair):
                    continue
                rest = without_call(turn, index)
                kept = [*turns[:place], *([rest] if rest.calls else []), *turns[place + 1 :]]
                yield "one call left out", _joined(exchanges, {message: kept})


def _calls(turns: Sequence[DemoTurn]) -> list[DemoTurn]:
    return [turn for turn in turns if turn.calls]


def _joined(exchanges: Exchanges, changed: dict[int, Sequence[DemoTurn]]) -> tuple[DemoTurn, ...]:
    """Return the turns of all exchanges, some of them changed."""
    return tuple(turn for message, turns in enumerate(exchanges) for turn in changed.get(message, turns))
