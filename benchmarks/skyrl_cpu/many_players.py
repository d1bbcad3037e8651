"""Measure how many episodes Ray players keep in flight: throughput, memory and where it bends.

    .tools/skyrl/bin/python -m benchmarks.skyrl_cpu.many_players [--players 1 2 4] [--in-flight 256 1024 4096]

Every episode has three calls of a tool that takes 50 ms, on real MCP servers, and four turns that a scripted
engine answers after a second, as a busy vLLM does. One row per size: episodes per second, the share of the
ideal (in flight ÷ 4.15 s), CPU time per episode of the players with their servers and of the process that
sends the orders, the cores that the players use, and the memory of one player with its servers.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import ray
from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

from turnwise.config import Recipe, read_recipe
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.run.skyrl.player import Order
from turnwise.run.skyrl.workers import Workers
from turnwise.tasks.load import load

ROOT = Path(__file__).parents[2]
GROUP_SIZE = 8
NUM_CALLS = 3
ENGINE_SECONDS = 1.0
TOOL_SECONDS = 0.05
IDEAL_SECONDS = (NUM_CALLS + 1) * ENGINE_SECONDS + NUM_CALLS * TOOL_SECONDS
CALL = '<tool_call>\n{"name": "sleep", "arguments": {"seconds": %s}}\n</tool_call>' % TOOL_SECONDS  # noqa: UP031


class ScriptedClient(InferenceEngineInterface):
    """Answers every turn after a second: three calls, then the answer."""

    def __init__(self) -> None:
        self._num_turns: dict[str, int] = {}
        self._turns: list[list[int]] = []

    @property
    def model_name(self) -> str:
        return "scripted"

    async def generate(self, input_batch: Any, model: str | None = None) -> Any:
        if not self._turns:
            tokenizer = load_tokenizer("embedded")
            stop_id = min(open_chat(tokenizer).stop_ids)
            self._turns = [[*tokenizer.encode(text), stop_id] for text in (*[CALL] * NUM_CALLS, "done")]
        [session] = input_batch["session_ids"]
        number = self._num_turns.get(session, 0)
        self._num_turns[session] = number + 1
        await asyncio.sleep(ENGINE_SECONDS)
        ids = self._turns[number]
        return {"response_ids": [ids], "response_logprobs": [[-0.1] * len(ids)], "stop_reasons": ["stop"]}

    async def finish_session(self, session_id: str) -> None:
        self._num_turns.pop(session_id, None)

    def get_endpoint_url(self) -> str:
        raise NotImplementedError

    async def _not_asked(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat_completion = render_chat_completion = completion = wake_up = sleep = teardown = _not_asked
    update_named_weights = load_lora_adapter = reset_prefix_cache = _not_asked
    pause_generation = resume_generation = get_world_size = _not_asked


def write_recipe(folder: Path, num_parallel: int) -> Recipe:
    server = {"command": sys.executable, "args": [str(ROOT / "benchmarks" / "servers" / "sleeper.py")]}
    server["turnwise"] = {"max_concurrency": 100_000}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"sleeper": server}}))
    task = {
        "id": "sleep",
        "prompt": "Sleep three times, then say done.",
        "servers": ["sleeper"],
        "tools": ["sleep"],
        "truth": {"answer": {"value": "done", "matcher": "exact"}},
    }
    rows = [json.dumps(task | {"id": f"sleep-{number}"}) for number in range(8192 // GROUP_SIZE)]
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "recipe.toml").write_text(
        f"""[tools]
mcp = "mcp.json"
[tasks]
train = "train.jsonl"
[rollout]
num_parallel_episodes = {num_parallel}
"""
    )
    return read_recipe(folder / "recipe.toml")


def _memory_and_seconds(pids: list[int]) -> tuple[list[float], float]:
    """MiB of every player with its servers, and the CPU seconds of all."""
    sizes: list[float] = []
    seconds = 0.0
    for pid in pids:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        sizes.append(sum(process.memory_full_info().uss for process in family) / 2**20)
        seconds += sum(sum(process.cpu_times()[:2]) for process in family)
    return sizes, seconds


def _pid(player: Any) -> int:
    return os.getpid()


async def measure(num_players: int, in_flight: int, folder: Path) -> str:
    """Play one wave of `in_flight` episodes, all at once, and return a row of the table."""
    recipe = write_recipe(folder, in_flight // num_players)
    workers = Workers(recipe, ScriptedClient(), "scripted", num_players)
    pids = await asyncio.gather(*(actor.__ray_call__.remote(_pid) for actor in workers.actors))
    tasks = load(folder / "train.jsonl")
    orders = [Order(task, (), GROUP_SIZE, 1.0, 1.0, seed=0, policy_version=0) for task in tasks]
    await asyncio.gather(*(workers.play(order) for order in orders[:num_players]))  # opens the servers
    empty, before = _memory_and_seconds(pids)
    driver_before = time.process_time()
    started = time.monotonic()
    playing = [asyncio.ensure_future(workers.play(order)) for order in orders[: in_flight // GROUP_SIZE]]
    while time.monotonic() < started + IDEAL_SECONDS and not all(order.done() for order in playing):
        await asyncio.sleep(0.5)
    full, _ = _memory_and_seconds(pids)
    outcomes = await asyncio.gather(*playing)
    seconds = time.monotonic() - started
    driver_seconds = time.process_time() - driver_before
    _, after = _memory_and_seconds(pids)
    await workers.close()
    played = [trajectory for o in outcomes if o.group is not None for trajectory in o.group.trajectories]
    num_lost = sum(sum(outcome.failures.values()) for outcome in outcomes)
    assert all(len(trajectory.turns) == NUM_CALLS + 1 for trajectory in played)
    rate = len(played) / seconds
    cores = (after - before) / seconds
    return (
        f"{num_players:7}{in_flight:11}{len(played):10}{num_lost:6}{seconds:9.1f}{rate:12.0f}"
        f"{rate / (in_flight / IDEAL_SECONDS):8.0%}{1000 * (after - before) / len(played):11.1f}"
        f"{1000 * driver_seconds / len(played):11.2f}{cores:7.2f}{max(empty):10.0f}{max(full):10.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[256, 1024, 4096])
    args = parser.parse_args()
    there = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ray.init(
        num_cpus=max(args.players),
        include_dashboard=False,
        object_store_memory=200_000_000,
        runtime_env={"env_vars": there},
    )
    print(
        "players  in flight  episodes  lost  seconds  episodes/s   ideal  CPU ms/ep.  driver ms  cores  "
        "MiB idle  MiB busy"
    )
    for num_players in args.players:
        for in_flight in args.in_flight:
            with tempfile.TemporaryDirectory() as folder:
                print(asyncio.run(measure(num_players, in_flight, Path(folder))), flush=True)


if __name__ == "__main__":
    # players import the client by the name of its module, which is not __main__
    from benchmarks.skyrl_cpu.many_players import main as run

    run()
