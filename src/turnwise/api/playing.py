"""Play tasks with real tools, without training: rollouts, evaluations and scripted replies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from turnwise.api.evaluation import Evaluation, evaluate_request, nothing_shown
from turnwise.api.request import NO_SETTINGS, TaskSource, request_of
from turnwise.api.run import Run
from turnwise.config import Recipe
from turnwise.rewards.terms import RewardLike
from turnwise.rollout import display
from turnwise.rollout.store import StoredEpisode
from turnwise.run.checks.scripted_play import Reply, play_replies
from turnwise.run.playing import on_stderr, play_episodes
from turnwise.setup.resolve import resolve_alone
from turnwise.system.background import run_in_thread
from turnwise.tasks.load import from_rows
from turnwise.types import Task

_ROOMY = {
    "model.path": "embedded",  # for its tokenizer
    "rollout.tokens_per_turn": 100_000,
    "rollout.tokens_per_episode": 1_000_000,
}


def rollout(
    recipe: Recipe | str | Path | None = None,
    tasks: TaskSource | None = None,
    *,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    num_tasks: int | None = None,
    quiet: bool = False,
) -> list[StoredEpisode]:
    """Play `rollout.group_size` episodes per task, by default of tasks.train of the recipe.

    recipe, model, mcp, rewards, tools, environment, settings: as in `train`.
    num_tasks: play only the first tasks.
    quiet: show no progress.
    """
    request = request_of(
        recipe,
        model=model,
        mcp=mcp,
        tasks={"train": tasks},
        rewards=rewards,
        tools=tools,
        environment=environment,
        settings=settings,
    )
    run = resolve_alone(request, request.read(None), ("train",))
    shown = nothing_shown if quiet else on_stderr
    episodes, _ = run_in_thread(lambda: play_episodes(run, num_tasks=num_tasks, shown=shown))
    return episodes


def play(
    task: Task | Mapping[str, Any],
    replies: Sequence[Reply],
    *,
    recipe: Recipe | str | Path | None = None,
    mcp: str | Path | None = None,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> StoredEpisode:
    """Play one episode with these replies in place of a model's, scored as in an evaluation.

    It shows what an environment or a reward does with a solution that you know. No model is loaded.

    task: a `Task`, or a row of a task file.
    replies: what is said in each turn, a text or a list of `ToolCall`. After the last one the episode ends.
    recipe, mcp, rewards, tools, environment, settings: as in `train`. Without a recipe, the limits of tokens
        are high enough for any reply.
    """
    if recipe is None:
        settings = {**_ROOMY, **settings}
    request = request_of(
        recipe, mcp=mcp, rewards=rewards, tools=tools, environment=environment, settings=settings
    )
    run = resolve_alone(request, request.read(None))
    [played] = from_rows([task], "task")
    return run_in_thread(lambda: play_replies(run, played, replies))


def evaluate(
    recipe: Run | Recipe | str | Path | None = None,
    tasks: TaskSource | None = None,
    *,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    samples: int = 4,
    temperature: float = 1.0,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Measure success on tasks, by default on tasks.test of the recipe.

    recipe, model, mcp, rewards, tools, environment, settings: as in `train`. A `Run` in place of a recipe, as
        it was trained or in another environment: `Run.evaluate`.
    samples: episodes per task.
    temperature: 0 is greedy; one sample is then enough.
    out: the eval.json to write; by default in a new folder under `runs/eval`.
    quiet: show no progress.
    """
    if isinstance(recipe, Run):
        changes = {
            "model": model,
            "mcp": mcp,
            "rewards": rewards,
            "tools": tools,
        }
        if ignored := [name for name, value in changes.items() if value is not None]:
            raise ValueError(f"{ignored[0]}: {recipe.path} is evaluated as it was trained")
        return recipe.evaluate(
            tasks,
            environment=environment,
            settings=settings,
            samples=samples,
            temperature=temperature,
            out=out,
            quiet=quiet,
        )
    request = request_of(
        recipe,
        model=model,
        mcp=mcp,
        tasks={"test": tasks},
        rewards=rewards,
        tools=tools,
        environment=environment,
        settings=settings,
    )
    return evaluate_request(
        request, request.read(None), samples=samples, temperature=temperature, out=out, quiet=quiet
    )


def print_episode(episode: StoredEpisode) -> None:
    """Print an episode turn by turn: what the model said, its calls, their results and the reward."""
    display.print_episode(episode, Console(emoji=False))
