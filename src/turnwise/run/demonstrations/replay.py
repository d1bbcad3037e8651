"""Demonstrations made on the servers: from recorded conversations, or from calls without results."""

import asyncio
import json
import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.rewards import Rewards, is_success, succeeded
from turnwise.rewards.numbers import SCALES
from turnwise.rewards.outcome import is_decidable, successes_of
from turnwise.rollout.conversation import Conversation
from turnwise.rollout.players.policy import EpisodeLimits, finish_episode, with_call_ids
from turnwise.tasks.earlier.recording import Recording
from turnwise.tasks.load import PlacedTask
from turnwise.tasks.proof.follow import ToolsDown
from turnwise.tasks.proof.verification import Rejected
from turnwise.tasks.user_side import DemonstratedUser
from turnwise.types import (
    Completion,
    DemoTurn,
    Fault,
    Finish,
    LiveServer,
    Parsed,
    Stop,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)
from turnwise.types.protocols import RewardDown

_NUM_PARALLEL = 8
_REASON_CHARS = 240
_LARGE = 10_000
"""Whole numbers in a call from this value on are data; smaller ones are years, limits or constants."""
_QUOTE_CHARS = 32
"""Length of a passage that counts as quoted; two texts may share a shorter one by chance."""
_NUMBER = re.compile(rf"(?<![\d.])(\d+(?:,\d{{3}})*)(\.\d+)?(?: ?({'|'.join(SCALES)})\b)?", re.IGNORECASE)
_LIST_NUMBER = re.compile(r"^[^\w\n]*\d{1,2}[.)]\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """All tasks, with the demonstrations that succeed now, and why the others were dropped."""

    tasks: tuple[Task, ...]
    dropped: tuple[Rejected, ...]

    @property
    def num_kept(self) -> int:
        return sum(bool(task.demonstration) for task in self.tasks)


OnProgress = Callable[[int, int], None]
Verify = Callable[[PlacedTask, str], Awaitable[Task | Rejected]]
"""Plays a task's demonstration under an episode id; returns the task with current results, or why not."""


async def demonstrated(
    placed: Sequence[PlacedTask], pool: Pool, *, on_progress: OnProgress | None = None
) -> Demonstrated:
    """Replay every recording on the pool's servers. Raises ToolsDown if a server fails."""

    async def verify(item: PlacedTask, episode_id: str) -> Task | Rejected:
        assert item.recording is not None
        return await _verified(item.task, item.recording, pool, episode_id)

    recorded = [index for index, item in enumerate(placed) if item.recording is not None]
    return await _play_all(placed, recorded, verify, on_progress)


async def fill_results(
    placed: Sequence[PlacedTask],
    pool: Pool,
    rewards: Rewards,
    live: Sequence[LiveServer] = (),
    *,
    on_progress: OnProgress | None = None,
) -> Demonstrated:
    """Make the calls of demonstrations that have no results, and keep those that succeed.

    A call that could change real data is not made. Raises ToolsDown if a server fails.
    """

    async def verify(item: PlacedTask, episode_id: str) -> Task | Rejected:
        why = _why_not_made(item.task, pool, live)
        return Rejected(item.task.id, why) if why else await _filled(item.task, pool, rewards, episode_id)

    empty = [index for index, item in enumerate(placed) if item.task.lacks_results]
    return await _play_all(placed, empty, verify, on_progress)


async def _play_all(
    placed: Sequence[PlacedTask], chosen: Sequence[int], verify: Verify, on_progress: OnProgress | None
) -> Demonstrated:
    """Verify the chosen tasks, at most 8 at a time; a rejected task is kept without its demonstration."""
    outcomes: dict[int, Task | Rejected] = {}
    slots = asyncio.Semaphore(_NUM_PARALLEL)

    async def play(index: int) -> None:
        item = placed[index]
        async with slots:
            outcomes[index] = await verify(item, f"{item.row}/{item.task.id}")
        if on_progress is not None:
            on_progress(len(outcomes), len(chosen))

    try:
        async with asyncio.TaskGroup() as group:
            for index in chosen:
                group.create_task(play(index))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures  # the others failed on the same server
    found = [outcomes.get(index, item.task) for index, item in enumerate(placed)]
    return Demonstrated(
        tasks=tuple(
            outcome if isinstance(outcome, Task) else replace(item.task, demonstration=())
            for outcome, item in zip(found, placed, strict=True)
        ),
        dropped=tuple(outcome for outcome in found if isinstance(outcome, Rejected)),
    )


async def _verified(task: Task, recording: Recording, pool: Pool, episode_id: str) -> Task | Rejected:
    """Return the task with the recording as its demonstration, or the first reason to reject it."""
    # A call that failed in the recording is left out: the rest must succeed without it.
    turns = [
        DemoTurn("", tuple(ToolCall("", call.name, call.arguments) for call in calls))
        for turn in recording.turns
        if (calls := [call for call in turn if not call.has_failed])
    ]
    if not recording.answer:
        return Rejected(task.id, "the recording ends without an answer")
    if len(turns) + 1 > task.turn_limit:
        return Rejected(task.id, f"it takes {len(turns) + 1} turns, the task allows {task.turn_limit}")
    trajectory = await _replayed(task, [*turns, DemoTurn(recording.answer)], pool, episode_id)
    why = _why_failing(trajectory)
    if why is None and not is_decidable(task):
        why = "its truth asks for nothing that the replay could verify"
    why = why or _why_unsuccessful(trajectory) or _why_false(trajectory, recording)
    return _demonstrating(trajectory, why)


async def _filled(task: Task, pool: Pool, rewards: Rewards, episode_id: str) -> Task | Rejected:
    """Return the task with current results in its demonstration, or the first reason to reject it."""
    trajectory = await _replayed(task, task.demonstration, pool, episode_id)
    why = _why_failing(trajectory)
    if why is None and is_decidable(task):
        why = _why_unsuccessful(trajectory)
    elif why is None:
        why = await _why_unrewarded(trajectory, rewards)
    return _demonstrating(trajectory, why)


def _demonstrating(trajectory: Trajectory, why_not: str | None) -> Task | Rejected:
    task = trajectory.task
    if why_not is not None:
        is_short = len(why_not) <= _REASON_CHARS
        return Rejected(task.id, why_not if is_short else f"{why_not[:_REASON_CHARS]}…")
    return replace(task, demonstration=tuple(_demo_turn(turn) for turn in trajectory.turns))


def _why_not_made(task: Task, pool: Pool, live: Sequence[LiveServer]) -> str | None:
    """Return why its calls must not be made: one of its tools could change real data. None if none could.

    What mcp.json and the recipe permit is permitted for training, not for filling in results.
    """
    servers = {tool.name: tool.server for tool in pool.tools}
    services = {server.name: server.service for server in live}
    called = [call.name for turn in task.demonstration for call in turn.calls]
    for name in (*called, *(probe.tool for truth in task.truths for probe in truth.probes)):
        server = servers.get(name)
        if server is None or name not in pool.exposure(server).writers:
            continue
        outside = pool.exposure(server).outside or ((services[server],) if server in services else ())
        if outside:
            return f"not run: {name} could change {' and '.join(outside)}"
    return None


async def _replayed(task: Task, script: Sequence[DemoTurn], pool: Pool, episode_id: str) -> Trajectory:
    """Play the script as a new episode in its own lease, up to the first call that fails."""
    servers = task.servers or tuple(dict.fromkeys(tool.server for tool in pool.tools))
    try:
        async with pool.lease(servers, episode_id, allow=task.leased_tools) as toolbox:
            shown = replace(task, demonstration=tuple(script))
            conversation = Conversation(shown, toolbox, episode_id=episode_id, user_model=DemonstratedUser())
            trajectory = await finish_episode(
                _play(script, conversation), conversation, limits=EpisodeLimits()
            )
    except ConnectFailed as error:
        raise ToolsDown(str(error)) from None
    for call, result in trajectory.calls:
        if result.fault is Fault.INFRA:
            raise ToolsDown(f"{call.name}: {result.content}")
    return trajectory


async def _play(script: Sequence[DemoTurn], conversation: Conversation) -> Stop:
    said = ""
    for number, shown in enumerate(script):
        parsed = with_call_ids(Parsed(text=shown.text, calls=shown.calls), number)
        turn = replace(_turn(parsed), user=said, message=conversation.message)
        conversation.turns.append(turn)
        reached = await conversation.advance()
        if isinstance(reached, Stop):
            return reached
        if any(result.is_error for result in conversation.turns[-1].results):
            return Stop.MAX_TURNS
        said = reached.text if reached is not None else ""
    return Stop.MAX_TURNS


def _turn(parsed: Parsed) -> Turn:
    """Return a turn that was not sampled."""
    return Turn((), Completion((), (), Finish.STOP, 0), parsed)


def _why_failing(trajectory: Trajectory) -> str | None:
    """Return the first call that fails, with the server's message; None if all succeed."""
    for call, result in trajectory.calls:
        if result.is_error:
            return f"{call.name} {json.dumps(dict(call.arguments))} fails now: {result.content}"
    return None


def _why_unsuccessful(trajectory: Trajectory) -> str | None:
    if is_success(trajectory):
        return None
    return f"its truth does not hold: {_missing(trajectory)}"


async def _why_unrewarded(trajectory: Trajectory, rewards: Rewards) -> str | None:
    """Return why the user's own reward is not a success; it decides if the truth asks for nothing."""
    try:
        reward = await rewards.score(trajectory)
    except RewardDown as error:
        return f"its reward cannot be computed: {error}"
    return None if succeeded(trajectory, reward) else f"its reward is {reward.total:g}, a success earns 1"


def _why_false(trajectory: Trajectory, recording: Recording) -> str | None:
    """Return what the recording says that is no longer true; None if there is nothing."""
    return _false_figure(trajectory) or _old_quote(trajectory, recording)


def _missing(trajectory: Trajectory) -> str:
    if trajectory.task.conversation:
        message = successes_of(trajectory).index(False)
        return f"message {message + 1} is not answered as asked"
    truth, called = trajectory.task.truth, {call.name for call, _ in trajectory.calls}
    unused = [name for name in truth.required_tools if name not in called]
    if unused:
        return f"{unused[0]} never succeeds"
    if len(trajectory.calls) < truth.min_tool_calls:
        return f"{len(trajectory.calls)} calls succeed, and {truth.min_tool_calls} are asked for"
    return "its answer, its changes or its probes are not as asked"


def _demo_turn(turn: Turn) -> DemoTurn:
    """Return the turn with the argument names that the server received, and no times: these differ by run."""
    pairs = list(zip(turn.parsed.calls, turn.results, strict=True))
    return DemoTurn(
        turn.parsed.text,
        tuple(replace(call, arguments=result.sent(call.arguments)) for call, result in pairs),
        tuple(replace(result, seconds=0.0, num_retries=0, repairs=()) for _, result in pairs),
        turn.user,
    )


# --- claims that only the recording supports ---------------------------------------------------------------


def _false_figure(trajectory: Trajectory) -> str | None:
    """Return the first figure that neither the question nor a current result contains, and where it is.

    The recording states the figures of its day. Imitating it now would teach the model to state what no tool
    returned. All numbers in the answer are checked, and those in call arguments that look like data.
    """
    known = KnownNumbers(numbers_of(_seen(trajectory)))
    answer = _LIST_NUMBER.sub("", trajectory.final_text)
    for number in numbers_of(answer):
        if number not in known:
            return f"its answer says {number.text}, which no tool returns now"
    for call, _ in trajectory.calls:
        for text in _texts(call.arguments):
            for number in numbers_of(text):
                if number.is_data and number not in known:
                    return f"{call.name} is given {number.text}, which no tool returns now"
    return None


def _old_quote(trajectory: Trajectory, recording: Recording) -> str | None:
    """Return the first passage of a call or the answer that only a recorded result contains.

    Otherwise code with a pasted result would return the old result as if it were current.
    """
    old = _plain("\n".join(call.result for call in recording.calls))
    seen = _plain(_seen(trajectory))
    written = [(call.name, text) for call, _ in trajectory.calls for text in _texts(call.arguments)]
    for where, text in (*written, ("its answer", trajectory.final_text)):
        if passage := first_quote(_plain(text), old, seen):
            return f"{where} quotes the recording: {passage!r}"
    return None


def first_quote(text: str, old: str, seen: str) -> str:
    """Return the first passage of the text that is in `old` and not in `seen`; empty if there is none."""
    passages = set(_passages(text))
    quoted = passages.intersection(_passages(old)).difference(_passages(seen))
    return next((passage for passage in _passages(text) if passage in quoted), "")


def _passages(text: str) -> Iterator[str]:
    return (text[start : start + _QUOTE_CHARS] for start in range(len(text) - _QUOTE_CHARS + 1))


def _seen(trajectory: Trajectory) -> str:
    """Return the question and the current results as one text."""
    asked = [message.content for message in trajectory.task.prompt]
    asked += [turn.user for turn in trajectory.turns]
    return "\n".join([*asked, *(result.content for _, result in trajectory.calls)])


def _plain(text: str) -> str:
    return " ".join(text.replace("\\n", " ").split())


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as it is written in a text."""

    text: str
    value: float
    unit: float
    """The value of its last digit: 0.01 for 1.25, 1e7 for 1.25 billion; 0 for a whole number."""

    @property
    def is_data(self) -> bool:
        """Whether it is neither a year, a limit nor a constant in code."""
        return self.unit > 0 or self.value >= _LARGE


class KnownNumbers:
    """Sorted numbers, so that the nearest to a given one are found by binary search."""

    def __init__(self, numbers: Iterable[_Number]) -> None:
        self._values = sorted({number.value for number in numbers})

    def __contains__(self, number: _Number) -> bool:
        """Return whether one of them is this number when rounded to its last digit."""
        slack = 0.5 * number.unit * (1 + 1e-9)
        place = bisect_left(self._values, number.value)
        nearest = self._values[max(0, place - 1) : place + 1]
        return any(value == number.value or abs(value - number.value) <= slack for value in nearest)


def numbers_of(text: str) -> Iterator[_Number]:
    for match in _NUMBER.finditer(text):
        whole, fraction, scale = match[1].replace(",", ""), match[2] or "", match[3] or ""
        factor = SCALES.get(scale.lower(), 1.0)
        unit = factor * 10.0 ** -max(len(fraction) - 1, 0) if fraction or scale else 0.0
        yield _Number(match[0].strip(), float(whole + fraction) * factor, unit)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a call's arguments, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
