"""What was learned is handed over before the next update or beside it, once at a time, and never lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from turnwise.run.publishing import Publishing


class Hands:
    """Hands over what it is told to, when it is told to; keeps what happened."""

    def __init__(self, said: list[str]) -> None:
        self.said = said
        self.may_end = asyncio.Event()
        self._count = 0

    async def publish(self) -> None:
        self._count += 1
        number = self._count
        self.said.append(f"begun {number}")
        await self.may_end.wait()
        self.said.append(f"done {number}")

    def note(self, word: str) -> Callable[[], None]:
        return lambda: self.said.append(word)


def play(story: Callable[[Hands], Coroutine[Any, Any, None]], said: list[str] | None = None) -> list[str]:
    said = [] if said is None else said

    async def go() -> None:
        await asyncio.wait_for(story(Hands(said)), 10)

    asyncio.run(go())
    return said


async def soon(hands: Hands) -> None:
    await asyncio.sleep(0.01)
    hands.may_end.set()


def test_before_the_next_update_it_is_waited_for() -> None:
    async def story(hands: Hands) -> None:
        publishing = Publishing(hands.publish, is_concurrent=False)
        ending = asyncio.create_task(soon(hands))
        async with publishing.going_on():
            assert await publishing.begin() > 0.005
            hands.said.append("update")
            publishing.then(hands.note("collect"))
            hands.said.append("go on")
        await ending

    assert play(story) == ["begun 1", "done 1", "update", "collect", "go on"]


def test_beside_the_next_update_only_collections_wait_for_it() -> None:
    async def story(hands: Hands) -> None:
        publishing = Publishing(hands.publish, is_concurrent=True)
        async with publishing.going_on():
            await publishing.begin()
            publishing.then(hands.note("collect"))
            await asyncio.sleep(0.01)
            hands.said.append("update")
            hands.may_end.set()
            await publishing.begin()
            await publishing.finish()
            publishing.then(hands.note("collect more"))

    expected = ["begun 1", "update", "done 1", "collect", "begun 2", "done 2", "collect more"]
    assert play(story) == expected


def test_leaving_waits_for_what_is_under_way_and_for_what_follows_it() -> None:
    async def story(hands: Hands) -> None:
        publishing = Publishing(hands.publish, is_concurrent=True)
        ending = asyncio.create_task(soon(hands))
        async with publishing.going_on():
            await publishing.begin()
            publishing.then(hands.note("collect"))
        hands.said.append("left")
        await ending

    assert play(story) == ["begun 1", "done 1", "collect", "left"]


@pytest.mark.parametrize("place", ["the hand-over", "what follows it"])
def test_a_failure_is_raised_where_it_is_next_waited_for(place: str) -> None:
    async def story(hands: Hands) -> None:
        async def fail() -> None:
            raise RuntimeError("the engine is down")

        def fail_after() -> None:
            raise RuntimeError("the engine is down")

        is_early = place == "the hand-over"
        publishing = Publishing(fail if is_early else hands.publish, is_concurrent=True)
        hands.may_end.set()
        async with publishing.going_on():
            await publishing.begin()
            publishing.then(hands.note("collect") if is_early else fail_after)
            await asyncio.sleep(0.01)
            hands.said.append("update")
            with pytest.raises(RuntimeError, match="the engine is down"):
                await publishing.begin()
            raise LookupError

    said: list[str] = []
    with pytest.raises(LookupError):
        play(story, said)
    assert said == (["update"] if place == "the hand-over" else ["begun 1", "done 1", "update"])


def test_an_error_elsewhere_leaves_nothing_running() -> None:
    async def story(hands: Hands) -> None:
        publishing = Publishing(hands.publish, is_concurrent=True)
        try:
            async with publishing.going_on():
                await publishing.begin()
                publishing.then(hands.note("collect"))
                await asyncio.sleep(0.01)
                raise LookupError
        finally:
            assert len(asyncio.all_tasks()) == 2, "this story and who waits for it"

    said: list[str] = []
    with pytest.raises(LookupError):
        play(story, said)
    assert said == ["begun 1"]
