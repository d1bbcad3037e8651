"""Work that is not worth finishing when the run is asked to stop."""

import asyncio

import pytest

from turnwise.system.stopping import Stopping


async def work(begun: asyncio.Event, ended: list[str]) -> str:
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        ended.append("work")
    return "done"


async def test_the_first_request_ends_work_of_which_nothing_would_be_kept() -> None:
    stopping, begun, ended, said = Stopping(), asyncio.Event(), list[str](), list[str]()
    with stopping.listening(said.append):
        waiting = asyncio.ensure_future(stopping.unless_asked(work(begun, ended), said.append))
        await begun.wait()
        stopping.ask("Ctrl-C")
        assert await waiting is None
    assert (said, ended) == (["you asked it to stop (Ctrl-C)"], ["work"])


async def test_a_request_that_came_before_leaves_nothing_to_begin() -> None:
    stopping, begun = Stopping(), asyncio.Event()
    stopping.ask("Ctrl-C")
    assert await stopping.unless_asked(work(begun, []), print) is None
    assert not begun.is_set()


async def test_work_that_nobody_interrupts_has_its_result_and_later_requests_are_as_before() -> None:
    stopping, said = Stopping(), list[str]()

    async def quick() -> str:
        return "done"

    with stopping.listening(said.append):
        assert await stopping.unless_asked(quick(), print) == "done"
        stopping.ask("Ctrl-C")
    assert said == ["you asked it to stop (Ctrl-C)"]


async def test_a_second_request_is_a_cancellation_as_everywhere() -> None:
    stopping, begun, ended = Stopping(), asyncio.Event(), list[str]()

    async def run() -> None:
        with stopping.listening(lambda why: None):
            await stopping.unless_asked(work(begun, ended), lambda why: stopping.ask("Ctrl-C"))

    running = asyncio.ensure_future(run())
    await begun.wait()
    stopping.ask("Ctrl-C")
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == ["work"]
