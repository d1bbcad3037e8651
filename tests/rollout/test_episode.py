"""Episodes on real servers: exact tokens, every stop, probes, and faults of model and infrastructure."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.rollout.stage import call, leasing, notebook, script, scripted, small_chat, task
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.pool import Pool
from turnwise.protocols import EngineDown
from turnwise.rollout.episode import EpisodeLimits, play
from turnwise.types import Cause, FormatErrorKind, Sampling, StateProbe, Stop, Trajectory, Truth

CHAT = small_chat()


def played(
    *turns: Any, limits: EpisodeLimits | None = None, options: Any = None, **task_fields: Any
) -> Trajectory:
    """An episode with the scripted `turns`: text, lists of calls, or raw ids."""

    async def main() -> Trajectory:
        one = task(**task_fields)
        async with Pool(notebook(**(options or {}))) as pool:
            await pool.connect()
            ids = [turn if isinstance(turn, tuple) else script(CHAT, turn)[0] for turn in turns]
            engine = scripted(CHAT, pool, [one], lambda _: ids)
            async with leasing(pool)(one, "e") as toolbox:
                return await play(
                    one,
                    engine,
                    CHAT,
                    toolbox,
                    episode_id="e",
                    seed=5,
                    limits=limits or EpisodeLimits(),
                    sampling=Sampling(),
                )

    return asyncio.run(main())


def raw(text: str) -> tuple[int, ...]:
    """Ids of a text that a model could write but a script rejects."""
    return (*CHAT._guard.encode(text), min(CHAT.stop_ids))


WRITE_READ = ([call("write", text="x"), call("read")], "done")


def test_calls_of_a_turn_are_made_together_and_their_results_are_read_in_order() -> None:
    trajectory = played(*WRITE_READ)
    assert (trajectory.stop, trajectory.final_text) == (Stop.ANSWERED, "done")
    [(wrote, first), (read, second)] = trajectory.calls
    assert (wrote.id, read.id) == ("0.0", "0.1")
    assert (first.content, second.content) == ("written", '["x"]')
    assert trajectory.seconds >= sum(turn.tool_seconds + turn.engine_seconds for turn in trajectory.turns) > 0


async def test_every_prompt_begins_with_the_exact_ids_of_all_earlier_turns() -> None:
    prompts: list[tuple[int, ...]] = []
    completions: list[tuple[int, ...]] = []

    class Listening(ScriptedEngine):
        async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
            completion = await super().complete(prompt_ids, sampling, seed)
            prompts.append(tuple(prompt_ids))
            completions.append(completion.token_ids)
            return completion

    async def main() -> Trajectory:
        one = task()
        async with Pool(notebook()) as pool:
            await pool.connect()
            turns = script(CHAT, [call("write", text="<|im_end|>")], [call("read")], "done")
            opening = CHAT.open(one.prompt, pool.tools)
            engine = Listening(lambda text: (), min(CHAT.stop_ids), by_prompt={opening: turns})
            async with leasing(pool)(one, "e") as toolbox:
                limits = EpisodeLimits()
                return await play(
                    one, engine, CHAT, toolbox, episode_id="e", seed=0, limits=limits, sampling=Sampling()
                )

    trajectory = await main()
    assert len(prompts) == 3
    for turn in range(2):
        so_far = prompts[turn] + completions[turn]
        assert prompts[turn + 1][: len(so_far)] == so_far
    assert trajectory.token_ids == prompts[2] + completions[2]
    # The end-of-turn token is trained; tokens that were not sampled are not.
    trained = [token for token, flag in zip(trajectory.token_ids, trajectory.loss_mask, strict=True) if flag]
    assert trained == [token for completion in completions for token in completion]
    assert sum(token in CHAT.stop_ids for token in trained) == 3


def test_a_format_error_is_answered_with_a_note_and_counts_as_a_turn() -> None:
    bad = raw('<tool_call>\n{"name": "write", "arguments": {\n</tool_call>')
    trajectory = played(bad, "done")
    assert trajectory.stop is Stop.ANSWERED
    assert len(trajectory.turns) == 2
    error = trajectory.turns[0].parsed.error
    assert error is not None
    assert error.kind is FormatErrorKind.BAD_JSON
    assert not trajectory.calls
    note = CHAT._guard.encode(error.message)
    assert _contains(trajectory.turns[1].new_ids, note[1:-1])


def test_an_unknown_tool_and_bad_arguments_are_observations() -> None:
    trajectory = played([call("raed")], [call("write", text=3)], "done")
    assert [result.cause for _, result in trajectory.calls] == [Cause.UNKNOWN_TOOL, Cause.OK]
    assert trajectory.stop is Stop.ANSWERED


def test_the_turn_limit_follows_the_difficulty_unless_the_task_sets_it() -> None:
    reads = [[call("read")]] * 12
    assert len(played(*reads, max_turns=2).turns) == 2
    easy = played(*reads, difficulty="easy")
    assert (easy.stop, len(easy.turns)) == (Stop.MAX_TURNS, 5)


def test_a_turn_over_its_token_limit_is_truncated_and_not_executed() -> None:
    trajectory = played([call("write", text="long " * 50)], limits=EpisodeLimits(tokens_per_turn=20))
    assert trajectory.stop is Stop.TRUNCATED
    assert len(trajectory.turns[0].completion.token_ids) == 20
    assert not trajectory.calls


def test_an_episode_over_its_token_limit_ends() -> None:
    opening = len(played(*WRITE_READ).turns[0].new_ids)
    reads = [[call("read")]] * 8
    trajectory = played(*reads, limits=EpisodeLimits(tokens_per_episode=opening + 60))
    assert trajectory.stop is Stop.CONTEXT_FULL
    assert len(trajectory.token_ids) <= opening + 60


def test_a_timeout_is_not_a_fault_of_the_model() -> None:
    trajectory = played([call("read", seconds=5)], limits=EpisodeLimits(seconds=1.0))
    assert trajectory.stop is Stop.TIME_UP
    assert trajectory.stop.is_infrastructure


@pytest.mark.parametrize("how", ["provider", "bug"])
def test_a_failing_provider_ends_the_episode_as_infrastructure(how: str) -> None:
    trajectory = played([call("fail", how=how)], "done")
    assert trajectory.stop is Stop.TOOL_DOWN
    assert len(trajectory.turns) == 1


def test_an_error_of_a_tool_is_an_observation_and_the_episode_continues() -> None:
    trajectory = played([call("fail", how="model")], "done")
    assert trajectory.stop is Stop.ANSWERED
    assert trajectory.calls[0][1].content == "error: no such ticker"


async def test_probes_read_the_final_state_of_the_episode() -> None:
    probe = StateProbe("read", {}, "x")
    truth = Truth(probes=(probe,))

    async def main() -> Trajectory:
        one = replace(task(), truth=truth)
        async with Pool(notebook()) as pool:
            await pool.connect()
            engine = scripted(CHAT, pool, [one], lambda _: script(CHAT, [call("write", text="x")], "done"))
            async with leasing(pool)(one, "e") as toolbox:
                return await play(
                    one,
                    engine,
                    CHAT,
                    toolbox,
                    episode_id="e",
                    seed=5,
                    limits=EpisodeLimits(),
                    sampling=Sampling(),
                )

    [answer] = (await main()).probes
    assert (answer.probe, answer.content, answer.is_error) == (probe, '["x"]', False)


async def test_an_engine_that_is_down_ends_the_episode_as_infrastructure() -> None:
    class Down(ScriptedEngine):
        async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
            raise EngineDown("no GPU today")

    async def main() -> Trajectory:
        one = task()
        async with Pool(notebook()) as pool, leasing(pool)(one, "e") as toolbox:
            engine = Down(lambda text: (), 0)
            limits = EpisodeLimits()
            return await play(
                one, engine, CHAT, toolbox, episode_id="e", seed=0, limits=limits, sampling=Sampling()
            )

    trajectory = await main()
    assert (trajectory.stop, trajectory.turns) == (Stop.ENGINE_DOWN, ())


def _contains(ids: tuple[int, ...], wanted: list[int]) -> bool:
    return any(list(ids[at : at + len(wanted)]) == wanted for at in range(len(ids)))
