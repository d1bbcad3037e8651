"""Made conversations on real servers: plans score 1 in every format, and every cheat scores 0."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from tests import warm
from tests.models.chat.tokenizers import NAMES, TOKENIZERS, qwen3
from tests.rollout.stage import gathered, leasing
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.pool import Pool
from turnwise.models.chat import RenderedChat, open_chat
from turnwise.rewards import Rewards
from turnwise.rewards.outcome import is_success
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, play, player
from turnwise.setup.bench import scripted_engine
from turnwise.tasks.proof.conversation_cheats import conversation_cheats
from turnwise.tasks.selection import SPLITS
from turnwise.tasks.user_side import UserSide
from turnwise.types import DemoTurn, Sampling, Stop, Task, ToolCall, Trajectory
from turnwise.worlds.market.families import CONVERSATION_FAMILIES
from turnwise.worlds.market.families.making import make_tasks
from turnwise.worlds.market.world import open_world

CHAT = open_chat(qwen3())
LIMITS = EpisodeLimits(tokens_per_turn=2_000, tokens_per_episode=60_000)
FORMATS = [name for name in NAMES if name != "calls in XML"]
"""A model that calls in XML reads no demonstrations: they are written in the Hermes form."""


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with Pool(warm.built_in({}), max_result_tokens=8_000) as pool:
        assert not await pool.connect()
        yield pool


@pytest.fixture(scope="module")
async def tasks(pool: Pool) -> tuple[Task, ...]:
    made = await make_tasks(
        open_world(0).market,
        pool.lease,
        dict.fromkeys(SPLITS, 1),
        earns=is_success,
        families=CONVERSATION_FAMILIES,
    )
    assert (made.rejected, made.short) == ((), {})
    return made.tasks


def family(tasks: Sequence[Task], name: str) -> Task:
    return next(task for task in tasks if task.family == name and task.split == "test")


async def scores(pool: Pool, tasks: Sequence[Task], chat: RenderedChat) -> dict[str, float]:
    """Play the tasks' demonstrations as a collection; return the reward by task."""
    playing = player(scripted_engine(chat, tasks, pool.tools), chat, LIMITS)
    collector = Collector(playing, leasing(pool), Rewards(), CollectionPlan(group_size=1))
    groups = await gathered(collector, tasks, len(tasks))
    return {group.task.id: group.rewards[0].total for group in groups}


async def played(pool: Pool, task: Task, turns: Sequence[DemoTurn]) -> tuple[Trajectory, float]:
    """Play these turns in an episode of the task; an empty text would not be an answer."""
    script = [CHAT.say(turn.text if turn.text or turn.calls else "No idea.", turn.calls) for turn in turns]
    engine = ScriptedEngine(lambda text: CHAT.say(text)[:-1], min(CHAT.stop_ids), sequence=script)
    async with leasing(pool)(task, task.id) as toolbox:
        trajectory = await play(
            task, engine, CHAT, toolbox, episode_id=task.id, seed=0, limits=LIMITS, sampling=Sampling()
        )
    return trajectory, (await Rewards().score(trajectory)).total


def exchanges_of(task: Task) -> list[list[DemoTurn]]:
    """The demonstration's turns for each user message."""
    user = UserSide(task, ())
    found: list[list[DemoTurn]] = [[]]
    for number, turn in enumerate(task.demonstration):
        found[-1].append(turn)
        ending, said = user.answer_shown(number)
        if ending is not None and said is not None:
            found.append([])
    return found


def with_arguments(turn: DemoTurn, **arguments: object) -> DemoTurn:
    [call] = turn.calls
    return replace(turn, calls=(ToolCall(call.id, call.name, {**call.arguments, **arguments}),))


async def test_every_plan_scores_one_in_every_family_and_split(pool: Pool, tasks: tuple[Task, ...]) -> None:
    assert {(task.family, task.split) for task in tasks} == {
        (name, split) for name in CONVERSATION_FAMILIES for split in SPLITS
    }
    assert await scores(pool, tasks, CHAT) == {task.id: 1.0 for task in tasks}


@pytest.mark.parametrize("name", FORMATS)
async def test_every_demonstration_is_right_in_every_format(
    pool: Pool, tasks: tuple[Task, ...], name: str
) -> None:
    held_out = [task for task in tasks if task.split == "test"]
    chat = open_chat(TOKENIZERS[name]())
    assert await scores(pool, held_out, chat) == {task.id: 1.0 for task in held_out}


async def test_every_cheat_of_a_conversation_scores_nothing(pool: Pool, tasks: tuple[Task, ...]) -> None:
    cheats = [
        (task, cheat)
        for task in tasks
        if task.split == "test" and task.conversation
        for cheat in conversation_cheats(exchanges_of(task))
    ]
    assert {task.family for task, _ in cheats} == CONVERSATION_FAMILIES.keys() - {"missing_day"}
    outcomes = [await played(pool, task, turns) for task, (_, turns) in cheats]
    wrong = [(task.id, name) for (task, (name, _)), (_, score) in zip(cheats, outcomes, strict=True) if score]
    assert wrong == []
    assert all(trajectory.stop is Stop.ANSWERED for trajectory, _ in outcomes), "all were played to the end"


OTHER_DAY = {"start_date": "2026-03-02", "end_date": "2026-03-02"}
GUESSES: dict[str, Callable[[Sequence[DemoTurn]], list[DemoTurn]]] = {
    "a day is guessed": lambda turns: [with_arguments(turns[1], **OTHER_DAY), DemoTurn("41.07")],
    "a day is guessed, then asked for": lambda turns: [
        turns[0],
        with_arguments(turns[1], **OTHER_DAY),
        DemoTurn("1"),
    ],
    "the answer without a call": lambda turns: [turns[0], turns[-1]],
    "a question without a call": lambda turns: [turns[0], DemoTurn("I cannot know.")],
    "two questions": lambda turns: [turns[0], turns[0]],
    "something else is asked": lambda turns: [DemoTurn("Which currency?")],
}


@pytest.mark.parametrize("guess", GUESSES)
async def test_what_the_user_was_not_asked_is_not_guessed(
    pool: Pool, tasks: tuple[Task, ...], guess: str
) -> None:
    task = family(tasks, "missing_day")
    trajectory, score = await played(pool, task, GUESSES[guess](task.demonstration))
    assert (trajectory.stop, score) == (Stop.ANSWERED, 0.0)


async def test_a_change_is_undone_only_by_the_value_from_before(pool: Pool, tasks: tuple[Task, ...]) -> None:
    """Only the probe sees the difference: call, answer and writes are as expected."""
    task = family(tasks, "undone_change")
    *before, undo, answer = task.demonstration
    [[_, stored, _], [_, changed, _], _] = exchanges_of(task)
    old, new = (turn.calls[0].arguments["data"] for turn in (stored, changed))
    assert undo.calls[0].arguments["data"] == old
    for data in (new, f"[{old}, {new}]", f'{{"old": {old}, "new": {new}}}'):
        trajectory, score = await played(pool, task, [*before, with_arguments(undo, data=data), answer])
        assert (trajectory.stop, score) == (Stop.ANSWERED, 0.0)


async def test_a_post_to_another_channel_or_a_second_post_scores_nothing(
    pool: Pool, tasks: tuple[Task, ...]
) -> None:
    task = family(tasks, "five_requests")
    look_up, post, *rest = task.demonstration
    elsewhere = "random" if post.calls[0].arguments["channel"] != "random" else "general"
    for turns in ([look_up, with_arguments(post, channel=elsewhere), *rest], [look_up, post, post, *rest]):
        trajectory, score = await played(pool, task, turns)
        assert (trajectory.stop, score) == (Stop.ANSWERED, 0.0)


async def test_a_later_tool_cannot_be_called_before_it_is_offered(
    pool: Pool, tasks: tuple[Task, ...]
) -> None:
    task = family(tasks, "later_tool")
    unavailable, look_up, answer = task.demonstration
    trajectory, score = await played(pool, task, [look_up, answer, look_up, answer])
    [refused] = trajectory.turns[0].results
    assert (refused.cause, score) == ("unknown_tool", 0.0)
    assert (await played(pool, task, [look_up, unavailable, look_up, answer]))[1] == 1.0
    assert (await played(pool, task, [unavailable, look_up, unavailable]))[1] == 0.0
