"""Failed first episodes are named by their earliest obstacle, with the remedy that fits it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rewards.episodes import QUOTE, did, episode, garbled, said
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.config.episodes import WARM_START_FIGURES
from turnwise.run.health.first_episodes import EpisodeFailure, examine_first, failure_of
from turnwise.types import Answer, Cause, Stop, Truth, Turn

FAILURES: dict[EpisodeFailure, tuple[Sequence[Turn], Stop]] = {
    EpisodeFailure.NO_CALL: ((said("42"),), Stop.ANSWERED),
    EpisodeFailure.MALFORMED: ((garbled(), said("42")), Stop.ANSWERED),
    EpisodeFailure.WRONG_TOOL: ((did("nowhere", cause=Cause.UNKNOWN_TOOL), said("42")), Stop.ANSWERED),
    EpisodeFailure.WRONG_CALL: ((did(QUOTE, cause=Cause.TOOL_ERROR), said("42")), Stop.ANSWERED),
    EpisodeFailure.CUT_TURN: ((did(QUOTE), garbled()), Stop.TRUNCATED),
    EpisodeFailure.CUT_EPISODE: ((did(QUOTE),), Stop.CONTEXT_FULL),
    EpisodeFailure.REPEATED: ((did(QUOTE),) * 5, Stop.REPEATED),
    EpisodeFailure.OUT_OF_TURNS: ((did(QUOTE), did(QUOTE)), Stop.MAX_TURNS),
    EpisodeFailure.WRONG_ANSWER: ((did(QUOTE), said("42")), Stop.ANSWERED),
    EpisodeFailure.NOT_DONE: ((did(QUOTE), said("42")), Stop.ANSWERED),
    EpisodeFailure.NOT_SOLVED: ((said("42"),), Stop.ENDED),
}
WARM_START = "turnwise train my.toml --set run.warm_start=true"
REMEDIES = {
    EpisodeFailure.NO_CALL: WARM_START,
    EpisodeFailure.MALFORMED: WARM_START,
    EpisodeFailure.WRONG_TOOL: WARM_START,
    EpisodeFailure.WRONG_CALL: WARM_START,
    EpisodeFailure.CUT_TURN: "turnwise doctor my.toml --set rollout.tokens_per_turn=",
    EpisodeFailure.CUT_EPISODE: "turnwise doctor my.toml --set rollout.tokens_per_episode=",
    EpisodeFailure.REPEATED: "turnwise doctor my.toml --set rollout.max_repeats=6",
    EpisodeFailure.OUT_OF_TURNS: "max_turns",
    EpisodeFailure.WRONG_ANSWER: WARM_START,
    EpisodeFailure.NOT_DONE: WARM_START,
    EpisodeFailure.NOT_SOLVED: "score()",
}


@pytest.mark.parametrize("failure", EpisodeFailure, ids=lambda failure: failure.name)
def test_every_failure_has_its_name_and_remedy(failure: EpisodeFailure) -> None:
    turns, stop = FAILURES[failure]
    truth = Truth() if failure is EpisodeFailure.NOT_DONE else Truth(answer=Answer("43"))
    trajectory = episode(truth, *turns, stop=stop)
    assert failure_of(trajectory) is failure
    found = examine_first([(trajectory, False)])
    assert REMEDIES[failure] in found.remedy(Recipe(), has_demonstrations=True, recipe_name="my.toml")


def test_the_most_frequent_failure_decides_and_one_success_is_enough_to_learn_from() -> None:
    cut = episode(Truth(), did(QUOTE), garbled(), stop=Stop.TRUNCATED)
    silent = episode(Truth(), said("42"))
    found = examine_first([(cut, False), (cut, False), (silent, False)])
    assert found.cannot_learn
    assert str(found) == (
        "0 of 3 episodes succeeded: 2 were cut off at rollout.tokens_per_turn, 1 made no tool call"
    )
    assert "tokens_per_turn" in found.remedy(Recipe(), has_demonstrations=True)
    assert not examine_first([(cut, False), (silent, True)]).cannot_learn


def test_without_demonstrations_another_model_or_tasks_with_some_are_recommended() -> None:
    found = examine_first([(episode(Truth(), said("42")), False)])
    remedy = found.remedy(Recipe(), has_demonstrations=False)
    assert "turnwise doctor RECIPE --set model.path=MODEL" in remedy
    assert "turnwise tasks make FOLDER" in remedy
    own = read_recipe(None, {"tools.mcp": "/my/mcp.json"})
    assert "turnwise explore /my/mcp.json --out FOLDER" in found.remedy(own, has_demonstrations=False)


def test_a_warm_start_that_is_set_is_awaited_and_one_that_was_made_is_not_recommended_again(
    tmp_path: Path,
) -> None:
    found = examine_first([(episode(Truth(), did(QUOTE), said("42")), False)])
    cold = read_recipe(None, {"run.warm_start": True, "tasks.train": "train.jsonl"})
    remedy = found.remedy(cold, has_demonstrations=True)
    assert remedy.endswith("which a run begins with: turnwise train RECIPE")
    (tmp_path / WARM_START_FIGURES).write_text("{}")
    warmed = read_recipe(None, parse_settings([f"model.path={tmp_path}", "run.warm_start=true"]))
    assert "warm" not in found.remedy(warmed, has_demonstrations=True)
