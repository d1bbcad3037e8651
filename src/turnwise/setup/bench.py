"""Everything an episode needs, opened from a recipe: engine, chat, tools and rewards."""

import asyncio
import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnwise.config import ModelConfig, Recipe, Sizes, ToolsConfig
from turnwise.engines import engine_class
from turnwise.engines.vllm_helper import begin_early
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.calls.results import Sanitiser
from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.exposure import refusal
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.toolbox import Readability
from turnwise.models.chat import RenderedChat, load_tokenizer, open_chat
from turnwise.models.devices import choose_device, ignored_variable
from turnwise.models.places import model_place
from turnwise.rewards import Rewards, parts_of
from turnwise.rollout.collector import Collector, LeaseFailed
from turnwise.rollout.lockstep import Lockstep
from turnwise.rollout.pace import Slots
from turnwise.rollout.players.policy import player
from turnwise.setup.context_length import require_context
from turnwise.setup.memory import check_device_limits, with_engine_sizes
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.user_model import open_user_model
from turnwise.system.python_functions import NOTHING_GIVEN, Given
from turnwise.tasks.live_conflicts import check_worlds
from turnwise.tasks.user_side import DemonstratedUser
from turnwise.types import Sampling, Task, Tool
from turnwise.types.protocols import BatchEngine, Engine, EngineDown, Toolbox, UserModel
from turnwise.worlds.environment import PythonEnvironment, find_environment

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workbench:
    """The collaborators of an episode, open and ready to play."""

    run: ResolvedRun
    engine: Engine
    chat: RenderedChat
    pool: Pool
    rewards: Rewards
    slots: Slots
    """Slots for episodes in play, shared by all collections."""
    user_model: UserModel | None = None
    """Plays the users of tasks with a `ModelUser`; None if the recipe names no model for them."""
    environment: PythonEnvironment | None = None
    """The environment of every episode, in place of the pool's servers."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the collection whose turn it is in lockstep."""

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @contextlib.asynccontextmanager
    async def lease(self, task: Task, episode_id: str) -> AsyncIterator[Toolbox]:
        """Lease the task's tools, or an object of the environment. Raises LeaseFailed or EnvironmentDown.

        A task that names no servers gets all of them.
        """
        async with contextlib.AsyncExitStack() as leases:
            try:
                toolbox = await leases.enter_async_context(self._leasing(task, episode_id))
            except ConnectFailed as error:
                raise LeaseFailed(str(error)) from None
            yield toolbox

    def _leasing(self, task: Task, episode_id: str) -> contextlib.AbstractAsyncContextManager[Toolbox]:
        if self.environment is not None:
            return self.environment.lease(task)
        servers = task.servers or tuple(dict.fromkeys(tool.server for tool in self.pool.tools))
        return self.pool.lease(servers, episode_id, allow=task.leased_tools)

    @contextlib.asynccontextmanager
    async def _lease_with_room(self, task: Task, episode_id: str) -> AsyncIterator[Toolbox]:
        """Lease as above; ValueError if an environment's prompt leaves no token to sample.

        The prompts of tasks are checked before; that of an environment is known only now.
        """
        async with self.lease(task, episode_id) as toolbox:
            posed, limit = toolbox.environment.posed(task), self.recipe.rollout.tokens_per_episode
            if posed is not task and (count := len(self.chat.open(posed.prompt, toolbox.tools))) >= limit:
                raise ValueError(
                    f"environment {self.recipe.environment!r}: the prompt of task {task.id!r} with "
                    f"{len(toolbox.tools)} tools has {count} tokens, rollout.tokens_per_episode is {limit}"
                )
            yield toolbox

    def collector(
        self,
        *,
        group_size: int | None = None,
        temperature: float | None = None,
        factor: Callable[[Task], float] = lambda task: 1.0,
        seed: int | None = None,
        num_given: Callable[[Task], int] = lambda task: 0,
        is_evaluation: bool = False,
    ) -> Collector:
        """A collector of episodes.

        `factor`: of the temperature, by task. `num_given`: turns of its demonstration that it starts with.
        """
        rollout = self.recipe.rollout
        chosen = rollout.temperature if temperature is None else temperature
        lockstep = self._lockstep() if rollout.lockstep else None
        playing = player(
            lockstep or self.engine,
            self.chat,
            self.run.limits(),
            lambda task: Sampling(temperature=chosen * factor(task)),
            self.user_model,
            lambda task: plan_completions(self.chat, task, num_given(task)),
            self.run.rules(is_evaluation=is_evaluation),
        )
        plan = self.run.collection(group_size, seed)
        return Collector(playing, self._lease_with_room, self.rewards, plan, lockstep or self.slots.pace())

    def _lockstep(self) -> Lockstep:
        if not isinstance(self.engine, BatchEngine):
            raise ValueError(f"rollout.lockstep: engine {self.recipe.engine.kind!r} takes no whole batches")
        # More episodes than leases would deadlock: a round waits for all of them, one waits for a lease.
        num_slots = min(self.recipe.sizes.num_parallel_episodes, self.pool.max_leases or sys.maxsize)
        return Lockstep(self.engine, num_slots, self.turn)


def plan_completions(chat: RenderedChat, task: Task, count: int | None = None) -> list[tuple[int, ...]]:
    """The first `count` turns of the task's demonstration as completions, or all."""
    return [chat.say(turn.text, turn.calls) for turn in task.demonstration[:count]]


def chat_of(model: ModelConfig) -> RenderedChat:
    """The chat format of a model; ValueError if its template cannot be used."""
    return open_chat(
        load_tokenizer(model.path), system_prompt=model.system_prompt, enable_thinking=model.thinking
    )


@contextlib.asynccontextmanager
async def open_workbench(
    run: ResolvedRun,
    tasks: Sequence[Task] = (),
    *,
    with_engine: bool = True,
    model: Any = None,
    num_workers: int = 1,
    replies: Path | None = None,
) -> AsyncIterator[Workbench]:
    """Start the servers and load the model; a ValueError for the user's mistake names the key.

    `tasks` are checked against the live servers, and the scripted engine plays their demonstrations. Without
    an engine no weights are loaded, as for an endpoint. `model` replaces the recipe's model. If `num_workers`
    processes share the servers, this one takes its share of the servers' limits. `replies`: the folder of
    cached replies of the user's model.
    """
    recipe, functions = run.recipe, run.functions
    if words := ignored_variable(recipe.model.device):
        logger.warning("%s", words)
    if with_engine:
        begin_early(recipe)
        if recipe.engine.kind in ("transformers", "vllm"):  # a remote engine checks its own
            require_context(recipe.model.path, recipe.rollout.tokens_per_episode, model)
    check_worlds(tasks, run.servers.live)
    specs = tuple(spec.shared_by(num_workers) for spec in run.servers.specs)
    chat = chat_of(recipe.model)
    if with_engine and recipe.engine.kind in ("transformers", "vllm"):
        recipe = with_engine_sizes(recipe)
        run = replace(run, recipe=recipe)
    environment = (
        open_environment(recipe.environment, recipe.tools, chat, functions) if recipe.environment else None
    )
    async with contextlib.AsyncExitStack() as exits:
        cassette = _cassette(recipe.tools)
        if cassette is not None:
            exits.callback(cassette.close)
        pool = await exits.enter_async_context(
            Pool(
                specs,
                cassette=cassette,
                max_result_tokens=recipe.tools.max_result_tokens,
                count_tokens=chat.count_tokens,
                special_tokens=chat.special_tokens,
                is_mending=recipe.tools.mend_arguments,
            )
        )
        failures = await pool.connect()
        used = used_servers(tasks, [spec.name for spec in specs])
        if lost := [str(error) for name, error in failures.items() if name in used]:
            raise ValueError("; ".join(lost))
        for error in failures.values():
            logger.warning("%s; no task uses it", error)
        require_harmless(pool, used)
        rewards = await exits.enter_async_context(Rewards(parts_of(recipe.rewards), functions))
        user_model: UserModel | None = DemonstratedUser()
        if recipe.engine.kind != "scripted" or not with_engine:
            user_model = await open_user_model(
                recipe,
                exits,
                open_engine,
                special_tokens=chat.special_tokens,
                cassette=cassette,
                replies=replies,
            )
        if recipe.engine.kind == "scripted" or not with_engine:
            engine = scripted_engine(chat, tasks if with_engine else (), pool.tools)
            exits.push_async_callback(engine.close)
        else:
            engine = await open_engine(recipe, exits, model)
        slots = Slots(recipe.sizes.num_parallel_episodes)
        yield Workbench(run, engine, chat, pool, rewards, slots, user_model, environment)


def open_environment(
    name: str, tools: ToolsConfig, chat: RenderedChat, given: Given = NOTHING_GIVEN
) -> PythonEnvironment:
    """The environment of this name; ValueError if its class cannot be found or lacks a method."""
    return PythonEnvironment(
        name,
        find_environment(name, given),
        Readability(Sanitiser(chat.special_tokens), tools.max_result_tokens, chat.count_tokens),
        timeout_seconds=tools.function_timeout_seconds,
        is_mending=tools.mend_arguments,
    )


def used_servers(tasks: Sequence[Task], names: Sequence[str]) -> set[str]:
    """The servers that these tasks use; all servers if a task names none."""
    if not tasks or any(not task.servers for task in tasks):
        return set(names)
    return {server for task in tasks for server in task.servers}


def require_harmless(pool: Pool, servers: Collection[str]) -> None:
    """Raise ValueError if an episode could change the user's own data and mcp.json does not allow it."""
    exposed = (pool.exposure(server) for server in sorted(servers) if pool.is_connected(server))
    if refused := [refusal(exposure) for exposure in exposed if exposure.is_refused]:
        raise ValueError("\n".join(refused))


async def open_engine(recipe: Recipe, exits: contextlib.AsyncExitStack, model: Any = None) -> Engine:
    """The engine of the recipe's model, or of `model`; closed with `exits`."""
    if recipe.engine.kind == "remote":
        is_lockstep = recipe.rollout.lockstep
        return await remote_engine(recipe.engine.remote.url, exits, model, is_lockstep=is_lockstep)
    if recipe.engine.kind == "transformers":
        check_device_limits(recipe)
    is_vllm = recipe.engine.kind == "vllm"
    engine = (
        vllm_engine(recipe, exits, model)
        if is_vllm
        else transformers_engine(recipe.model, recipe.sizes, model)
    )
    exits.push_async_callback(engine.close)
    return engine


def scripted_engine(chat: RenderedChat, tasks: Sequence[Task], tools: Sequence[Tool]) -> Engine:
    """An engine that plays the tasks' demonstrations, looked up by the first prompt."""
    scripts: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for task in tasks:
        if not task.demonstration:
            raise ValueError(f"task {task.id!r}: the scripted engine needs a demonstration")
        opening = chat.open(task.prompt, offered_tools(task, tools))
        script = plan_completions(chat, task)
        if task.conversation and scripts.get(opening, script) != script:
            raise ValueError(
                f"task {task.id!r}: another task begins with the same prompt and tools, by which the "
                "scripted engine tells demonstrations apart: word one of them differently"
            )
        scripts[opening] = script
    engine: Engine = engine_class("scripted")(
        encode=lambda text: chat.say(text)[:-1], stop_id=min(chat.stop_ids), by_prompt=scripts
    )
    return engine


def offered_tools(task: Task, tools: Sequence[Tool]) -> list[Tool]:
    """The tools that an episode of the task is offered with its prompt, in the order it sees them."""
    return [tool for tool in leased_tools(task, tools) if tool.is_named_by(task.tools)]


def leased_tools(task: Task, tools: Sequence[Tool]) -> list[Tool]:
    """The tools that an episode of the task is offered with any of its messages."""
    return [
        tool
        for server in dict.fromkeys(task.servers or (tool.server for tool in tools))
        for tool in tools
        if tool.server == server and tool.is_named_by(task.leased_tools)
    ]


def transformers_engine(config: ModelConfig, sizes: Sizes, model: Any = None) -> Engine:
    """The continuous-batching engine over the configured model, or over `model`."""
    import torch

    engine: Engine = engine_class("transformers")(
        model if model is not None else load_model(config),
        device=config.device,
        dtype=getattr(torch, config.dtype),
        max_batch=sizes.max_batch,
        cache_tokens=sizes.cache_tokens,
    )
    return engine


def vllm_engine(recipe: Recipe, exits: contextlib.AsyncExitStack, model: Any = None) -> Engine:
    """The vLLM engine over the recipe's model, or over `model`.

    vLLM reads a model's folder. For `model` and for a quantised model a temporary one is written, and
    removed with `exits`.
    """
    from turnwise.engines.vllm import VllmSettings
    from turnwise.engines.weight_transfer import write_model

    folder = model_place(recipe.model.path)
    if model is not None or recipe.model.quantisation != "none":
        folder = exits.enter_context(tempfile.TemporaryDirectory(prefix="turnwise-model-"))
        source, weights = _plain(recipe.model, model)
        write_model(source, Path(folder), weights)
    chosen, sizes = recipe.engine.vllm, recipe.sizes
    settings = VllmSettings(
        dtype=recipe.model.dtype,
        max_batch=sizes.max_batch,
        max_model_len=recipe.rollout.tokens_per_episode,
        memory_share=sizes.gpu_memory_utilization,
        cache_bytes=None if sizes.cache_gib is None else int(sizes.cache_gib * 2**30),
        lora_rank=recipe.policy.lora_rank if recipe.publishes_adapters else 0,
        is_eager=chosen.eager,
        can_sleep=chosen.sleep,
    )
    engine: Engine = engine_class("vllm")(folder, settings)
    return engine


def _plain(config: ModelConfig, model: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return a model and its weights, dequantised if they are quantised."""
    from turnwise.models.quantised import plain_weights

    if model is None:  # on the CPU: the GPU must hold the engine's copy and the policy
        model = load_model(config.model_copy(update={"device": "cpu"}))
    return model, plain_weights(model)


async def remote_engine(
    url: str,
    exits: contextlib.AsyncExitStack,
    model: Any = None,
    *,
    is_lockstep: bool = False,
    **limits: float,
) -> Engine:
    """The client of the engine at this URL, to which `model` is published. `limits`: of RemoteEngine."""
    from turnwise.engines.remote import TOKEN_VARIABLE, RemoteEngine

    engine = RemoteEngine(url, token=os.environ.get(TOKEN_VARIABLE, ""), **limits)
    exits.push_async_callback(engine.close)
    try:
        state = await engine.connect()
    except EngineDown as error:
        raise ValueError(f"engine.remote.url: {error}") from None
    if is_lockstep and not state.takes_batches:
        raise ValueError(f"rollout.lockstep: engine {state.kind!r} at {url} takes no whole batches")
    if model is not None:
        await engine.publish(dict(model.named_parameters()), 0)
    return engine


def load_model(config: ModelConfig) -> Any:
    """Load a causal language model by folder or name."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # loading is quick, and a progress bar clutters log files
    logging.disable_progress_bar()
    options: Mapping[str, Any] = {"dtype": getattr(torch, config.dtype)}
    path = model_place(config.path)
    if config.quantisation == "none":
        return AutoModelForCausalLM.from_pretrained(path, **options)
    from turnwise.models.quantised import loading_options, steadied

    quantising = loading_options(options["dtype"], choose_device(config.device))
    return steadied(AutoModelForCausalLM.from_pretrained(path, **options, **quantising))


def _cassette(tools: ToolsConfig) -> Cassette | None:
    return None if tools.cassette is None else Cassette(tools.cassette, Mode(tools.cassette_mode))
