"""Play one episode with given replies in place of a model's, to try a task, its tools and its environment."""

from collections.abc import Sequence
from dataclasses import replace

from turnwise.engines import engine_class
from turnwise.rollout.store import StoredEpisode
from turnwise.setup.bench import open_workbench
from turnwise.setup.requirements import require_playable
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.types import Task, ToolCall

Reply = str | Sequence[ToolCall]
"""What the model says in a turn: a text, or calls."""


async def play_replies(run: ResolvedRun, task: Task, replies: Sequence[Reply]) -> StoredEpisode:
    """Play the task by the rules of an evaluation; without an end before, it ends after the last reply."""
    if not replies:
        raise ValueError("replies: give at least one")
    run.announce()
    task = replace(task, max_turns=min(task.turn_limit, len(replies)))
    async with open_workbench(run, (task,), with_engine=False) as bench:
        require_playable(bench, (task,))
        chat = bench.chat
        turns = [chat.say(reply) if isinstance(reply, str) else chat.say("", reply) for reply in replies]
        engine = engine_class("scripted")(
            encode=lambda text: chat.say(text)[:-1], stop_id=min(chat.stop_ids), sequence=turns
        )
        collector = replace(bench, engine=engine).collector(group_size=1, is_evaluation=True)
        async with collector.collecting((task,), 1) as groups:
            [group] = [group async for group in groups]
    return StoredEpisode(group.trajectories[0], group.rewards[0])
