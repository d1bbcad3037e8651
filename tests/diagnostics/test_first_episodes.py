"""Failed first episodes are named by their earliest obstacle, with the remedy that fits it."""

from collections.abc import Sequence

import pytest

from tests.rewards.episodes import QUOTE, did, episode, garbled, said
from turnwise.config import Recipe
from turnwise.diagnostics.first_episodes import EpisodeFailure, examine_first, failure_of
from turnwise.types import Cause, Stop, Truth, Turn

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
    EpisodeFailure.NOT_SOLVED: ((said("42"),), Stop.ENDED),
}
REMEDIES = {
    EpisodeFailure.NO_CALL: "run.warm_start=true",
    EpisodeFailure.MALFORMED: "run.warm_start=true",
    EpisodeFailure.WRONG_TOOL: "run.warm_start=true",
    EpisodeFailure.WRONG_CALL: "errors of the tools",
    EpisodeFailure.CUT_TURN: "rollout.tokens_per_turn (now ",
    EpisodeFailure.CUT_EPISODE: "rollout.tokens_per_episode (now ",
    EpisodeFailure.REPEATED: "rollout.max_repeats (now 3)",
    EpisodeFailure.OUT_OF_TURNS: "max_turns",
    EpisodeFailure.WRONG_ANSWER: "easier tasks",
    EpisodeFailure.NOT_SOLVED: "score()",
}


@pytest.mark.parametrize("failure", EpisodeFailure, ids=lambda failure: failure.name)
def test_every_failure_has_its_name_and_remedy(failure: EpisodeFailure) -> None:
    turns, stop = FAILURES[failure]
    trajectory = episode(Truth(), *turns, stop=stop)
    assert failure_of(trajectory) is failure
    found = examine_first([(trajectory, False)])
    assert REMEDIES[failure] in found.remedy(Recipe(), has_demonstrations=True)


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


def test_without_demonstrations_another_model_is_recommended() -> None:
    found = examine_first([(episode(Truth(), said("42")), False)])
    assert "a model that was trained to call tools" in found.remedy(Recipe(), has_demonstrations=False)
