"""Made tasks: plans carried out on the five real servers, splits that share nothing, lies that are caught."""

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.rewards import DEFAULT, why_unscorable_by
from turnwise.servers.embedded.world import open_world
from turnwise.tasks.check import check_files
from turnwise.tasks.families import FAMILIES
from turnwise.tasks.families.changes import CHANNEL_PRICE, POST_FIGURE
from turnwise.tasks.families.lookups import QUOTE_FIGURE
from turnwise.tasks.family import (
    SPLITS,
    Case,
    Conclusion,
    Family,
    Material,
    PlanStep,
    call,
    is_clear,
    split_of,
)
from turnwise.tasks.load import save
from turnwise.tasks.make import Made, WorldMismatch, make_tasks
from turnwise.tasks.plan import ToolsDown
from turnwise.types import Answer, Difficulty, ExpectedWrite, StateProbe, Task, Tool

MARKET = open_world(0).market
COUNTS = {"train": 2, "validation": 1, "test": 1}


def specs() -> Any:
    """The five servers over the embedded world, whatever keys this machine has."""
    return warm.built_in({"TURNWISE_WORLD_SEED": "0"})


def run(work: Any) -> Any:
    async def main() -> Any:
        async with Pool(specs()) as pool:
            return await work(pool)

    return asyncio.run(main())


def make(counts: Mapping[str, int] = COUNTS, **options: Any) -> Made:
    made: Made = run(lambda pool: make_tasks(MARKET, pool.lease, counts, **options))
    return made


def only(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


@pytest.fixture(scope="module")
def twice() -> tuple[Made, Made, tuple[Tool, ...], list[tuple[int, int]]]:
    """Two runs over one start of the servers, the tools they list, and what the first one told meanwhile."""
    told: list[tuple[int, int]] = []

    async def work(pool: Pool) -> tuple[Made, Made, tuple[Tool, ...]]:
        first = await make_tasks(
            MARKET, pool.lease, COUNTS, on_progress=lambda done, total: told.append((done, total))
        )
        second = await make_tasks(MARKET, pool.lease, COUNTS, num_parallel=3)
        return first, second, tuple(pool.tools)

    return (*run(work), told)


@pytest.fixture(scope="module")
def made(twice: tuple[Made, ...]) -> Made:
    return twice[0]


def test_every_family_makes_tasks_in_every_split(made: Made) -> None:
    assert len(FAMILIES) >= 12
    found = {(task.family, task.split) for task in made.tasks}
    assert found == {(family, split) for family in FAMILIES for split in SPLITS}
    assert (made.rejected, made.short) == ((), {})
    assert len(made.tasks) == len(FAMILIES) * sum(COUNTS.values())
    assert {task.difficulty for task in made.tasks} == set(Difficulty)


def test_two_runs_give_the_same_bytes(twice: tuple[Made, ...], tmp_path: Path) -> None:
    for number in (0, 1):
        save(twice[number].tasks, tmp_path / f"{number}.jsonl")
    assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()


def test_another_seed_gives_other_tasks_and_more_tasks_keep_the_first_ones() -> None:
    async def work(pool: Pool) -> list[tuple[Task, ...]]:
        asked = (({"train": 2}, 0), ({"train": 4, "test": 1}, 0), ({"train": 2}, 1))
        families = only(QUOTE_FIGURE)
        runs = [
            await make_tasks(MARKET, pool.lease, counts, seed=seed, families=families)
            for counts, seed in asked
        ]
        return [made.of_split("train") for made in runs]

    few, more, other = run(work)
    assert more[:2] == few
    assert {task.prompt for task in other}.isdisjoint(task.prompt for task in few)


def test_what_is_made_passes_the_check(twice: tuple[Any, ...], tmp_path: Path) -> None:
    made, _, tools, _ = twice
    paths = [tmp_path / f"{split}.jsonl" for split in SPLITS]
    for path, split in zip(paths, SPLITS, strict=True):
        save(made.of_split(split), path)
    assert check_files(paths, tools, why_unscorable_by(DEFAULT)) == []


def test_progress_is_told_up_to_the_end(twice: tuple[Any, ...]) -> None:
    made, _, _, told = twice
    total = len(made.tasks)
    assert told == [(done, total) for done in range(1, total + 1)]


# --- splits ------------------------------------------------------------------------------------------------


def test_no_split_names_a_company_of_another(made: Made) -> None:
    for task in made.tasks:
        asked = task.prompt[0].content + str([dict(c.arguments) for t in task.demonstration for c in t.calls])
        for company in MARKET.companies():
            if re.search(rf"\b({company.symbol}|{company.name})\b", asked):
                assert split_of(company.symbol) == task.split, task.id


def test_a_ranking_asks_only_for_places_of_its_own_companies(made: Made) -> None:
    quotes = {"gainer_at_place": MARKET.gainers(), "loser_at_place": MARKET.losers()}
    places = [(task, re.search(r"\b(\d+)\b", task.prompt[0].content)) for task in made.tasks
              if task.family in quotes]  # fmt: skip
    assert len(places) == 8
    for task, place in places:
        assert place is not None
        assert split_of(quotes[task.family][int(place[1]) - 1].symbol) == task.split


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


# --- truths ------------------------------------------------------------------------------------------------


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
        assert task.truth.required_tools, "an answer guessed without tools must not be paid"


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
    """By a way of its own: neither the plans nor what the families say is known."""
    for task in made.tasks:
        text = task.prompt[0].content
        named = [
            company
            for company in MARKET.companies()
            if re.search(rf"\b({company.symbol}|{company.name})\b", text)
        ]
        value = task.truth.answer.value if task.truth.answer else None
        if task.family == "change_percent":
            assert value == MARKET.quote(named[0].symbol).change_percent
        elif task.family == "larger_market_cap":
            assert value == max(named, key=lambda task: MARKET.quote(task.symbol).market_cap).symbol
        elif task.family == "average_close":
            start, end = re.findall(r"\d{4}-\d\d-\d\d", text)
            closes = [b.close_cents for b in MARKET.daily_bars(named[0].symbol) if start <= str(b.day) <= end]
            assert value == pytest.approx(sum(closes) / len(closes) / 100, abs=0.0051)
        elif task.family == "faster_growth":
            growth = {}
            for one_task in named:
                now, before = MARKET.years(one_task.symbol)[:2]
                growth[one_task.symbol] = now.revenue / before.revenue
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


def test_all_servers_can_be_offered() -> None:
    [task] = make({"test": 1}, families=only(QUOTE_FIGURE), servers=("fmp", "slack")).tasks
    assert task.servers == ("fmp", "slack")


def test_a_family_that_runs_out_is_counted_short() -> None:
    made = make({"validation": 40}, families=only(CHANNEL_PRICE))
    assert 0 < len(made.tasks) < 40
    assert made.short == {"channel_price/validation": 40 - len(made.tasks)}
    assert len({task.prompt for task in made.tasks}) == len(made.tasks)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        make({"dev": 1})


# --- plans that lie ----------------------------------------------------------------------------------------


def mutant(**changes: Any) -> dict[str, Family]:
    """The quote family with something wrong in its case."""

    def draft(material: Material) -> Case:
        return replace(QUOTE_FIGURE.draft(material), **changes)

    return only(replace(QUOTE_FIGURE, draft=draft))


def said(value: Any, **state: Any) -> Conclusion:
    return Conclusion(Answer(value), str(value), **state)


def test_a_plan_that_disagrees_with_the_world_raises() -> None:
    with pytest.raises(WorldMismatch, match=r"quote_figure-train-0001: the tools say 41, the world says"):
        make({"train": 1}, families=mutant(conclude=lambda _: said(41)))


def test_a_plan_that_does_not_reproduce_its_truth_is_rejected() -> None:
    lucky = {
        "turns": ((call("execute_python", code="import random\nprint(random.random())"),),),
        "conclude": lambda results: said(results[0]["stdout"]),
        "known": None,
    }
    families = {
        name: replace(family, servers=("python",)) for name, family in mutant(**lucky).items()
    } | only(POST_FIGURE)
    made = make({"train": 2}, families=families)
    assert [rejected.task_id for rejected in made.rejected] == [
        "quote_figure-train-0001",
        "quote_figure-train-0002",
    ]
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
    "change_not_told": (
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


@pytest.fixture(scope="module")
def lies() -> Made:
    """One task of each lying family, made over one start of the servers."""
    families = {
        name: replace(mutant(**changes)["quote_figure"], name=name, servers=("fmp", "slack"))
        for name, (changes, _) in LIES.items()
    }
    return make({"train": 1}, families=families)


@pytest.mark.parametrize("name", LIES)
def test_a_plan_that_cannot_stand_is_rejected_with_its_reason(lies: Made, name: str) -> None:
    assert lies.tasks == ()
    [reason] = [rejection.reason for rejection in lies.rejected if rejection.task_id == f"{name}-train-0001"]
    assert LIES[name][1] in reason


async def test_a_server_that_fails_stops_the_making_and_rejects_nothing() -> None:
    hanging = mutant(turns=((call("execute_python", code="import time\ntime.sleep(20)"),),))["quote_figure"]

    async def main() -> None:
        [spec] = [spec for spec in specs() if spec.name == "python"]
        options = spec.options.model_copy(update={"timeout_seconds": 0.2})
        async with Pool([spec.model_copy(update={"options": options})]) as pool:
            families = only(replace(hanging, servers=("python",)))
            await make_tasks(MARKET, pool.lease, {"train": 3}, families=families)

    with pytest.raises(ToolsDown, match="execute_python"):
        await main()


def test_rounding_is_clear_only_away_from_ties_and_zero() -> None:
    assert is_clear(1.234)
    assert is_clear(-7.7)
    assert not is_clear(1.235)
    assert not is_clear(-1.2349)
    assert not is_clear(0.001)


def test_nothing_fits_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match="nothing fits"):
        Material(MARKET, (), (), random.Random(0)).pick(())


def test_tasks_can_all_be_offered_the_same_few_tools() -> None:
    servers, tools = ("polygon", "fmp"), ("fmp_get_quote", "polygon_*")
    made = make(
        {"test": 1}, families=only(QUOTE_FIGURE, FAMILIES["figure_by_name"]), servers=servers, tools=tools
    )
    assert [(task.family, task.servers, task.tools) for task in made.tasks] == [
        ("quote_figure", servers, tools)
    ]
    [rejected] = made.rejected
    assert rejected.reason == "fmp_search_ticker is needed and not offered"
