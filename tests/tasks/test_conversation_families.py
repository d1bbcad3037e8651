"""Made conversations: splits that share nothing, truths of the world, cases that cannot be right."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.rewards import DEFAULT, why_unscorable_by
from turnwise.rewards.outcome import is_success, successes_of
from turnwise.tasks.check import check_files
from turnwise.tasks.load import load, save
from turnwise.tasks.proof.case import Case, Conclusion, call
from turnwise.tasks.proof.conversation_cheats import conversation_cheats
from turnwise.tasks.proof.verdict import episode_of, why_unsound
from turnwise.tasks.proof.verification import WorldMismatch
from turnwise.tasks.selection import SPLITS, split_of
from turnwise.types import Answer, Cause, DemoTurn, Stop, Task
from turnwise.worlds.market.families import CONVERSATION_FAMILIES, FAMILIES, chosen_families
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.making import Made, make_tasks
from turnwise.worlds.market.world import open_world

MARKET = open_world(0).market
COUNTS = {"train": 2, "validation": 1, "test": 1}
Make = Callable[..., Awaitable[Made]]


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        yield pool


@pytest.fixture(scope="module")
def make(pool: Pool) -> Make:
    return lambda counts=COUNTS, families=CONVERSATION_FAMILIES, **options: make_tasks(
        MARKET, pool.lease, counts, earns=is_success, families=families, **options
    )


@pytest.fixture(scope="module")
async def made(make: Make) -> Made:
    return await make()


def messages(task: Task) -> list[str]:
    return [task.prompt[0].content, *(follow_up.message for follow_up in task.conversation)]


def of_family(made: Made, name: str) -> list[Task]:
    return [task for task in made.tasks if task.family == name]


def test_every_conversation_is_made_in_every_split(made: Made) -> None:
    assert (made.rejected, made.short) == ((), {})
    found = {(task.family, task.split) for task in made.tasks}
    assert found == {(name, split) for name in CONVERSATION_FAMILIES for split in SPLITS}
    num_messages = {task.family: len(task.truths) for task in made.tasks}
    assert num_messages == {
        "same_figure": 2,
        "corrected_day": 2,
        "missing_day": 1,
        "later_tool": 2,
        "undone_change": 3,
        "five_requests": 5,
    }


async def test_the_same_seed_makes_the_same_conversations(made: Made, make: Make) -> None:
    assert await make(num_parallel=3) == made


async def test_what_is_made_passes_the_check_and_can_be_read_again(
    made: Made, pool: Pool, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{split}.jsonl" for split in SPLITS]
    for path, split in zip(paths, SPLITS, strict=True):
        save(made.of_split(split), path)
        assert tuple(load(path)) == made.of_split(split)
    await pool.connect()
    assert check_files(paths, tuple(pool.tools), why_unscorable_by(DEFAULT)) == []


def test_no_wording_is_in_two_splits_and_each_split_uses_its_own(made: Made) -> None:
    for family in CONVERSATION_FAMILIES.values():
        parts = [(family.phrasings_for(split), *family.follow_ups_for(split)) for split in SPLITS]
        for wordings in zip(*parts, strict=True):
            assert [len(own) for own in wordings] == [4, 1, 1], family.name
            assert len({wording for own in wordings for wording in own}) == 6, family.name
    for task in made.tasks:
        family = CONVERSATION_FAMILIES[task.family]
        own = (family.phrasings_for(task.split), *family.follow_ups_for(task.split))
        for text, phrasings in zip(messages(task), own, strict=True):
            patterns = [re.sub(r"\\\{\w+\\\}", ".+?", re.escape(phrasing)) for phrasing in phrasings]
            assert any(re.match(pattern, text) for pattern in patterns), (task.id, text)


def test_no_split_names_a_company_of_another(made: Made) -> None:
    symbols = {company.symbol for company in MARKET.companies()}
    for task in made.tasks:
        calls = [dict(call.arguments) for turn in task.demonstration for call in turn.calls]
        named = symbols & set(re.findall(r"\b[A-Z]{5}\b", f"{messages(task)} {calls}"))
        assert named
        assert {split_of(symbol) for symbol in named} == {task.split}, task.id


def test_the_demonstration_says_what_the_user_says(made: Made) -> None:
    for task in made.tasks:
        said = [turn.user for turn in task.demonstration if turn.user]
        replies = [rule.say for rule in task.user.rules] if task.user is not None else []
        assert said == [*replies, *messages(task)[1:]]


def test_a_correction_is_about_the_session_before(made: Made) -> None:
    for task in of_family(made, "corrected_day"):
        [(symbol, what, day)] = [
            (*re.findall(r"\b[A-Z]{5}\b", text), *re.findall(r"\b(?:close|open|high|low)\b", text), day)
            for text in messages(task)[:1]
            for day in re.findall(r"\d{4}-\d\d-\d\d", text)
        ]
        bars = MARKET.daily_bars(symbol)
        place = next(number for number, bar in enumerate(bars) if bar.day.isoformat() == day)
        expected = [getattr(bars[place], what), getattr(bars[place - 1], what)]
        assert [truth.answer and truth.answer.value for truth in task.truths] == expected


def test_the_missing_day_is_only_in_the_users_reply(made: Made) -> None:
    for task in of_family(made, "missing_day"):
        assert task.user is not None
        [rule] = task.user.rules
        assert re.search(r"\d{4}-\d\d-\d\d", rule.say)
        assert not re.search(r"\d", task.prompt[0].content)
        for question in ("When was that?", "What date was the audit?", "Sure! Which day do you mean?"):
            assert re.search(rule.when, question), question
        for answer in ("21.1", "Which currency?", "It closed at 21.1 that day.", "I do not know the date."):
            assert not re.search(rule.when, answer), answer


def test_a_change_is_undone_with_the_value_of_the_first_message(made: Made) -> None:
    for task in of_family(made, "undone_change"):
        first, second, third = task.truths
        assert (first.answer, first.probes, first.writes) == (third.answer, third.probes, third.writes)
        assert second.probes != first.probes


def test_plain_turns_make_an_episode_with_the_users_messages(made: Made, pool: Pool) -> None:
    [task, *_] = of_family(made, "same_figure")
    look_up, answer, *rest = task.demonstration
    tools = tuple(tool for tool in pool.tools if tool.server == "fmp")
    whole = episode_of(task, task.demonstration, tools, is_done=True)
    assert (whole.endings, whole.stop) == ((Stop.ANSWERED,), Stop.ANSWERED)
    assert [turn.message for turn in whole.turns] == [0, 0, 1, 1]
    assert [turn.user for turn in whole.turns] == ["", "", messages(task)[1], ""]
    assert successes_of(whole) == (True, True)
    half = episode_of(task, (look_up, answer), tools, is_done=True)
    assert (half.endings, half.stop, successes_of(half)) == ((Stop.ANSWERED,), Stop.MAX_TURNS, (True, False))
    early = episode_of(task, (look_up, rest[0], answer, DemoTurn(rest[-1].text)), tools, is_done=True)
    assert successes_of(early) == (True, False)


def test_probes_of_an_episode_belong_to_its_messages(made: Made, pool: Pool) -> None:
    [task, *_] = of_family(made, "undone_change")
    whole = episode_of(task, task.demonstration, tuple(pool.tools), is_done=True)
    assert [probe.message for probe in whole.probes] == [0, 1, 2]
    assert not is_success(episode_of(task, task.demonstration, tuple(pool.tools), is_done=False))


def test_a_call_before_its_tool_is_offered_fails_in_the_episode(made: Made, pool: Pool) -> None:
    [task, *_] = of_family(made, "later_tool")
    unavailable, look_up, answer = task.demonstration
    tools = tuple(tool for tool in pool.tools if tool.server == "fmp")
    early = episode_of(task, (look_up, unavailable, look_up, answer), tools, is_done=True)
    assert [turn.results[0].cause for turn in early.turns if turn.results] == [Cause.UNKNOWN_TOOL, Cause.OK]


def test_the_cheats_of_a_conversation_must_fail_even_if_its_probes_hold(made: Made, pool: Pool) -> None:
    [task, *_] = of_family(made, "undone_change")
    turns, last = task.demonstration, task.conversation[-1]
    cheats = tuple(conversation_cheats([turns[:3], turns[3:6], turns[6:]]))
    assert why_unsound(task, (), tuple(pool.tools), cheats, is_success) == ""
    lenient = replace(last, truth=replace(last.truth, writes=None, required_tools=()))
    unsound = replace(task, conversation=(*task.conversation[:-1], lenient))
    assert why_unsound(unsound, (), tuple(pool.tools), cheats, is_success) == (
        "a shortcut earns it: one call left out"
    )


def test_families_are_chosen_by_name_or_as_a_group() -> None:
    assert chosen_families(()) == FAMILIES
    assert len(FAMILIES) == 24
    assert chosen_families(["conversations"]) == CONVERSATION_FAMILIES
    assert [*chosen_families(["quote_figure", "later_tool"])] == ["quote_figure", "later_tool"]
    with pytest.raises(ValueError, match=r"quotes: unknown; the families are quote_figure, .*five_requests"):
        chosen_families(["quotes"])


def with_last(family: Family, **changes: Any) -> dict[str, Family]:
    """The family with something wrong in its last exchange."""

    def draft(material: Material) -> Case:
        case = family.draft(material)
        return replace(case, later=(*case.later[:-1], replace(case.later[-1], **changes)))

    return {family.name: replace(family, draft=draft)}


def said(value: Any) -> Conclusion:
    return Conclusion(Answer(value), str(value))


async def test_a_later_exchange_that_disagrees_with_the_world_raises(make: Make) -> None:
    with pytest.raises(WorldMismatch, match=r"the tools say 41, the world says .*, to: "):
        await make({"train": 1}, with_last(CONVERSATION_FAMILIES["same_figure"], conclude=lambda _: said(41)))


def changed_twice(material: Material) -> Case:
    """A change that is made once more in place of being undone."""
    case = CONVERSATION_FAMILIES["undone_change"].draft(material)
    change = case.later[0]
    return replace(case, later=(change, replace(change, turns=change.turns[1:])))


def guessed_right(material: Material) -> Case:
    case = CONVERSATION_FAMILIES["missing_day"].draft(material)
    return replace(case, guesses=(replace(case, question=None, guesses=()),))


UNSOUND: dict[str, tuple[dict[str, Family], str]] = {
    "no call is required": (
        with_last(CONVERSATION_FAMILIES["same_figure"], required_tools=()),
        "a shortcut earns it: everything with the first message",
    ),
    "the tool is not offered": (
        with_last(CONVERSATION_FAMILIES["later_tool"], tools=None),
        "fmp_get_quote is needed and not offered",
    ),
    "nothing is undone": (
        with_last(CONVERSATION_FAMILIES["undone_change"], turns=((call("get_execution_context"),),)),
        "the truth expects",
    ),
    "the state does not change": (
        {"undone_change": replace(CONVERSATION_FAMILIES["undone_change"], draft=changed_twice)},
        "holds before anything was done",
    ),
    "a guess is right": (
        {"missing_day": replace(CONVERSATION_FAMILIES["missing_day"], draft=guessed_right)},
        "a shortcut earns it: a guess",
    ),
}


@pytest.mark.parametrize("why", UNSOUND)
async def test_a_conversation_that_cannot_be_right_is_rejected_with_its_reason(make: Make, why: str) -> None:
    families, reason = UNSOUND[why]
    made = await make({"train": 1}, families)
    assert made.tasks == ()
    assert [reason in rejected.reason for rejected in made.rejected] == [True], made.rejected
