"""Episodes on a real server: exact tokens, every stop, probes, and faults of model and infrastructure."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.rollout.stage import call, leasing, notebook, script, small_chat, task
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.conversation import PLAIN, EpisodeRules
from turnwise.rollout.players.policy import EpisodeLimits, play
from turnwise.rollout.repetition import SAME_RESULT
from turnwise.types import Cause, FormatErrorKind, Sampling, StateProbe, Stop, Task, Trajectory, Truth, Turn
from turnwise.types.protocols import EngineDown

CHAT = small_chat()
WRITE_READ = ([call("write", text="x"), call("read")], "done")
Played = Callable[..., Awaitable[Trajectory]]


class Recording(ScriptedEngine):
    """Keeps every prompt and completion; raises EngineDown if it has no completion."""

    def __init__(self, opening: tuple[int, ...], turns: list[tuple[int, ...]]) -> None:
        super().__init__(lambda text: (), min(CHAT.stop_ids), by_prompt={opening: turns})
        self.prompts: list[tuple[int, ...]] = []
        self.completions: list[tuple[int, ...]] = []
        self._is_down = not turns

    async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
        if self._is_down:
            raise EngineDown("no GPU today")
        completion = await super().complete(prompt_ids, sampling, seed)
        self.prompts.append(tuple(prompt_ids))
        self.completions.append(completion.token_ids)
        return completion


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with Pool(notebook()) as pool:
        await pool.connect()
        yield pool


def engine_for(pool: Pool, one: Task, *turns: Any) -> Recording:
    """An engine with these turns: texts, lists of calls, or token ids."""
    ids = [turn if isinstance(turn, tuple) else script(CHAT, turn)[0] for turn in turns]
    return Recording(CHAT.open(one.prompt, pool.tools), ids)


async def play_with(
    pool: Pool,
    one: Task,
    engine: ScriptedEngine,
    limits: EpisodeLimits | None = None,
    rules: EpisodeRules = PLAIN,
) -> Trajectory:
    async with leasing(pool)(one, one.id) as toolbox:
        return await play(
            one,
            engine,
            CHAT,
            toolbox,
            episode_id="e",
            seed=5,
            limits=limits or EpisodeLimits(),
            sampling=Sampling(),
            rules=rules,
        )


@pytest.fixture
def played(pool: Pool) -> Played:
    async def played(
        *turns: Any, limits: EpisodeLimits | None = None, rules: EpisodeRules = PLAIN, **fields: Any
    ) -> Trajectory:
        one = replace(task(), **fields)
        return await play_with(pool, one, engine_for(pool, one, *turns), limits, rules)

    return played


def raw(text: str) -> tuple[int, ...]:
    """Ids of a text that a model could write but a script rejects."""
    return (*CHAT._guard.encode(text), min(CHAT.stop_ids))


async def test_calls_of_a_turn_are_made_in_order_and_their_results_are_read_in_order(played: Played) -> None:
    trajectory = await played(*WRITE_READ)
    assert (trajectory.stop, trajectory.final_text) == (Stop.ANSWERED, "done")
    [(wrote, first), (read, second)] = trajectory.calls
    assert (wrote.id, read.id) == ("0.0", "0.1")
    assert (first.content, second.content) == ("written", '["x"]')
    assert trajectory.seconds >= sum(turn.tool_seconds + turn.engine_seconds for turn in trajectory.turns) > 0


async def test_every_prompt_begins_with_the_exact_ids_of_all_earlier_turns(pool: Pool) -> None:
    one = task()
    engine = engine_for(pool, one, [call("write", text="<|im_end|>")], [call("read")], "done")
    trajectory = await play_with(pool, one, engine)
    prompts, completions = engine.prompts, engine.completions
    assert len(prompts) == 3
    for turn in range(2):
        earlier = prompts[turn] + completions[turn]
        assert prompts[turn + 1][: len(earlier)] == earlier
    assert trajectory.token_ids == prompts[2] + completions[2]
    # The end-of-turn token is trained; tokens that were not sampled are not.
    trained = [token for token, flag in zip(trajectory.token_ids, trajectory.loss_mask, strict=True) if flag]
    assert trained == [token for completion in completions for token in completion]
    assert sum(token in CHAT.stop_ids for token in trained) == 3


async def test_a_format_error_is_answered_with_a_note_and_counts_as_a_turn(played: Played) -> None:
    trajectory = await played(raw('<tool_call>\n{"name": "write", "arguments": {\n</tool_call>'), "done")
    assert (trajectory.stop, len(trajectory.turns), trajectory.calls) == (Stop.ANSWERED, 2, ())
    error = trajectory.turns[0].parsed.error
    assert error is not None
    assert error.kind is FormatErrorKind.BAD_JSON
    note, seen = CHAT._guard.encode(error.message)[1:-1], list(trajectory.turns[1].new_ids)
    assert any(seen[at : at + len(note)] == note for at in range(len(seen)))


async def test_an_unknown_tool_and_an_error_of_a_tool_are_observations(played: Played) -> None:
    trajectory = await played([call("raed")], [call("write", text=3)], [call("fail", how="model")], "done")
    causes = [result.cause for _, result in trajectory.calls]
    assert causes == [Cause.UNKNOWN_TOOL, Cause.OK, Cause.TOOL_ERROR]
    assert trajectory.calls[2][1].content == "error: no such ticker"
    assert trajectory.stop is Stop.ANSWERED


async def test_the_turn_limit_follows_the_difficulty_unless_the_task_sets_it(played: Played) -> None:
    reads = [[call("read")]] * 12
    assert len((await played(*reads, max_turns=2)).turns) == 2
    easy = await played(*reads, difficulty="easy")
    assert (easy.stop, len(easy.turns)) == (Stop.MAX_TURNS, 5)


async def test_a_turn_over_its_token_limit_is_truncated_and_not_executed(played: Played) -> None:
    trajectory = await played([call("write", text="long " * 50)], limits=EpisodeLimits(tokens_per_turn=20))
    assert (trajectory.stop, trajectory.calls) == (Stop.TRUNCATED, ())
    assert len(trajectory.turns[0].completion.token_ids) == 20


async def test_an_episode_over_its_token_limit_ends(played: Played) -> None:
    opening = len((await played(*WRITE_READ)).turns[0].new_ids)
    reads = [[call("read")]] * 8
    trajectory = await played(*reads, limits=EpisodeLimits(tokens_per_episode=opening + 60))
    assert trajectory.stop is Stop.CONTEXT_FULL
    assert len(trajectory.token_ids) <= opening + 60


@pytest.mark.parametrize(
    ("turns", "stop", "num_turns"),
    [
        ([[call("fail", how="provider")], "done"], Stop.TOOL_DOWN, 1),
        ([[call("fail", how="bug")], "done"], Stop.TOOL_DOWN, 1),
        ([], Stop.ENGINE_DOWN, 0),
    ],
    ids=["provider", "bug", "engine"],
)
async def test_faults_of_the_infrastructure_end_the_episode(
    played: Played, turns: list[Any], stop: Stop, num_turns: int
) -> None:
    trajectory = await played(*turns, limits=EpisodeLimits(seconds=1.0))
    assert (trajectory.stop, len(trajectory.turns)) == (stop, num_turns)
    assert trajectory.stop.is_infrastructure


class Slow(Recording):
    """Samples each turn for a while."""

    async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
        await asyncio.sleep(0.6)
        return await super().complete(prompt_ids, sampling, seed)


async def test_the_time_of_calls_is_the_models_and_the_time_of_the_engine_is_not(pool: Pool) -> None:
    one, limits = task(), EpisodeLimits(seconds=1.0)
    naps = [call("read", seconds=0.4)]
    slow_calls = await play_with(pool, one, engine_for(pool, one, naps, naps, naps, "done"), limits)
    assert (slow_calls.stop, slow_calls.stop.is_infrastructure) == (Stop.SLOW_CALLS, False)
    assert (await Rewards().score(slow_calls)).total == 0.0
    turns = [CHAT.say("", [call("read")])] * 2 + [CHAT.say("done")]
    slow_engine = Slow(CHAT.open(one.prompt, pool.tools), turns)
    trajectory = await play_with(pool, one, slow_engine, limits)
    assert (trajectory.stop, trajectory.stop.is_infrastructure) == (Stop.TIME_UP, True)


async def test_a_call_that_waits_for_a_busy_server_does_not_use_the_time_of_calls() -> None:
    """One call at a time: the second episode waits for the first, longer than its calls may take."""
    async with Pool(notebook(max_concurrency=1)) as pool:
        await pool.connect()

        async def stop(name: str, seconds: float, limits: EpisodeLimits) -> Stop:
            one = task(name)
            engine = engine_for(pool, one, [call("read", seconds=seconds)], "done")
            return (await play_with(pool, one, engine, limits)).stop

        first = asyncio.create_task(stop("a", 1.5, EpisodeLimits()))
        await asyncio.sleep(0.3)
        assert await stop("b", 0.0, EpisodeLimits(seconds=0.5)) is Stop.TIME_UP
        assert await first is Stop.ANSWERED


async def test_probes_read_the_final_state_of_the_episode(played: Played) -> None:
    probe = StateProbe("read", {}, "x")
    [answer] = (await played([call("write", text="x")], "done", truth=Truth(probes=(probe,)))).probes
    assert (answer.probe, answer.content, answer.is_error) == (probe, '["x"]', False)


async def test_a_probe_sees_what_a_model_would_read_only_cut() -> None:
    """A change that was made must not fail because the list around it is long."""
    probe = StateProbe("read", {}, "in the middle")
    one = replace(task(), truth=Truth(probes=(probe,)))
    calls = [call("write", text=text) for text in ("early " * 20, "in the middle", "late " * 20)]
    async with Pool(notebook(), max_result_tokens=16) as pool:
        await pool.connect()
        trajectory = await play_with(pool, one, engine_for(pool, one, [*calls, call("read")], "done"))
    assert "in the middle" not in trajectory.turns[0].results[-1].content
    [answer] = trajectory.probes
    assert probe.accepts(answer.content, is_error=answer.is_error)


# --- rules of training episodes -----------------------------------------------------------------------------

PYTHON = '<tool_call>\n{"name": "write", "arguments": {"text": True}}\n</tool_call>'
TEACHING = EpisodeRules(has_hints=True, max_repeats=3)


def read_by_the_model(turn: Turn) -> str:
    return str(CHAT.decode(turn.new_ids))


async def test_a_malformed_call_is_answered_with_what_to_write_by_the_rules_of_training(
    played: Played,
) -> None:
    taught, plain = await played(raw(PYTHON), "done", rules=TEACHING), await played(raw(PYTHON), "done")
    words = "`True` is not JSON: write `true`"
    assert words in read_by_the_model(taught.turns[1])
    assert words not in read_by_the_model(plain.turns[1])
    assert "not valid JSON" in read_by_the_model(plain.turns[1])


@pytest.mark.parametrize(
    ("turns", "num_turns"),
    [
        ([raw(PYTHON)] * 8, 3),
        ([[call("fail", how="model")]] * 8, 3),
        ([[call("read")]] * 8, 5),
        ([[call("read")], [call("fail", how="model")]] * 4, 6),
    ],
    ids=["malformed", "refused", "same result", "in turn"],
)
async def test_an_episode_that_repeats_itself_ends_early_as_a_failure_of_the_model(
    played: Played, turns: list[Any], num_turns: int
) -> None:
    ended = await played(*turns, rules=TEACHING)
    assert (ended.stop, len(ended.turns), ended.final_text) == (Stop.REPEATED, num_turns, "")
    assert not ended.stop.is_infrastructure
    assert not ended.stop.is_finished
    plain = await played(*turns)
    assert (plain.stop, len(plain.turns)) == (Stop.MAX_TURNS, 8)


async def test_calls_whose_results_differ_end_nothing(played: Played) -> None:
    both = [call("write", text="x"), call("read")]
    trajectory = await played(*[both] * 7, "done", rules=TEACHING)
    assert (trajectory.stop, len(trajectory.turns)) == (Stop.ANSWERED, 8)


async def test_the_second_equal_result_says_that_it_is_equal_if_the_rules_ask_for_it(played: Played) -> None:
    marking = EpisodeRules(max_repeats=3, marks_repeats=True)
    turns = [[call("read")]] * 8
    marked = await played(*turns, rules=marking)
    assert [SAME_RESULT in result.content for _, result in marked.calls] == [False, True, True, True, True]
    assert SAME_RESULT in read_by_the_model(marked.turns[2])
    assert marked.stop is Stop.REPEATED
    assert not any(SAME_RESULT in result.content for _, result in (await played(*turns)).calls)


async def test_pythons_literals_are_read_as_jsons_if_the_rules_ask_for_it(played: Played) -> None:
    mending = EpisodeRules(has_hints=True, mends_literals=True)
    trajectory = await played(raw(PYTHON), "done", rules=mending)
    [turn, _] = trajectory.turns
    assert turn.parsed.is_mended
    assert [(found.id, dict(found.arguments)) for found, _ in trajectory.calls] == [("0.0", {"text": True})]
    assert turn.completion.token_ids == raw(PYTHON)
