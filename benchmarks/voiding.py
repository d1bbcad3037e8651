"""Policies that fail half of the time, and make their tools fail when they would: do they gain by it?

    python benchmarks/voiding.py [--episodes 20]

Every policy answers right in half of its episodes. In the other half it provokes a fault before it answers
wrong, so that the episode is lost to infrastructure and, it hopes, drawn again. Its coin is never the same
again, as on a GPU. Exit code 1 if the success that is reported is more than chance above one half.
"""

import argparse
import asyncio
import contextlib
import math
import random
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.rollout.stage import leasing, small_chat
from tests.worlds.environment.stage import environment
from tests.worlds.environment.stage import leasing as leasing_environment
from turnwise.mcp.functions import function_server
from turnwise.mcp.pool import Pool
from turnwise.mcp.serve import Unavailable
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, Lease
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Answer, Completion, Finish, Message, Sampling, Task, ToolCall, Truth

CHAT = small_chat()
FRAGILE = str(Path(__file__).resolve().parent / "servers" / "fragile.py")
CALL_SECONDS, EPISODE_SECONDS = 1.0, 2.0
OPTIONS = {"timeout_seconds": CALL_SECONDS, "num_retries": 0, "num_warm": 4, "breaker_failures": 10_000}

Turns = Sequence[Sequence[ToolCall]]


def do(what: str, **more: Any) -> list[ToolCall]:
    return [ToolCall("", "do", {"what": what, **more})]


TRICKS: Mapping[str, Turns] = {
    "none": (),
    "an error that spells ENOSPC": [do("full disk")],
    "half an emoji": [do("half an emoji")],
    "bytes that are not UTF-8": [do("bytes")],
    "400 levels of nesting": [do("nesting")],
    "an integer of 6,000 digits": [do("integer")],
    "a reply that is no JSON": [do("garbage")],
    "a crash": [do("die")],
    "a crash after the answer": [do("die later"), do("ok")],
    "an endless call, the server hangs": [do("endless")],
    "a call over the time limit": [do("slow", seconds=30)],
    "a call over the time limit in every turn": [do("slow", seconds=30)] * 4,
    "slow calls up to rollout.seconds": [do("ok", seconds=0.8 * CALL_SECONDS)] * 4,
    "a provider's failure": [[ToolCall("", "ask_provider", {})]],
    "a step of an environment that takes too long": (),
}
IN_AN_ENVIRONMENT = "a step of an environment that takes too long"


class Guesser:
    """Samples a right answer or, half of the time, the trick and then a wrong one."""

    def __init__(self, trick: Turns, wrong: str) -> None:
        self._trick = trick
        self._wrong = wrong
        self._rng = random.Random(0)

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        number = CHAT.decode(prompt_ids).count("<|im_start|>assistant") - 1
        if number == 0 and self._rng.random() < 0.5:
            ids = CHAT.say("right")
        elif number < len(self._trick):
            ids = CHAT.say("", self._trick[number])
        else:
            ids = CHAT.say(self._wrong)
        return Completion(tuple(ids), (0.0,) * len(ids), Finish.STOP, 0)


class Stalling:
    """An environment whose step never returns in time if it is told so."""

    def reset(self, task: Task) -> str:
        return "Say right."

    def step(self, said: str) -> tuple[str, bool]:
        if said == "stall":
            time.sleep(2 * CALL_SECONDS)
        self.is_right = said == "right"
        return "", True

    def score(self) -> dict[str, float]:
        return {"outcome": float(self.is_right)}


async def ask_provider() -> str:
    """Ask a provider that is down."""
    raise Unavailable("the provider answered 503")


def servers() -> list[ServerSpec]:
    block = {"command": sys.executable, "args": [FRAGILE], "turnwise": OPTIONS}
    [fragile] = parse({"fragile": block}, {}, directory=Path.cwd())
    return [fragile, function_server({"ask_provider": ask_provider})]


@contextlib.asynccontextmanager
async def leases(trick: str) -> AsyncIterator[Lease]:
    if trick == IN_AN_ENVIRONMENT:
        yield leasing_environment(environment(Stalling, timeout_seconds=CALL_SECONDS))
        return
    async with Pool(servers()) as pool:
        await pool.connect()
        yield leasing(pool)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many of the episodes that were asked for were played, and how many of those succeeded."""

    num_asked: int
    num_played: int
    num_successes: int

    @property
    def reported(self) -> float:
        return self.num_successes / max(self.num_played, 1)

    @property
    def bound(self) -> float:
        """The success if all that was not played had failed."""
        return self.num_successes / self.num_asked


async def play(trick: str, num_episodes: int) -> Outcome:
    """Play a task as often as it is asked for, one episode after the other in a group of its own."""
    names = ("fragile", "functions") if trick != IN_AN_ENVIRONMENT else ()
    prompt = (Message("user", "Say right."),)
    tasks = [
        Task(f"t{number}", prompt, names, Truth(answer=Answer("right")), max_turns=8)
        for number in range(num_episodes)
    ]
    engine: Any = Guesser(TRICKS[trick], "stall" if trick == IN_AN_ENVIRONMENT else "wrong")
    playing = player(engine, CHAT, EpisodeLimits(seconds=EPISODE_SECONDS))
    plan = CollectionPlan(group_size=1, num_parallel_episodes=8, max_dropped_in_a_row=num_episodes + 1)
    num_played = num_successes = 0
    async with leases(trick) as lease:
        collector = Collector(playing, lease, Rewards(), plan)
        with contextlib.suppress(CollectionFailed):
            async with collector.collecting(tasks, num_episodes) as groups:
                async for group in groups:
                    [trajectory], [reward] = group.trajectories, group.rewards
                    num_played += 1
                    # One that was drawn again after a lost attempt is not the first draw.
                    num_successes += reward.total >= 1.0 and not trajectory.is_redrawn
    return Outcome(num_episodes, num_played, num_successes)


def most(num_episodes: int) -> float:
    """Three standard deviations above one half."""
    return 0.5 + 3 * math.sqrt(0.25 / num_episodes)


async def main(num_episodes: int) -> int:
    print(
        f"| what the policy provokes | played of {num_episodes} | success reported | lost counted as failed |"
    )
    print("|---|---:|---:|---:|")
    gained = 0
    for trick in TRICKS:
        outcome = await play(trick, num_episodes)
        gained += outcome.bound > most(num_episodes)
        print(
            f"| {trick} | {outcome.num_played} | {outcome.reported:.2f} | {outcome.bound:.2f} |", flush=True
        )
    return int(gained > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=20)
    sys.exit(asyncio.run(main(parser.parse_args().episodes)))
