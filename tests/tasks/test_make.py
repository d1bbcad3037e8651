"""Made tasks: plans run on the five real servers, splits that share nothing, wrong plans that are caught."""

import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.rewards import DEFAULT, why_unscorable_by
from turnwise.rewards.outcome import is_success
from turnwise.tasks.check import check_files
from turnwise.tasks.load import save
from turnwise.tasks.proof.answers import is_clear
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, call
from turnwise.tasks.proof.follow import ToolsDown
from turnwise.tasks.proof.verification import WorldMismatch
from turnwise.tasks.selection import SPLITS, split_of
from turnwise.types import Answer, Difficulty, ExpectedWrite, StateProbe
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.making import Made, make_tasks
from turnwise.worlds.market.world import open_world

MARKET = open_world(0).market
COUNTS = {"train": 2, "validation": 1, "test": 1}
Make = Callable[..., Awaitable[Made]]


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    """The five servers over the embedded world, whatever keys this machine has."""
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        yield pool


@pytest.fixture(scope="module")
def make(pool: Pool) -> Make:
    return lambda counts=COUNTS, **options: make_tasks(
        MARKET, pool.lease, counts, earns=is_success, **options
    )


@pytest.fixture(scope="module")
async def made(make: Make) -> Made:
    return await make()


def only(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


def named_in(text: str) -> list[Company]:
    """The companies whose symbol or name is in a text."""
    companies = MARKET.companies()
    return [found for found in companies if re.search(rf"\b({found.symbol}|{found.name})\b", text)]


def test_every_family_makes_tasks_in_every_split(made: Made) -> None:
    assert len(FAMILIES) >= 12
    found = {(task.family, task.split) for task in made.tasks}
    assert found == {(family, split) for family in FAMILIES for split in SPLITS}
    assert (made.rejected, made.short) == ((), {})
    assert len(made.tasks) == len(FAMILIES) * sum(COUNTS.values())
    assert {task.difficulty for task in made.tasks} == set(Difficulty)


async def test_two_runs_make_the_same_tasks_and_report_their_progress(made: Made, make: Make) -> None:
    progress: list[tuple[int, int]] = []
    again = await make(num_parallel=3, on_progress=lambda done, total: progress.append((done, total)))
    assert again == made
    total = len(made.tasks)
    assert progress == [(done, total) for done in range(1, total + 1)]


async def test_another_seed_makes_other_tasks_and_more_tasks_keep_the_first_ones(make: Make) -> None:
    families = only(FAMILIES["quote_figure"])
    few, more, other = [
        (await make(counts, seed=seed, families=families)).of_split("train")
        for counts, seed in (({"train": 2}, 0), ({"train": 4, "test": 1}, 0), ({"train": 2}, 1))
    ]
    assert more[:2] == few
    assert {task.prompt for task in other}.isdisjoint(task.prompt for task in few)


async def test_what_is_made_passes_the_check(made: Made, pool: Pool, tmp_path: Path) -> None:
    paths = [tmp_path / f"{split}.jsonl" for split in SPLITS]
    for path, split in zip(paths, SPLITS, strict=True):
        save(made.of_split(split), path)
    assert check_files(paths, tuple(pool.tools), why_unscorable_by(DEFAULT)) == []


def test_no_split_names_a_company_of_another(made: Made) -> None:
    for task in made.tasks:
        calls = [dict(call.arguments) for turn in task.demonstration for call in turn.calls]
        for company in named_in(task.prompt[0].content + str(calls)):
            assert split_of(company.symbol) == task.split, task.id


def test_a_ranking_asks_only_for_places_of_its_own_companies(made: Made) -> None:
    quotes = {"gainer_at_place": MARKET.gainers(), "loser_at_place": MARKET.losers()}
    ranked = [task for task in made.tasks if task.family in quotes]
    assert len(ranked) == 8
    for task in ranked:
        [place] = re.findall(r"\b(\d+)\b", task.prompt[0].content)
        assert split_of(quotes[task.family][int(place) - 1].symbol) == task.split


def test_the_splits_are_about_as_large_as_meant() -> None:
    counts = {split: sum(split_of(c.symbol) == split for c in MARKET.companies()) for split in SPLITS}
    assert counts == {"train": 140, "validation": 24, "test": 36}


def test_no_phrasing_is_in_two_splits() -> None:
    for family in FAMILIES.values():
        parts = [family.phrasings_for(split) for split in SPLITS]
        assert [len(part) for part in parts] == [4, 1, 1], family.name
        every = [phrasing for part in parts for phrasing in part]
        assert len(set(every)) == len(every)


def test_a_split_uses_only_its_own_phrasings(made: Made) -> None:
    for task in made.tasks:
        patterns = [
            re.sub(r"\\\{\w+\\\}", ".+?", re.escape(phrasing))
            for phrasing in FAMILIES[task.family].phrasings_for(task.split)
        ]
        assert any(re.match(pattern, task.prompt[0].content) for pattern in patterns), task.id


def test_plans_were_carried_out_and_their_results_are_in_the_demonstration(made: Made) -> None:
    for task in made.tasks:
        *acted, answer = task.demonstration
        assert acted
        assert answer.text
        for turn in acted:
            assert turn.calls
            assert all(not result.is_error and result.content for result in turn.results)
        called = {call.name for turn in acted for call in turn.calls}
        assert set(task.truth.required_tools) <= called
        assert set(task.truth.milestones) == called
        assert task.truth.required_tools, "an answer guessed without tools must not be rewarded"


def test_only_tasks_that_ask_for_a_change_allow_one(made: Made) -> None:
    changing = {"post_figure", "stored_figure", "report_to_channel", "channel_followup"}
    for task in made.tasks:
        assert task.truth.writes is not None
        assert len(task.truth.writes) == (task.family in changing)
        assert len(task.truth.probes) == (task.family in changing)


def test_a_number_is_not_right_when_it_is_a_cent_off(made: Made) -> None:
    for task in made.tasks:
        answer = task.truth.answer
        assert answer is not None
        if task.family in ("quote_figure", "previous_bar", "figure_by_name", "change_percent"):
            allowed = answer.tolerance * max(1.0, abs(answer.value))
            assert allowed < (0.01 if isinstance(answer.value, float) else 1)


def test_truths_are_those_of_the_world(made: Made) -> None:
    """Computed here in another way than by the plans and the families."""
    for task in made.tasks:
        text = task.prompt[0].content
        named = named_in(text)
        value = task.truth.answer.value if task.truth.answer else None
        if task.family == "change_percent":
            assert value == MARKET.quote(named[0].symbol).change_percent
        elif task.family == "larger_market_cap":
            assert value == max(named, key=lambda company: MARKET.quote(company.symbol).market_cap).symbol
        elif task.family == "average_close":
            start, end = re.findall(r"\d{4}-\d\d-\d\d", text)
            closes = [b.close_cents for b in MARKET.daily_bars(named[0].symbol) if start <= str(b.day) <= end]
            assert value == pytest.approx(sum(closes) / len(closes) / 100, abs=0.0051)
        elif task.family == "faster_growth":
            years = {company.symbol: MARKET.years(company.symbol) for company in named}
            growth = {symbol: now.revenue / before.revenue for symbol, (now, before, *_) in years.items()}
            assert value == max(growth, key=lambda symbol: growth[symbol])


def test_a_post_is_exact_to_the_letter_and_looked_for_in_its_channel(made: Made) -> None:
    tasks = [task for task in made.tasks if task.family == "report_to_channel"]
    for task in tasks:
        [write], [probe] = task.truth.writes or (), task.truth.probes
        message = write.arguments["message"]
        assert re.fullmatch(r"[A-Z]{5} implied price: \d+\.\d\d", message)
        assert (write.tool, probe.contains) == ("send_slack_message", message)
        sent = next(c for t in task.demonstration for c in t.calls if c.name == "send_slack_message")
        assert sent.arguments["message"] == message
        assert re.search(rf"\b{sent.arguments['channel']}\b", task.prompt[0].content)


async def test_all_servers_can_be_offered(make: Make) -> None:
    [task] = (
        await make({"test": 1}, families=only(FAMILIES["quote_figure"]), servers=("fmp", "slack"))
    ).tasks
    assert task.servers == ("fmp", "slack")


async def test_tasks_can_all_be_offered_the_same_few_tools(make: Make) -> None:
    servers, tools = ("polygon", "fmp"), ("fmp_get_quote", "polygon_*")
    families = only(FAMILIES["quote_figure"], FAMILIES["figure_by_name"])
    made = await make({"test": 1}, families=families, servers=servers, tools=tools)
    [task], [rejected] = made.tasks, made.rejected
    assert (task.family, task.servers, task.tools) == ("quote_figure", servers, tools)
    assert rejected.reason == "fmp_search_ticker is needed and not offered"


async def test_a_family_that_runs_out_is_counted_short(make: Make) -> None:
    made = await make({"validation": 40}, families=only(FAMILIES["channel_price"]))
    assert 0 < len(made.tasks) < 40
    assert made.short == {"channel_price/validation": 40 - len(made.tasks)}
    assert len({task.prompt for task in made.tasks}) == len(made.tasks)


async def test_an_unknown_split_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        await make({"dev": 1})


def mutant(**changes: Any) -> dict[str, Family]:
    """The quote family with something wrong in its case."""

    def draft(material: Material) -> Case:
        return replace(FAMILIES["quote_figure"].draft(material), **changes)

    return only(replace(FAMILIES["quote_figure"], draft=draft))


def said(value: Any, **state: Any) -> Conclusion:
    return Conclusion(Answer(value), str(value), **state)


async def test_a_plan_that_disagrees_with_the_world_raises(make: Make) -> None:
    with pytest.raises(WorldMismatch, match=r"quote_figure-train-0001: the tools say 41, the world says"):
        await make({"train": 1}, families=mutant(conclude=lambda _: said(41)))


async def test_a_plan_that_does_not_reproduce_its_truth_is_rejected(make: Make) -> None:
    [lucky] = mutant(
        turns=((call("execute_python", code="import random\nprint(random.random())"),),),
        conclude=lambda results: said(results[0]["stdout"]),
        known=None,
    ).values()
    made = await make(
        {"train": 2}, families=only(replace(lucky, servers=("python",)), FAMILIES["post_figure"])
    )
    assert [rejected.task_id[-4:] for rejected in made.rejected] == ["0001", "0002"]
    assert all("does not reproduce its truth" in rejected.reason for rejected in made.rejected)
    assert [task.family for task in made.tasks] == ["post_figure", "post_figure"]


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown_ticker": ({"turns": ((call("fmp_get_quote", symbol="NOPE!"),),)}, "unknown ticker"),
    "unknown_tool": ({"turns": ((call("fmp_get_quotes"),),)}, "unknown tool"),
    "no_such_result": ({"turns": ((PlanStep("fmp_get_quote", lambda r: {"symbol": r[3]}),),)}, "IndexError"),
    "no_such_field": ({"conclude": lambda r: said(r[0]["nothing"])}, "KeyError: 'nothing'"),
    "change_not_made": (
        {"conclude": lambda _: said("x", writes=(ExpectedWrite("send_slack_message", {}),)), "known": None},
        "the truth expects",
    ),
    "change_not_expected": (
        {
            "turns": ((call("send_slack_message", channel="random", message="hi"),),),
            "conclude": lambda _: said("x"),
            "known": None,
        },
        "the plan changes",
    ),
    "probe_never_holds": (
        {
            "conclude": lambda _: said("x", probes=(StateProbe("list_slack_channels", {}, "zzz"),)),
            "known": None,
        },
        "does not show 'zzz'",
    ),
    "probe_always_holds": (
        {
            "conclude": lambda _: said("x", probes=(StateProbe("list_slack_channels", {}, "trading"),)),
            "known": None,
        },
        "holds before anything was done",
    ),
}


async def test_a_plan_that_cannot_be_right_is_rejected_with_its_reason(make: Make) -> None:
    families = {
        name: replace(mutant(**changes)["quote_figure"], name=name, servers=("fmp", "slack"))
        for name, (changes, _) in LIES.items()
    }
    made = await make({"train": 1}, families=families)
    assert made.tasks == ()
    reasons = {rejected.task_id.removesuffix("-train-0001"): rejected.reason for rejected in made.rejected}
    assert reasons.keys() == LIES.keys()
    for name, reason in reasons.items():
        assert LIES[name][1] in reason


async def test_a_truth_that_an_answer_without_a_call_satisfies_is_rejected(make: Make) -> None:
    made = await make({"train": 1}, families=only(replace(FAMILIES["quote_figure"], required_tools=())))
    assert [rejected.reason for rejected in made.rejected] == [
        "a shortcut earns it: the answer without a call"
    ]


async def test_a_server_that_fails_stops_the_making_and_rejects_nothing() -> None:
    hanging = mutant(turns=((call("execute_python", code="import time\ntime.sleep(20)"),),))["quote_figure"]
    [spec] = [spec for spec in warm.built_in({"TURNWISE_WORLD_SEED": "0"}) if spec.name == "python"]
    options = spec.options.model_copy(update={"timeout_seconds": 0.2})
    async with Pool([spec.model_copy(update={"options": options})]) as pool:
        families = only(replace(hanging, servers=("python",)))
        with pytest.raises(ToolsDown, match="execute_python"):
            await make_tasks(MARKET, pool.lease, {"train": 3}, earns=is_success, families=families)


def test_rounding_is_clear_only_away_from_ties_and_zero() -> None:
    assert [number for number in (1.234, -7.7, 1.235, -1.2349, 0.001) if is_clear(number)] == [1.234, -7.7]


def test_nothing_to_pick_from_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match="nothing fits"):
        Material(MARKET, (), (), random.Random(0)).pick(())
