"""Name what keeps a policy from succeeding at all, from its first episodes, with the one remedy that fits.

A run whose episodes all fail has nothing to learn from: every group is flat. The reason is usually visible in
a handful of episodes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from turnwise.config import Recipe, RolloutConfig
from turnwise.config.generated_worlds import is_generated
from turnwise.types import Cause, Stop, Trajectory


class EpisodeFailure(StrEnum):
    """What went wrong first in an episode that failed."""

    NO_CALL = "made no tool call"
    MALFORMED = "wrote calls that cannot be read"
    WRONG_TOOL = "called tools that do not exist"
    WRONG_CALL = "made only calls that failed"
    CUT_TURN = "was cut off at rollout.tokens_per_turn"
    CUT_EPISODE = "was cut off at rollout.tokens_per_episode"
    REPEATED = "repeated itself"
    OUT_OF_TURNS = "used up its turns without an answer"
    WRONG_ANSWER = "called tools and answered wrongly"
    NOT_DONE = "called tools and did not do all that the task asks"
    NOT_SOLVED = "was ended by the environment without success"


@dataclass(frozen=True, slots=True)
class FirstEpisodes:
    """How the first episodes went."""

    num_episodes: int
    num_succeeded: int
    failures: Counter[EpisodeFailure]

    @property
    def cannot_learn(self) -> bool:
        """Whether none succeeded, so that there is nothing to tell a good episode from."""
        return self.num_episodes > 0 and not self.num_succeeded

    def __str__(self) -> str:
        parts = [f"{count} {_plural(failure, count)}" for failure, count in self.failures.most_common(3)]
        return f"{self.num_succeeded} of {self.num_episodes} episodes succeeded: {', '.join(parts)}"

    def remedy(self, recipe: Recipe, *, has_demonstrations: bool, recipe_name: str = "RECIPE") -> str:
        """What must happen first, for the most frequent failure, with the command."""
        failure = self.failures.most_common(1)[0][0]
        if failure in _UNSKILLED and has_demonstrations and not recipe.model.is_warmed_up:
            train = f"turnwise train {recipe_name}"
            if recipe.run.warm_start:
                return f"the warm start of this recipe, which a run begins with: {train}"
            return f"a warm start on the demonstrations of tasks.train: {train} --set run.warm_start=true"
        limit = _limit_to_raise(failure, recipe.rollout, recipe.tools.max_result_tokens)
        if limit is not None:
            key, words = limit
            return f"{words}: turnwise doctor {recipe_name} --set {key}"
        return _without_warm_start(failure, _more_tasks(recipe.environment, recipe.tools.mcp), recipe_name)


def examine_first(episodes: Sequence[tuple[Trajectory, bool]]) -> FirstEpisodes:
    """Sort episodes, given with whether they succeeded, by what went wrong."""
    failures = Counter(failure_of(trajectory) for trajectory, has_succeeded in episodes if not has_succeeded)
    num_succeeded = sum(has_succeeded for _, has_succeeded in episodes)
    return FirstEpisodes(len(episodes), num_succeeded, failures)


def failure_of(trajectory: Trajectory) -> EpisodeFailure:
    """What kept an episode from succeeding; the earliest obstacle counts."""
    results = [result for _, result in trajectory.calls]
    if any(result.cause is Cause.OK for result in results):
        return _late_failure(trajectory)
    if trajectory.stop is Stop.TRUNCATED:
        return EpisodeFailure.CUT_TURN
    if any(turn.parsed.error is not None for turn in trajectory.turns) and not results:
        return EpisodeFailure.MALFORMED
    if not results:
        is_own_end = trajectory.stop.is_finished and trajectory.stop is not Stop.ENDED
        return EpisodeFailure.NO_CALL if is_own_end else _late_failure(trajectory)
    if all(result.cause is Cause.UNKNOWN_TOOL for result in results):
        return EpisodeFailure.WRONG_TOOL
    return EpisodeFailure.WRONG_CALL


def _late_failure(trajectory: Trajectory) -> EpisodeFailure:
    has_answer = any(truth.answer is not None for truth in trajectory.task.truths)
    return {
        Stop.TRUNCATED: EpisodeFailure.CUT_TURN,
        Stop.CONTEXT_FULL: EpisodeFailure.CUT_EPISODE,
        Stop.MAX_TURNS: EpisodeFailure.OUT_OF_TURNS,
        Stop.REPEATED: EpisodeFailure.REPEATED,
        Stop.ENDED: EpisodeFailure.NOT_SOLVED,
    }.get(trajectory.stop, EpisodeFailure.WRONG_ANSWER if has_answer else EpisodeFailure.NOT_DONE)


def _plural(failure: EpisodeFailure, count: int) -> str:
    words = str(failure)
    if count > 1:
        for one, several in (("was ", "were "), ("its turns", "their turns"), ("itself", "themselves")):
            words = words.replace(one, several)
    return words


_UNSKILLED = (
    EpisodeFailure.NO_CALL,
    EpisodeFailure.MALFORMED,
    EpisodeFailure.WRONG_TOOL,
    EpisodeFailure.WRONG_CALL,
    EpisodeFailure.WRONG_ANSWER,
    EpisodeFailure.NOT_DONE,
)
"""Failures that demonstrations help against."""


def _limit_to_raise(
    failure: EpisodeFailure, rollout: RolloutConfig, max_result_tokens: int
) -> tuple[str, str] | None:
    """The key with twice its value, and in words; None if no limit of the recipe is the obstacle."""
    if failure is EpisodeFailure.CUT_TURN:
        key, value, more = "rollout.tokens_per_turn", rollout.tokens_per_turn, ""
    elif failure is EpisodeFailure.CUT_EPISODE:
        key, value = "rollout.tokens_per_episode", rollout.tokens_per_episode
        more = f", or a lower tools.max_result_tokens (now {max_result_tokens})"
    elif failure is EpisodeFailure.REPEATED:
        key, value = "rollout.max_repeats", rollout.max_repeats
        more = (
            ", if one polls; else read in `turnwise view` what is repeated: does a result say what to do "
            "next, is a tool missing?"
        )
    else:
        return None
    return f"{key}={2 * value}", f"a higher {key} (now {value}){more}"


def _without_warm_start(failure: EpisodeFailure, easier: str, recipe_name: str) -> str:
    """What helps if there is no demonstration to learn from, or if the model has learned from them."""
    other = f"turnwise doctor {recipe_name} --set model.path=MODEL"
    skilled = f"a model that was trained to call tools: {other}; or tasks with demonstrations: {easier}"
    return {
        EpisodeFailure.NO_CALL: skilled,
        EpisodeFailure.MALFORMED: skilled,
        EpisodeFailure.WRONG_TOOL: skilled,
        EpisodeFailure.WRONG_CALL: "read the errors of the tools in `turnwise view`; offer fewer tools per "
        f"task (its `tools`), describe their arguments better, or take a larger model: {other}",
        EpisodeFailure.OUT_OF_TURNS: "raise the tasks' max_turns, or take easier tasks: " + easier,
        EpisodeFailure.WRONG_ANSWER: "compare some answers with the tasks' truth in `turnwise view`; take "
        f"easier tasks ({easier}), a larger model ({other}), or a reward for parts of the way",
        EpisodeFailure.NOT_DONE: "compare some episodes with the tasks' truth in `turnwise view`: what they "
        f"must write, leave behind or call; take easier tasks ({easier}), a larger model ({other}), or a "
        "reward for parts of the way",
        EpisodeFailure.NOT_SOLVED: "read some episodes in `turnwise view`; add easier tasks, let the "
        f"environment's score() give a part of 1 for parts of the way, or take a larger model: {other}",
    }[failure]


def _more_tasks(environment: str, mcp: Path | None) -> str:
    """The command that makes verified tasks with demonstrations, from easy to hard, for these servers."""
    if environment:
        return "the environment's tasks()"
    if mcp is not None and is_generated(mcp):
        return "turnwise worlds --out FOLDER"
    return "turnwise tasks make FOLDER" if mcp is None else f"turnwise explore {mcp} --out FOLDER"
