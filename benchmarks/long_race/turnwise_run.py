"""turnwise's side of benchmarks/long_steps.py: a run as `turnwise train` makes it."""

import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from episodes import LORA_ALPHA, LORA_RANK, LongTerms, Script, Steps, read_terms, tell
from rich.console import Console

from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.models.chat import load_tokenizer
from turnwise.records.folder import RunFolder
from turnwise.run.health.health import Alarm
from turnwise.run.loop import train
from turnwise.run.screen.screen import Figures, Quiet
from turnwise.run.start_up import open_run
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve
from turnwise.system.stopping import Stopping
from turnwise.tasks.load import save
from turnwise.types import Completion, Finish, Message, Sampling, Task, Truth


class Reporting(Quiet):
    """Prints the figures of every step."""

    steps: Steps

    def learned(self, step: int, figures: Figures, alarms: Sequence[Alarm], skipped: str) -> None:
        super().learned(step, figures, alarms, skipped)
        if skipped:
            raise SystemExit(f"step {step} was skipped: {skipped}")
        self.steps.end(
            rollout=figures["time/rollout_seconds"],
            update=figures["time/update_seconds"],
            publish=figures["time/publish_seconds"],
            episodes=figures["episodes/finished"],
            sampled=figures["length/own_tokens"],
            computed=figures["update/num_packed_tokens"],
        )


class ScriptedTurns:
    """An engine whose sampled tokens are replaced by scripted ones."""

    def __init__(self, engine: Any, script: Script, terms: LongTerms) -> None:
        self._complete, self._script, self._terms = engine.complete, script, terms
        self._is_first = True

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        # no token ends a turn before its length is reached
        sampled = await self._complete(prompt_ids, replace(sampling, stop_ids=frozenset()), seed)
        if self._is_first:
            self._is_first = False
            tell(first_turn=time.time())
        ids = tuple(self._script.turn(seed, self._terms.turn_of(len(prompt_ids))))
        assert len(sampled.token_ids) == len(ids), f"{len(sampled.token_ids)} tokens were sampled"
        return replace(sampled, token_ids=ids, finish=Finish.STOP)


def recipe_of(terms: LongTerms, mode: str) -> Recipe:
    folder = Path(terms.folder)
    keys = {
        "model.path": terms.model,
        "model.dtype": terms.dtype,
        "model.device": terms.device,
        "engine.kind": terms.engine,
        "engine.max_batch": terms.num_episodes,
        "engine.vllm.gpu_memory_utilization": terms.memory_share,
        "tools.mcp": folder / "mcp.json",
        "tools.max_result_tokens": terms.observed_tokens,
        "tasks.train": folder / "tasks.jsonl",
        "rewards": '[{name="own_reward:even_ids"}]',
        "rollout.group_size": terms.group_size,
        "rollout.num_parallel_episodes": terms.num_episodes,
        "rollout.tokens_per_turn": terms.sampled_tokens,
        "rollout.tokens_per_episode": terms.model_len,
        "rollout.dynamic_sampling": "false",
        "policy.tuning": terms.tuning,
        "policy.lora_rank": LORA_RANK,
        "policy.lora_alpha": LORA_ALPHA,
        "update.tokens_per_microbatch": terms.tokens_per_microbatch,
        "optimizer.learning_rate": 1e-8,
        "run.mode": "async" if mode == "async" else "sync",
        "run.num_steps": len(terms.latencies),
        "run.tasks_per_step": terms.num_tasks,
        "run.checkpoint_every": len(terms.latencies),
        "evaluation.before_and_after": "false",
        # scripted tokens have the log-probs of the tokens that were sampled
        "health.halt": "[]",
    }
    if not terms.tokens_per_microbatch:
        del keys["update.tokens_per_microbatch"]
    if terms.engine == "transformers":
        del keys["engine.vllm.gpu_memory_utilization"]
    elif terms.device == "cpu":  # a rehearsal
        keys |= {"engine.vllm.cache_gib": 0.25, "engine.vllm.eager": "true"}
    return read_recipe(
        None, parse_settings([*(f"{key}={value}" for key, value in keys.items()), *terms.settings])
    )


def write_inputs(terms: LongTerms) -> None:
    """The server file and the tasks."""
    folder = Path(terms.folder)
    pages = str(Path(__file__).with_name("pages.py"))
    # a server inherits no PYTHONPATH
    common = {"command": sys.executable, "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    servers = {"pages": common | {"args": [pages, str(terms.script_file)]}}
    for number in range(1, terms.num_servers):
        servers[f"pages_{number}"] = common | {"args": [pages, str(terms.script_file), f"read_{number}"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    tasks = [
        Task(
            id=f"long-{number}",
            prompt=(Message("user", task["prompt"]),),
            servers=tuple(servers),
            truth=Truth(),
            max_turns=terms.num_turns,
        )
        for number, task in enumerate(json.loads(terms.script_file.read_text())["tasks"])
    ]
    save(tasks, folder / "tasks.jsonl")


def peak_gib() -> float:
    """The largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


async def main(mode: str) -> None:
    terms, started = read_terms(), time.perf_counter()
    write_inputs(terms)
    recipe = recipe_of(terms, mode)
    screen = Reporting(Console(stderr=True), recipe.run)
    with RunFolder.create(Path(terms.folder), "turnwise", recipe, is_dated=False) as folder:
        async with open_run(resolve(RunRequest(recipe), recipe, recipe.played_splits), folder, screen) as run:
            found = json.loads(terms.script_file.read_text())["tasks"][0]
            prompt = (Message("user", found["prompt"]),)
            assert list(run.bench.chat.open(prompt, run.bench.pool.tools)) == found["ids"], "the same prompt"
            engine: Any = run.bench.engine
            script = Script(terms, load_tokenizer(terms.model))
            engine.complete = ScriptedTurns(engine, script, terms).complete
            tell(ready=time.perf_counter() - started)
            screen.steps = Steps(terms)
            await train(run, Stopping())
            tell(memory=await engine.memory() if terms.engine == "vllm" else {"peak_gib": peak_gib()})
