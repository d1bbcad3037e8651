"""Runs over conversations with a scripted user are reproducible: in lockstep, and killed and resumed."""

from pathlib import Path

from tests.rollout.collection import collect
from tests.rollout.stage import task
from tests.run.test_resume import check_identical, figures, play_unbroken_and_broken
from turnwise.rollout.store import read_episodes
from turnwise.types import Answer, FollowUp, ScriptedUser, Trajectory, Truth, UserRule

DONE = Truth(answer=Answer("done"))
TALKS = [
    task(
        f"t{number}",
        max_turns=7,
        tools=("write",),
        # The chat of these tests says "done" or makes calls: the user replies to the first text.
        conversation=(FollowUp("Now read it.", DONE, ("read",)), FollowUp("And again?", DONE)),
        user=ScriptedUser((UserRule("done", "Are you sure?"),)),
    )
    for number in range(8)
]
SETTINGS = {
    "run": {"num_steps": 2, "tasks_per_step": 2, "checkpoint_every": 1},
    "rollout": {"group_size": 3, "tokens_per_turn": 12, "lockstep": True, "num_parallel_episodes": 5},
    "evaluation": {"num_samples": 1, "before_and_after": False},
    "update": {"num_minibatches": 2},
}
KILLS = ("collection:5", "update:4")
"""In the first step, and in the second, when one of its two optimizer steps is done."""


def check_are_conversations(played: list[Trajectory]) -> None:
    """Check that the user replied, that later messages were reached, and that tools were refused."""
    turns = [turn for trajectory in played for turn in trajectory.turns]
    assert {"Are you sure?", "Now read it.", "And again?"} <= {turn.user for turn in turns}
    assert {turn.message for turn in turns} == {0, 1, 2}
    assert any(result.is_error for trajectory in played for _, result in trajectory.calls)


async def test_conversations_in_lockstep_sample_the_same_bits_whatever_the_tools_take() -> None:
    first, second = [
        await collect(delay_seed=seed, fault_rate=0.02, is_warm=is_warm, tasks=TALKS)
        for seed, is_warm in ((1, False), (2, True))
    ]
    check_are_conversations(first)

    def bits(played: list[Trajectory]) -> dict[str, object]:
        return {
            one.episode_id: (
                one.token_ids,
                [value.hex() for value in one.logprobs],
                one.endings,
                one.stop,
                [(turn.user, turn.message) for turn in one.turns],
            )
            for one in played
        }

    assert bits(first) == bits(second)


def test_a_run_over_conversations_that_is_killed_and_resumed_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    unbroken, broken = play_unbroken_and_broken(tmp_path, SETTINGS, TALKS, KILLS)
    check_identical(unbroken, broken, 2)
    played = [record.trajectory for step in range(2) for record in read_episodes(broken.trajectories(step))]
    check_are_conversations(played)
    logged = [line["metrics"] for line in figures(broken) if line["kind"] == "rollout"]
    assert all(
        {f"success_by_message/{number}" for number in (1, 2, 3)} <= metrics.keys() for metrics in logged
    )
