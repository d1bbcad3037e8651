"""What tasks must satisfy to be played and trained on; used by every check and at a run's start."""

from collections.abc import Iterable, Iterator, Sequence

from turnwise.config import Recipe
from turnwise.models.chat import RenderedChat
from turnwise.rewards import RewardTerm, parts_of, why_unscorable_by
from turnwise.rewards import why_unscorable as why_unscorable_of
from turnwise.setup.bench import Workbench, offered_tools, require_harmless, used_servers
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.tasks.check import check_files
from turnwise.tasks.curriculum import curriculum_of, least_choice
from turnwise.tasks.load import Problem, load, read
from turnwise.tasks.placeholders import placeholder_in
from turnwise.types import LiveServer, ModelUser, Task, Tool
from turnwise.worlds.environment import find_environment, scores_episodes


def task_problems(
    run: ResolvedRun, tools: Sequence[Tool], live: Sequence[LiveServer], chat: RenderedChat | None
) -> list[str]:
    """Return every problem in the run's task files that would prevent training with these tools."""
    recipe = run.recipe
    files = list(dict.fromkeys(recipe.tasks.files.values()))  # one file may be both validation and test
    if recipe.environment:  # its tools are known only when an episode begins
        problems = [str(item) for file in files for item in read(file) if isinstance(item, Problem)]
    else:
        why_unscorable = why_unscorable_by(parts_of(recipe.rewards))
        problems = [str(problem) for problem in check_files(files, tools, why_unscorable, live)]
    if problems:
        return problems
    is_scored = bool(recipe.environment) and scores_episodes(find_environment(recipe.environment))
    for split, file in recipe.tasks.files.items():
        tasks = run.tasks.get(split) or load(file)
        problems += training_problems(recipe, tasks) if split == "train" else ()
        problems += playing_problems(recipe, tasks, chat, tools, has_score=is_scored)
    return list(dict.fromkeys(problems))


def training_problems(recipe: Recipe, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield problems that prevent training on these tasks, independent of servers and model."""
    unwritten = [unfilled for task in tasks if (unfilled := placeholder_in(task))]
    if unwritten:
        yield from (f"tasks.train: {field}: {why}" for field, why in unwritten)
        return
    try:
        recipe.run.check_num_tasks(len(tasks))
    except ValueError as error:
        yield str(error)
        return
    num_choices, step = least_choice(
        tasks,
        curriculum_of(recipe.curriculum, recipe.run, recipe.rollout.group_size),
        recipe.run.num_steps_for(len(tasks)),
    )
    if num_choices < recipe.run.tasks_per_step:
        yield (
            f"curriculum: step {step} can draw from {num_choices} tasks of tasks.train, "
            f"run.tasks_per_step is {recipe.run.tasks_per_step}"
        )
    if recipe.imitation.weight and not any(task.demonstration for task in tasks):
        yield "imitation.weight: no task of tasks.train has a demonstration to imitate"


def playing_problems(
    recipe: Recipe,
    tasks: Sequence[Task],
    chat: RenderedChat | None,
    tools: Sequence[Tool],
    *,
    has_score: bool = False,
) -> Iterator[str]:
    """Yield problems that prevent an episode of these tasks from being played or scored.

    Without `chat`, for example when an endpoint counts its own tokens, prompts may have any length.
    `has_score`: whether the recipe's environment scores.
    """
    parts = parts_of(recipe.rewards)
    if recipe.environment:
        yield from environment_problems(recipe.environment, tasks, None if has_score else parts)
        return
    is_shown = chat is not None and recipe.engine.kind == "scripted"
    has_user_model = bool(recipe.user.model) or is_shown or recipe.tools.is_replayed
    for task in tasks:
        why = why_unscorable_of(task, parts)
        if why is not None:
            yield f"task {task.id!r}: {why}"
        if not task.prompt:
            yield f"task {task.id!r}: its prompt is empty"
            return
        if isinstance(task.user, ModelUser) and not has_user_model:
            yield f"task {task.id!r}: user.kind is 'model', and the recipe does not set user.model"
        if is_shown and not task.demonstration:
            yield f"task {task.id!r}: the scripted engine needs a demonstration"
    if chat is not None:
        yield from prompt_problems(recipe.rollout.tokens_per_episode, tasks, chat, tools)


def environment_problems(
    environment: str, tasks: Sequence[Task], parts: Sequence[RewardTerm] | None
) -> Iterator[str]:
    """Yield problems that prevent these tasks from being played in the environment, or scored.

    `parts` of the reward; None if the environment scores.
    """
    name = f"environment {environment!r}"
    for task in tasks:
        keys = {
            "servers": task.servers,
            "truth.probes": task.truth.probes,
            "conversation": task.conversation,
            "user": task.user,
        }
        if ignored := [key for key, value in keys.items() if value]:
            yield f"task {task.id!r}: {ignored[0]} is set, and {name} has no servers and no other user"
        why = None if parts is None else why_unscorable_of(task, parts)
        if why is not None:
            yield f"task {task.id!r}: {name} has no method score(), and {why}"


def prompt_problems(
    limit: int, tasks: Sequence[Task], chat: RenderedChat, tools: Sequence[Tool]
) -> Iterator[str]:
    """Yield a problem for each prompt that leaves an episode of `limit` tokens none to sample."""
    groups: dict[tuple[str, ...], list[Task]] = {}
    for task in tasks:
        groups.setdefault(tuple(tool.name for tool in offered_tools(task, tools)), []).append(task)
    for names, together in groups.items():
        # Rendering is slow. Tasks with the same tools differ only in their text, so check the longest first.
        for task in sorted(together, key=_num_chars, reverse=True):
            num_tokens = len(chat.open(task.prompt, offered_tools(task, tools)))
            if num_tokens < limit:
                break
            yield (
                f"task {task.id!r}: its prompt with {len(names)} tools has {num_tokens} tokens, "
                f"rollout.tokens_per_episode is {limit}: raise it, or offer fewer tools in the task's `tools`"
            )


def _num_chars(task: Task) -> int:
    return sum(len(message.content) for message in task.prompt)


def require_playable(bench: Workbench, tasks: Sequence[Task], *, has_own_tokens: bool = True) -> None:
    """Raise ValueError with the first problem that prevents playing these tasks."""
    require_harmless(bench.pool, used_servers(tasks, [tool.server for tool in bench.pool.tools]))
    chat = bench.chat if has_own_tokens else None
    is_scored = bench.environment is not None and bench.environment.has_score
    require(playing_problems(bench.recipe, tasks, chat, bench.pool.tools, has_score=is_scored))


def require(problems: Iterable[str]) -> None:
    """Raise ValueError with the first of these problems and the number of others."""
    listed = list(problems)
    if listed:
        more = f" (and {len(listed) - 1} more such problems: turnwise train --dry-run)" if listed[1:] else ""
        raise ValueError(f"{listed[0]}{more}")
