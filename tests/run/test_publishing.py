"""Weights are published before the next update or during it, one publication at a time, and never lost."""

import asyncio
from collections.abc import Callable

import pytest

from turnwise.run.publishing import Publishing


class Publications:
    """Publications that end when `may_end` is set; `log` has what happened, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.may_end = asyncio.Event()
        self._count = 0

    async def publish(self) -> None:
        self._count += 1
        number = self._count
        self.log.append(f"begun {number}")
        await self.may_end.wait()
        self.log.append(f"done {number}")

    def note(self, word: str) -> Callable[[], None]:
        return lambda: self.log.append(word)


async def test_before_the_next_update_it_is_waited_for() -> None:
    made = Publications()
    publishing = Publishing(made.publish, is_concurrent=False)
    async with publishing.going_on():
        asyncio.get_running_loop().call_later(0.01, made.may_end.set)
        assert await publishing.begin() > 0.005
        made.log.append("update")
        publishing.then(made.note("collect"))
        made.log.append("continue")
    assert made.log == ["begun 1", "done 1", "update", "collect", "continue"]


async def test_during_the_next_update_only_collections_wait_for_it() -> None:
    made = Publications()
    publishing = Publishing(made.publish, is_concurrent=True)
    async with publishing.going_on():
        await publishing.begin()
        publishing.then(made.note("collect"))
        await asyncio.sleep(0.01)
        made.log.append("update")
        made.may_end.set()
        await publishing.begin()
        await publishing.finish()
        publishing.then(made.note("collect more"))
    assert made.log == ["begun 1", "update", "done 1", "collect", "begun 2", "done 2", "collect more"]


async def test_leaving_waits_for_a_publication_and_what_follows_it() -> None:
    made = Publications()
    publishing = Publishing(made.publish, is_concurrent=True)
    async with publishing.going_on():
        asyncio.get_running_loop().call_later(0.01, made.may_end.set)
        await publishing.begin()
        publishing.then(made.note("collect"))
    assert made.log == ["begun 1", "done 1", "collect"]


@pytest.mark.parametrize("is_early", [True, False], ids=["the publication", "what follows it"])
async def test_a_failure_is_raised_where_it_is_next_waited_for(is_early: bool) -> None:
    async def fail() -> None:
        raise RuntimeError("the engine is down")

    def fail_after() -> None:
        raise RuntimeError("the engine is down")

    made = Publications()
    made.may_end.set()
    publishing = Publishing(fail if is_early else made.publish, is_concurrent=True)

    async def step() -> None:
        async with publishing.going_on():
            await publishing.begin()
            publishing.then(made.note("collect") if is_early else fail_after)
            await asyncio.sleep(0.01)
            made.log.append("update")
            await publishing.begin()

    with pytest.raises(RuntimeError, match="the engine is down"):
        await step()
    assert made.log == (["update"] if is_early else ["begun 1", "done 1", "update"])


async def test_an_error_elsewhere_leaves_nothing_running() -> None:
    made, before = Publications(), asyncio.all_tasks()

    async def fail() -> None:
        publishing = Publishing(made.publish, is_concurrent=True)
        async with publishing.going_on():
            await publishing.begin()
            publishing.then(made.note("collect"))
            await asyncio.sleep(0.01)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert asyncio.all_tasks() == before
    assert made.log == ["begun 1"]
