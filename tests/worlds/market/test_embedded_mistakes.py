"""A wrong call to an embedded tool is answered with a ToolError that says what to do instead."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worlds.market.conftest import Call
from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.contract import contract

YEARS = {"start_date": "2000-01-01", "end_date": "2099-01-01"}


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
        ("fmp_get_stock_news", {"company": "NORVC"}, "unknown argument: company; the arguments are tickers"),
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
async def test_a_mistake_is_answered_with_advice(
    call: Call, tool: str, arguments: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ToolError, match=advice):
        await call(tool, **arguments)


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
async def test_a_wrong_window_is_answered_with_the_right_one(
    call: Call, start: str, end: str, frequency: str, advice: str
) -> None:
    window = {"start_date": start, "end_date": end, "frequency": frequency}
    with pytest.raises(ToolError, match=advice):
        await call("polygon_get_aggs", ticker="NORVC", **window)


@pytest.mark.parametrize("written", ["norvc", " NORVC ", "$NORVC", "NorvC\n"])
async def test_a_symbol_may_be_written_in_any_case_and_with_spaces(call: Call, written: str) -> None:
    assert (await call("fmp_get_quote", symbol=written))["symbol"] == "NORVC"


async def test_a_weekend_has_no_bars_and_that_is_no_mistake(call: Call) -> None:
    bars = await call("polygon_get_aggs", ticker="NORVC", start_date="2026-06-27", end_date="2026-06-28")
    assert bars == {"ticker": "NORVC", "frequency": "daily", "resultsCount": 0, "results": []}


@pytest.mark.parametrize(("frequency", "available"), [("daily", 501), ("hourly", 420), ("minute", 7800)])
async def test_bars_are_limited_to_500_and_a_cut_is_marked(
    call: Call, frequency: str, available: int
) -> None:
    bars = await call("polygon_get_aggs", ticker="NORVC", frequency=frequency, **YEARS)
    assert bars["resultsCount"] == len(bars["results"]) == min(500, available)
    assert bars.get("truncated", False) is (available > 500)
    times = [bar["t"] for bar in bars["results"]]
    assert times == sorted(set(times))


async def test_a_large_limit_is_lowered(call: Call) -> None:
    assert len(await call("fmp_get_market_gainers", limit=10**40)) == 50
    found = await call("tavily_search", query="revenue", max_results=10**40)
    assert len(found["results"]) == 20


async def test_a_misspelt_name_still_finds_its_ticker(call: Call) -> None:
    found = (await call("fmp_search_ticker", query="Norvindle Softwear", limit=3))[0]
    assert (found["symbol"], found["name"], found["currency"]) == ("NORVC", "Norvindel Software", "USD")


async def test_a_shared_first_word_finds_every_company_that_has_it(call: Call) -> None:
    found = await call("fmp_search_ticker", query="norvindel")
    assert {company["name"] for company in found} == {"Norvindel Software", "Norvindel Mutual"}
    answer = (await call("tavily_qna_search", query="Who is the CEO of Norvindel?"))["answer"]
    assert "NORVC" in answer
    assert "NORVD" in answer


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
TOOLS = [
    tool for name in ("fmp", "polygon", "tavily", "slack") for tool in contract()["servers"][name]["tools"]
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), tool=st.sampled_from(TOOLS))
def test_no_argument_can_do_more_than_cause_a_tool_error(
    call: Call, data: st.DataObject, tool: dict[str, Any]
) -> None:
    async def answer() -> Any:
        arguments = {key: data.draw(ANYTHING, label=key) for key in tool["inputSchema"]["properties"]}
        return await call(tool["name"], **arguments)

    try:
        # As it is sent: in UTF-8, which refuses lone surrogates.
        json.dumps(anyio.run(answer), ensure_ascii=False).encode("utf-8")
    except ToolError as error:
        str(error).encode("utf-8")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("tavily_search", {"query": "Norvindel \ud800 revenue"}),
        ("tavily_qna_search", {"query": "CEO of NORVC \udfff?"}),
        ("send_slack_message", {"channel": "general", "message": "half \ud83d an emoji"}),
    ],
)
async def test_text_that_cannot_be_encoded_is_made_encodable(
    call: Call, tool: str, arguments: dict[str, Any]
) -> None:
    assert json.dumps(await call(tool, **arguments), ensure_ascii=False).encode("utf-8")


async def test_fts5_syntax_in_a_query_is_searched_as_words(call: Call) -> None:
    plain = await call("tavily_search", query="Norvindel Software profile")
    hostile = await call("tavily_search", query='^"Norvindel" AND (Software* OR - : profile')
    assert hostile["results"] == plain["results"]
    assert plain["results"][0]["url"] == "https://companies.example/norvc"


async def test_advanced_depth_shows_more_of_the_same_pages(call: Call) -> None:
    basic = (await call("tavily_search", query="NORVC company profile"))["results"]
    advanced = await call("tavily_search", query="NORVC company profile", search_depth="advanced")
    assert [hit["url"] for hit in basic] == [hit["url"] for hit in advanced["results"]]
    assert len(advanced["results"][0]["content"]) > len(basic[0]["content"]) > 100
    scores = [hit["score"] for hit in basic]
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
async def test_other_questions_get_a_direct_answer_or_the_best_passage(
    call: Call, question: str, wanted: str
) -> None:
    assert wanted in (await call("tavily_qna_search", query=question))["answer"]
