"""Turns given from the plan are context: the gradient of a group is that of its sampled tokens."""

from collections.abc import Sequence

from tests.training.updates import (
    assert_close,
    centred,
    gradients,
    new_trainer,
    recipe_of,
    reinforce,
    sample_of,
)
from turnwise.training.packing.samples import samples_of
from turnwise.types import Completion, Finish, Group, Message, Parsed, Reward, Stop, Task, Trajectory, Turn

PROMPT, PLANNED, READ = (3, 4, 5), (6, 7, 8, 9), (10, 11)
TASK = Task("t", (Message("user", "Do it."),))


def started_inside(own: Sequence[int]) -> tuple[Trajectory, Trajectory]:
    """An episode whose first turn was given, and the same ids with that turn as if it had been sampled."""
    [_, *context] = sample_of([((*PROMPT, *PLANNED, *READ), own)]).logprobs
    first = Turn((*PROMPT, *PLANNED), Completion((), (), Finish.STOP, 0), Parsed(), is_given=True)
    last = Turn(READ, Completion(tuple(own), tuple(context[-len(own) :]), Finish.STOP, 0), Parsed())
    scored = sample_of([(PROMPT, PLANNED), (READ, own)]).logprobs
    sampled = Turn(PROMPT, Completion(PLANNED, scored[3:7], Finish.STOP, 0), Parsed())
    return Trajectory(TASK, "e", 0, (first, last), Stop.ANSWERED), Trajectory(
        TASK, "e", 0, (sampled, last), Stop.ANSWERED
    )


def test_a_group_with_given_turns_has_no_gradient_on_them() -> None:
    inside, whole = zip(*[started_inside(own) for own in ((20, 21, 22), (30, 31))], strict=True)
    rewards = (Reward(1.0, {}), Reward(0.0, {}))
    samples = samples_of([Group(TASK, inside, rewards)])
    assert [sample.num_own_tokens for sample in samples] == [3, 2]
    recipe = recipe_of(algorithm={"correction": "none"})
    trainer = new_trainer(recipe)
    trainer.update(samples, step=0)
    assert_close(gradients(trainer), reinforce(samples, centred(samples)))
    # without the mark, the given turn would be trained on: other tokens, another gradient
    unmarked = samples_of([Group(TASK, whole, rewards)])
    assert [sample.num_own_tokens for sample in unmarked] == [7, 6]
    assert [one.token_ids for one in unmarked] == [one.token_ids for one in samples]
