"""Takes tasks with demonstrations, gives samples to imitate: the very tokens an episode of it would have."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.chat import RenderedChat
from turnwise.mcp.results import Sanitiser, cut
from turnwise.rewards import is_success
from turnwise.training.samples import Sample, samples_of
from turnwise.types import Group, Reward, Task, Tool
from turnwise.workbench import Workbench, offered_tools


@dataclass(frozen=True, slots=True)
class Verified:
    """Lessons whose demonstrations earned their outcome when played again, and the tasks of those that
    did not."""

    lessons: tuple[Sample, ...]
    failed: tuple[str, ...]


def lessons_of(bench: Workbench, tasks: Sequence[Task]) -> tuple[Sample, ...]:
    """A sample of each task that has a demonstration, with the results as they were recorded."""
    return tuple(
        lesson_of(
            task,
            offered_tools(task, bench.pool.tools),
            bench.chat,
            max_result_tokens=bench.recipe.tools.max_result_tokens,
            group=group,
        )
        for group, task in enumerate(tasks)
        if task.demonstration
    )


def lesson_of(
    task: Task, tools: Sequence[Tool], chat: RenderedChat, *, max_result_tokens: int, group: int = 0
) -> Sample:
    """The demonstration as if the model had sampled it: 1 in the mask on its own tokens, the end of each
    turn too; `tools` are those that the task's episode is offered."""
    sanitiser = Sanitiser(chat.special_tokens)
    ids: list[int] = []
    turns: list[int] = []
    unread = chat.open(task.prompt, tools)
    for number, turn in enumerate(task.demonstration):
        said = chat.say(turn.text, turn.calls)
        ids += [*unread, *said]
        turns += [*(-1,) * len(unread), *(number,) * len(said)]
        if turn.calls:
            pairs = zip(turn.calls, turn.results, strict=True)
            seen = [
                (call.name, cut(sanitiser.clean(result.content), max_result_tokens, chat.count_tokens))
                for call, result in pairs
            ]
            unread = chat.extend(ids, seen)
    return Sample(
        token_ids=tuple(ids),
        loss_mask=tuple(int(turn >= 0) for turn in turns),
        logprobs=(0.0,) * len(ids),
        turns=tuple(turns),
        group=group,
        task_id=task.id,
        reward=1.0,
        turn_rewards=(*(0.0,) * (len(task.demonstration) - 1), 1.0),
        is_truncated=False,
        policy_version=0,
    )


async def verified_lessons(bench: Workbench, tasks: Sequence[Task]) -> Verified:
    """Play every demonstration with its real tools and keep those that earn their outcome.

    The workbench's engine must be the scripted one. What the servers say now is what is learned from.
    """
    shown = [task for task in tasks if task.demonstration]
    # One that ends in a call has no answer, and its script would run out.
    ended = [task for task in shown if not task.demonstration[-1].calls]
    earned: dict[str, Group] = {}
    async with bench.collector(group_size=1).collecting(ended, len(ended)) as groups:
        async for group in groups:
            [trajectory] = group.trajectories
            if is_success(trajectory):
                earned[group.task.id] = Group(group.task, (trajectory,), (Reward(1.0, {"outcome": 1.0}),))
    # In the order of the tasks, not of finishing: the same files give the same lessons.
    return Verified(
        samples_of([earned[task.id] for task in shown if task.id in earned]),
        tuple(task.id for task in shown if task.id not in earned),
    )
