"""Compare a conversation of four user messages with an episode of one message and as many turns.

    python benchmarks/conversations.py [--quick] [--rounds N]

Both sides have the same tools on the embedded servers, the same calls, the same number of tokens in every
prompt and every turn, and one engine, whose cache is emptied before each side. A model turn calls a tool, and
the next one is an answer. In the conversation the user then says something; in the other episode the answer
counts as malformed, and the model reads a note of the same length. So the only difference is who speaks: a
ratio above 1 is what user messages cost. The sides take turns, in another order in every round. The model is
the embedded one; no token stops a turn, and how turns are read is fixed.
"""

import sys

sys.path.pop(0)  # without this folder, whose mcp.py would shadow the SDK's `mcp`

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from turnwise.config.episodes import ModelConfig
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.models.chat import RenderedChat, load_tokenizer, open_chat
from turnwise.models.places import EMBEDDED
from turnwise.rollout.players.policy import EpisodeLimits, play
from turnwise.setup.bench import load_model
from turnwise.types import (
    Answer,
    FollowUp,
    FormatError,
    FormatErrorKind,
    Message,
    Parsed,
    Sampling,
    Stop,
    Task,
    ToolCall,
    Trajectory,
    Truth,
)
from turnwise.worlds.market.services import DEFAULT_FILE
from turnwise.worlds.market.world import open_world

NUM_MESSAGES = 4
TOOL = "fmp_get_quote"
SYMBOLS = [company.symbol for company in open_world(0).market.companies()]
DONE = Truth(answer=Answer("done"))
NOTE = "And what does the next one cost? Answer with the number only."


@dataclass(frozen=True, slots=True)
class Shape:
    """How many episodes are played at once, and how many tokens each turn has; `--quick` plays fewer."""

    num_episodes: int = 8
    tokens_per_turn: int = 32


@dataclass(frozen=True, slots=True)
class Played:
    """What one side took."""

    seconds: float
    cpu_seconds: float
    """Of this process, without the servers: other work on the machine hardly changes it."""
    num_prefilled: int
    num_read: int
    """Tokens that are new in some prompt, those shared by all episodes counted once."""


class FixedReading:
    """The chat of one episode. Turns take turns at a call and an answer, whatever the model sampled."""

    def __init__(self, chat: RenderedChat, answer: Parsed) -> None:
        self.stop_ids: frozenset[int] = frozenset()  # every turn has the same length
        self.open, self.extend, self.follow = chat.open, chat.extend, chat.follow
        self._answer = answer
        self._num_turns = 0

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        self._num_turns += 1
        if self._num_turns % 2 == 0:
            is_last = self._num_turns == 2 * NUM_MESSAGES
            return Parsed(text="done") if is_last else self._answer
        symbol = SYMBOLS[self._num_turns // 2]
        return Parsed(calls=(ToolCall("", TOOL, {"symbol": symbol}),))


SAYS, ERRS = Parsed(text="done"), Parsed(error=FormatError(FormatErrorKind.BAD_JSON, NOTE))


def episode_task() -> Task:
    prompt = (Message("user", f"What does {SYMBOLS[0]} cost? Answer with the number only."),)
    return Task("talk", prompt, ("fmp",), DONE, tools=(TOOL,), max_turns=2 * NUM_MESSAGES)


def conversation_task(chat: RenderedChat) -> Task:
    """The same task with follow-ups that have as many tokens as the notes of the other side."""
    ids = (*chat.open(episode_task().prompt, ()), *chat.say("done"))
    wanted = len(chat.extend(ids, [("", f"error: {NOTE}")]))
    text = NOTE
    while len(chat.follow(ids, text)) < wanted:
        text += " a"
    if len(chat.follow(ids, text)) != wanted:
        raise SystemExit("no message has as many tokens as the note")
    follow_ups = (FollowUp(text, DONE),) * (NUM_MESSAGES - 1)
    return replace(episode_task(), conversation=follow_ups)


async def play_side(
    engine: TransformersEngine, chat: RenderedChat, pool: Pool, shape: Shape, task: Task, answer: Parsed
) -> Played:
    """Play all episodes at once, with an empty cache."""
    await engine.forget()
    limits = EpisodeLimits(tokens_per_turn=shape.tokens_per_turn, tokens_per_episode=16_000)

    async def episode(number: int) -> Trajectory:
        async with pool.lease(task.servers, f"talk/{number}") as toolbox:
            reading: Any = FixedReading(chat, answer)
            return await play(
                task,
                engine,
                reading,
                toolbox,
                episode_id=f"talk/{number}",
                seed=number,
                limits=limits,
                sampling=Sampling(),
            )

    before, started, cpu_started = engine.counts, time.perf_counter(), time.process_time()
    trajectories = await asyncio.gather(*map(episode, range(shape.num_episodes)))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    after = engine.counts
    for trajectory in trajectories:
        assert trajectory.stop is Stop.ANSWERED
        assert len(trajectory.turns) == 2 * NUM_MESSAGES
        assert len(trajectory.calls) == NUM_MESSAGES
        assert not any(result.is_error for _, result in trajectory.calls)
    later = sum(len(turn.new_ids) for one in trajectories for turn in one.turns[1:])
    return Played(
        seconds,
        cpu_seconds,
        after.num_prefilled - before.num_prefilled,
        len(trajectories[0].turns[0].new_ids) + later,
    )


async def measure(shape: Shape, num_rounds: int) -> tuple[list[Played], list[Played]]:
    """Return what conversations and single messages took, one entry per round."""
    chat = open_chat(load_tokenizer(EMBEDDED))
    engine = TransformersEngine(load_model(ModelConfig(path=EMBEDDED)), device="cpu", max_batch=32)
    sides = {"conversation": (conversation_task(chat), SAYS), "episode": (episode_task(), ERRS)}
    found: dict[str, list[Played]] = {name: [] for name in sides}
    servers = load(DEFAULT_FILE, {"TURNWISE_WORLD_SEED": "0"})
    try:
        async with Pool(servers, count_tokens=chat.count_tokens) as pool:
            await pool.connect(["fmp"])
            for number in range(num_rounds + 1):
                for name in sorted(sides, reverse=number % 2 == 0):
                    played = await play_side(engine, chat, pool, shape, *sides[name])
                    if number:  # the first round loads libraries and starts servers
                        found[name].append(played)
    finally:
        await engine.close()
    return found["conversation"], found["episode"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 episodes, 12 tokens per turn")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shape = Shape(4, 12) if options.quick else Shape()
    load_before = os.getloadavg()[0]
    talks, episodes = asyncio.run(measure(shape, options.rounds))
    print(f"{shape}, {NUM_MESSAGES} messages, {options.rounds} rounds, 1 thread, load {load_before:.1f}")
    for name, side in (("conversation", talks), ("one message", episodes)):
        seconds = statistics.median(played.seconds for played in side)
        cpu_seconds = statistics.median(played.cpu_seconds for played in side)
        num_prefilled = sum(played.num_prefilled for played in side)
        num_read = sum(played.num_read for played in side)
        print(
            f"{name:>12}: median {seconds:.2f} s, {cpu_seconds:.2f} s of CPU; "
            f"in all rounds {num_prefilled} tokens prefilled for {num_read} read"
        )
    pairs = list(zip(talks, episodes, strict=True))
    wall = [talk.seconds / episode.seconds for talk, episode in pairs]
    cpu = [talk.cpu_seconds / episode.cpu_seconds for talk, episode in pairs]
    prefilled = [talk.num_prefilled / episode.num_prefilled for talk, episode in pairs]
    print("conversation / one message:")
    for name, ratios in (("wall time", wall), ("CPU time", cpu), ("prefilled", prefilled)):
        extremes = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{name:>12}: median {statistics.median(ratios):.3f} ({extremes}), goal 1.0 within noise")


if __name__ == "__main__":
    main()
