"""The generator gives exactly the episodes of our own rollouts, and counts everything that is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.setup.resolved import resolved

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

import numpy as np
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_grpo_outcome_advantage
from skyrl.train.generators.utils import concatenate_generator_outputs, get_metrics_from_generator_output
from skyrl.train.utils.trainer_utils import dump_per_dataset_eval_results, validate_generator_output

from tests.mcp.leaks import nothing_leaks
from tests.run.skyrl.stage import MODEL, ModelClient, batch, write_recipe
from turnwise.config import Recipe
from turnwise.models.chat import load_tokenizer
from turnwise.rollout.collector import CollectionFailed, step_seed
from turnwise.run.skyrl.experiment import new_generator
from turnwise.run.skyrl.generator import TurnwiseGenerator
from turnwise.setup.bench import open_workbench
from turnwise.tasks.load import load
from turnwise.types import FollowUp, Group, Task, Truth

TALK = (FollowUp("And its volume?", Truth(required_tools=("fmp_get_quote",))), FollowUp("Thanks.", Truth()))


@contextlib.asynccontextmanager
async def generating(recipe: Recipe, client: ModelClient) -> AsyncIterator[TurnwiseGenerator]:
    generator = new_generator(recipe, client, MODEL)
    try:
        yield generator
    finally:
        await generator.close()
        await client.teardown()


def tasks_of(recipe: Recipe) -> tuple[Task, ...]:
    assert recipe.tasks.train is not None
    return load(recipe.tasks.train)


async def own_groups(recipe: Recipe, tasks: tuple[Task, ...], seed: int) -> list[Group]:
    async with open_workbench(resolved(recipe, train=tasks), tasks) as bench:
        collector = bench.collector(seed=seed)
        async with collector.collecting(tasks, len(tasks)) as groups:
            played = [group async for group in groups]
    order = [task.id for task in tasks]
    return sorted(played, key=lambda group: order.index(group.task.id))


def joined(output: Any, row: int) -> list[int]:
    return output["prompt_token_ids"][row] + output["response_ids"][row]


@pytest.mark.parametrize("conversation", [(), TALK], ids=["one message", "conversation"])
async def test_ids_masks_logprobs_and_rewards_are_those_of_our_own_rollout(
    tmp_path: Path, conversation: tuple[FollowUp, ...]
) -> None:
    recipe = write_recipe(tmp_path, conversation=conversation)
    tasks = tasks_of(recipe)[:3]

    client = ModelClient(recipe)
    async with nothing_leaks():
        async with generating(recipe, client) as generator:
            output = await generator.generate(batch(tasks, 2, step=5))
    groups = await own_groups(recipe, tasks, step_seed(recipe.seed, 4))
    validate_generator_output(6, output)
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.rewards, strict=True)]
    for row, (trajectory, reward) in enumerate(pairs):
        start = len(trajectory.turns[0].new_ids)
        assert output["prompt_token_ids"][row] == list(trajectory.token_ids[:start])
        assert joined(output, row) == list(trajectory.token_ids)
        assert output["loss_masks"][row] == list(trajectory.loss_mask[start:])
        assert output["rollout_logprobs"][row] == pytest.approx(trajectory.logprobs[start:], abs=1e-4)
        assert output["rewards"][row] == reward.total
    assert any(trajectory.calls for trajectory, _ in pairs), "no tool was called"
    last = max(turn.message for trajectory, _ in pairs for turn in trajectory.turns)
    assert last == len(conversation), "no episode reached the last message"
    assert len({reward.total for _, reward in pairs}) > 3, "rewards differ between episodes"
    # one session per episode, ended once; no parameter of SkyRL that would change the distribution
    assert sorted(set(client.sessions)) == sorted(client.finished)
    assert len(client.finished) == 6
    assert not any("min_tokens" in params or "top_k" in params for params in client.params)
    assert output["rollout_metrics"]["turnwise/num_groups_masked"] == 0


async def test_a_lost_group_is_replaced_by_the_whole_group_of_another_training_task(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=4)
    tasks = tasks_of(recipe)
    lost = tasks[0]

    async with generating(recipe, ModelClient(recipe, broken=[lost.prompt[-1].content])) as generator:
        output = await generator.generate(batch(tasks[:2], 2))
    validate_generator_output(4, output)
    figures = output["rollout_metrics"]
    assert figures["turnwise/num_groups_refilled"] == 1
    assert figures["turnwise/num_groups_masked"] == 0
    assert figures["turnwise/num_lost_engine_down"] == 6, "two members, each played three times"
    first, second = output["prompt_token_ids"][:2]
    assert first == second, "both members are of the same task"
    assert len({tuple(ids) for ids in output["prompt_token_ids"]}) == 2
    assert all(any(mask) for mask in output["loss_masks"])


async def test_rows_of_a_lost_group_are_masked_counted_and_change_no_mean(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=4)
    tasks = tasks_of(recipe)[:3]
    lost = tasks[1]

    async with generating(recipe, ModelClient(recipe, broken=[lost.prompt[-1].content])) as generator:
        output = await generator.generate(batch(tasks, 2, phase="eval"))
    validate_generator_output(6, output)
    uids = [task.id for task in tasks for _ in range(2)]
    assert output["rollout_metrics"]["turnwise/num_groups_masked"] == 1
    assert output["rollout_metrics"]["turnwise/num_groups_refilled"] == 0
    assert [not any(mask) for mask in output["loss_masks"]] == [False, False, True, True, False, False]
    assert output["stop_reasons"][2:4] == ["lost", "lost"]
    played = [output["rewards"][row] for row in (0, 1, 4, 5)]
    assert max(played) > min(played) > 0
    mean = get_metrics_from_generator_output(output, uids)["avg_score"]
    assert mean == pytest.approx(sum(played) / 4)
    # SkyRL's advantages of its rows are 0
    rewards_BT = torch.tensor([[reward] for reward in output["rewards"]])
    advantages_BT, _ = compute_grpo_outcome_advantage(rewards_BT, torch.ones_like(rewards_BT), np.array(uids))
    assert advantages_BT[2:4].abs().max() < 1e-6
    # SkyRL sums the counts when it joins batches
    both = concatenate_generator_outputs([output, output])
    assert both["rollout_metrics"]["turnwise/num_groups_masked"] == 2


async def test_a_batch_without_a_played_group_raises_an_error(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    tasks = tasks_of(recipe)

    async with generating(recipe, ModelClient(recipe, broken=[""])) as generator:
        for phase in ("train", "eval"):
            with pytest.raises(CollectionFailed, match=r"all 2 groups of a batch .* episode .* engine_down"):
                await generator.generate(batch(tasks, 2, phase=phase))


async def test_losing_sixteen_batches_of_one_group_raises_an_error(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    tasks = tasks_of(recipe)[:1]

    async with generating(recipe, ModelClient(recipe, broken=[""])) as generator:
        for step in range(1, 16):
            output = await generator.generate(batch(tasks, 2, step=step))
            assert not any(any(mask) for mask in output["loss_masks"])
        with pytest.raises(CollectionFailed, match=r"16 groups in a row .* episode .* engine_down"):
            await generator.generate(batch(tasks, 2, step=16))


async def test_concurrent_calls_do_not_affect_each_other(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    [task, _] = tasks_of(recipe)

    async with generating(recipe, ModelClient(recipe)) as generator:
        calls = [generator.generate(batch([task], 2, step=step)) for step in (1, 1, 2)]
        first, again, later = await asyncio.gather(*calls)
    assert first["response_ids"] == again["response_ids"]
    assert first["response_ids"] != later["response_ids"], "every step has its own seed"


async def test_a_users_mistake_is_raised_unwrapped(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"fmp": {"command": "no-such-program"}}}')

    async with nothing_leaks(), generating(recipe, ModelClient(recipe)) as generator:
        with pytest.raises(ValueError, match="no-such-program"):
            await generator.generate(batch(tasks_of(recipe), 2))


async def test_skyrl_can_write_the_results_of_an_evaluation(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    client = ModelClient(recipe)
    request = batch(tasks_of(recipe), 2, phase="eval")
    async with generating(recipe, client) as generator:
        output = await generator.generate(request)
    extras = request["env_extras"]
    sources = [row["data_source"] for row in extras]
    envs = request["env_classes"]
    tokenizer = load_tokenizer(recipe.model.path)
    dump_per_dataset_eval_results(
        tmp_path, tokenizer, output, sources, envs, extras, {"eval/all/avg_score": 0.5}
    )
    assert len((tmp_path / "quote_figure.jsonl").read_text().splitlines()) == 4
