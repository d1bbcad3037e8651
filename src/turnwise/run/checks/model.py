"""Checks what a recipe names: task files, the model, and one episode with a real tool call."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnwise.config import TasksConfig
from turnwise.models.chat import RenderedChat
from turnwise.models.hub import ModelNotFound
from turnwise.rewards import is_success, succeeded
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.checks.findings import FIRST_EPISODES, ROLLOUT, Finding, FindingLevel
from turnwise.run.checks.memory_table import verdict
from turnwise.run.checks.servers import Reached
from turnwise.run.health.first_episodes import examine_first
from turnwise.setup.bench import (
    chat_of,
    load_model,
    offered_tools,
    open_workbench,
    remote_engine,
    transformers_engine,
    used_servers,
)
from turnwise.setup.memory import UnsupportedArchitecture, advice, plan_for_recipe
from turnwise.setup.requirements import prompt_problems, task_problems
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.servers import ReadyServers
from turnwise.tasks.load import PlacedTask, read
from turnwise.tasks.selection import across_families
from turnwise.training.policy.call_tokens import choose_call_tokens, untrained_call_tokens
from turnwise.types import Group, Message, Sampling, Stop, Task, Tool, Trajectory
from turnwise.types.protocols import EngineDown

_NUM_TOKENS = 8
"""Tokens sampled to check that the model works."""
_NUM_TRIED, _NUM_MEMBERS = 8, 2
"""Tasks that the model plays to see whether it can learn, and episodes of each."""
_MAX_SHOWN = 5
"""The most problems of task files or prompts that are reported one by one."""


async def check_remote(url: str, *, is_lockstep: bool) -> Finding:
    """Check whether an engine answers at this address, without waiting for it to start."""
    async with contextlib.AsyncExitStack() as exits:
        try:
            await remote_engine(url, exits, is_lockstep=is_lockstep, wait_seconds=0.0)
        except ValueError as error:
            return Finding("engine", FindingLevel.BAD, str(error), "start it there: turnwise engine RECIPE")
    return Finding("engine", FindingLevel.GOOD, f"one answers at {url}")


def needed_servers(files: TasksConfig, servers: ReadyServers) -> set[str]:
    """Return the servers that the tasks of these files use: all if there are none or one names none."""
    return used_servers(_tasks(files, ()), [*(spec.name for spec in servers.specs), *servers.mistakes])


# --- tasks -------------------------------------------------------------------------------------------------


def check_tasks(run: ResolvedRun, reached: Reached) -> Iterator[Finding]:
    """Check the recipe's task files against the tools that the servers offer."""
    recipe = run.recipe
    files = _task_files(recipe.tasks)
    if recipe.tasks.train is None:
        advice = "set tasks.train in the recipe; `turnwise tasks make` makes some"
        yield Finding(
            "tasks", FindingLevel.WARNING, "tasks.train is not set: there is nothing to train on", advice
        )
    if not files:
        return
    if not reached.is_whole:
        yield Finding(
            "tasks", FindingLevel.WARNING, "not checked: a server is down, so its tools are not known"
        )
        return
    problems = task_problems(run, reached.tools, reached.live, chat=None)
    for problem in problems[:_MAX_SHOWN]:
        yield Finding(
            "tasks", FindingLevel.BAD, problem, "change the file, the recipe, or the servers of mcp.json"
        )
    if len(problems) > _MAX_SHOWN:
        more = f"and {len(problems) - _MAX_SHOWN} more problems"
        yield Finding("tasks", FindingLevel.BAD, more, f"turnwise tasks check {' '.join(map(str, files))}")
    if not problems:
        counts = ", ".join(f"{sum(1 for _ in read(file))} in {file.name}" for file in files)
        checked = "" if recipe.environment else "; every tool they name is there"
        yield Finding("tasks", FindingLevel.GOOD, f"{counts}{checked}")


def _task_files(tasks: TasksConfig) -> list[Path]:
    return list(dict.fromkeys(tasks.files.values()))  # one file may be both validation and test


def some_task(files: TasksConfig, tools: Sequence[Tool]) -> Task | None:
    """Return a task to try: the first with a demonstration, else the first."""
    tasks = _tasks(files, tools)
    return next((task for task in tasks if task.demonstration), tasks[0] if tasks else None)


def _tasks(files: TasksConfig, tools: Sequence[Tool]) -> list[Task]:
    tool_servers = {tool.name: tool.server for tool in tools}
    items = (item for path in _task_files(files) for item in read(path, tool_servers=tool_servers))
    return [item.task for item in items if isinstance(item, PlacedTask)]


# --- the model ---------------------------------------------------------------------------------------------


async def check_model(run: ResolvedRun, task: Task | None, tools: Sequence[Tool]) -> AsyncIterator[Finding]:
    """Load tokenizer, chat and weights, then sample a few tokens after the prompt of a task."""
    recipe = run.recipe
    path = recipe.model.path
    advice = "set model.path to `embedded`, a folder that transformers can load, or a name on the hub"
    try:
        chat = await asyncio.to_thread(chat_of, recipe.model)
        model = await asyncio.to_thread(load_model, recipe.model)
    except ModelNotFound as error:
        yield Finding("model", FindingLevel.BAD, str(error), advice)
        return
    except Exception as error:  # noqa: BLE001 - loading runs files of any origin; any error is reported
        yield Finding("model", FindingLevel.BAD, f"{path}: {type(error).__name__}: {error}", advice)
        return
    for note in chat.notes:
        yield Finding("chat", FindingLevel.WARNING, note, "see docs/design/chat.md; nothing needs to be done")
    yield await asyncio.to_thread(_size, run)
    too_long: list[str] = []
    if task is not None and not recipe.environment:  # an environment sets the prompt when an episode begins
        too_long = list(
            prompt_problems(recipe.rollout.tokens_per_episode, _tasks(recipe.tasks, tools), chat, tools)
        )
    for problem in too_long[:_MAX_SHOWN]:
        yield Finding("sampling", FindingLevel.BAD, problem, "the prompt leaves no tokens to sample")
    if too_long:
        return
    yield await asyncio.to_thread(_call_tokens, run, model, chat)
    yield await _sample(run, model, chat, task, tools)


def _call_tokens(run: ResolvedRun, model: Any, chat: RenderedChat) -> Finding:
    """Report whether the model has been trained on the tokens of a tool call."""
    choice = choose_call_tokens(run.recipe, model, chat)
    if choice.recipe.policy.lora_tokens:
        return Finding("call tokens", FindingLevel.GOOD, choice.note)
    if choice.note:
        return Finding("call tokens", FindingLevel.WARNING, choice.note, "see docs/guides/training.md")
    untrained = untrained_call_tokens(model, chat)
    if untrained:  # with policy.tuning = "full" every row is trained
        words = "; ".join(map(str, untrained))
        return Finding("call tokens", FindingLevel.GOOD, f"{words}: every row is trained")
    names = ", ".join(chat.decode([token]) for token in chat.call_ids) or "plain text"
    return Finding("call tokens", FindingLevel.GOOD, f"the model knows how to begin and end a call: {names}")


def _size(run: ResolvedRun) -> Finding:
    """Report the model's size and whether a run of it fits into the free memory."""
    recipe = run.recipe
    try:
        plan = plan_for_recipe(recipe)
    except UnsupportedArchitecture as error:
        hint = "try it with a small update.tokens_per_microbatch and engine.cache_tokens"
        return Finding("model", FindingLevel.WARNING, f"{recipe.model.path}: {error}", hint)
    except ValueError as error:
        return Finding("model", FindingLevel.BAD, str(error), "change the recipe: a run would say the same")
    detail = f"{recipe.model.path}: {plan.num_parameters / 1e6:,.1f} million parameters, {recipe.model.dtype}"
    if plan.memory is not None and not plan.fits:
        return Finding("model", FindingLevel.WARNING, f"{detail}; {verdict(plan)}", advice(plan))
    return Finding("model", FindingLevel.GOOD, detail)


async def _sample(
    run: ResolvedRun, model: Any, chat: RenderedChat, task: Task | None, tools: Sequence[Tool]
) -> Finding:
    recipe = run.recipe
    messages = (task.prompt if task is not None else ()) or (Message("user", "What can you do?"),)
    prompt = chat.open(messages, offered_tools(task, tools) if task is not None else tools)
    limit = recipe.rollout.tokens_per_episode
    if len(prompt) >= limit:
        detail = f"the prompt has {len(prompt)} tokens, an episode {limit}: no tokens are left to sample"
        advice = (
            "offer fewer tools (a task's `tools`, `allow` in mcp.json), or raise rollout.tokens_per_episode"
        )
        return Finding("sampling", FindingLevel.BAD, detail, advice)
    try:
        engine = transformers_engine(recipe.model, recipe.sizes, model)
    except (ValueError, RuntimeError) as error:
        return Finding("sampling", FindingLevel.BAD, str(error), "choose another model, device or dtype")
    try:
        wanted = Sampling(max_tokens=min(_NUM_TOKENS, limit - len(prompt)), stop_ids=chat.stop_ids)
        completion = await engine.complete(prompt, wanted, recipe.seed)
    except (ValueError, EngineDown) as error:
        return Finding("sampling", FindingLevel.BAD, str(error), "see docs/troubleshooting.md")
    finally:
        await engine.close()
    detail = f"{len(completion.token_ids)} tokens sampled after a prompt of {len(prompt)}"
    return Finding("sampling", FindingLevel.GOOD, detail)


# --- one episode -------------------------------------------------------------------------------------------


async def check_rollout(run: ResolvedRun, task: Task) -> Finding:
    """Play one task as a run would, with its real tools: its demonstration, or the model itself."""
    is_shown = bool(task.demonstration)
    advice = "see docs/troubleshooting.md"
    try:
        trajectory = await _play(run.demonstrated() if is_shown else run, task)
    except (ValueError, LookupError, RuntimeError, CollectionFailed) as error:
        return Finding(ROLLOUT, FindingLevel.BAD, f"task {task.id!r}: {error}", advice)
    if isinstance(trajectory, str):
        return Finding(ROLLOUT, FindingLevel.BAD, f"task {task.id!r}: {trajectory}", advice)
    player = "its demonstration" if is_shown else "the model"
    detail = f"task {task.id!r}, played by {player}: {len(trajectory.calls)} tool calls, {trajectory.stop}"
    if is_shown and not is_success(trajectory):
        advice = (
            "not even the demonstration fits: raise rollout.tokens_per_turn or rollout.tokens_per_episode"
            if trajectory.stop in (Stop.TRUNCATED, Stop.CONTEXT_FULL)
            else "the servers do not say what they said when the task was made; make the tasks again"
        )
        return Finding(ROLLOUT, FindingLevel.BAD, f"{detail}, without success", advice)
    if trajectory.tools and not trajectory.calls:
        advice = "a policy that never calls a tool learns nothing about them: warm it up with `turnwise sft`"
        return Finding(ROLLOUT, FindingLevel.WARNING, detail, advice)
    return Finding(ROLLOUT, FindingLevel.GOOD, detail)


async def _play(run: ResolvedRun, task: Task) -> Trajectory | str:
    """Return the episode, or why it was lost to infrastructure."""
    groups, failure = await _play_groups(run, [task], group_size=1)
    return groups[0].trajectories[0] if groups else failure


async def _play_groups(
    run: ResolvedRun, tasks: Sequence[Task], *, group_size: int
) -> tuple[list[Group], str]:
    """Play tasks as a run would; also returns the last failure of the infrastructure."""
    async with open_workbench(run, tasks) as bench:
        collector = bench.collector(group_size=group_size)
        async with collector.collecting(tasks, len(tasks)) as groups:
            found = [group async for group in groups]
        return found, collector.progress.last_failure


# --- what a run would begin with ---------------------------------------------------------------------------


async def check_first_episodes(run: ResolvedRun, tools: Sequence[Tool], recipe_name: str) -> Finding:
    """Let the model play a few tasks, and say what must happen first if it never succeeds."""
    tasks = across_families(_tasks(run.recipe.tasks, tools), _NUM_TRIED)
    if run.recipe.engine.kind == "vllm":  # takes a minute or two to start, for a few episodes
        engine = run.recipe.engine.model_copy(update={"kind": "transformers"})
        run = replace(run, recipe=run.recipe.model_copy(update={"engine": engine}))
    try:
        groups, failure = await _play_groups(run, tasks, group_size=_NUM_MEMBERS)
    except (ValueError, LookupError, CollectionFailed) as error:
        return Finding(FIRST_EPISODES, FindingLevel.BAD, str(error), "see docs/troubleshooting.md")
    first = examine_first(
        [
            (trajectory, succeeded(trajectory, reward))
            for group in groups
            for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
        ]
    )
    if not first.num_episodes:
        return Finding(FIRST_EPISODES, FindingLevel.BAD, failure, "see docs/troubleshooting.md")
    if not first.cannot_learn:
        return Finding(FIRST_EPISODES, FindingLevel.GOOD, str(first))
    is_shown = any(task.demonstration for task in _tasks(run.recipe.tasks, tools))
    remedy = first.remedy(run.recipe, has_demonstrations=is_shown, recipe_name=recipe_name)
    return Finding(FIRST_EPISODES, FindingLevel.WARNING, str(first), remedy)
