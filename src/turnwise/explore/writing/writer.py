"""The writer: chooses among verified tasks, words them, and joins some into conversations."""

import asyncio
import glob
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.writing.conversation import joined, why_not_sound
from turnwise.explore.writing.model import WritingModel
from turnwise.explore.writing.rewording import question_of, values, why_refused
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.rewards.outcome import is_success
from turnwise.types import Message, Task, Tool
from turnwise.types.protocols import EngineDown, RewardDown

_NUM_PARALLEL = 4
_PER_CHOICE = 12
_LEAST_CHOSEN = 0.25
"""A reply that chooses fewer of a batch is not taken for a choice."""
_CHOOSE = (
    "Below are requests to an assistant, with their answers. Which of them would a person who has this "
    "server want to make? Reply with their numbers only, the most wanted first, such as: 3, 1, 7."
)
_REWORD = (
    "Reword the user's request as a person would say it to an assistant. Keep its meaning exactly. Keep "
    "every name, number, path and quoted text literally. Do not answer it, do not mention "
    "tools that it does not mention, and add nothing. Reply with the reworded request only."
)
_FOLLOW = (
    "A user has just made the first request and got its answer. Write the second request as the same user's "
    "next message: short, natural, referring back where that is clear. Reply with that message only."
)

KEPT, FOLLOWED = "kept", "joined to a conversation"
NOT_CHOSEN = "not chosen"
ENDPOINT_FAILED = "the endpoint failed"
SERVER_FAILED = "a server failed while it was solved"
UNSOLVED = "a solver does not reach the answer"


@dataclass(slots=True)
class Written:
    """What the writer made of the tasks; tasks that it neither chose nor could word stay as they were."""

    tasks: dict[str, Task]
    """By the id of the task before."""
    dropped: set[str]


class Writer:
    """Words tasks with a model, which also plays them with the real tools."""

    def __init__(self, model: WritingModel, pool: Pool, allowed: Sequence[Tool], seed: int) -> None:
        """allowed: the tools that may be called; others could change real data."""
        self._model = model
        self._pool = pool
        self._allowed = [glob.escape(tool.name) for tool in allowed]
        self._seed = seed
        self._slots = asyncio.Semaphore(_NUM_PARALLEL)
        self._why_down = ""
        self.outcomes: Counter[str] = Counter()

    async def write(self, tasks: Sequence[Task], say: Callable[[str], None]) -> Written:
        """Choose, word and join."""
        written = Written({}, await self._dropped(tasks))
        chosen = [task for task in tasks if task.id not in written.dropped]
        say(f"writer: {len(chosen)} of {len(tasks)} tasks chosen")

        async def one(task: Task) -> None:
            async with self._slots:
                outcome, reworded = await self._reworded(task)
            self.outcomes[outcome] += 1
            if outcome == KEPT:
                written.tasks[task.id] = reworded

        await asyncio.gather(*map(one, chosen))
        await self._join([written.tasks.get(task.id, task) for task in chosen], written)
        why = f"; {ENDPOINT_FAILED}: {self._why_down}" if self._why_down else ""
        say(f"writer: {self.outcomes[KEPT]} questions reworded, {self.outcomes[FOLLOWED]} conversations{why}")
        return written

    async def _dropped(self, tasks: Sequence[Task]) -> set[str]:
        """Return the tasks that the model does not choose."""
        dropped: set[str] = set()
        for start in range(0, len(tasks), _PER_CHOICE):
            batch = tasks[start : start + _PER_CHOICE]
            listed = "\n".join(
                f"{number}. {question_of(task).body} → {task.demonstration[-1].text}"
                for number, task in enumerate(batch, start=1)
            )
            reply = await self._asked(_CHOOSE, listed)
            numbers = {int(found) for found in re.findall(r"\d+", reply)} & set(range(1, len(batch) + 1))
            if len(numbers) >= max(1, _LEAST_CHOSEN * len(batch)):
                dropped |= {task.id for number, task in enumerate(batch, start=1) if number not in numbers}
        self.outcomes[NOT_CHOSEN] += len(dropped)
        return dropped

    async def _asked(self, instruction: str, text: str) -> str:
        if self._why_down:
            return ""
        try:
            return await self._model.reply(instruction, text, self._seed)
        except (EngineDown, ValueError) as error:  # ValueError: the endpoint refuses the request
            self._why_down = str(error).partition("\n")[0][:200]
            return ""

    async def _reworded(self, task: Task) -> tuple[str, Task]:
        question = question_of(task)
        body = await self._asked(_REWORD, question.body)
        if self._why_down:
            return ENDPOINT_FAILED, task
        if why := why_refused(body, question, task):
            return why, task
        reworded = replace(task, prompt=(*task.prompt[:-1], Message("user", f"{body}{question.rest}")))
        outcome = await self._played(reworded)
        return outcome, reworded if outcome == KEPT else task

    async def _join(self, tasks: Sequence[Task], written: Written) -> None:
        """Join pairs of tasks about one thing, and keep those that the model solves."""
        for first, second in pairs(tasks):
            before, question = question_of(first).body, question_of(second)
            text = f"First: {before}\nAnswer: {first.demonstration[-1].text}\nSecond: {question.body}"
            body = await self._asked(_FOLLOW, text)
            if why_refused(body, question, second, said_before=before):
                continue
            task = joined(first, second, f"{body}{question.rest}")
            tools = tuple(tool for tool in self._pool.tools if tool.server in task.servers)
            if not why_not_sound(task, len(first.demonstration), tools) and await self._played(task) == KEPT:
                self.outcomes[FOLLOWED] += 1
                written.tasks[first.id] = task
                written.dropped.add(second.id)

    async def _played(self, task: Task) -> str:
        episode_id = f"writer/{task.id}"
        try:
            async with self._pool.lease(task.servers, episode_id, allow=self._allowed) as toolbox:
                trajectory = await self._model.play(task, toolbox, episode_id, self._seed)
        except (ConnectFailed, RewardDown):
            return SERVER_FAILED
        if trajectory.stop.is_infrastructure:
            return SERVER_FAILED
        return KEPT if is_success(trajectory) else UNSOLVED


def pairs(tasks: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Yield pairs of reading tasks that name the same thing and belong to the same split, each task once."""
    by_value: dict[tuple[str, tuple[str, ...], str], list[Task]] = defaultdict(list)
    for task in tasks:
        if task.truth.answer is not None and not task.conversation:
            for value in values(question_of(task).body, task):
                by_value[task.split, task.servers, value].append(task)
    used: set[str] = set()
    for together in by_value.values():
        free = list({task.id: task for task in together if task.id not in used}.values())
        if len(free) >= 2 and free[0].truth.answer != free[1].truth.answer:
            used |= {free[0].id, free[1].id}
            yield free[0], free[1]
