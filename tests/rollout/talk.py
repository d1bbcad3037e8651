"""One long conversation on the embedded servers, and checks that its tokens are exact from engine to trainer.

It has three user messages, a tool that comes and one that goes, a reply of a scripted user, and a malformed
turn in the middle. The model samples what it likes; how its turns are read is fixed, so that every model
plays this conversation.
"""

import asyncio
import copy
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import torch

from tests.rollout.stage import call, leasing
from turnwise.config.training import PolicyConfig
from turnwise.mcp.pool import Pool
from turnwise.rollout.players.policy import EpisodeLimits, play
from turnwise.training.packing.batch import batch_of
from turnwise.training.packing.samples import samples_of
from turnwise.training.policy.policy import Policy
from turnwise.training.update.scoring import Passes
from turnwise.types import (
    Answer,
    Cause,
    FollowUp,
    FormatError,
    FormatErrorKind,
    Group,
    Message,
    Parsed,
    Reward,
    Sampling,
    ScriptedUser,
    Stop,
    Task,
    Trajectory,
    Truth,
    UserRule,
)
from turnwise.worlds.market.world import open_world

TOLERANCE = 1e-4
SYMBOL = open_world(0).market.companies()[0].symbol
QUOTE, POST = "fmp_get_quote", "send_slack_message"
DONE = Truth(answer=Answer("done"))
TALK = Task(
    "talk",
    (Message("user", f"What does {SYMBOL} cost?"),),
    ("fmp", "slack"),
    DONE,
    tools=(QUOTE,),
    conversation=(
        FollowUp("Post <|im_end|> to Slack.", DONE, (QUOTE, POST)),
        FollowUp("And </tool_response> again?", DONE, (POST,)),
    ),
    user=ScriptedUser((UserRule("(?i)which channel", "engineering, please."),)),
)
_ASKS_QUOTE = call(QUOTE, symbol=SYMBOL)
_POSTS = call(POST, channel="engineering", message="<|im_end|>")
_MALFORMED = FormatError(FormatErrorKind.BAD_JSON, "the call is not JSON")
READINGS = (
    Parsed(calls=(_ASKS_QUOTE,)),
    Parsed(text="done"),
    Parsed(error=_MALFORMED),
    Parsed(text="Which channel?"),
    Parsed(calls=(_POSTS, _ASKS_QUOTE)),
    Parsed(text="done"),
    Parsed(calls=(_ASKS_QUOTE,)),
    Parsed(text="done"),
)
"""How the turns of an episode are read, whatever the model sampled in them."""
MESSAGES = [0, 0, 1, 1, 1, 1, 2, 2]
SAID = [
    "",
    "",
    TALK.conversation[0].message,
    "",
    "engineering, please.",
    "",
    TALK.conversation[1].message,
    "",
]


class _FixedReading:
    """The chat of one episode, whose turns are read as READINGS."""

    def __init__(self, chat: Any) -> None:
        self.stop_ids = chat.stop_ids
        self.open, self.extend, self.follow = chat.open, chat.extend, chat.follow
        self._readings: Iterator[Parsed] = iter(READINGS)

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        return next(self._readings)


class _Watched:
    """The engine of one episode, which keeps every prompt with its completion."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.seen: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.publish, self.close = engine.publish, engine.close

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Any:
        completion = await self._engine.complete(prompt_ids, sampling, seed)
        self.seen.append((tuple(prompt_ids), completion.token_ids))
        return completion


async def check_exact_from_engine_to_trainer(
    engine: Any, model: Any, chat: Any, pool: Pool, *, tokens_per_turn: int = 24, num_episodes: int = 2
) -> tuple[Trajectory, ...]:
    """Play TALK and compare what the engine sampled with what the trainer learns, and their log-probs."""
    watched = [_Watched(engine) for _ in range(num_episodes)]
    limits = EpisodeLimits(tokens_per_turn=tokens_per_turn, tokens_per_episode=16_000)

    async def episode(number: int) -> Trajectory:
        async with leasing(pool)(TALK, f"talk/{number}") as toolbox:
            return await play(
                TALK,
                watched[number],
                _FixedReading(chat),  # type: ignore[arg-type]
                toolbox,
                episode_id=f"talk/{number}",
                seed=number,
                limits=limits,
                sampling=Sampling(),
            )

    trajectories = await asyncio.gather(*map(episode, range(num_episodes)))
    for number, trajectory in enumerate(trajectories):
        _check_course(trajectory)
        _check_prompts(trajectory, watched[number].seen, chat)
    group = Group(TALK, tuple(trajectories), tuple(Reward(1.0, {}) for _ in trajectories))
    _check_trained(group, model)
    return group.trajectories


def _check_course(trajectory: Trajectory) -> None:
    assert trajectory.stop is Stop.ANSWERED
    assert [turn.message for turn in trajectory.turns] == MESSAGES
    assert [turn.user for turn in trajectory.turns] == SAID
    causes = [result.cause for _, result in trajectory.calls]
    assert causes == [Cause.OK, Cause.OK, Cause.OK, Cause.UNKNOWN_TOOL], "the last tool was withdrawn"


def _check_prompts(
    trajectory: Trajectory, seen: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], chat: Any
) -> None:
    """Every prompt is the one before, what was sampled after it, and new ids; user text is not trained."""
    ids: tuple[int, ...] = ()
    for (prompt, sampled), turn in zip(seen, trajectory.turns, strict=True):
        assert prompt == (*ids, *turn.new_ids)
        assert sampled == turn.completion.token_ids
        ids = (*prompt, *sampled)
    assert trajectory.token_ids == ids
    read = [chat.decode(turn.new_ids) for turn in trajectory.turns]
    assert f'"{POST}"' not in read[0]
    assert f'"name": "{POST}"' in read[2]
    assert "the call is not JSON" in read[3]
    assert "engineering, please." in read[4]
    assert f"You can no longer call: {QUOTE}" in read[6]


@torch.no_grad()
def _check_trained(group: Group, model: Any) -> None:
    samples = samples_of([group])
    for sample, trajectory in zip(samples, group.trajectories, strict=True):
        assert sample.token_ids == trajectory.token_ids
        trained = tuple(compress(sample.token_ids, sample.loss_mask))
        assert trained == tuple(token for turn in trajectory.turns for token in turn.completion.token_ids)
    batch = batch_of(samples)
    policy = Policy(copy.deepcopy(model), PolicyConfig(tuning="full"))
    learned_BT = Passes(policy, tokens_per_microbatch=100_000).measure(batch).logprobs_BT
    gap = (learned_BT - batch.sampler_logprobs_BT)[batch.mask_BT].abs().max()
    assert gap <= TOLERANCE, f"log-probs of engine and trainer differ by {gap}"
