"""Takes what one rank played, gives what all of them played; where one of them failed, all are told."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from turnwise.distributed import Channel, RankFailed, Ranks, exchanged
from turnwise.rollout.collector import CollectionFailed, Progress

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Ended(Generic[Value]):
    """How a rank's playing ended."""

    values: tuple[Value, ...]
    """One, or none where it failed."""
    message: str = ""
    is_collection: bool = False
    """Whether infrastructure failed it, after which what was learned can be saved."""


async def by_all(ranks: Ranks, playing: Awaitable[Value], channel: Channel) -> list[Value]:
    """What each rank's playing came to, in the order of their numbers.

    Where one fails, every rank raises: its own error the one that failed, CollectionFailed or RankFailed with
    its words the others.
    """
    if ranks.count == 1:
        return [await playing]
    own: Exception | None = None
    ended: _Ended[Value]
    try:
        ended = _Ended((await playing,))
    except Exception as error:  # noqa: BLE001 (raised below, once the others know)
        own = error
        ended = _Ended((), str(error) or type(error).__name__, isinstance(error, CollectionFailed))
    found = await exchanged(ranks, ended, channel)
    failed = {number: each for number, each in enumerate(found) if not each.values}
    if not failed:
        return [each.values[0] for each in found]
    is_collection = all(each.is_collection for each in failed.values())
    if own is not None and (is_collection or not ended.is_collection):
        raise own
    number, first = next((n, each) for n, each in failed.items() if each.is_collection == is_collection)
    message = f"process {number}: {first.message}"
    raise CollectionFailed(message) if is_collection else RankFailed(message)


def added_up(parts: Sequence[Progress]) -> Progress:
    """The counts of all ranks' collections."""
    if len(parts) == 1:
        return parts[0]
    total = Progress(started_at=min(each.started_at for each in parts))
    for each in parts:
        total.num_started += each.num_started
        total.num_finished += each.num_finished
        total.num_groups += each.num_groups
        total.num_groups_dropped += each.num_groups_dropped
        total.num_tokens += each.num_tokens
        total.num_calls += each.num_calls
        total.num_successes += each.num_successes
        total.failures += Counter(each.failures)
        total.last_failure = total.last_failure or each.last_failure
    return total


def own_share(ranks: Ranks, count: int) -> range:
    """Of so many things in a row, the places of those that are this rank's."""
    return range(ranks.number, count, ranks.count)
