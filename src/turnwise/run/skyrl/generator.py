"""SkyRL's generator: plays the groups of a batch with turnwise.

Episodes lost to infrastructure are retried; a lost group is then replaced by the whole group of another
training task. If there is no replacement (in an evaluation, or if all spare tasks are lost too), the rows of
the group are masked and have the mean reward of the played episodes, because SkyRL's interface has no missing
rows. No token of them is trained, their advantages are 0 and the mean reward does not change;
`turnwise/num_groups_masked` counts them. A batch in which every group is lost raises an error instead: the
trainer would count a step that trained nothing, and save it.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput
from skyrl.train.generators.utils import get_rollout_metrics

from turnwise.rollout.collector import CollectionFailed, CollectionPlan, step_seed
from turnwise.run.skyrl.player import Order, OrderOutcome, Players
from turnwise.run.skyrl.rows import Row, blank_row, mean_reward, rows_of
from turnwise.tasks.rows import task_of
from turnwise.types import Stop, Task

NUM_SPARES = 2
"""Spare tasks per task."""


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One group of SkyRL's batch: its order, and the indices of its rows."""

    order: Order
    places: tuple[int, ...]


class TurnwiseGenerator(GeneratorInterface):
    """SkyRL's generator over turnwise rollouts."""

    def __init__(
        self,
        players: Players,
        train_tasks: Sequence[Task],
        *,
        seed: int,
        blank_id: int,
        policy_version: Callable[[], int],
    ) -> None:
        self._players = players
        self._train_tasks = tuple(train_tasks)
        self._seed = seed
        self._blank_id = blank_id
        self._policy_version = policy_version
        self._num_masked_in_a_row = 0
        self._mean_reward = 0.0

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """All rows in the order of their prompts; CollectionFailed if all or too many in a row are lost."""
        requests = self._requests(input_batch)
        try:
            async with asyncio.TaskGroup() as playing:
                running = [playing.create_task(self._players.play(request.order)) for request in requests]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # a user's mistake, unwrapped
        outcomes = [task.result() for task in running]
        _check_any_played(outcomes)
        for outcome in outcomes:
            self._count_masked(outcome)
        placed: dict[int, Row] = {}
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome.group is not None:
                rows = rows_of(outcome.group, self._blank_id)
                placed |= dict(zip(request.places, rows, strict=True))
        played = mean_reward(list(placed.values()))
        self._mean_reward = self._mean_reward if played is None else played
        blank = blank_row(self._blank_id, self._mean_reward)
        rows = [placed.get(place, blank) for place in range(len(input_batch["prompts"]))]
        return _output(input_batch, rows, _metrics(requests, outcomes))

    async def close(self) -> None:
        await self._players.close()

    def _requests(self, batch: GeneratorInput) -> list[GroupRequest]:
        if batch["trajectory_ids"] is None or batch["env_extras"] is None:
            raise ValueError("trajectory_ids and env_extras are missing: they identify groups and tasks")
        places: dict[str, list[int]] = {}
        for place, trajectory_id in enumerate(batch["trajectory_ids"]):
            places.setdefault(trajectory_id.instance_id, []).append(place)
        tasks = {key: task_in(batch["env_extras"][at[0]]) for key, at in places.items()}
        params: Mapping[str, Any] = batch["sampling_params"] or {}
        metadata = batch["batch_metadata"]
        is_training = metadata is not None and metadata.training_phase == "train"
        # SkyRL counts steps from 1; an evaluation has the same seed at every step
        seed = step_seed(self._seed, metadata.global_step - 1) if is_training else self._seed
        spares = self._spares(list(tasks.values()), seed) if is_training else {}
        return [
            GroupRequest(
                Order(
                    task=task,
                    spares=spares.get(task.id, ()),
                    group_size=len(places[key]),
                    temperature=params.get("temperature", 1.0),
                    top_p=params.get("top_p", 1.0),
                    seed=seed,
                    policy_version=self._policy_version(),
                    is_evaluation=metadata is not None and not is_training,
                ),
                tuple(places[key]),
            )
            for key, task in tasks.items()
        ]

    def _spares(self, tasks: Sequence[Task], seed: int) -> dict[str, tuple[Task, ...]]:
        """Spare tasks for every task; no spare belongs to two tasks."""
        ids = {task.id for task in tasks}
        others = [task for task in self._train_tasks if task.id not in ids]
        random.Random(f"{seed}/{sorted(ids)}").shuffle(others)  # noqa: S311 - a draw, not a secret
        return {
            task.id: tuple(others[number :: len(tasks)][:NUM_SPARES]) for number, task in enumerate(tasks)
        }

    def _count_masked(self, outcome: OrderOutcome) -> None:
        """Raise CollectionFailed after too many consecutive lost groups."""
        self._num_masked_in_a_row = 0 if outcome.group is not None else self._num_masked_in_a_row + 1
        if self._num_masked_in_a_row >= CollectionPlan().max_dropped_in_a_row:
            text = f"{self._num_masked_in_a_row} groups in a row were lost to infrastructure; the last one: "
            raise CollectionFailed(text + outcome.message)


def _check_any_played(outcomes: Sequence[OrderOutcome]) -> None:
    """CollectionFailed if all groups are lost; a batch of one, as in asynchronous training, may be."""
    if len(outcomes) > 1 and all(outcome.group is None for outcome in outcomes):
        text = f"all {len(outcomes)} groups of a batch were lost to infrastructure; the last one: "
        raise CollectionFailed(text + outcomes[-1].message)


def task_in(extras: Mapping[str, Any]) -> Task:
    """The task of a dataset row, which has its row of a task file as JSON text."""
    match extras.get("task"):
        case str() as text:
            return task_of(json.loads(text))
        case other:
            raise ValueError(f"env_extras: `task` must be the JSON of a task's row, got {other!r:.100}")


def _output(batch: GeneratorInput, rows: Sequence[Row], own_metrics: Mapping[str, float]) -> GeneratorOutput:
    responses = [row.response_ids for row in rows]
    rewards = [row.reward for row in rows]
    masks = [row.loss_mask for row in rows]
    seconds = [row.seconds for row in rows]
    splits = {
        "llm": [row.engine_seconds for row in rows],
        "env": [row.seconds - row.engine_seconds for row in rows],
    }
    metrics = get_rollout_metrics(
        responses,
        rewards,
        loss_masks=masks,
        trajectory_completion_times=seconds,
        trajectory_time_splits=splits,
    )
    output: GeneratorOutput = {
        "prompt_token_ids": [row.prompt_ids for row in rows],
        "response_ids": responses,
        "rewards": rewards,
        "loss_masks": masks,
        "stop_reasons": [row.stop_reason for row in rows],
        "rollout_metrics": {**metrics, **own_metrics},
        "rollout_logprobs": [row.logprobs for row in rows],
        "trajectory_ids": batch["trajectory_ids"],
        "trajectory_generation_times": seconds,
        "trajectory_time_splits": splits,
        "rollout_expert_indices": None,
        "rollout_sample_support": None,
        "is_last_step": None,
        "env_metrics": [{"stop_reason": row.stop_reason} for row in rows],
        "pixel_values": None,
        "image_grid_thw": None,
    }
    return output


def _metrics(requests: Sequence[GroupRequest], outcomes: Sequence[OrderOutcome]) -> dict[str, float]:
    """The metrics of a batch; SkyRL sums them over batches by their names."""
    failures: Counter[Stop] = sum((outcome.failures for outcome in outcomes), Counter())
    refilled = [
        outcome.group is not None and outcome.group.task.id != request.order.task.id
        for request, outcome in zip(requests, outcomes, strict=True)
    ]
    return {
        "turnwise/num_groups_refilled": sum(refilled),
        "turnwise/num_groups_masked": sum(outcome.group is None for outcome in outcomes),
        "turnwise/num_groups_resent": sum(outcome.num_resent > 0 for outcome in outcomes),
        "turnwise/num_tool_calls": sum(outcome.num_calls for outcome in outcomes),
        "turnwise/num_successes": sum(outcome.num_successes for outcome in outcomes),
        **{f"turnwise/num_lost_{stop}": failures[stop] for stop in Stop if stop.is_infrastructure},
    }
