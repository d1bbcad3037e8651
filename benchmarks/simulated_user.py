"""Play conversations with users behind a failing endpoint, and compare them with those without faults.

    python benchmarks/simulated_user.py [--conversations 500] [--seed 0]

The embedded model plays the policy with the five embedded servers. A second engine of the same model plays
the users, behind an HTTP endpoint on loopback. The endpoint answers 429, 500 and 503, hangs up, cuts replies
off, garbles them, leaves them empty, delays them and lets requests time out; some requests fail so often that
the episode is lost, and some always. Exit code 1 if a group is short, lost or doubled, if the counts do not
add up, or if an episode's score, words or tokens differ from those without faults.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import logging
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from turnwise.config import Recipe
from turnwise.mcp.calls.results import Sanitiser
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.rollout.users.user_samplers import EndpointSampler, EngineSampler
from turnwise.setup.bench import Workbench, chat_of, open_workbench, transformers_engine
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve
from turnwise.setup.user_model import SimulatedUser
from turnwise.system.net.chat_endpoint import EndpointAccount, EndpointPatience
from turnwise.tasks.load import load
from turnwise.types import (
    END_WORD,
    Completion,
    Group,
    Message,
    ModelUser,
    Sampling,
    Stop,
    Task,
    Trajectory,
    Turn,
)
from turnwise.types.protocols import BatchEngine, UserDown

TASKS = Path(__file__).resolve().parents[1] / "recipes" / "cpu" / "train.jsonl"
GROUP_SIZE = 4
NUM_PARALLEL = 32
PATIENCE = EndpointPatience(num_attempts=4, attempt_seconds=60.0, total_seconds=300.0, backoff_seconds=0.05)
PERSONAS = ("a trader in a hurry", "a polite beginner", "an analyst who checks every figure")
TEMPORARY = (
    "status 429",
    "status 500",
    "status 503",
    "hangs up",
    "cuts the reply off",
    "no JSON",
    "another shape",
    "empty reply",
    "answers late",
)
TIMES_OUT, LASTING, HOPELESS = "times out", "fails until the episode is lost", "always fails"


@dataclass(slots=True)
class Faults:
    """Which requests meet a fault; the same ones in every run with this seed."""

    seed: int
    rate: float
    """Share of requests with a temporary fault; 0: no faults of any kind."""
    timeout_share: float = 0.03
    """Share of the temporary faults that let the request time out, which takes a minute."""
    injected: Counter[str] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)

    def next_fault(self, digest: str) -> str:
        """Return the fault of this request, which may be a repeated one; empty: none."""
        number = self._seen[digest]
        self._seen[digest] += 1
        lot = random.Random(f"{self.seed} {digest}").random()
        draw = random.Random(f"{self.seed} {digest} {number}")
        fault = ""
        if lot < self.rate * 0.01:
            fault = HOPELESS
        elif lot < self.rate * 0.1 and number < PATIENCE.num_attempts:
            fault = LASTING
        elif draw.random() < self.rate:
            fault = TIMES_OUT if draw.random() < self.timeout_share else draw.choice(TEMPORARY)
        if fault:
            self.injected[fault] += 1
        return fault


class UserEndpoint:
    """An OpenAI-compatible endpoint on loopback in front of an engine, with faults.

    The small model never says the word that ends a conversation, so half of the requests, chosen by their
    content, are answered with it.
    """

    def __init__(self, sampler: EngineSampler, faults: Faults) -> None:
        self.faults = faults
        self.lock = threading.Lock()
        self._sampler = sampler
        self._loop = asyncio.get_running_loop()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def text_for(self, body: dict[str, Any], digest: str) -> str:
        """Sample a reply, from a handler's thread."""
        if int(digest, 16) % 2:
            return END_WORD
        messages = [Message(message["role"], message["content"]) for message in body["messages"]]
        sampling = self._sampler.sample(messages, body["seed"])
        return asyncio.run_coroutine_threadsafe(sampling, self._loop).result()

    def __enter__(self) -> "UserEndpoint":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    endpoint: UserEndpoint
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """No traceback: the client closes connections that time out."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        endpoint = self.server.endpoint
        content = self.rfile.read(int(self.headers["Content-Length"]))
        digest = hashlib.sha256(content).hexdigest()
        with endpoint.lock:
            fault = endpoint.faults.next_fault(digest)
        if fault == TIMES_OUT:
            time.sleep(PATIENCE.attempt_seconds + 1)
        if fault in ("hangs up", TIMES_OUT):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault.startswith("status") or fault in (LASTING, HOPELESS):
            self._send(b'{"error": {"message": "injected"}}', int(fault[-3:]) if "status" in fault else 500)
            return
        if fault == "answers late":
            time.sleep(0.5)
        text = "" if fault == "empty reply" else endpoint.text_for(json.loads(content), digest)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        reply = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
        broken = {"no JSON": b"<html>" + reply, "another shape": b'{"choices": [{"text": "x"}]}'}
        self._send(broken.get(fault, reply), is_cut=fault == "cuts the reply off")

    def _send(self, body: bytes, status: int = 200, *, is_cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.close_connection = self.close_connection or is_cut

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: there are thousands of requests."""


class Alone:
    """Samples one request at a time, without a cache.

    The last bits of a log-prob depend on the other rows of a batch, and a fault changes who is sampled with
    whom. Sampled in batches, one conversation of 500 differed from the one without faults.
    """

    def __init__(self, inner: BatchEngine) -> None:
        self._inner = inner
        self._turn = asyncio.Lock()
        self.publish, self.close = inner.publish, inner.close

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        async with self._turn:
            await self._inner.forget()
            return await self._inner.complete(prompt_ids, sampling, seed)


class CountedUser:
    """Counts replies and failures apart from turnwise's own counters."""

    def __init__(self, inner: SimulatedUser) -> None:
        self._inner = inner
        self.num_replies = self.num_down = 0

    async def reply(self, task: Task, turns: Sequence[Turn], *, episode_id: str, seed: int) -> str:
        try:
            text = await self._inner.reply(task, turns, episode_id=episode_id, seed=seed)
        except UserDown:
            self.num_down += 1
            raise
        self.num_replies += 1
        return text


@dataclass(frozen=True, slots=True)
class Outcome:
    """One collection of conversations."""

    groups: tuple[Group, ...]
    progress: Progress
    user: CountedUser
    injected: Counter[str]
    seconds: float

    @property
    def episodes(self) -> dict[str, tuple[Trajectory, float]]:
        """Every episode with its score, by task and member."""
        return {
            _member(trajectory): (trajectory, reward.total)
            for group in self.groups
            for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
        }


def _member(trajectory: Trajectory) -> str:
    return trajectory.episode_id.rpartition(".")[0]


async def collect(bench: Workbench, tasks: Sequence[Task], num_groups: int, faults: Faults) -> Outcome:
    """Play groups of these tasks against the endpoint."""
    started = time.monotonic()
    async with _user(bench.recipe, faults) as user:
        limits = EpisodeLimits(tokens_per_turn=96, tokens_per_episode=3_000, seconds=600)
        assert isinstance(bench.engine, BatchEngine)
        playing = player(Alone(bench.engine), bench.chat, limits, user_model=user)
        plan = CollectionPlan(group_size=GROUP_SIZE, num_parallel_episodes=NUM_PARALLEL)
        collector = Collector(playing, bench.lease, bench.rewards, plan)
        async with collector.collecting(iter(tasks), num_groups) as groups:
            played = [group async for group in groups]
    seconds = time.monotonic() - started
    return Outcome(tuple(played), collector.progress, user, faults.injected, seconds)


@contextlib.asynccontextmanager
async def _user(recipe: Recipe, faults: Faults) -> AsyncIterator[CountedUser]:
    chat, engine = chat_of(recipe.model), transformers_engine(recipe.model, recipe.sizes)
    try:
        with UserEndpoint(EngineSampler(engine, chat, "embedded", is_exact=True), faults) as endpoint:
            sampler = EndpointSampler(EndpointAccount(endpoint.url, "embedded"), PATIENCE)
            try:
                yield CountedUser(SimulatedUser(sampler, Sanitiser(chat.special_tokens).clean))
            finally:
                await sampler.close()
    finally:
        await engine.close()


def problems_of(done: Outcome, plain: Outcome, num_groups: int) -> Iterator[str]:
    """Yield what must not happen, given the same conversations without faults."""
    progress, episodes = done.progress, done.episodes
    if plain.progress.num_lost:
        yield f"{plain.progress.num_lost} episodes lost without faults: {plain.progress.last_failure}"
    if len(done.groups) != num_groups:
        yield f"{len(done.groups)} groups, {num_groups} were asked for"
    if len({group.task.id for group in done.groups}) != len(done.groups):
        yield "a group was played twice"
    yield from (
        f"{group.task.id}: {len(group.trajectories)} episodes"
        for group in done.groups
        if len({_member(trajectory) for trajectory in group.trajectories}) != GROUP_SIZE
    )
    if progress.num_in_flight or progress.num_started != progress.num_finished + progress.num_lost:
        yield f"{progress.num_started} started, {progress.num_finished} finished, {progress.num_lost} lost"
    if progress.failures != Counter({Stop.USER_DOWN: done.user.num_down} if done.user.num_down else {}):
        yield f"{done.user.num_down} episodes lost their user, and {dict(progress.failures)} were counted"
    expected_episodes = plain.episodes
    for name, (trajectory, score) in episodes.items():
        if name not in expected_episodes:
            yield f"{name}: lost without faults"
            continue
        expected, expected_score = expected_episodes[name]
        if score != expected_score:
            yield f"{name}: scored {score}, without faults {expected_score}"
        if [turn.user for turn in trajectory.turns] != [turn.user for turn in expected.turns]:
            yield f"{name}: the user said something else than without faults"
        elif trajectory.token_ids != expected.token_ids or trajectory.stop is not expected.stop:
            yield f"{name}: other tokens than without faults"


def tasks_of(count: int) -> list[Task]:
    """Tasks of the embedded world, each with a user that a model plays."""
    found = [task for task in load(TASKS) if not task.conversation][:count]
    return [
        replace(task, user=ModelUser(PERSONAS[number % 3], task.prompt[-1].content, 2), demonstration=())
        for number, task in enumerate(found)
    ]


async def compare(
    num_conversations: int, seed: int, rate: float = 0.3, **faults: float
) -> tuple[Outcome, Outcome, list[str]]:
    """Play the conversations without and with faults; the latter may refill from spare tasks."""
    num_groups = num_conversations // GROUP_SIZE
    tasks = tasks_of(num_groups + max(2, num_groups // 12))
    recipe = Recipe(seed=seed)
    async with open_workbench(resolve(RunRequest(recipe), recipe), tasks) as bench:
        plain = await collect(bench, tasks, len(tasks), Faults(seed, 0.0))
        print(f"without faults: {len(plain.episodes)} conversations in {plain.seconds:.0f} s", flush=True)
        done = await collect(bench, tasks, num_groups, Faults(seed, rate, **faults))
    return plain, done, list(problems_of(done, plain, num_groups))


def report(plain: Outcome, done: Outcome, problems: Sequence[str]) -> None:
    table = Table("fault", "injected", title="Faults of the user's endpoint")
    for fault, count in done.injected.most_common():
        table.add_row(fault, str(count))
    Console(width=100).print(table)
    progress, episodes = done.progress, done.episodes
    stops = Counter(trajectory.stop.value for trajectory, _ in episodes.values())
    scores = Counter(score for _, score in episodes.values())
    print(
        f"{len(episodes)} conversations in {len(done.groups)} groups, {done.user.num_replies} replies, "
        f"{done.injected.total()} faults in {done.seconds:.0f} s (without faults, {len(plain.episodes)} in "
        f"{plain.seconds:.0f} s)"
    )
    print(
        f"{progress.num_started} started, {progress.num_finished} finished, {progress.num_lost} lost "
        f"({dict(progress.failures)}), {progress.num_groups_dropped} groups dropped and refilled"
    )
    print(f"stops: {dict(stops)}; scores: {dict(scores)}")
    for problem in problems[:40]:
        print(f"BAD {problem}")
    print("every conversation is that without faults" if not problems else f"{len(problems)} problems")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults and of the episodes")
    options = parser.parse_args()
    logging.getLogger("turnwise").setLevel(logging.ERROR)  # every fault logs a warning
    plain, done, problems = asyncio.run(compare(options.conversations, options.seed))
    report(plain, done, problems)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
