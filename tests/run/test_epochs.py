"""`run.num_epochs`: each pass draws every task once, whatever is refilled; a resumed run draws the same."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rollout.stage import task
from tests.run.stage import recipe, write_recipe
from tests.run.test_batches import ByMember, batches
from tests.run.test_batches import recipe as short_recipe
from tests.run.test_screens import train
from tests.run.test_train import lines, run_it
from turnwise.config import load_recipe, override_recipe
from turnwise.rollout.store import read_episodes
from turnwise.run.screen import step_line
from turnwise.tasks.curriculum import CurriculumState, ShuffledPasses, draw
from turnwise.tracking.folder import RunFolder
from turnwise.types import Difficulty, Task

SIZES = [(6, 2), (5, 2), (7, 4), (5, 5), (4, 3), (9, 1)]


def some(count: int) -> list[Task]:
    """Of unequal numbers of each difficulty, which has no say in it."""
    levels = [Difficulty.EASY, *[Difficulty.HARD] * count]
    return [task(str(number), difficulty=levels[number]) for number in range(count)]


@pytest.mark.parametrize(("num_tasks", "per_step"), SIZES)
def test_every_pass_has_every_task_once_and_no_step_has_one_twice(num_tasks: int, per_step: int) -> None:
    drawn, _ = draw(
        some(num_tasks), ShuffledPasses(per_step), CurriculumState(seed=3), step=0, count=20 * num_tasks
    )
    names = [task.id for task in drawn]
    passes = [names[start : start + num_tasks] for start in range(0, len(names), num_tasks)]
    assert all(len(set(pass_)) == num_tasks for pass_ in passes)
    assert len(set(map(tuple, passes))) > 1 or num_tasks == 1, "each is shuffled anew"
    steps = [names[start : start + per_step] for start in range(0, len(names), per_step)]
    assert all(len(set(step)) == len(step) for step in steps)


def test_a_draw_depends_on_the_state_alone() -> None:
    tasks, curriculum = some(7), ShuffledPasses(4)
    whole, end = draw(tasks, curriculum, CurriculumState(seed=1), step=0, count=30)
    first, state = draw(tasks, curriculum, CurriculumState(seed=1), step=0, count=11)
    second, state = draw(tasks, curriculum, state, step=9, count=19)
    assert (*first, *second) == whole
    assert state == end


@pytest.mark.parametrize(
    ("num_epochs", "num_tasks", "per_step", "num_steps", "epochs"),
    [(3, 6, 2, 9, [1, 1, 1, 2, 2, 2, 3, 3, 3]), (2, 5, 2, 5, [1, 1, 1, 2, 2]), (1, 5, 4, 2, [1, 1])],
)
def test_the_number_of_steps_is_that_of_all_passes_rounded_up(
    num_epochs: int, num_tasks: int, per_step: int, num_steps: int, epochs: list[int]
) -> None:
    settings = short_recipe(num_epochs=num_epochs, tasks_per_step=per_step).with_steps(num_tasks)
    assert settings.run.num_steps == num_steps
    assert [settings.run.epoch_of(step, num_tasks) for step in range(num_steps)] == epochs
    assert short_recipe(num_steps=7).with_steps(num_tasks).run.num_steps == 7


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_refills_are_no_part_of_a_pass_and_a_resumed_run_draws_the_same(mode: str) -> None:
    tasks = some(5)
    settings = short_recipe(num_epochs=2, tasks_per_step=2, max_draws=2.0, mode=mode).with_steps(5)

    async def run(steps: range, state: CurriculumState) -> tuple[list[list[str]], list[CurriculumState]]:
        drawn, states = [], []
        # no group of tasks 0 to 3 teaches anything: each is replaced
        async with batches(tasks, settings, steps, ByMember({"4"}), []) as source:
            async with source.collecting(state):
                for step in steps:
                    batch = await source.take(step)
                    drawn.append([group.task.id for group in batch.played])
                    states.append(batch.curriculum)
                    source.learned_from(step)
        return drawn, states

    drawn, states = await run(range(5), CurriculumState(seed=5))
    assert any(len(step) > 2 for step in drawn), "some were refilled"
    first_draws = [name for step in drawn for name in step[:2]]
    assert Counter(first_draws) == dict.fromkeys((task.id for task in tasks), 2)
    assert len(set(first_draws[:5])) == 5
    assert (await run(range(2, 5), states[1]))[0] == drawn[2:]


def names_of(folder: Path, steps: Sequence[int]) -> list[str]:
    played = [
        episode for step in steps for episode in read_episodes(folder / f"trajectories/step-{step:06d}.jsonl")
    ]
    return [episode.trajectory.task.id for episode in played]


def test_a_run_of_epochs_plays_every_task_as_often_and_says_which_epoch_it_is(tmp_path: Path) -> None:
    path = write_recipe(
        tmp_path,
        run={"num_steps": 0},
        rollout={"dynamic_sampling": False},
        optimizer={"learning_rate": 1e-3, "schedule": "linear"},
        evaluation={"before_and_after": False},
    )
    path.write_text(path.read_text().replace("num_steps = 0", "num_epochs = 2"))
    _, folder = run_it(load_recipe(path))
    assert Counter(names_of(folder.path, range(6))) == {f"train{number}": 2 * 3 for number in range(6)}
    assert [line["metrics"]["run/epoch"] for line in lines(folder, "rollout")] == [1, 1, 1, 2, 2, 2]
    # falling to 0 over the six steps that two passes take
    rates = [line["metrics"]["learning_rate"] for line in lines(folder, "update")]
    assert rates == pytest.approx([1e-3 * (1 - step / 6) for step in range(6)])


def test_the_command_keeps_the_number_of_steps_and_says_the_epoch_in_every_line(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, evaluation={"before_and_after": False})
    path.write_text(path.read_text().replace("num_steps = 3", "num_epochs = 1"))
    ran = train(str(path))
    assert ran.returncode == 0, ran
    assert [line[:22] for line in ran.stdout.splitlines() if line.startswith("step ")] == [
        f"step    {number}/3  epoch 1/1" for number in (1, 2, 3)
    ]
    kept = RunFolder.read(tmp_path / "runs" / "run").recipe.run
    assert (kept.num_steps, kept.num_epochs) == (3, 1)
    both = train(str(path), "--set", "run.num_steps=4")
    assert both.returncode == 2
    assert both.stderr.strip().endswith("run.num_steps is 4 and run.num_epochs is 1: give one of the two")


def test_steps_and_epochs_together_and_epochs_of_a_curriculum_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run\.num_steps is 4 and run\.num_epochs is 2: give one"):
        load_recipe(None, ["run.num_steps=4", "run.num_epochs=2"])
    saved = recipe(tmp_path)  # what a run keeps has both: one was computed from the other
    assert override_recipe(saved, ["run.num_epochs=2"]).with_steps(6).run.num_steps == 6
    with pytest.raises(ValueError, match=r"run\.num_steps is 4 and run\.num_epochs is 2: give one"):
        override_recipe(saved, ["run.num_epochs=2", "run.num_steps=4"])
    for kind in ("schedule", "success"):
        with pytest.raises(ValueError, match=rf"run\.num_epochs is 2: curriculum\.kind '{kind}' does not"):
            load_recipe(None, ["run.num_epochs=2", f"curriculum.kind={kind}"])


def test_the_step_line_has_an_epoch_only_where_there_are_epochs() -> None:
    assert "epoch 2/3" in step_line(4, 9, {"run/epoch": 2.0}, 3)
    assert "epoch" not in step_line(4, 9, {})
