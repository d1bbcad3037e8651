"""A wrong call to an embedded tool is answered with a ToolError that tells the model what to do."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.mcp.serve import ToolError
from turnwise.servers.contract import contract, service_of
from turnwise.servers.embedded.fmp import EmbeddedFmp
from turnwise.servers.embedded.polygon import EmbeddedPolygon
from turnwise.servers.embedded.slack import EmbeddedSlack
from turnwise.servers.embedded.tavily import EmbeddedTavily
from turnwise.servers.embedded.world import World, open_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return open_world(0, cache_dir=tmp_path_factory.getbasetemp() / "worlds" / "turnwise")


def answer(world: World, tool: str, **arguments: Any) -> Any:
    slack = EmbeddedSlack(world)
    backends = {
        "fmp": (EmbeddedFmp(world), None),
        "polygon": (EmbeddedPolygon(world), None),
        "tavily": (EmbeddedTavily(world), None),
        "slack": (slack, slack.drop),
    }
    for name, (backend, drop) in backends.items():
        for served in service_of(name, backend, drop=drop).tools:
            if served.name == tool:
                return asyncio.run(run(served.handler(arguments, "episode")))
    raise AssertionError(tool)


async def run(waiting: Any) -> Any:
    return await waiting


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("fmp_get_quote", {"symbol": "NORVV"}, "did you mean NORV"),
        ("fmp_get_quote", {"symbol": "Norvindel Software"}, r"did you mean NORVC \(Norvindel Software\)"),
        ("fmp_get_quote", {"symbol": "1234567890"}, "look the company up by its name"),
        ("fmp_get_quote", {"symbol": "  "}, "symbol is empty"),
        ("fmp_get_quote", {"symbol": 7}, "symbol must be text, not int"),
        ("fmp_get_quote", {"symbol": "X" * 500}, "symbol has 500 characters; at most 400"),
        ("fmp_get_market_gainers", {"limit": 0}, "limit is 0; it must be 1 or more"),
        ("fmp_get_market_losers", {"limit": -(10**30)}, "it must be 1 or more"),
        ("fmp_search_ticker", {"query": "x", "limit": "ten"}, "limit must be a whole number, not 'ten'"),
        ("fmp_search_ticker", {"query": ""}, "query is empty"),
        ("fmp_get_income_statement", {"symbol": "NORVC", "period": "weekly"}, "one of annual, quarterly"),
        ("fmp_get_stock_news", {"tickers": "NORVC,NOPEX"}, "unknown ticker 'NOPEX'"),
        ("polygon_get_news", {"ticker": "NORVC", "limit": True}, "limit must be a whole number"),
        ("tavily_search", {"query": "x", "max_results": 0}, "max_results is 0"),
        ("tavily_search", {"query": "x" * 401}, "query has 401 characters; at most 400"),
        ("tavily_search", {"query": "x", "search_depth": "deep"}, "one of basic, advanced"),
        ("send_slack_message", {"channel": "nowhere", "message": "hi"}, r"the channels are general \(C0"),
        ("send_slack_message", {"channel": "general", "message": " "}, "message is empty"),
        ("send_slack_message", {"channel": "general", "message": "x" * 40_001}, "at most 40000"),
        ("get_slack_channel_history", {"channel_id": "C0000"}, "unknown channel 'C0000'"),
    ],
)
def test_a_mistake_is_answered_with_advice(
    world: World, tool: str, arguments: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ToolError, match=advice):
        answer(world, tool, **arguments)


@pytest.mark.parametrize(
    ("start", "end", "frequency", "advice"),
    [
        ("2026-06-30", "2026-06-01", "daily", "start_date 2026-06-30 is after end_date 2026-06-01"),
        ("2026-02-30", "2026-06-01", "daily", "start_date is '2026-02-30'; write a real day as YYYY-MM-DD"),
        ("20260601", "2026-06-02", "daily", "start_date is '20260601'"),
        ("2026-W23-1", "2026-06-02", "daily", "start_date is '2026-W23-1'"),
        ("June 1", "2026-06-02", "daily", "start_date is 'June 1'"),
        ("2019-01-01", "2019-02-01", "daily", "daily bars .* run from 2024-07-01 to 2026-06-30"),
        ("2027-01-01", "2027-02-01", "daily", "daily bars .* run from 2024-07-01 to 2026-06-30"),
        ("2026-01-05", "2026-01-06", "hourly", "hourly bars .* run from 2026-04-06 to 2026-06-30"),
        ("2026-05-05", "2026-05-06", "minute", "minute bars .* run from 2026-06-02 to 2026-06-30"),
        ("2026-06-01", "2026-06-02", "weekly", "one of daily, hourly, minute"),
    ],
)
def test_a_wrong_window_is_answered_with_the_right_one(
    world: World, start: str, end: str, frequency: str, advice: str
) -> None:
    with pytest.raises(ToolError, match=advice):
        answer(world, "polygon_get_aggs", ticker="NORVC", start_date=start, end_date=end, frequency=frequency)


@pytest.mark.parametrize("written", ["norvc", " NORVC ", "$NORVC", "NorvC\n"])
def test_a_symbol_may_be_written_in_any_case_and_with_spaces(world: World, written: str) -> None:
    assert answer(world, "fmp_get_quote", symbol=written)["symbol"] == "NORVC"


def test_a_weekend_has_no_bars_and_that_is_no_mistake(world: World) -> None:
    bars = answer(world, "polygon_get_aggs", ticker="NORVC", start_date="2026-06-27", end_date="2026-06-28")
    assert bars == {"ticker": "NORVC", "frequency": "daily", "resultsCount": 0, "results": []}


@pytest.mark.parametrize("frequency", ["daily", "hourly", "minute"])
def test_bars_are_bounded_and_the_answer_says_when_some_were_cut(world: World, frequency: str) -> None:
    # 500 daily bars are one short of the two years.
    bars = answer(
        world,
        "polygon_get_aggs",
        ticker="NORVC",
        start_date="2000-01-01",
        end_date="2099-01-01",
        frequency=frequency,
    )
    num_available = {"daily": 501, "hourly": 60 * 7, "minute": 20 * 390}[frequency]
    assert bars["resultsCount"] == len(bars["results"]) == min(500, num_available)
    assert bars.get("truncated", False) is (num_available > 500)
    times = [bar["t"] for bar in bars["results"]]
    assert times == sorted(set(times))


def test_a_large_limit_is_cut_down(world: World) -> None:
    assert len(answer(world, "fmp_get_market_gainers", limit=10**40)) == 50
    assert len(answer(world, "tavily_search", query="revenue", max_results=10**40)["results"]) == 20


def test_a_misspelt_name_still_finds_its_ticker(world: World) -> None:
    found = answer(world, "fmp_search_ticker", query="Norvindle Softwear", limit=3)
    assert found[0] == {
        "symbol": "NORVC",
        "name": "Norvindel Software",
        "currency": "USD",
        "exchange": found[0]["exchange"],
    }


def test_a_shared_first_word_finds_every_company_that_has_it(world: World) -> None:
    found = answer(world, "fmp_search_ticker", query="norvindel")
    assert {company["name"] for company in found} == {"Norvindel Software", "Norvindel Mutual"}
    told = answer(world, "tavily_qna_search", query="Who is the CEO of Norvindel?")["answer"]
    assert "NORVC" in told
    assert "NORVD" in told


ANYTHING = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(codec=None), max_size=20),
    st.sampled_from(
        ['"', '" OR "', "NEAR(", "a*", "title:x", "^", "'; DROP TABLE page; --", "\x00", "\ud800"]
    ),
    st.integers(),
    st.none(),
    st.floats(),
    st.lists(st.integers(), max_size=3),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_argument_can_do_more_than_cause_a_tool_error(world: World, data: st.DataObject) -> None:
    tools = [
        tool
        for name in ("fmp", "polygon", "tavily", "slack")
        for tool in contract()["servers"][name]["tools"]
    ]
    tool = data.draw(st.sampled_from(tools))
    arguments = {key: data.draw(ANYTHING, label=key) for key in tool["inputSchema"]["properties"]}
    try:
        value = answer(world, tool["name"], **arguments)
    except ToolError as error:
        str(error).encode("utf-8")
        return
    # What the wire does with it: UTF-8, which refuses lone surrogates.
    json.dumps(value, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("tavily_search", {"query": "Norvindel \ud800 revenue"}),
        ("tavily_qna_search", {"query": "CEO of NORVC \udfff?"}),
        ("send_slack_message", {"channel": "general", "message": "half \ud83d an emoji"}),
    ],
)
def test_text_that_no_encoder_takes_is_made_encodable(
    world: World, tool: str, arguments: dict[str, Any]
) -> None:
    assert json.dumps(answer(world, tool, **arguments), ensure_ascii=False).encode("utf-8")


def test_fts5_syntax_in_a_query_is_searched_as_words(world: World) -> None:
    plain = answer(world, "tavily_search", query="Norvindel Software profile")
    hostile = answer(world, "tavily_search", query='^"Norvindel" AND (Software* OR - : profile')
    assert hostile["results"] == plain["results"]
    assert plain["results"][0]["url"] == "https://companies.example/norvc"


def test_advanced_depth_shows_more_of_the_same_pages(world: World) -> None:
    basic = answer(world, "tavily_search", query="NORVC company profile")
    advanced = answer(world, "tavily_search", query="NORVC company profile", search_depth="advanced")
    assert [hit["url"] for hit in basic["results"]] == [hit["url"] for hit in advanced["results"]]
    assert len(advanced["results"][0]["content"]) > len(basic["results"][0]["content"]) > 100
    scores = [hit["score"] for hit in basic["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Which company has the highest market cap in the Technology sector?", "Thorvobrin Software (THOVH)"),
        ("Which is larger by revenue, NORVC or NORVD?", "Norvindel Mutual (NORVD)"),
        ("Is the market open?", "16:30 in New York on June 30, 2026: the regular session is closed"),
        ("closing price of NORVC on June 13, 2026", "no session on 2026-06-13"),
        ("revenue of NORVC in 2019", "its years run from 2021 to 2025"),
        ("What is a price-earnings ratio?", "divides the price of a share by the earnings per share"),
        ("zzqqxx", "No answer was found for this question."),
    ],
)
def test_other_questions_get_a_direct_answer_or_the_best_passage(
    world: World, question: str, wanted: str
) -> None:
    assert wanted in answer(world, "tavily_qna_search", query=question)["answer"]
