"""What each provider can do to us, and whose fault it is: the same battery for all four."""

import gzip
import json
import logging
import socket
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.servers.live.play import KEY, KEYS, PATIENCE, JumpingClock, ask, refusals
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.servers.live.http import MAX_BODY_BYTES


@dataclass(frozen=True, slots=True)
class Probe:
    """A tool that needs one read request, the path it asks, and a good answer to it."""

    tool: str
    arguments: dict[str, Any]
    path: str
    good: Any
    wrong_shape: Any


BAR = {"o": 1.0, "h": 2.0, "l": 0.5, "c": 1.5, "v": 10, "t": 1704171600000}
PROBES = {
    "fmp": Probe(
        "fmp_get_change_percent",
        {"symbol": "AAPL"},
        "quote",
        [{"symbol": "AAPL", "price": 1.0, "changePercentage": 2.0}],
        {"symbol": "AAPL", "changePercentage": 2.0},
    ),
    "polygon": Probe(
        "polygon_get_previous_close",
        {"ticker": "AAPL"},
        "v2/aggs/ticker/AAPL/prev",
        {"status": "OK", "results": [BAR]},
        {"status": "OK", "results": BAR},
    ),
    "tavily": Probe(
        "tavily_search",
        {"query": "x"},
        "search",
        {"results": [{"title": "t", "url": "https://x.example", "content": "c", "score": 0.5}]},
        {"results": {"title": "t"}},
    ),
    "slack": Probe(
        "list_slack_channels",
        {},
        "conversations.list",
        {"ok": True, "channels": [{"id": "C1", "name": "general"}]},
        {"ok": True, "channels": {"id": "C1", "name": "general"}},
    ),
}


@pytest.fixture(params=sorted(PROBES))
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _the_key_stays_out_of_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    logged = "".join(f"{record.getMessage()}{record.args}{record.exc_text}" for record in caplog.records)
    assert KEY not in logged
    assert KEY not in caplog.text


def probe(provider: LoopbackProvider, server: str, *answers: Answer, **options: Any) -> Any:
    """Play the answers to the server's probe and call it."""
    provider.play(PROBES[server].path, *answers)
    return ask(provider, PROBES[server].tool, PROBES[server].arguments, **options)


def fault(provider: LoopbackProvider, server: str, *answers: Answer, **options: Any) -> str:
    """The message of the `Unavailable` that the answers end in."""
    with pytest.raises(Unavailable) as caught:
        probe(provider, server, *answers, **options)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable_and_not_the_key(
    provider: LoopbackProvider, server: str, status: int
) -> None:
    body = {"message": f"the key {KEY}\x1b[31m\nis not valid"}
    message = fault(provider, server, Answer(body, status))
    assert f"{KEYS[server]} ({status})" in message
    assert "the key *** [31m is not valid" in message
    assert len(provider.requests) == 1


def test_a_rate_limit_is_waited_out_as_long_as_asked(provider: LoopbackProvider, server: str) -> None:
    clock = JumpingClock()
    limited = Answer({"error": "slow down"}, 429, {"Retry-After": "7"})
    assert probe(provider, server, limited, Answer(PROBES[server].good), clock=clock)
    assert clock.slept == [7.0]


def test_a_rate_limit_until_a_date_is_waited_out(provider: LoopbackProvider, server: str) -> None:
    clock = JumpingClock()
    limited = Answer(b"", 429, {"Retry-After": "Fri, 15 Nov 2024 15:00:09 GMT"})
    assert probe(provider, server, limited, Answer(PROBES[server].good), clock=clock)
    assert clock.slept == [9.0]


def test_a_rate_limit_without_end_is_given_up(provider: LoopbackProvider, server: str) -> None:
    clock = JumpingClock()
    assert "429 (4 attempts)" in fault(provider, server, Answer(b"", 429), clock=clock)
    assert clock.slept == [0.5, 1.0, 2.0]
    assert len(provider.requests) == 4


def test_a_wait_longer_than_a_call_may_take_is_not_begun(provider: LoopbackProvider, server: str) -> None:
    clock = JumpingClock()
    message = fault(provider, server, Answer(b"", 429, {"Retry-After": "60"}), clock=clock)
    assert "60 s" in message
    assert clock.slept == []
    assert len(provider.requests) == 1


def test_waits_of_one_call_add_up_to_no_more_than_its_allowance(
    provider: LoopbackProvider, server: str
) -> None:
    clock = JumpingClock()
    fault(provider, server, Answer(b"", 429, {"Retry-After": "9"}), clock=clock)
    assert clock.slept == [9.0, 9.0]


@pytest.mark.parametrize("header", ["soon", "", "-5", "١", "Fri, 99 Nov 99999 15:00:09 GMT"])
def test_a_retry_after_nobody_can_read_means_the_usual_wait(
    provider: LoopbackProvider, server: str, header: str
) -> None:
    clock = JumpingClock()
    limited = Answer(b"", 429, {"Retry-After": header.encode().decode("latin-1")})
    assert probe(provider, server, limited, Answer(PROBES[server].good), clock=clock)
    assert clock.slept == [0.5]


@pytest.mark.parametrize("passing", [Answer(b"oops", 500), Answer(b"", 503), Answer(conduct="drop")])
def test_a_passing_failure_of_a_read_is_tried_again(
    provider: LoopbackProvider, server: str, passing: Answer
) -> None:
    assert probe(provider, server, passing, Answer(PROBES[server].good))
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("lasting", "says"),
    [
        (Answer(b"oops", 500), "500 (4 attempts)"),
        (Answer(conduct="drop"), "dropped"),
        (Answer({"a": 1}, conduct="cut"), "dropped"),
    ],
)
def test_a_lasting_failure_is_given_up(
    provider: LoopbackProvider, server: str, lasting: Answer, says: str
) -> None:
    assert says in fault(provider, server, lasting)
    assert len(provider.requests) == 4


def test_a_provider_that_says_nothing_is_given_up_at_once(provider: LoopbackProvider, server: str) -> None:
    message = fault(provider, server, Answer(conduct="hang"), patience=replace(PATIENCE, read_seconds=0.1))
    assert "in time" in message
    assert len(provider.requests) == 1


def test_a_body_that_trickles_is_cut_off_by_the_calls_allowance(
    provider: LoopbackProvider, server: str
) -> None:
    patience = replace(PATIENCE, call_seconds=0.3)
    assert "in time" in fault(provider, server, Answer(b" ", conduct="trickle"), patience=patience)


def test_a_refused_connection_is_the_providers(
    provider: LoopbackProvider, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connecting is refused
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(LoopbackProvider, "url", nowhere)
        clock = JumpingClock()
        assert "could not be reached" in fault(provider, server, Answer(), clock=clock)
    assert len(clock.slept) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>sign in</html>",
        b'[{"symbol": "AAPL"',
        b"\xff\xfe\x00",
        b"NaN",
        b'{"ok": true, "channels": [], "x": 1e999}',
        b"[" * 100_000,
        b"9" * 5_000,
    ],
)
def test_a_malformed_body_is_the_providers(provider: LoopbackProvider, server: str, body: bytes) -> None:
    assert "not JSON" in fault(provider, server, Answer(body))
    assert len(provider.requests) == 1


def test_a_body_of_another_shape_is_the_providers(provider: LoopbackProvider, server: str) -> None:
    assert "shape" in fault(provider, server, Answer(PROBES[server].wrong_shape))


@pytest.mark.parametrize("body", [None, 1, "text", [1], [[]], [None]])
def test_a_body_that_is_no_record_at_all_is_the_providers(
    provider: LoopbackProvider, server: str, body: Any
) -> None:
    assert "shape" in fault(provider, server, Answer(body))


def test_a_record_without_its_fields_is_the_providers(provider: LoopbackProvider, server: str) -> None:
    empty = {
        "fmp": [{"symbol": "AAPL"}],
        "polygon": {"results": [{"t": 1704171600000}]},
        "tavily": {"results": [{"content": "c"}]},
        "slack": {"ok": True, "channels": [{"id": "C1"}]},
    }
    assert "without" in fault(provider, server, Answer(empty[server]))


def test_a_nested_value_in_place_of_a_number_is_the_providers(
    provider: LoopbackProvider, server: str
) -> None:
    nested = json.loads(
        json.dumps(PROBES[server].good)
        .replace("2.0", "{}")
        .replace("0.5", "{}")
        .replace('"general"', '["general"]')
    )
    assert "nested" in fault(provider, server, Answer(nested))


@pytest.mark.parametrize("conduct", ["answer", "stream"])
def test_an_oversized_body_is_not_read_to_its_end(
    provider: LoopbackProvider, server: str, conduct: Any
) -> None:
    size = MAX_BODY_BYTES + 1 if conduct == "answer" else 65_536
    assert "more than" in fault(provider, server, Answer(b" " * size, conduct=conduct))
    assert len(provider.requests) == 1


def test_a_compressed_bomb_is_refused(provider: LoopbackProvider, server: str) -> None:
    bomb = Answer(gzip.compress(b" " * (MAX_BODY_BYTES * 4)), headers={"Content-Encoding": "gzip"})
    assert "more than" in fault(provider, server, bomb)


def test_a_body_that_claims_to_be_compressed_is_the_providers(
    provider: LoopbackProvider, server: str
) -> None:
    junk = Answer(b"not gzip", headers={"Content-Encoding": "gzip"})
    assert "decompressed" in fault(provider, server, junk)


def test_a_redirect_is_not_followed(provider: LoopbackProvider, server: str) -> None:
    provider.play("elsewhere", Answer(PROBES[server].good))
    moved = Answer(b"{}", 302, {"Location": f"{provider.url}/elsewhere"})
    assert "302" in fault(provider, server, moved)
    assert len(provider.requests) == 1


HOSTILE = [
    "AAPL/../../x",
    "../../etc/passwd",
    "..",
    ".",
    "",
    "A?apikey=",
    "A#b",
    "A%2f..",
    "A&limit=1",
    "A B",
    "A\nB",
    "A\x00",
    "ＡＡＰＬ",
    "A" * 10_000,
    "http://127.0.0.1:1/",
    None,
    7,
    ["AAPL"],
    {"symbol": "AAPL"},
]
BY_SYMBOL = [
    ("fmp_get_quote", "symbol", {}),
    ("fmp_get_company_profile", "symbol", {}),
    ("fmp_get_income_statement", "symbol", {}),
    ("fmp_get_change_percent", "symbol", {}),
    ("fmp_get_previous_close", "symbol", {}),
    ("fmp_get_stock_news", "tickers", {}),
    ("polygon_get_aggs", "ticker", {"start_date": "2024-01-02", "end_date": "2024-01-03"}),
    ("polygon_get_news", "ticker", {}),
    ("polygon_get_ticker_details", "ticker", {}),
    ("polygon_get_previous_close", "ticker", {}),
]


@pytest.mark.parametrize(("tool", "key", "others"), BY_SYMBOL)
def test_a_hostile_symbol_never_leaves_the_machine(
    provider: LoopbackProvider, tool: str, key: str, others: dict[str, Any]
) -> None:
    # For news an empty text means none given: the latest of all.
    symbols = [symbol for symbol in HOSTILE if symbol or tool != "fmp_get_stock_news"]
    errors = refusals(provider, [(tool, {key: symbol, **others}) for symbol in symbols])
    assert [type(error) for error in errors] == [ToolError] * len(symbols)
    for error in errors:
        assert key in str(error)
        assert len(str(error)) < 200
        assert str(error).isprintable()
    assert provider.requests == []
