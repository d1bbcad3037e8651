"""Share rollouts between ranks: every rank gets the results of all, or an error if one rank failed."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.collector import CollectionFailed
from turnwise.system.ranks import Channel, RankFailed, Ranks, exchange_async

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Ended(Generic[Value]):
    """The result of one rank."""

    values: tuple[Value, ...]
    """One value, or none if the rank failed."""
    message: str = ""
    is_collection: bool = False
    """Whether the failure was a CollectionFailed, after which a checkpoint can still be saved."""


async def gather_from_ranks(ranks: Ranks, playing: Awaitable[Value], channel: Channel) -> list[Value]:
    """The results of all ranks, in the order of their numbers.

    If one rank fails, all ranks raise. The failed rank raises its own error; the others raise
    CollectionFailed or RankFailed with its message.
    """
    if ranks.count == 1:
        return [await playing]
    own: Exception | None = None
    ended: _Ended[Value]
    try:
        ended = _Ended((await playing,))
    except Exception as error:  # noqa: BLE001 (raised below, after the exchange)
        own = error
        ended = _Ended((), str(error) or type(error).__name__, isinstance(error, CollectionFailed))
    results = await exchange_async(ranks, ended, channel)
    failed = {number: result for number, result in enumerate(results) if not result.values}
    if not failed:
        return [result.values[0] for result in results]
    is_collection = all(result.is_collection for result in failed.values())
    if own is not None and (is_collection or not ended.is_collection):
        raise own
    number, first = next((n, result) for n, result in failed.items() if result.is_collection == is_collection)
    message = f"process {number}: {first.message}"
    raise CollectionFailed(message) if is_collection else RankFailed(message)


def total_progress(parts: Sequence[Progress]) -> Progress:
    """The sum of the counts of all ranks."""
    if len(parts) == 1:
        return parts[0]
    total = Progress(started_at=min(part.started_at for part in parts))
    for part in parts:
        total.num_started += part.num_started
        total.num_finished += part.num_finished
        total.num_groups += part.num_groups
        total.num_groups_dropped += part.num_groups_dropped
        total.num_groups_unneeded += part.num_groups_unneeded
        total.num_tokens += part.num_tokens
        total.num_calls += part.num_calls
        total.num_successes += part.num_successes
        total.num_inside_plans += part.num_inside_plans
        total.failures += Counter(part.failures)
        total.started_by_family += Counter(part.started_by_family)
        total.lost_by_family += Counter(part.lost_by_family)
        total.last_failure = total.last_failure or part.last_failure
    return total


def rank_share(ranks: Ranks, count: int) -> range:
    """The indices of this rank's share of `count` items."""
    return range(ranks.number, count, ranks.count)
