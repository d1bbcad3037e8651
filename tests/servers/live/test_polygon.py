"""Polygon's live backend against a server that answers as the REST API is documented to."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.servers.live.play import KEY, ask
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.servers.live.polygon import MAX_BARS

DETAILS = {
    "request_id": "31d59dda-80e5-4721-8496-d0d32a654afe",
    "status": "OK",
    "results": {
        "ticker": "AAPL",
        "name": "Apple Inc.",
        "market": "stocks",
        "locale": "us",
        "primary_exchange": "XNAS",
        "type": "CS",
        "active": True,
        "currency_name": "usd",
        "cik": "0000320193",
        "market_cap": 2771126040150,
        "address": {"address1": "One Apple Park Way", "city": "Cupertino", "state": "CA"},
        "description": "Apple designs phones.",
        "sic_code": "3571",
        "sic_description": "ELECTRONIC COMPUTERS",
        "homepage_url": "https://www.apple.com",
        "total_employees": 154000,
        "list_date": "1980-12-12",
        "branding": {"logo_url": "https://api.polygon.io/logo.svg"},
        "share_class_shares_outstanding": 16406400000,
        "weighted_shares_outstanding": 16334371000,
        "round_lot": 100,
    },
}
UNKNOWN = Answer({"status": "NOT_FOUND", "request_id": "9", "message": "Ticker not found."}, 404)
DAILY = "v2/aggs/ticker/AAPL/range/1/day/2024-01-02/2024-01-03"
JANUARY = {"ticker": "AAPL", "start_date": "2024-01-02", "end_date": "2024-01-03"}


def milliseconds(*moment: int) -> int:
    year, month, day, hour, minute = (*moment, 0, 0)[:5]
    at = datetime(year, month, day, hour, minute, tzinfo=ZoneInfo("America/New_York"))
    return int(at.timestamp() * 1000)


def bar(time: int) -> dict[str, float]:
    return {
        "v": 82488700.0,
        "vw": 185.9,
        "o": 187.15,
        "c": 185.64,
        "h": 188.44,
        "l": 183.885,
        "t": time,
        "n": 1008871,
    }


def aggs(*bars: dict[str, float], **more: object) -> dict[str, Any]:
    body: dict[str, Any] = {
        "ticker": "AAPL",
        "queryCount": len(bars),
        "resultsCount": len(bars),
        "adjusted": True,
    }
    if bars:  # Polygon leaves the list out when there is nothing in it.
        body["results"] = list(bars)
    return body | {"status": "OK", "request_id": "6a7e", "count": len(bars)} | more


def test_daily_bars_carry_their_new_york_date(provider: LoopbackProvider) -> None:
    provider.play(DAILY, Answer(aggs(bar(milliseconds(2024, 1, 2)), bar(milliseconds(2024, 1, 3)))))
    answer = ask(provider, "polygon_get_aggs", JANUARY)
    assert answer["results"][0] == {
        "t": "2024-01-02",
        "o": 187.15,
        "h": 188.44,
        "l": 183.885,
        "c": 185.64,
        "v": 82488700,
    }
    assert answer["results"][1]["t"] == "2024-01-03"
    assert {key: answer[key] for key in answer if key != "results"} == {
        "ticker": "AAPL",
        "frequency": "daily",
        "resultsCount": 2,
    }


@pytest.mark.parametrize(("frequency", "span"), [("hourly", "hour"), ("minute", "minute")])
def test_finer_bars_carry_their_new_york_time(provider: LoopbackProvider, frequency: str, span: str) -> None:
    path = f"v2/aggs/ticker/AAPL/range/1/{span}/2024-07-01/2024-07-01"
    provider.play(path, Answer(aggs(bar(milliseconds(2024, 7, 1, 9, 30)), status="DELAYED")))
    july = {"ticker": "AAPL", "start_date": "2024-07-01", "end_date": "2024-07-01", "frequency": frequency}
    assert ask(provider, "polygon_get_aggs", july)["results"][0]["t"] == "2024-07-01T09:30:00-04:00"


def test_too_many_bars_are_cut_and_marked(provider: LoopbackProvider) -> None:
    provider.play(DAILY, Answer(aggs(*[bar(milliseconds(2024, 1, 2))] * (MAX_BARS + 1))))
    answer = ask(provider, "polygon_get_aggs", JANUARY)
    assert (len(answer["results"]), answer["resultsCount"], answer["truncated"]) == (MAX_BARS, MAX_BARS, True)


def test_a_further_page_is_marked_and_not_followed(provider: LoopbackProvider) -> None:
    provider.play(DAILY, Answer(aggs(bar(milliseconds(2024, 1, 2)), next_url="https://elsewhere.example/x")))
    assert ask(provider, "polygon_get_aggs", JANUARY)["truncated"] is True
    assert len(provider.requests) == 1


def test_a_week_without_sessions_is_an_empty_answer(provider: LoopbackProvider) -> None:
    provider.play(DAILY, Answer(aggs()))
    provider.play("v3/reference/tickers/AAPL", Answer(DETAILS))
    answer = ask(provider, "polygon_get_aggs", JANUARY)
    assert answer == {"ticker": "AAPL", "frequency": "daily", "resultsCount": 0, "results": []}


def test_bars_of_an_unknown_ticker_are_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play(DAILY.replace("AAPL", "ZZZZ"), Answer(aggs()))
    provider.play("v3/reference/tickers/ZZZZ", UNKNOWN)
    with pytest.raises(ToolError, match="Ticker not found"):
        ask(provider, "polygon_get_aggs", JANUARY | {"ticker": "ZZZZ"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_date": "01/02/2024"},
        {"start_date": "20240102"},
        {"start_date": "2024-02-30"},
        {"start_date": "2024-01-02/../../x"},
        {"end_date": None},
        {"start_date": "2024-01-04"},
        {"start_date": "2024-11-16", "end_date": "2024-11-20"},
        {"frequency": "weekly"},
        {"frequency": ["daily"]},
    ],
)
def test_wrong_dates_and_bar_sizes_never_leave_the_machine(
    provider: LoopbackProvider, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ToolError):
        ask(provider, "polygon_get_aggs", JANUARY | wrong)
    assert provider.requests == []


def test_news_gives_the_sentiment_towards_the_asked_ticker(provider: LoopbackProvider) -> None:
    article = {
        "id": "8ec63877",
        "publisher": {"name": "Investing.com", "homepage_url": "https://www.investing.com/"},
        "title": "Markets are underestimating Fed cuts",
        "author": "Sam Boughedda",
        "published_utc": "2024-06-24T18:33:53Z",
        "article_url": "https://uk.investing.com/1",
        "tickers": ["UBS", "AAPL"],
        "description": "UBS analysts warn.",
        "keywords": ["Fed"],
        "insights": [
            {"ticker": "UBS", "sentiment": "positive", "sentiment_reasoning": "…"},
            {"ticker": "AAPL", "sentiment": "negative", "sentiment_reasoning": "…"},
        ],
    }
    bare = {"title": "No insights", "published_utc": "2024-06-23T18:33:53Z", "publisher": {"name": "X"}}
    provider.play("v2/reference/news", Answer({"count": 2, "status": "OK", "results": [article, bare]}))
    answer = ask(provider, "polygon_get_news", {"ticker": "aapl", "limit": 5})
    assert answer[0] == {
        "title": "Markets are underestimating Fed cuts",
        "published_utc": "2024-06-24T18:33:53Z",
        "publisher": "Investing.com",
        "tickers": ["UBS", "AAPL"],
        "description": "UBS analysts warn.",
        "article_url": "https://uk.investing.com/1",
        "sentiment": "negative",
    }
    assert (answer[1]["sentiment"], answer[1]["tickers"]) == (None, [])
    assert provider.requests[0].query["ticker"] == "AAPL"


def test_news_of_an_unknown_ticker_is_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play("v2/reference/news", Answer({"count": 0, "status": "OK", "results": []}))
    provider.play("v3/reference/tickers/ZZZZ", UNKNOWN)
    with pytest.raises(ToolError, match="Ticker not found"):
        ask(provider, "polygon_get_news", {"ticker": "ZZZZ"})


def test_details_are_the_reference_record(provider: LoopbackProvider) -> None:
    provider.play("v3/reference/tickers/AAPL", Answer(DETAILS))
    assert ask(provider, "polygon_get_ticker_details", {"ticker": "AAPL"}) == {
        "ticker": "AAPL",
        "name": "Apple Inc.",
        "primary_exchange": "XNAS",
        "market_cap": 2771126040150,
        "share_class_shares_outstanding": 16406400000,
        "sic_code": "3571",
        "sic_description": "ELECTRONIC COMPUTERS",
        "homepage_url": "https://www.apple.com",
        "total_employees": 154000,
        "list_date": "1980-12-12",
        "currency_name": "usd",
    }


def test_details_of_an_unknown_ticker_are_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play("v3/reference/tickers/ZZZZ", UNKNOWN)
    with pytest.raises(ToolError, match="ZZZZ"):
        ask(provider, "polygon_get_ticker_details", {"ticker": "ZZZZ"})


def test_a_missing_page_that_is_not_the_apis_blames_the_base_url(provider: LoopbackProvider) -> None:
    with pytest.raises(Unavailable, match="404"):
        ask(provider, "polygon_get_ticker_details", {"ticker": "AAPL"})


def test_market_status_names_three_exchanges(provider: LoopbackProvider) -> None:
    status = {
        "afterHours": True,
        "currencies": {"crypto": "open", "fx": "open"},
        "earlyHours": False,
        "exchanges": {"nasdaq": "extended-hours", "nyse": "extended-hours", "otc": "closed"},
        "indicesGroups": {"s_and_p": "closed"},
        "market": "extended-hours",
        "serverTime": "2020-11-10T17:37:37-05:00",
    }
    provider.play("v1/marketstatus/now", Answer(status))
    assert ask(provider, "polygon_get_market_status") == {
        "market": "extended-hours",
        "serverTime": "2020-11-10T17:37:37-05:00",
        "exchanges": {"nasdaq": "extended-hours", "nyse": "extended-hours", "otc": "closed"},
        "earlyHours": False,
        "afterHours": True,
    }


def test_the_previous_close_is_the_last_sessions_bar(provider: LoopbackProvider) -> None:
    provider.play("v2/aggs/ticker/BRK.B/prev", Answer(aggs(bar(milliseconds(2024, 1, 2, 16)))))
    assert ask(provider, "polygon_get_previous_close", {"ticker": "BRK.B"}) == {
        "ticker": "BRK.B",
        "date": "2024-01-02",
        "o": 187.15,
        "h": 188.44,
        "l": 183.885,
        "c": 185.64,
        "v": 82488700,
    }


def test_no_previous_session_is_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play("v2/aggs/ticker/ZZZZ/prev", Answer(aggs()))
    with pytest.raises(ToolError, match="ZZZZ"):
        ask(provider, "polygon_get_previous_close", {"ticker": "ZZZZ"})


def test_the_key_goes_in_a_header_and_not_in_the_url(provider: LoopbackProvider) -> None:
    provider.play("v3/reference/tickers/AAPL", Answer(DETAILS))
    ask(provider, "polygon_get_ticker_details", {"ticker": "AAPL"})
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert provider.requests[0].query == {}


@pytest.mark.parametrize(
    "body",
    [
        {"status": "ERROR", "error": "something went wrong"},
        {"status": "NOT_AUTHORIZED", "message": "You are not entitled to this data."},
    ],
)
def test_an_error_under_status_200_is_the_providers(provider: LoopbackProvider, body: Any) -> None:
    provider.play("v3/reference/tickers/AAPL", Answer(body))
    with pytest.raises(Unavailable, match=r"refused: (something|You are)"):
        ask(provider, "polygon_get_ticker_details", {"ticker": "AAPL"})


def test_a_bad_request_about_the_key_is_not_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play("v3/reference/tickers/AAPL", Answer({"error": "API Key was not provided"}, 400))
    with pytest.raises(Unavailable, match="API Key"):
        ask(provider, "polygon_get_ticker_details", {"ticker": "AAPL"})


@pytest.mark.parametrize("time", [None, "now", 10**30, True])
def test_a_bar_at_an_impossible_time_is_the_providers_fault(provider: LoopbackProvider, time: Any) -> None:
    provider.play(DAILY, Answer(aggs(bar(time))))
    with pytest.raises(Unavailable, match="time"):
        ask(provider, "polygon_get_aggs", JANUARY)
