"""Faults of environments: infrastructure is dropped and refilled, a bug stops the run and is named, and every
object is closed exactly once."""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.rollout.stage import gathered, script
from tests.worlds.environment.stage import CHAT, Guess, environment, leasing, played, task
from turnwise.engines.scripted import ScriptedEngine
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Message, Stop
from turnwise.types.protocols import EnvironmentDown

TASKS = [task(seed) for seed in range(20)]


def collector(make: Callable[[], Any], plan: CollectionPlan, **options: Any) -> Collector:
    """Plays every task by guessing its number at once."""
    engine = ScriptedEngine(
        lambda text: (),
        min(CHAT.stop_ids),
        by_prompt={
            CHAT.open([Message("user", f"number {seed}")], ()): script(CHAT, str(seed)) for seed in range(20)
        },
    )
    playing = player(engine, CHAT, EpisodeLimits())
    return Collector(playing, leasing(environment(make, **options)), Rewards(), plan)


class Tracked:
    """Counts how often each object is closed, and how many are open at once."""

    lock = threading.Lock()
    num_closed: Counter[int]
    open_now: int
    most_open: int

    @classmethod
    def begin(cls) -> None:
        cls.num_closed, cls.open_now, cls.most_open = Counter(), 0, 0

    def __init__(self) -> None:
        with self.lock:
            self.number = len(self.num_closed)
            self.num_closed[self.number] = 0
            type(self).open_now += 1
            type(self).most_open = max(self.open_now, self.most_open)

    def reset(self, task: Any) -> Any:
        self.seed = task.seed
        return f"number {task.seed}"

    def step(self, said: Any) -> Any:
        return "right", True

    def score(self) -> Any:
        return {"outcome": 1.0}

    def close(self) -> None:
        with self.lock:
            self.num_closed[self.number] += 1
            type(self).open_now -= 1


def check_closed(game: type[Tracked]) -> None:
    """Threads may still be closing what was cancelled."""
    deadline = time.monotonic() + 10
    while game.open_now and time.monotonic() < deadline:
        time.sleep(0.01)
    assert game.num_closed
    assert set(game.num_closed.values()) == {1}
    assert game.open_now == 0


async def test_every_object_is_closed_once_and_no_more_are_open_than_episodes() -> None:
    class Game(Tracked):
        pass

    Game.begin()
    playing = collector(Game, CollectionPlan(group_size=4, num_parallel_episodes=3))
    groups = await gathered(playing, TASKS, 5)
    assert len(groups) == 5
    assert len(Game.num_closed) == 20
    assert Game.most_open <= 3
    check_closed(Game)


@pytest.mark.parametrize("method", ["reset", "step", "score"])
async def test_an_environment_that_is_down_is_retried_and_counted_and_never_scored(method: str) -> None:
    class Game(Tracked):
        pass

    plain = getattr(Tracked, method)

    def failing(self: Any, *arguments: Any) -> Any:
        if self.number % 3 == 0:
            raise EnvironmentDown("the simulator has crashed")
        return plain(self, *arguments)

    setattr(Game, method, failing)
    Game.begin()
    playing = collector(Game, CollectionPlan(group_size=2, num_retries=2, num_parallel_episodes=2))
    groups = await gathered(playing, TASKS, 6)
    progress = playing.progress
    assert all(reward.total == 1.0 for group in groups for reward in group.rewards)
    assert len(groups) == 6
    assert progress.num_lost >= 4
    assert progress.num_started == progress.num_finished + progress.num_lost
    assert set(progress.failures) == {Stop.ENVIRONMENT_DOWN}
    assert f"{method}(): the simulator has crashed" in progress.last_failure
    check_closed(Game)


async def test_an_environment_that_is_always_down_ends_the_collection_with_its_message() -> None:
    class Game(Tracked):
        def step(self, said: Any) -> Any:
            raise EnvironmentDown("no licence")

    Game.begin()
    playing = collector(Game, CollectionPlan(group_size=1, num_retries=1, max_dropped_in_a_row=3))
    with pytest.raises(CollectionFailed, match="no licence"):
        await gathered(playing, TASKS, 4)
    check_closed(Game)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_method_that_takes_too_long_is_infrastructure_and_close_waits_for_it(is_async: bool) -> None:
    released, order = threading.Event(), list[str]()

    class Slow(Guess):
        def step(self, said: Any) -> Any:
            released.wait(60)
            order.append("step returned")
            return "x", True

        def close(self) -> None:
            order.append("closed")

    class AsyncSlow(Guess):
        async def step(self, said: Any) -> Any:  # type: ignore[override]
            try:
                await asyncio.sleep(60)
            finally:
                order.append("step returned")

        async def close(self) -> None:
            order.append("closed")

    asyncio.get_running_loop().call_later(2.0, released.set)
    trajectory = await played(AsyncSlow if is_async else Slow, "3", timeout_seconds=0.5)
    assert trajectory.stop is Stop.ENVIRONMENT_DOWN
    assert "step() took longer than 0.5 s (tools.function_timeout_seconds)" in trajectory.losses[0].message
    assert order == ["step returned", "closed"]


async def test_the_time_limit_of_an_episode_ends_a_step_and_the_object_is_closed() -> None:
    class Game(Tracked):
        async def step(self, said: Any) -> Any:
            await asyncio.sleep(60)

    Game.begin()
    trajectory = await played(Game, "3", limits=EpisodeLimits(seconds=0.2))
    assert trajectory.stop is Stop.SLOW_CALLS
    check_closed(Game)


async def test_a_cancelled_collection_closes_every_object_once() -> None:
    class Game(Tracked):
        async def step(self, said: Any) -> Any:
            started.set()
            await asyncio.sleep(60)

    started = asyncio.Event()
    Game.begin()
    playing = collector(Game, CollectionPlan(group_size=4, num_parallel_episodes=8))
    async with playing.collecting(TASKS, 4):
        await started.wait()
    check_closed(Game)


def raising(method: str, error: BaseException) -> type[Guess]:
    def fail(self: Any, *arguments: Any) -> Any:
        raise error

    return type("Game", (Guess,), {"tools": lambda self: [], "close": lambda self: None, method: fail})


@pytest.mark.parametrize("method", ["__init__", "reset", "tools", "step", "score", "close"])
@pytest.mark.parametrize("error", [KeyError("castle"), StopIteration("castle"), SystemExit("castle")])
async def test_a_bug_is_raised_with_the_names_of_class_method_and_task(
    method: str, error: BaseException
) -> None:
    with pytest.raises(RuntimeError) as raised:
        await played(raising(method, error), "3")
    message = str(raised.value)
    assert f"environment 'games:Game': {method}() raised" in message
    assert "castle" in message
    assert "'number-3'" in message
    assert "\n" not in message


async def test_a_bug_stops_the_collection() -> None:
    class Game(Tracked):
        def step(self, said: Any) -> Any:
            raise IndexError("no such room")

    Game.begin()
    with pytest.raises(
        RuntimeError,
        match=r"raised IndexError: no such room at test_faults\.py:\d+, given '\d+' \(task 'number-",
    ):
        await gathered(collector(Game, CollectionPlan(group_size=2)), TASKS, 4)
    check_closed(Game)


async def test_a_timeout_of_the_users_own_is_a_bug_and_not_our_time_limit() -> None:
    with pytest.raises(RuntimeError, match=r"step\(\) raised TimeoutError"):
        await played(raising("step", TimeoutError("socket")), "3")


def returning(method: str, value: Any) -> type[Guess]:
    return type("Game", (Guess,), {method: lambda self, *arguments: value})


@pytest.mark.parametrize(
    ("method", "value", "words"),
    [
        ("reset", 3, "must return a text, a list of messages or None"),
        ("reset", None, "must return the prompt, since the task has none"),
        ("reset", [], "ends with a message to the model"),
        ("reset", " ", "ends with a message to the model"),
        ("reset", [{"role": "player", "content": "x"}], "role 'player'"),
        ("reset", [{"text": "x"}], "must return messages as"),
        ("tools", [3], "must return functions or mappings"),
        ("tools", "look", "must return a list of tools"),
        ("tools", [{"name": "a", "parameters": {"x": object()}}], "are not JSON"),
        ("tools", [{"name": "a", "parameters": {}}] * 2, "two tools of the name 'a'"),
        ("step", "text", r"must return \(observation, done\)"),
        ("step", ("text", None), r"must return \(observation, done\)"),
        ("step", (3, True), "must return an observation that is a text"),
        ("step", (["a", "b"], True), "one observation for a text, not 2"),
        ("step", ("", False), "for the model to read unless done"),
        ("score", 1.0, "must return parts such as"),
        ("score", {"outcome": 2}, "'outcome': 2, and a part must be a number from 0 to 1"),
        ("score", {"outcome": float("nan")}, "must be a number from 0 to 1"),
    ],
)
async def test_a_wrong_return_value_is_named(method: str, value: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=rf"'games:Game': {method}\(\) .*{words}.* \(task 'number-3'\)"):
        await played(returning(method, value), "3")


async def test_an_object_without_a_method_that_it_needs_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"'games:Game': reset\(\) is missing"):
        await played(object, "3")


async def test_a_connection_that_belongs_to_a_thread_can_be_used_by_all_methods() -> None:
    class Rows:
        def __init__(self) -> None:
            self.rows = sqlite3.connect(":memory:")

        def reset(self, task: Any) -> Any:
            self.rows.execute("CREATE TABLE said (text)")
            return "Say something."

        def step(self, said: Any) -> Any:
            self.rows.execute("INSERT INTO said VALUES (?)", (said,))
            return "more", said == "3"

        def score(self) -> Any:
            return {"outcome": self.rows.execute("SELECT COUNT(*) FROM said").fetchone()[0] / 2}

        def close(self) -> None:
            self.rows.close()

    trajectory = await played(Rows, "1", "3")
    assert trajectory.scores == {"outcome": 1.0}


async def test_an_object_that_is_made_while_its_episode_is_cancelled_is_closed() -> None:
    begun, released = threading.Event(), threading.Event()

    class Game(Tracked):
        def __init__(self) -> None:
            begun.set()
            released.wait(60)
            super().__init__()

    Game.begin()
    playing = asyncio.ensure_future(gathered(collector(Game, CollectionPlan(group_size=1)), TASKS, 1))
    await asyncio.to_thread(begun.wait, 60)
    playing.cancel()
    await asyncio.sleep(0.05)
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await playing
    check_closed(Game)


async def test_text_that_a_class_cannot_read_is_named_with_the_line_that_met_it() -> None:
    with pytest.raises(RuntimeError, match=r"raised ValueError: .*'²' at stage\.py:\d+, given '²' \(task"):
        await played(Guess, "²")
