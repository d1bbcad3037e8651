"""`run.num_epochs`: every pass draws every task once, whatever is refilled; a resumed run draws the same."""

from collections import Counter
from pathlib import Path

import pytest

from tests.rollout.stage import task
from tests.run.stage import recipe, write_recipe
from tests.run.test_batches import ByMember, collect, played_ids
from tests.run.test_batches import recipe as short_recipe
from tests.run.test_signals import train
from tests.run.test_train import lines
from turnwise.config import override_recipe, parse_settings, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import read_episodes
from turnwise.tasks.curriculum import CurriculumState, ShuffledPasses, draw
from turnwise.types import Difficulty, Task


def some(count: int) -> list[Task]:
    """Tasks of mixed difficulty, which must not matter."""
    levels = [Difficulty.EASY, *[Difficulty.HARD] * count]
    return [task(str(number), difficulty=levels[number]) for number in range(count)]


@pytest.mark.parametrize(("num_tasks", "per_step"), [(6, 2), (5, 2), (7, 4), (5, 5), (4, 3), (9, 1)])
def test_every_pass_has_every_task_once_and_no_step_has_one_twice(num_tasks: int, per_step: int) -> None:
    curriculum, state = ShuffledPasses(per_step), CurriculumState(seed=3)
    drawn, _ = draw(some(num_tasks), curriculum, state, step=0, count=20 * num_tasks)
    names = [task.id for task in drawn]
    passes = [names[start : start + num_tasks] for start in range(0, len(names), num_tasks)]
    assert all(len(set(pass_)) == num_tasks for pass_ in passes)
    assert len(set(map(tuple, passes))) > 1, "shuffled anew"
    steps = [names[start : start + per_step] for start in range(0, len(names), per_step)]
    assert all(len(set(step)) == len(step) for step in steps)


def test_a_draw_depends_only_on_the_state() -> None:
    tasks, curriculum = some(7), ShuffledPasses(4)
    whole, end = draw(tasks, curriculum, CurriculumState(seed=1), step=0, count=30)
    first, state = draw(tasks, curriculum, CurriculumState(seed=1), step=0, count=11)
    second, state = draw(tasks, curriculum, state, step=9, count=19)
    assert ((*first, *second), state) == (whole, end)


@pytest.mark.parametrize(
    ("num_epochs", "num_tasks", "per_step", "epochs"),
    [(3, 6, 2, [1, 1, 1, 2, 2, 2, 3, 3, 3]), (2, 5, 2, [1, 1, 1, 2, 2]), (1, 5, 4, [1, 1])],
)
def test_the_number_of_steps_is_that_of_all_passes_rounded_up(
    num_epochs: int, num_tasks: int, per_step: int, epochs: list[int]
) -> None:
    settings = short_recipe(num_epochs=num_epochs, tasks_per_step=per_step).with_steps(num_tasks)
    assert settings.run.num_steps == len(epochs)
    assert [settings.run.epoch_of(step, num_tasks) for step in range(len(epochs))] == epochs
    assert short_recipe(num_steps=7).with_steps(num_tasks).run.num_steps == 7


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_refills_are_not_part_of_a_pass_and_a_resumed_run_draws_the_same(mode: str) -> None:
    tasks = some(5)
    settings = short_recipe(num_epochs=2, tasks_per_step=2, max_draws=2.0, mode=mode).with_steps(5)
    rewards = ByMember({"4"})  # the groups of tasks 0 to 3 teach nothing, so they are replaced
    batches = await collect(tasks, settings, range(5), rewards=rewards, state=CurriculumState(seed=5))
    drawn = played_ids(batches)
    assert any(len(step) > 2 for step in drawn), "some were refilled"
    first_draws = [name for step in drawn for name in step[:2]]
    assert Counter(first_draws) == dict.fromkeys((task.id for task in tasks), 2)
    assert len(set(first_draws[:5])) == 5
    resumed = await collect(tasks, settings, range(2, 5), rewards=rewards, state=batches[1].curriculum)
    assert played_ids(resumed) == drawn[2:]


def test_a_run_of_epochs_plays_every_task_equally_often_and_prints_the_epoch(tmp_path: Path) -> None:
    path = write_recipe(
        tmp_path,
        rollout={"dynamic_sampling": False},
        optimizer={"learning_rate": 1e-3, "schedule": "linear"},
        evaluation={"before_and_after": False},
    )
    path.write_text(path.read_text().replace("num_steps = 3", "num_epochs = 2"))
    ran = train(str(path))
    assert ran.code == 0, ran
    steps = [line for line in ran.out.splitlines() if line.startswith("step ")]
    assert [line[:22] for line in steps] == [
        f"step    {number + 1}/6  epoch {1 + number // 3}/2" for number in range(6)
    ]
    folder = RunFolder.read(tmp_path / "runs" / "run")
    assert (folder.recipe.run.num_steps, folder.recipe.run.num_epochs) == (6, 2)
    played = Counter(
        episode.trajectory.task.id
        for step in range(6)
        for episode in read_episodes(folder.trajectories(step))
    )
    assert played == {f"train{number}": 2 * 3 for number in range(6)}
    assert [line["metrics"]["run/epoch"] for line in lines(folder, "rollout")] == [1, 1, 1, 2, 2, 2]
    # it falls to 0 over the six steps of two passes
    rates = [line["metrics"]["learning_rate"] for line in lines(folder, "update")]
    assert rates == pytest.approx([1e-3 * (1 - step / 6) for step in range(6)])


def test_steps_and_epochs_together_and_epochs_of_a_curriculum_are_refused(tmp_path: Path) -> None:
    both = r"run\.num_steps is 4 and run\.num_epochs is 2: give one of the two"
    with pytest.raises(ValueError, match=both):
        read_recipe(None, {"run.num_steps": 4, "run.num_epochs": 2})
    saved = recipe(tmp_path)  # a run's own recipe has both: one was computed from the other
    assert override_recipe(saved, {"run.num_epochs": 2}).with_steps(6).run.num_steps == 6
    with pytest.raises(ValueError, match=both):
        override_recipe(saved, {"run.num_epochs": 2, "run.num_steps": 4})
    (tmp_path / "long.toml").write_text("[run]\nnum_steps = 40\n")
    by_epochs = read_recipe(tmp_path / "long.toml", {"run.num_epochs": 2})  # it takes the place of the other
    assert by_epochs.run.num_epochs == 2
    assert override_recipe(by_epochs, {"run.num_steps": 7}).run.num_epochs is None
    (tmp_path / "long.toml").write_text("[run]\nnum_steps = 4\nnum_epochs = 2\n")
    with pytest.raises(ValueError, match=both):
        read_recipe(tmp_path / "long.toml")
    for kind in ("schedule", "success"):
        with pytest.raises(ValueError, match=rf"run\.num_epochs is 2: curriculum\.kind '{kind}' does not"):
            read_recipe(None, parse_settings(["run.num_epochs=2", f"curriculum.kind={kind}"]))
