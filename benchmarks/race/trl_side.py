"""TRL's side of the comparison: `python benchmarks/race/trl_side.py TERMS.json`; versus_trl.py starts it.

GRPOTrainer as its users would set it up for tools of MCP servers: an `environment_factory` whose asynchronous
methods are the tools, over sessions that stay open for the whole run; TRL keeps and resets the environments.
To compare only the training loops, it uses turnwise's MCP client, result texts and rewards and the servers'
own schemas, and no `reset` waits for the lease of the new episode.
"""

import asyncio
import functools
import itertools
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from terms import Laps, Terms, peak_mib, read_terms, tell
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load as load_servers
from turnwise.mcp.toolbox import LeasedToolbox
from turnwise.models.chat import open_chat
from turnwise.rewards import Rewards
from turnwise.rollout.conversation import Conversation
from turnwise.rollout.players.policy import EpisodeLimits, finish_episode
from turnwise.setup.bench import offered_tools
from turnwise.tasks.curriculum import CurriculumState, Schedule, draw
from turnwise.tasks.load import load as load_tasks
from turnwise.types import Completion, Finish, Parsed, Stop, Task, Tool, ToolCall, ToolResult, Turn


class Servers:
    """The open sessions, in a separate event loop that outlives TRL's."""

    def __init__(self, terms: Terms, chat: Any) -> None:
        self.chat = chat
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        opened: Future[Pool] = Future()
        self._closing = asyncio.Event()
        self._held = self.start(self._hold(terms, opened))
        wait([opened, self._held], return_when=FIRST_COMPLETED)
        if self._held.done():
            self._held.result()  # raises the reason if they could not be opened
        self.pool = opened.result()

    def start(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._held.result()

    async def _hold(self, terms: Terms, opened: "Future[Pool]") -> None:
        async with Pool(
            load_servers(Path(terms.mcp)),
            max_result_tokens=terms.result_tokens,
            count_tokens=self.chat.count_tokens,
            special_tokens=self.chat.special_tokens,
        ) as pool:
            assert not await pool.connect()
            opened.set_result(pool)
            await self._closing.wait()


class Episode:
    """TRL's environment: one episode after another, with a new lease each."""

    _numbers = itertools.count()

    def __init__(self, servers: Servers, tasks: Sequence[Task]) -> None:
        self._servers = servers
        self._tasks = tasks
        self._lease: Any = None

    def reset(self, task: int, **_: Any) -> None:
        self._task = self._tasks[task]
        self._name = f"{self._task.id}/{next(self._numbers)}"
        self._calls: list[tuple[ToolCall, ToolResult]] = []
        before = self._lease
        self._lease = self._servers.pool.lease(self._task.servers, self._name, allow=self._task.tools)
        self._toolbox = self._servers.start(self._renew(before, self._lease))

    async def _renew(self, before: Any, lease: Any) -> LeasedToolbox:
        if before is not None:
            await before.__aexit__(None, None, None)
        toolbox: LeasedToolbox = await lease.__aenter__()
        return toolbox

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        toolbox = await asyncio.wrap_future(self._toolbox)
        call = ToolCall(str(len(self._calls)), name, arguments)
        [result] = await asyncio.wrap_future(self._servers.start(toolbox.call([call])))
        self._calls.append((call, result))
        return str(result.content)

    async def _score(self, last: Mapping[str, Any], is_ended: bool, rewards: Rewards) -> float:
        """Score with turnwise's rewards, probes included."""
        nothing = Completion((), (), Finish.STOP, 0)
        turns = [Turn((), nothing, Parsed(calls=(call,)), (result,)) for call, result in self._calls]
        turns.append(Turn((), nothing, Parsed(text=last.get("content", ""))))

        async def stop() -> Stop:
            return Stop.ANSWERED if is_ended and not last.get("tool_calls") else Stop.TRUNCATED

        toolbox = await asyncio.wrap_future(self._toolbox)
        conversation = Conversation(self._task, toolbox, episode_id=self._name)
        conversation.turns += turns
        trajectory = await finish_episode(stop(), conversation, limits=EpisodeLimits())
        return (await rewards.score(trajectory)).total


def environment_of(tools: Sequence[Tool]) -> type[Episode]:
    """An Episode class with one method per tool, as TRL expects."""

    def method(name: str) -> Any:
        async def call(self: Episode, **arguments: Any) -> str:
            return await self._call(name, arguments)

        call.__name__ = name
        return call

    return type("Environment", (Episode,), {tool.name: method(tool.name) for tool in tools})


class TimedTrainer(GRPOTrainer):
    """Times sampling and rollouts; nothing else is changed."""

    laps: Laps

    def _generate_single_turn(self, *arguments: Any, **options: Any) -> Any:
        with self.laps.sampling.running():
            return super()._generate_single_turn(*arguments, **options)

    def _generate(self, *arguments: Any, **options: Any) -> Any:
        with self.laps.playing.running():
            return super()._generate(*arguments, **options)

    def _calculate_rewards(self, *arguments: Any, **options: Any) -> Any:
        with self.laps.playing.running():
            return super()._calculate_rewards(*arguments, **options)


class Telling(TrainerCallback):
    """Prints each step's figures."""

    def __init__(self, num_episodes: int) -> None:
        self.num_episodes = num_episodes
        self.success = 0.0
        self.metrics: dict[str, list[float]] = {}

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        TimedTrainer.laps.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        TimedTrainer.laps.end(
            num_episodes=self.num_episodes,
            success=self.success,
            calls=self.metrics["tools/call_frequency"][-1],
            tokens=self.metrics["completions/mean_length"][-1],
        )


def options_of(terms: Terms) -> GRPOConfig:
    is_vllm = terms.backend == "vllm"
    return GRPOConfig(
        f"{terms.folder}/trl",
        loss_type="dapo",
        scale_rewards="none",
        beta=0.0,
        num_iterations=1,
        temperature=1.0,
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=terms.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        per_device_train_batch_size=terms.rows,
        gradient_accumulation_steps=terms.num_episodes // terms.rows,
        num_generations=terms.group_size,
        max_completion_length=terms.completion_tokens,
        generation_kwargs={"max_tokens" if is_vllm else "max_new_tokens": terms.tokens_per_turn},
        max_tool_calling_iterations=terms.max_turns - 1,
        chat_template_kwargs={"enable_thinking": False},
        max_steps=terms.num_steps,
        shuffle_dataset=False,  # the order is fixed
        use_transformers_continuous_batching=terms.backend == "continuous",
        transformers_continuous_batching_config=paging_of(terms) if terms.device == "cpu" else None,
        use_vllm=is_vllm,
        vllm_mode="colocate",
        vllm_max_model_length=terms.prompt_tokens + terms.completion_tokens,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=2.0,
        gradient_checkpointing=False,  # there is enough memory; it would only cost time
        bf16=terms.dtype == "bfloat16",
        use_cpu=terms.device == "cpu",
        log_completions=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def paging_of(terms: Terms) -> dict[str, int]:
    """A cache for all episodes; by default it takes half of the machine's memory, and more time."""
    pages = (terms.prompt_tokens + terms.completion_tokens) // 256 + 2
    return {"num_blocks": terms.num_episodes * pages, "max_batch_tokens": 512}


def schema_of(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def trainer_of(terms: Terms, servers: Servers, tokenizer: Any) -> GRPOTrainer:
    # All tasks, in the order in which turnwise's side draws them.
    num_drawn = terms.num_steps * terms.tasks_per_step
    tasks, _ = draw(load_tasks(Path(terms.tasks)), Schedule(), CurriculumState(), step=0, count=num_drawn)
    tools = offered_tools(tasks[0], servers.pool.tools)
    environment, telling, rewards = environment_of(tools), Telling(terms.num_episodes), Rewards()

    async def outcome(completions: Any, completion_ids: Any, environments: Any, **_: Any) -> list[float]:
        is_ended = [ids[-1] in trainer.eos_token_ids for ids in completion_ids]
        scoring = [
            servers.start(episode._score(messages[-1], ended, rewards))
            for episode, messages, ended in zip(environments, completions, is_ended, strict=True)
        ]
        scores = await asyncio.gather(*map(asyncio.wrap_future, scoring))
        telling.success = sum(scores) / len(scores)
        return list(scores)

    prompts = [
        [{"role": message.role, "content": message.content} for message in task.prompt] for task in tasks
    ]
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
    trainer = TimedTrainer(
        AutoModelForCausalLM.from_pretrained(terms.model, dtype=getattr(torch, terms.dtype)),
        outcome,
        options_of(terms),
        Dataset.from_dict({"prompt": prompts, "task": list(range(len(tasks)))}),
        processing_class=tokenizer,
        callbacks=[telling],
        environment_factory=lambda: environment(servers, tasks),
        peft_config=adapter if terms.tuning == "lora" else None,
    )
    telling.metrics = trainer._metrics["train"]
    # The servers' own schemas, not those that TRL would derive from the methods.
    trainer._env_tools = {None: [schema_of(tool) for tool in tools]}
    trainer._batch_environments = [None]
    [ids], _, _ = trainer._tokenize_prompts(prompts[:1])
    assert tuple(ids) == tuple(servers.chat.open(tasks[0].prompt, tools)), "both sides read the same tokens"
    return trainer


def give_cache(terms: Terms) -> None:
    """A cache as large as turnwise's. With a share of the memory, two sides that start together would
    interfere."""
    from trl.generation import vllm_generation

    num_bytes = int(terms.cache_gib * 2**30)
    vllm_generation.LLM = functools.partial(vllm_generation.LLM, kv_cache_memory_bytes=num_bytes)


def race(terms: Terms) -> None:
    if terms.backend == "vllm":
        give_cache(terms)
    tokenizer = AutoTokenizer.from_pretrained(terms.model)
    TimedTrainer.laps = Laps(terms)
    servers = Servers(terms, open_chat(tokenizer))
    trainer = trainer_of(terms, servers, tokenizer)
    trainer.train()
    learned = f"{terms.folder}/learned"
    model = trainer.model.merge_and_unload() if terms.tuning == "lora" else trainer.model
    model.save_pretrained(learned)
    tokenizer.save_pretrained(learned)
    tell(learned=learned, peak_mib=peak_mib(terms.device))
    servers.close()


if __name__ == "__main__":
    race(read_terms())
    os._exit(0)  # with vLLM inside, the interpreter may wait forever for its threads
