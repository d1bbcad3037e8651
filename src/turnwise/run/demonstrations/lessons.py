"""Turn demonstrations into training samples with exactly the tokens that an episode would have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.mcp.calls.results import Sanitiser, cut
from turnwise.models.chat import RenderedChat
from turnwise.rewards import succeeded
from turnwise.rollout.collector import Collector
from turnwise.setup.bench import Workbench, leased_tools, scripted_engine
from turnwise.tasks.user_side import DemonstratedUser, UserSide
from turnwise.training.packing.samples import Sample, samples_of
from turnwise.types import Group, Reward, Task, Tool


@dataclass(frozen=True, slots=True)
class Verified:
    """Samples of demonstrations that succeeded when replayed, and why the others were dropped."""

    lessons: tuple[Sample, ...]
    dropped: Mapping[str, str]
    """The reason by task id."""


def lessons_of(bench: Workbench, tasks: Sequence[Task]) -> tuple[Sample, ...]:
    """Return one sample per task that has a demonstration, with the recorded results."""
    return tuple(
        lesson_of(
            task,
            leased_tools(task, bench.pool.tools),
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
    """Return the demonstration as a sample, as if the model had sampled it.

    The loss mask is 1 on the model's own tokens, including the end of each turn. `tools` are those that the
    task's episode may use; which of them are offered with which message, the task says.
    """
    sanitiser = Sanitiser(chat.special_tokens)
    ids: list[int] = []
    turns: list[int] = []
    user = UserSide(task, tools)
    unread = chat.open(task.prompt, user.tools)
    for number, turn in enumerate(task.demonstration):
        said = chat.say(turn.text, turn.calls)
        ids += [*unread, *said]
        turns += [*(-1,) * len(unread), *(number,) * len(said)]
        unread = ()
        if turn.calls:
            pairs = zip(turn.calls, turn.results, strict=True)
            seen = [
                (call.name, cut(sanitiser.clean(result.content), max_result_tokens, chat.count_tokens))
                for call, result in pairs
            ]
            unread = chat.extend(ids, seen)
        _, message = user.answer_shown(number)
        if message is not None:
            unread += chat.follow([*ids, *unread], message.text, message.added, message.withdrawn)
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


def is_complete(task: Task) -> bool:
    """Return whether the demonstration ends every exchange; tools do not matter for that."""
    user = UserSide(task, ())
    outcomes = [user.answer_shown(number) for number in range(len(task.demonstration))]
    ending, message = outcomes[-1]
    return ending is not None and message is None


async def verified_lessons(collector: Collector, tasks: Sequence[Task]) -> Verified:
    """Play every demonstration with its real tools and keep those that succeed.

    The collector is a `demonstrator`, or comes from a `demonstrated` run with groups of one. The samples
    contain the servers' current results, not the recorded ones.
    """
    shown = [task for task in tasks if task.demonstration]
    # A demonstration that stops before the episode ends has no answer, and its script would run out.
    ended = [task for task in shown if is_complete(task)]
    dropped = {task.id: "ends before the episode does" for task in shown if not is_complete(task)}
    dropped |= {task.id: "lost to infrastructure" for task in ended}
    earned: dict[str, Group] = {}
    async with collector.collecting(ended, len(ended)) as groups:
        async for group in groups:
            [trajectory], [reward] = group.trajectories, group.rewards
            dropped[group.task.id] = f"{trajectory.stop}, without success"
            if succeeded(trajectory, reward):
                earned[group.task.id] = Group(group.task, (trajectory,), (Reward(1.0, {"outcome": 1.0}),))
                del dropped[group.task.id]
    # In task order, not in order of completion, so that the same files give the same lessons.
    samples = samples_of([earned[task.id] for task in shown if task.id in earned])
    # A script is not sampled, so the temperature of its episodes does not apply.
    return Verified(tuple(replace(sample, temperature=1.0) for sample in samples), dropped)


def demonstrator(bench: Workbench, tasks: Sequence[Task]) -> Collector:
    """Return a collector that plays these demonstrations with the bench's tools, in groups of one."""
    engine = scripted_engine(bench.chat, tasks, bench.pool.tools)
    playing = replace(bench, run=bench.run.demonstrated(), engine=engine, user_model=DemonstratedUser())
    return playing.collector(group_size=1)
