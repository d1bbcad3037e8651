"""`train --dry-run`: what a run would do and what would stop it; nothing is played."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnwise.config import HardwareConfig, ModelConfig, Recipe, ToolsConfig
from turnwise.config.requirements import requirements
from turnwise.mcp.listing import ToolListing, list_tools
from turnwise.models.chat import RenderedChat
from turnwise.rewards import Rewards, parts_of
from turnwise.run.checks.machine import gigabytes
from turnwise.run.demonstrations.warm_up import demonstrated
from turnwise.setup.bench import chat_of, open_environment, used_servers
from turnwise.setup.memory import (
    MemoryPlan,
    UnsupportedArchitecture,
    check_device_limits,
    check_sft_limits,
    plan_for_recipe,
    step_sizes_line,
)
from turnwise.setup.requirements import task_problems
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.servers import servers_of
from turnwise.system.python_functions import NOTHING_GIVEN
from turnwise.system.terminal import counted
from turnwise.tasks.load import load
from turnwise.types import Task
from turnwise.types.protocols import EnvironmentDown

_MAX_SHOWN = 5
"""The most problems with tasks that are printed; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A description of the run, the problems that would stop it, and what could not be checked."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


def to_check(recipe: Recipe) -> ResolvedRun:
    """Return the run with the tasks of all its files, and its servers even if it replays their calls."""
    recipe.tasks.require_train()
    recipe.rollout.require_exploration()
    tasks = {split: load(path) for split, path in recipe.tasks.files.items()}
    return ResolvedRun(recipe.with_steps(len(tasks["train"])), tasks, servers_of(recipe), NOTHING_GIVEN)


async def dry_run(run: ResolvedRun, listing: ToolListing | None = None) -> DryRun:
    """Check a run: start the servers, list their tools and read the model's configuration, not its weights.

    A model that is not there hides nothing else: what needs no model is checked. `listing` has the tools of
    the run's servers if they are known already. Raises ValueError for a mistake that leaves nothing else to
    check.
    """
    chat = _chat(run.recipe.model)
    setup = await dry_episodes(run, listing, chat if isinstance(chat, RenderedChat) else None)
    plan: MemoryPlan | ValueError
    try:
        plan = plan_for_recipe(run.recipe)
    except ValueError as error:  # a mistake in the recipe, or a model that is not there
        plan = error
    warm_start = _warm_start(run)
    missing = [chat] if isinstance(chat, str) else []
    problems = [*missing, *setup.problems, *warm_start.problems, *_misfits(run, plan)]
    unplanned = []
    if isinstance(plan, ValueError) and not isinstance(plan, UnsupportedArchitecture):
        problems.append(str(plan))
        unplanned.append("the memory, which depends on the model")
    return DryRun(
        tuple(_lines(run.recipe, plan, (*setup.lines, *warm_start.lines))),
        tuple(dict.fromkeys(problems)),  # each part that needs the model says that it is missing
        (*setup.unchecked, *unplanned),
    )


def _warm_start(run: ResolvedRun) -> DryRun:
    if not run.recipe.run.warm_start:
        return DryRun((), ())
    try:
        num_lessons = len(demonstrated(run))
        check_sft_limits(run.recipe)
    except ValueError as error:
        return DryRun((), (f"run.warm_start: {error}",))
    sft, lessons = run.recipe.sft, counted(num_lessons, "demonstration")
    rescues = f", {counted(sft.rescue_rounds, 'round')} of rescues" if sft.rescue_rounds else ""
    return DryRun((f"warm start: {counted(sft.num_epochs, 'epoch')} of {lessons}{rescues}",), ())


async def dry_episodes(
    run: ResolvedRun, listing: ToolListing | None = None, chat: RenderedChat | None = None
) -> DryRun:
    """Check what episodes need, whichever trainer learns from them: tasks, tools and rewards.

    Without `chat` the lengths of prompts are not checked: the model may exist on other machines only.
    """
    recipe, tasks = run.recipe, run.tasks
    async with Rewards(parts_of(recipe.rewards)):
        pass  # raises for an unknown part or option
    listing = listing or await list_tools(run.servers.specs)
    tools = [tool for offered in listing.tools.values() for tool in offered]
    used = used_servers(
        [task for split in tasks.values() for task in split], [*listing.tools, *listing.failures]
    )
    problems = [words for server, words in listing.problems.items() if server in used]
    unchecked = []
    if problems:
        unchecked.append("the tasks, whose tools are not known")
    else:
        problems += _shortened(task_problems(run, tools, run.servers.live, chat))
    if chat is None:
        unchecked.append("the length of prompts, which needs the model's tokenizer")
    counts = ", ".join(f"{len(split_tasks)} {split}" for split, split_tasks in tasks.items())
    if recipe.environment and not problems:
        offered, problems = await _try_environment(recipe.environment, recipe.tools, tasks["train"][0], chat)
        unchecked += [] if chat is not None else [f"the environment {recipe.environment}"]
    else:
        offered = f"{counted(len(listing.tools), 'server')} with {counted(len(tools), 'tool')}"
    return DryRun((f"tasks: {counts}; {offered}", *run.servers.notes), tuple(problems), tuple(unchecked))


async def _try_environment(
    environment: str, tools: ToolsConfig, task: Task, chat: RenderedChat | None
) -> tuple[str, list[str]]:
    """Begin one episode and close it; return what it offers, and the problems."""
    name = f"environment {environment}"
    if chat is None:
        return f"{name}, not tried", []
    try:
        async with open_environment(environment, tools, chat).lease(task) as leased:
            return f"{name} with {counted(len(leased.tools), 'tool')}", []
    except (EnvironmentDown, RuntimeError, ValueError) as error:
        return name, [str(error)]


def _chat(model: ModelConfig) -> RenderedChat | str:
    """The model's chat, or why it cannot be opened."""
    try:
        return chat_of(model)
    except ValueError as error:
        return str(error)
    except OSError as error:  # raised by transformers for a folder or name without a tokenizer
        [first, *_] = str(error).splitlines()
        return f"model.path: {model.path!r} has no tokenizer to load: {first}"


def _shortened(found: list[str]) -> list[str]:
    more = [f"and {len(found) - _MAX_SHOWN} more problems with tasks"] if len(found) > _MAX_SHOWN else []
    return found[:_MAX_SHOWN] + more


def _misfits(run: ResolvedRun, plan: MemoryPlan | ValueError) -> Iterator[str]:
    """The requirements of the recipe that this machine or this model does not meet."""
    recipe = run.recipe
    for requirement in requirements(recipe, is_on_skyrl=False):
        if requirement.is_needed and requirement.version is None:
            yield requirement.complaint
    if recipe.model.device == "cuda" and 1 <= _num_gpus() < recipe.hardware.num_processes:
        count = recipe.hardware.num_processes
        yield f"hardware.num_processes is {count}, and torch finds {_num_gpus()} GPUs"
    if isinstance(plan, MemoryPlan):
        longest = recipe.rollout.tokens_per_episode
        if plan.context is not None and longest > plan.context:
            yield f"rollout.tokens_per_episode is {longest}, and the model's context {plan.context}"
        if plan.memory is not None and not plan.fits:
            yield f"memory: {gigabytes(plan.num_bytes)} are needed: see `turnwise doctor --plan`"
    for spec in run.servers.specs:
        try:
            spec.shared_by(recipe.hardware.num_processes)
        except ValueError as error:
            yield str(error)
    try:
        check_device_limits(recipe)  # also raises if there is no such device
    except ValueError as error:
        yield str(error)


def _num_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _lines(recipe: Recipe, plan: MemoryPlan | ValueError, setup: Sequence[str]) -> Iterator[str]:
    run, algorithm = recipe.run, recipe.algorithm
    kind: str = recipe.model.dtype if recipe.model.quantisation == "none" else recipe.model.quantisation
    if isinstance(plan, MemoryPlan):
        kind = f"{plan.num_parameters / 1e6:,.1f} million parameters, {kind} on {plan.device}"
    yield f"model: {recipe.model.path}, {kind}; {recipe.policy.tuning} learns, {recipe.engine.kind} samples"
    yield from setup
    steps = f"{run.num_steps} steps" + (f" ({run.num_epochs} epochs)" if run.num_epochs else "")
    yield (
        f"run: {steps} of {run.tasks_per_step} tasks × {recipe.rollout.group_size} episodes, "
        f"{run.mode}; {algorithm.preset or algorithm.advantage}, loss {algorithm.loss}, rate "
        f"{recipe.optimizer.learning_rate:g}"
    )
    if recipe.hardware.num_processes > 1:
        yield _shares(recipe.hardware, run.tasks_per_step)
    yield f"memory: {_memory(plan)}"
    yield f"folder: under {run.folder.absolute()}; nothing was played or written"


def _memory(plan: MemoryPlan | ValueError) -> str:
    if isinstance(plan, ValueError):
        return str(plan) if isinstance(plan, UnsupportedArchitecture) else "not planned"
    free = "" if plan.memory is None else f" of {gigabytes(plan.memory.free)} free"
    per_process = "" if plan.num_processes == 1 else " for each process"
    planned = f"{gigabytes(plan.num_bytes)}{free}{per_process} (turnwise doctor --plan)"
    return f"{planned}; {step_sizes_line(plan.sizes)}"


def _shares(hardware: HardwareConfig, num_groups: int) -> str:
    """One line on what each process holds, plays and learns from."""
    shares = [len(range(number, num_groups, hardware.num_processes)) for number in range(2)]
    groups = " or ".join(dict.fromkeys(str(share) for share in shares))
    held = "all of the policy" if hardware.strategy == "data_parallel" else "a part of every layer"
    return (
        f"processes: {hardware.num_processes}, {hardware.strategy}; each holds {held}, plays {groups} of "
        f"{num_groups} groups and learns from its share of the micro-batches"
    )
