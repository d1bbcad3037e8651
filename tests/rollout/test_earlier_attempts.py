"""The retry of a lost episode repeats its turns; a fault that meets the same call again is the model's."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.faulty_http import http_server, remote
from tests.mcp.leases import script_spec
from tests.rollout.stage import call, gathered, leasing, notebook, small_chat
from tests.worlds.environment.stage import environment
from tests.worlds.environment.stage import leasing as leasing_environment
from turnwise.mcp import session
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, Lease
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import (
    Answer,
    Cause,
    Completion,
    Finish,
    Message,
    Reward,
    Sampling,
    StateProbe,
    Stop,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
)
from turnwise.types.protocols import RewardDown

CHAT = small_chat()
PROMPT = (Message("user", "Say done."),)


class Counting:
    """Samples these turns one after the other, never the same tokens twice, and notes what it was asked."""

    def __init__(self, *turns: str | Sequence[ToolCall]) -> None:
        self._turns = turns
        self.asked: list[int] = []

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        number = CHAT.decode(prompt_ids).count("<|im_start|>assistant") - 1
        self.asked.append(number)
        turn = self._turns[number]
        drawn = f"draw {len(self.asked)}"
        [ids] = [CHAT.say(turn)] if isinstance(turn, str) else [CHAT.say(drawn, turn)]
        return Completion(tuple(ids), (-1.0 * len(self.asked),) * len(ids), Finish.STOP, 0)


def task(server: str, **truth: Any) -> Task:
    return Task("t", PROMPT, (server,), Truth(answer=Answer("done"), **truth), max_turns=6)


async def collected(
    engine: Any, lease: Lease, one: Task, rewards: Any = None, **limits: Any
) -> tuple[Trajectory, Reward, Collector]:
    playing = player(engine, CHAT, EpisodeLimits(**limits))
    collector = Collector(playing, lease, rewards or Rewards(), CollectionPlan(group_size=1))
    [group] = await gathered(collector, [one], 1)
    return group.trajectories[0], group.rewards[0], collector


async def played(
    server: ServerSpec, *turns: Any, truth: dict[str, Any] | None = None, **limits: Any
) -> tuple[Trajectory, Reward, Counting]:
    """Play one task on the server, with retries, until it is finished."""
    engine = Counting(*turns)
    async with Pool([server]) as pool:
        await pool.connect()
        one = task(server.name, **(truth or {}))
        trajectory, reward, _ = await collected(engine, leasing(pool), one, **limits)
    return trajectory, reward, engine


def faulty(**options: Any) -> ServerSpec:
    return script_spec("faulty", **{"num_retries": 0, "num_warm": 1, "isolation": "process", **options})


def write(what: str, **arguments: Any) -> list[ToolCall]:
    return [call("write", what=what, **arguments)]


async def test_a_retry_repeats_the_turns_and_goes_on_where_the_fault_was(tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    turns = (write("error"), write("die_once", marker=marker), write("error"), "done")
    trajectory, reward, engine = await played(faulty(data="real"), *turns)
    assert engine.asked == [0, 1, 2, 3], "a turn was drawn again"
    assert (trajectory.episode_id, trajectory.stop, reward.total) == ("t/0.1", Stop.ANSWERED, 1.0)
    assert [set(turn.completion.logprobs) for turn in trajectory.turns] == [{-1.0}, {-2.0}, {-3.0}, {-4.0}]
    assert not trajectory.is_redrawn


@pytest.mark.parametrize("what", ["die", "hang", "broken_reply"])
async def test_a_fault_that_comes_again_on_a_fresh_server_is_the_models(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_CHECK_SECONDS", 0.3)
    trajectory, reward, engine = await played(
        faulty(timeout_seconds=1.0), write("error"), write(what), "done"
    )
    causes = [result.cause for _, result in trajectory.calls]
    proven = Cause.TOO_SLOW if what == "hang" else Cause.BROKE_SERVER
    assert causes == [Cause.TOOL_ERROR, proven]
    # A server that still answers keeps its state, so the model reads the error and the episode goes on.
    is_alive = what == "broken_reply"
    assert trajectory.stop is (Stop.ANSWERED if is_alive else Stop.BROKE_SERVER)
    assert engine.asked == ([0, 1, 2] if is_alive else [0, 1])
    assert reward.total == float(is_alive)


async def test_a_call_that_is_too_slow_twice_is_an_error_and_later_ones_need_no_second_attempt() -> None:
    server = notebook(timeout_seconds=0.5, num_retries=0)[0]
    nap = [call("read", seconds=20)]
    trajectory, _, engine = await played(server, nap, nap, nap, "done")
    assert [result.cause for _, result in trajectory.calls] == [Cause.TOO_SLOW] * 3
    assert (trajectory.stop, trajectory.episode_id) == (Stop.ANSWERED, "t/0.1")
    assert engine.asked == [0, 1, 2, 3]


async def test_a_bug_of_a_server_that_the_same_call_meets_again_is_an_error_that_the_model_reads() -> None:
    server = notebook(num_retries=0)[0]
    trajectory, _, _ = await played(server, [call("fail", how="bug")], "done")
    assert [result.cause for _, result in trajectory.calls] == [Cause.BROKE_SERVER]
    assert trajectory.stop is Stop.ANSWERED


async def test_a_server_that_dies_before_it_is_probed_is_the_models_fault_if_it_does_so_three_times() -> None:
    truth = {"probes": (StateProbe("do", {"what": "echo"}, "#"),)}
    trajectory, reward, _ = await played(faulty(), write("then_die"), "done", truth=truth)
    assert (trajectory.stop, reward.total) == (Stop.BROKE_SERVER, 0.0)


class DownForProbes:
    """A toolbox of whose leases the first two break when they are probed."""

    num_leases = 0
    losses = ()
    busy_seconds = 0.0

    def __init__(self, inner: Any) -> None:
        self.tools, self.environment = inner.tools, inner.environment
        type(self).num_leases += 1
        self._cause = Cause.CLOSED if self.num_leases <= 2 else Cause.OK

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        return [ToolResult(call.id, "kept", self._cause, 0.0, is_provable=True) for call in calls]


async def test_two_faults_that_only_the_probes_meet_prove_nothing() -> None:
    truth = {"probes": (StateProbe("read", {}, "kept"),)}
    async with Pool(notebook()) as pool:
        await pool.connect()
        inner = leasing(pool)

        @contextlib.asynccontextmanager
        async def lease(one: Task, episode: str) -> AsyncIterator[Any]:
            async with inner(one, episode) as toolbox:
                yield DownForProbes(toolbox)

        trajectory, reward, _ = await collected(Counting("done"), lease, task("notebook", **truth))
    assert (trajectory.stop, trajectory.episode_id, reward.total) == (Stop.ANSWERED, "t/0.2", 1.0)


@pytest.mark.parametrize("options", [{"data": "real"}, {"isolation": "shared"}], ids=["real data", "shared"])
async def test_the_death_of_a_server_that_others_or_the_world_share_proves_nothing(
    options: dict[str, Any],
) -> None:
    with pytest.raises(CollectionFailed, match="lost to infrastructure"):
        await played(faulty(**options), write("die"), "done")


async def test_an_outage_of_a_remote_server_is_never_the_models_fault() -> None:
    with http_server() as url:
        server = remote(url, num_retries=0, breaker_failures=100)
        with pytest.raises(CollectionFailed, match="HTTP 500"):
            await played(server, [call("do", what=500)], "done")


async def test_an_injected_fault_is_never_the_models_fault() -> None:
    server = notebook(num_retries=0, fault_rate=1.0, breaker_failures=100)[0]
    with pytest.raises(CollectionFailed, match="injected fault"):
        await played(server, [call("read")], "done")


class Drifting:
    """A toolbox whose answers differ from lease to lease, and whose first lease breaks in its second call."""

    num_leases = 0
    losses = ()
    busy_seconds = 0.0

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._num_calls = 0
        type(self).num_leases += 1
        self._lease = self.num_leases
        self.tools, self.environment = inner.tools, inner.environment

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        self._num_calls += 1
        cause = Cause.CLOSED if self._lease == self._num_calls - 1 == 1 else Cause.OK
        return [ToolResult(call.id, f"lease {self._lease}", cause, 0.0) for call in calls]


async def test_an_episode_is_drawn_again_where_the_model_reads_something_else_and_is_marked() -> None:
    Drifting.num_leases = 0
    engine = Counting(write("a"), write("b"), "done")
    async with Pool(notebook()) as pool:
        await pool.connect()
        inner = leasing(pool)

        @contextlib.asynccontextmanager
        async def lease(one: Task, episode: str) -> AsyncIterator[Any]:
            async with inner(one, episode) as toolbox:
                yield Drifting(toolbox)

        trajectory, _, _ = await collected(engine, lease, task("notebook"))
    assert trajectory.is_redrawn
    assert engine.asked == [0, 1, 1, 2]


class DownOnce:
    """A judge that cannot be reached the first time."""

    is_down = True

    async def score(self, trajectory: Trajectory) -> Reward:
        if self.is_down:
            self.is_down = False
            raise RewardDown("unreachable")
        return Reward(1.0, {})


async def test_an_episode_whose_reward_was_down_is_the_same_episode() -> None:
    engine = Counting([call("read")], "done")
    async with Pool(notebook()) as pool:
        await pool.connect()
        trajectory, _, collector = await collected(engine, leasing(pool), task("notebook"), DownOnce())
    assert collector.progress.num_lost == 1
    assert (engine.asked, trajectory.is_redrawn) == ([0, 1], False)


async def test_a_step_of_an_environment_that_is_too_slow_again_is_the_models_fault() -> None:
    class Game:
        def reset(self, task: Task) -> str:
            return "Say done."

        async def step(self, said: str) -> tuple[str, bool]:
            await __import__("asyncio").sleep(60)
            return "", True

        def score(self) -> dict[str, float]:
            return {"outcome": 1.0}

    lease = leasing_environment(environment(Game, timeout_seconds=0.2))
    one = replace(task("t"), servers=(), truth=Truth())
    trajectory, reward, _ = await collected(Counting("done"), lease, one)
    assert (trajectory.stop, reward.total) == (Stop.BROKE_SERVER, 0.0)
