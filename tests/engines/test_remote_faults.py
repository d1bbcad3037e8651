"""A server that dies, is missing or answers by half: EngineDown, and the right weights once it is back."""

import asyncio
import contextlib
import random
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.models import qwen3, refused, running, some_ids
from tests.engines.served import adapter, asking, free_port, model_recipe, serving, started_again
from tests.rollout.stage import leasing, notebook, small_chat, task
from tests.rollout.test_exactness import EagerChat, plain_logprobs, tiny_model
from turnwise.engines.server import Streamed
from turnwise.engines.wire import AnswerLine
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Completion, Finish, Sampling, Stop
from turnwise.types.protocols import EngineDown

PROMPT = some_ids(random.Random(7), 60)


async def test_a_server_that_died_gets_what_was_published_before_and_since(tmp_path: Path) -> None:
    recipe, wanted = model_recipe(tmp_path), Sampling(max_tokens=20)
    async with running(qwen3()) as here:
        await here.publish(qwen3(1).state_dict(), 4)
        await here.publish(adapter(3), 6)
        expected = await here.complete(PROMPT, wanted, 0)
    with serving(recipe) as server, contextlib.ExitStack() as exits:
        async with asking(server.url, wait_seconds=60.0) as engine:
            await engine.publish(qwen3(1).state_dict(), 4)
            await engine.publish(adapter(2), 5)
            begun = asyncio.ensure_future(engine.complete([1, 2], Sampling(max_tokens=1000), 0))
            await asyncio.sleep(0.3)
            server.end()
            await refused(begun, EngineDown, "gone")
            waiting, given_up = (asyncio.ensure_future(engine.complete(PROMPT, wanted, 0)) for _ in range(2))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            given_up.cancel()
            await engine.publish(adapter(3), 6)
            await started_again(server, recipe, exits)
            assert await waiting == expected
            assert given_up.cancelled()


@pytest.mark.slow
async def test_a_server_killed_in_a_collection_costs_only_the_episodes_under_way(tmp_path: Path) -> None:
    tasks = [task(f"t{number}", max_turns=3) for number in range(8)]
    recipe = model_recipe(tmp_path, tiny_model(1))
    with serving(recipe) as server, contextlib.ExitStack() as exits:
        async with (
            asking(server.url, wait_seconds=60.0) as engine,
            Pool(notebook(), max_result_tokens=64) as pool,
        ):
            await pool.connect()
            await engine.publish(tiny_model(2).state_dict(), 9)
            playing = player(engine, EagerChat(small_chat()), EpisodeLimits(tokens_per_turn=60))
            plan = CollectionPlan(group_size=3, num_parallel_episodes=6)
            collector = Collector(playing, leasing(pool), Rewards(), plan)
            async with collector.collecting(tasks, 5) as groups:
                while collector.progress.num_finished < 4 or len(engine._jobs) < 3:
                    await asyncio.sleep(0.001)
                server.end()
                await started_again(server, recipe, exits)
                collected = [group async for group in groups]
    progress = collector.progress
    assert len(collected) == 5
    assert progress.failures[Stop.ENGINE_DOWN] >= 3
    assert progress.num_lost == progress.failures[Stop.ENGINE_DOWN]
    assert progress.num_groups_dropped == 0
    assert progress.num_started == progress.num_finished + progress.num_lost == 15 + progress.num_lost
    for trajectory in (trajectory for group in collected for trajectory in group.trajectories):
        assert {turn.completion.policy_version for turn in trajectory.turns} == {9}
        plain = plain_logprobs(tiny_model(2), trajectory)
        triples = zip(trajectory.logprobs, plain, trajectory.loss_mask, strict=True)
        assert max(abs(a - b) for a, b, is_sampled in triples if is_sampled) < 1e-4


async def test_a_port_where_nobody_listens_is_engine_down_in_time() -> None:
    async with asking(f"http://127.0.0.1:{free_port()}", wait_seconds=0.3) as engine:
        for waiting in (engine.connect(), engine.complete(PROMPT, Sampling(), 0), engine.forget()):
            started = time.perf_counter()
            await refused(waiting, EngineDown, "not there: ConnectError")
            assert time.perf_counter() - started > 0.2
        await engine.sleep()  # nobody is there, so nothing holds memory
        await engine.publish(qwen3(1).state_dict(), 1)  # kept until a server is there


HEALTH = (
    b'{"protocol":1,"kind":"x","model":"x","holding":"","base":"","version":0,"takes_batches":true,'
    b'"max_weights_bytes":9}'
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b'{"token_ids":[1,2],"logprobs":[-0.5,-0.25],"policy_version":3}\n'


def whole(body: bytes, status: bytes = b"200 OK", *, more: int = 0) -> bytes:
    """An answer whose header announces its length, or `more` bytes than it has."""
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body) + more, body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "gone: RemoteProtocolError"),
        (b"HTTP/1.1 200", "gone: RemoteProtocolError"),
        (CHUNKED, "gone: RemoteProtocolError"),
        (CHUNKED + b'1\r\n\n\r\n5\r\n{"tok', "gone: RemoteProtocolError"),
        (CHUNKED + b"0\r\n\r\n", "ended its answer too soon"),
        (whole(LINE[:20]), "ended its answer too soon"),
        (whole(LINE[:-5], more=20), "gone: RemoteProtocolError"),
        (whole(b"[1,2]\n"), "answered nonsense"),
        (whole(b'{"number": 7}\n'), "ask 7 of 1"),
        (whole(b"{}\n"), "no completion"),
        (whole(LINE.replace(b"-0.25", b"NaN")), "answered nonsense"),
        (whole(LINE.replace(b",-0.25", b"")), "no completion"),
        (whole(b"no", b"500 No"), "gone: status 500"),
        (whole(b"no", b"404 No"), "no engine of turnwise"),
        (b"silence", "gone: ReadTimeout"),
    ],
)
async def test_half_an_answer_is_engine_down(answer: bytes, words: str) -> None:
    with listening(answer) as url:
        async with asking(url, silence_seconds=0.3 if answer == b"silence" else 30.0) as engine:
            await refused(engine.complete([1, 2, 3], Sampling(max_tokens=2), 0), EngineDown, words)


async def test_an_answer_slower_than_the_timeout_is_read_if_there_are_heartbeats() -> None:
    with listening(b"slowly") as url:
        async with asking(url, silence_seconds=1.0) as engine:
            completion = await engine.complete([1, 2, 3], Sampling(max_tokens=2), 0)
    assert completion == Completion((1, 2), (-0.5, -0.25), Finish.STOP, 3)


async def test_a_server_sends_heartbeats_until_it_has_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.engines.server.BEAT_SECONDS", 0.05)
    sent: list[Any] = []

    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body") == b"\n":
            future.set_result(None)

    answer = Streamed({future: 0}, lambda number, _: AnswerLine(number=number, policy_version=5))
    await answer({}, asyncio.Future, send)  # a client that stays
    assert [body.get("body") for body in sent] == [None, b"\n", b'{"policy_version": 5}\n', b""]


@contextlib.contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """A server that answers health checks, and all other requests with these bytes, silence or slowly."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := list(iter(lambda: self.rfile.readline().strip(), b"")):
                if head[0].startswith(b"GET"):
                    self.wfile.write(whole(HEALTH))
                    continue
                [length] = [line for line in head if line.lower().startswith(b"content-length")]
                self.rfile.read(int(length.split(b":")[1]))
                if answer == b"silence":
                    self.rfile.read(1)  # until the client hangs up
                elif answer == b"slowly":
                    self.wfile.write(CHUNKED)
                    for part in (*[b"\n"] * 4, LINE[:9], b"", LINE[9:]):
                        time.sleep(0.25)
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if part else b"")
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.wfile.write(answer)
                return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()
        thread.join()
