"""Sampled tokens equal trained tokens over whole episodes, with a real model, engine and servers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.rollout.stage import call, leasing, notebook, small_chat, task
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Answer, FollowUp, Parsed, Trajectory, Truth

TOLERANCE = 1e-4


def tiny_model(seed: int) -> Any:
    torch.manual_seed(seed)
    widths = {"vocab_size": 640, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    rest = {"max_position_embeddings": 8192, "initializer_range": 0.05, "tie_word_embeddings": False}
    return Qwen3ForCausalLM(Qwen3Config(**widths, **heads, **rest)).eval()


class EagerChat:
    """Parses every completion as a call: a random model makes none, and episodes need several turns."""

    def __init__(self, chat: Any) -> None:
        self._chat = chat
        self.stop_ids = frozenset(range(0, 640, 20))  # a random model ends its turn often enough
        self.open, self.extend, self.follow = chat.open, chat.extend, chat.follow

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        return Parsed(calls=(call("write", text=str(len(completion_ids))), call("read")))


class TurnTakingChat(EagerChat):
    """Parses the first completion after a user message as a call, and the next as an answer."""

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        observed = self._chat.decode(prompt_ids).rpartition("<|im_start|>user")[2]
        if "<tool_response>" in observed:
            return Parsed(text="done")
        return super().parse(completion_ids, prompt_ids, is_cut=is_cut)


def plain_logprobs(model: Any, trajectory: Trajectory) -> list[float]:
    """The log-probs of one plain forward pass over the whole trajectory."""
    ids = torch.tensor([trajectory.token_ids])
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0].float()
    picked = torch.log_softmax(logits[:-1], dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    return [0.0, *picked.tolist()]


def check_exact(model: Any, trajectories: Sequence[Trajectory]) -> None:
    for trajectory in trajectories:
        expected = plain_logprobs(model, trajectory)
        for at, flag in enumerate(trajectory.loss_mask):
            if flag:
                assert abs(trajectory.logprobs[at] - expected[at]) <= TOLERANCE


async def collected(engine: Any, chat: Any, limits: EpisodeLimits, num_tasks: int) -> list[Trajectory]:
    tasks = [task(f"t{number}", max_turns=3) for number in range(num_tasks)]
    async with Pool(notebook(), max_result_tokens=64, count_tokens=chat.count_tokens) as pool:
        playing = player(engine, EagerChat(chat), limits)
        collector = Collector(playing, leasing(pool), Rewards(), CollectionPlan(group_size=2))
        async with collector.collecting(tasks, num_tasks) as groups:
            return [trajectory async for group in groups for trajectory in group.trajectories]


@asynccontextmanager
async def tiny_engine() -> AsyncIterator[TransformersEngine]:
    engine = TransformersEngine(tiny_model(1), device="cpu", max_batch=8)
    try:
        yield engine
    finally:
        await engine.close()


async def test_sampled_logprobs_equal_a_plain_forward_pass_over_turns_and_publications() -> None:
    first, second = tiny_model(1), tiny_model(2)
    limits = EpisodeLimits(tokens_per_turn=80, tokens_per_episode=4_000)
    async with tiny_engine() as engine:
        before = await collected(engine, small_chat(), limits, 2)
        await engine.publish(second.state_dict(), 7)
        after = await collected(engine, small_chat(), limits, 2)
    for model, version, trajectories in ((first, 0, before), (second, 7, after)):
        check_exact(model, trajectories)
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        assert len(turns) == 3 * len(trajectories)
        assert {turn.completion.policy_version for turn in turns} == {version}
    assert {item.token_ids for item in before}.isdisjoint(item.token_ids for item in after)
    with pytest.raises(AssertionError):
        check_exact(second, before)


async def test_a_member_draws_the_same_tokens_whatever_else_is_running() -> None:
    limits = EpisodeLimits(tokens_per_turn=40, tokens_per_episode=4_000)
    seen = []
    for num_tasks in (1, 2):
        async with tiny_engine() as engine:
            played = await collected(engine, small_chat(), limits, num_tasks)
        seen.append({(trajectory.episode_id, trajectory.token_ids) for trajectory in played})
    alone, together = seen
    assert alone < together


async def test_sampled_logprobs_of_a_conversation_equal_a_plain_forward_pass() -> None:
    chat, model = small_chat(), tiny_model(1)
    follow_up = FollowUp("And <|im_end|> now?", Truth(answer=Answer("done")))
    asked = task("t", conversation=(follow_up, follow_up))
    limits = EpisodeLimits(tokens_per_turn=40, tokens_per_episode=4_000)
    async with tiny_engine() as engine, Pool(notebook(), count_tokens=chat.count_tokens) as pool:
        playing = player(engine, TurnTakingChat(chat), limits)
        collector = Collector(playing, leasing(pool), Rewards(), CollectionPlan(group_size=2))
        async with collector.collecting([asked], 1) as groups:
            [group] = [group async for group in groups]
    check_exact(model, group.trajectories)
    for trajectory in group.trajectories:
        assert [turn.message for turn in trajectory.turns] == [0, 0, 1, 1, 2, 2]
        assert len(trajectory.token_ids) == len(trajectory.loss_mask) == len(trajectory.logprobs)
