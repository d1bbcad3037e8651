"""A dry run: what a run of a recipe would do and what would keep it from that; nothing is played."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnwise.chat import RenderedChat
from turnwise.config import Recipe
from turnwise.inspection import Listing, list_tools
from turnwise.planning import Plan, Unplannable, check_device_limits, plan_anywhere
from turnwise.readiness import task_problems
from turnwise.requirements import requirements
from turnwise.rewards import Rewards, parts_of
from turnwise.servers.backends import servers_of
from turnwise.tasks.load import load
from turnwise.workbench import chat_of, used_servers

_MAX_SHOWN = 5
"""Problems of tasks that are printed; the others are counted."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A few lines for people; a run would come to its end unless there are problems."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


async def dry_run(recipe: Recipe, listing: Listing | None = None) -> DryRun:
    """Servers are started and asked for their tools; of the model only its configuration is read.

    `listing` is what the recipe's servers offer, where that is known already. ValueError for what leaves
    nothing more to say.
    """
    chat = _chat(recipe)
    setup = await dry_episodes(recipe, listing, chat if isinstance(chat, RenderedChat) else None)
    recipe = recipe.with_steps(len(load(recipe.tasks.to_learn_from())))
    try:
        plan: Plan | Unplannable = plan_anywhere(recipe)
    except Unplannable as error:
        plan = error
    missing = (chat,) if isinstance(chat, str) else ()
    problems = (*missing, *setup.problems, *_misfits(recipe, plan))
    return DryRun(tuple(_lines(recipe, plan, setup.lines)), problems)


async def dry_episodes(
    recipe: Recipe, listing: Listing | None = None, chat: RenderedChat | None = None
) -> DryRun:
    """What the episodes are made of, whoever learns from them: tasks, tools and rewards.

    Without `chat` the lengths of prompts are not looked at: the model may be on other machines alone.
    """
    recipe.tasks.to_learn_from()
    recipe.rollout.check_exploring()
    async with Rewards(parts_of(recipe)):
        pass  # every part is known, and takes the options that it is given
    servers = servers_of(recipe)
    listing = listing or await list_tools(servers.specs)
    tools = [tool for offered in listing.tools.values() for tool in offered]
    tasks = {split: load(path) for split, path in recipe.tasks.files.items()}
    used = used_servers(
        [task for split in tasks.values() for task in split], [*listing.tools, *listing.failures]
    )
    problems = [words for server, words in listing.problems.items() if server in used]
    problems += [] if problems else _shortened(task_problems(recipe, tools, servers.live, chat))
    counts = ", ".join(f"{len(split_tasks)} {split}" for split, split_tasks in tasks.items())
    line = f"tasks: {counts}; {len(listing.tools)} servers with {len(tools)} tools"
    return DryRun((line, *servers.notes), tuple(problems))


def _chat(recipe: Recipe) -> RenderedChat | str:
    """The recipe's chat, or why its tokenizer cannot be loaded."""
    try:
        return chat_of(recipe)
    except OSError as error:  # as transformers reports a folder or a name without a tokenizer
        [first, *_] = str(error).splitlines()
        return f"model.path: {recipe.model.path!r} has no tokenizer to load: {first}"


def _shortened(found: list[str]) -> list[str]:
    more = [f"and {len(found) - _MAX_SHOWN} more problems of tasks"] if len(found) > _MAX_SHOWN else []
    return found[:_MAX_SHOWN] + more


def _misfits(recipe: Recipe, plan: Plan | Unplannable) -> Iterator[str]:
    """What this machine or this model lacks."""
    for requirement in requirements(recipe, is_on_skyrl=False):
        if requirement.is_needed and requirement.version is None:
            yield requirement.complaint
    if recipe.model.device == "cuda" and 1 <= _num_gpus() < recipe.hardware.num_processes:
        count = recipe.hardware.num_processes
        yield f"hardware.num_processes is {count}, and torch finds {_num_gpus()} GPUs"
    if isinstance(plan, Plan):
        longest = recipe.rollout.tokens_per_episode
        if plan.context is not None and longest > plan.context:
            yield f"rollout.tokens_per_episode is {longest}, and the model's context {plan.context}"
        if plan.memory is not None and not plan.fits:
            yield f"memory: {_gb(plan.num_bytes)} are needed: see `turnwise doctor --plan`"
    for spec in servers_of(recipe).specs:
        try:
            spec.shared_by(recipe.hardware.num_processes)
        except ValueError as error:
            yield str(error)
    try:
        check_device_limits(recipe)  # that the device is there at all is said by it too
    except ValueError as error:
        yield str(error)


def _num_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _lines(recipe: Recipe, plan: Plan | Unplannable, setup: Sequence[str]) -> Iterator[str]:
    run, algorithm = recipe.run, recipe.algorithm
    kind: str = recipe.model.dtype if recipe.model.quantisation == "none" else recipe.model.quantisation
    if isinstance(plan, Plan):
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
        yield _shares(recipe)
    yield f"memory: {_memory(plan)}"
    yield f"folder: under {run.folder.absolute()}; nothing was played or written"


def _memory(plan: Plan | Unplannable) -> str:
    if isinstance(plan, Unplannable):
        return str(plan)
    free = "" if plan.memory is None else f" of {_gb(plan.memory.free)} free"
    each = "" if plan.num_processes == 1 else " for each process"
    return f"{_gb(plan.num_bytes)}{free}{each} (turnwise doctor --plan)"


def _shares(recipe: Recipe) -> str:
    """What each of several processes does."""
    hardware, num_groups = recipe.hardware, recipe.run.tasks_per_step
    shares = [len(range(number, num_groups, hardware.num_processes)) for number in range(2)]
    groups = " or ".join(dict.fromkeys(str(share) for share in shares))
    held = "all of the policy" if hardware.strategy == "data_parallel" else "a part of every layer"
    return (
        f"processes: {hardware.num_processes}, {hardware.strategy}; each holds {held}, plays {groups} of "
        f"{num_groups} groups and learns from its share of the micro-batches"
    )


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
