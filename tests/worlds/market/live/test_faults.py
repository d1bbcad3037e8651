"""What a provider can do wrong, and that it is then the provider's fault: the same list for all four."""

import gzip
import json
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.worlds.market.live.calls import KEY, PATIENCE, JumpingClock, ask, open_tools
from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.worlds.market.live.http import MAX_BODY_BYTES
from turnwise.worlds.market.live.providers import ACCESS


@dataclass(frozen=True, slots=True)
class Probe:
    """A tool that sends one read request: the path, a good reply and three bad ones."""

    tool: str
    arguments: dict[str, Any]
    path: str
    good: Any
    wrong_shape: Any
    without_fields: Any

    @property
    def nested(self) -> Any:
        """The good reply with an object or a list where a number or a name belongs."""
        text = json.dumps(self.good).replace("2.0", "{}").replace("0.5", "{}")
        return json.loads(text.replace('"general"', '["general"]'))


BAR = {"o": 1.0, "h": 2.0, "l": 0.5, "c": 1.5, "v": 10, "t": 1704171600000}
PROBES = {
    "fmp": Probe(
        *("fmp_get_change_percent", {"symbol": "AAPL"}, "quote"),
        good=[{"symbol": "AAPL", "price": 1.0, "changePercentage": 2.0}],
        wrong_shape={"symbol": "AAPL", "changePercentage": 2.0},
        without_fields=[{"symbol": "AAPL"}],
    ),
    "polygon": Probe(
        *("polygon_get_previous_close", {"ticker": "AAPL"}, "v2/aggs/ticker/AAPL/prev"),
        good={"status": "OK", "results": [BAR]},
        wrong_shape={"status": "OK", "results": BAR},
        without_fields={"results": [{"t": 1704171600000}]},
    ),
    "tavily": Probe(
        *("tavily_search", {"query": "x"}, "search"),
        good={"results": [{"title": "t", "url": "https://x.example", "content": "c", "score": 0.5}]},
        wrong_shape={"results": {"title": "t"}},
        without_fields={"results": [{"content": "c"}]},
    ),
    "slack": Probe(
        *("list_slack_channels", {}, "conversations.list"),
        good={"ok": True, "channels": [{"id": "C1", "name": "general"}]},
        wrong_shape={"ok": True, "channels": {"id": "C1", "name": "general"}},
        without_fields={"ok": True, "channels": [{"id": "C1"}]},
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
    assert KEY not in logged + caplog.text


async def probe(provider: LoopbackProvider, server: str, *answers: Answer, **options: Any) -> Any:
    """Call the server's probe, which gets the answers one after the other; the last one repeats."""
    provider.play(PROBES[server].path, *answers)
    return await ask(provider.url, server, PROBES[server].tool, PROBES[server].arguments, **options)


async def fault(provider: LoopbackProvider, server: str, answer: Answer, **options: Any) -> str:
    """The message of the `Unavailable` that the answer leads to."""
    with pytest.raises(Unavailable) as caught:
        await probe(provider, server, answer, **options)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


async def test_the_key_is_sent_in_a_header_only(provider: LoopbackProvider, server: str) -> None:
    await probe(provider, server, Answer(PROBES[server].good))
    [seen] = provider.requests
    header = ACCESS[server].key_header.lower()
    assert seen.headers[header] == (KEY if header == "apikey" else f"Bearer {KEY}")
    assert KEY not in f"{seen.path}{seen.query}{seen.body}"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_variable_and_not_the_key(
    provider: LoopbackProvider, server: str, status: int
) -> None:
    body = {"message": f"the key {KEY}\x1b[31m\nis not valid"}
    message = await fault(provider, server, Answer(body, status))
    assert f"{ACCESS[server].key_variable} ({status})" in message
    assert "the key *** [31m is not valid" in message
    assert len(provider.requests) == 1


def limited(retry_after: str) -> Answer:
    return Answer(b"", 429, {"Retry-After": retry_after.encode().decode("latin-1")})


@pytest.mark.parametrize(
    ("failure", "slept"),
    [
        pytest.param(limited("7"), 7.0, id="a rate limit for 7 s"),
        pytest.param(limited("Fri, 15 Nov 2024 15:00:09 GMT"), 9.0, id="a rate limit until a date"),
        *(
            pytest.param(limited(header), 0.5, id=f"a rate limit until {header!r}")
            for header in ("soon", "", "-5", "١", "Fri, 99 Nov 99999 15:00:09 GMT")
        ),
        pytest.param(Answer(b"oops", 500), 0.5, id="500"),
        pytest.param(Answer(b"", 503), 0.5, id="503"),
        pytest.param(Answer(conduct="drop"), 0.5, id="a dropped connection"),
    ],
)
async def test_a_read_is_tried_again_after_the_wait_that_was_asked_for(
    provider: LoopbackProvider, server: str, failure: Answer, slept: float
) -> None:
    clock = JumpingClock()
    assert await probe(provider, server, failure, Answer(PROBES[server].good), clock=clock)
    assert (clock.slept, len(provider.requests)) == ([slept], 2)


LASTING = {
    "a rate limit without a time": (Answer(b"", 429), "429 (4 attempts)", [0.5, 1.0, 2.0]),
    "a wait longer than a call may take": (limited("60"), "60 s", []),
    "waits that add up to more than a call may take": (limited("9"), "9 s", [9.0, 9.0]),
    "500": (Answer(b"oops", 500), "500 (4 attempts)", [0.5, 1.0, 2.0]),
    "dropped connections": (Answer(conduct="drop"), "dropped", [0.5, 1.0, 2.0]),
    "bodies cut off": (Answer({"a": 1}, conduct="cut"), "dropped", [0.5, 1.0, 2.0]),
    "a redirect": (Answer(b"{}", 302, {"Location": "/api/elsewhere"}), "302", []),
    "no body": (Answer(b""), "not JSON", []),
    "a page": (Answer(b"<html>sign in</html>"), "not JSON", []),
    "half of a JSON text": (Answer(b'[{"symbol": "AAPL"'), "not JSON", []),
    "bytes that are not UTF-8": (Answer(b"\xff\xfe\x00"), "not JSON", []),
    "NaN": (Answer(b"NaN"), "not JSON", []),
    "infinity": (Answer(b'{"ok": true, "channels": [], "x": 1e999}'), "not JSON", []),
    "deep nesting": (Answer(b"[" * 100_000), "not JSON", []),
    "a long integer": (Answer(b"9" * 5_000), "not JSON", []),
    **{f"the record {body}": (Answer(body), "shape", []) for body in (None, 1, "text", [1], [[]], [None])},
    "a body over the limit": (Answer(b" " * (MAX_BODY_BYTES + 1)), "more than", []),
    "a body without end": (Answer(b" " * 65_536, conduct="stream"), "more than", []),
    "a compressed bomb": (
        Answer(gzip.compress(b" " * (MAX_BODY_BYTES * 4)), headers={"Content-Encoding": "gzip"}),
        "more than",
        [],
    ),
    "a body that is not compressed": (
        Answer(b"not gzip", headers={"Content-Encoding": "gzip"}),
        "decompressed",
        [],
    ),
}
"""An answer, what the fault says, and the sleeps between the attempts."""


@pytest.mark.parametrize(("answer", "words", "slept"), LASTING.values(), ids=LASTING)
async def test_a_lasting_failure_is_the_providers_fault(
    provider: LoopbackProvider, server: str, answer: Answer, words: str, slept: list[float]
) -> None:
    clock = JumpingClock()
    assert words in await fault(provider, server, answer, clock=clock)
    assert (clock.slept, len(provider.requests)) == (slept, len(slept) + 1)


async def test_a_record_that_is_not_as_documented_is_the_providers_fault(
    provider: LoopbackProvider, server: str
) -> None:
    sent = PROBES[server]
    assert "shape" in await fault(provider, server, Answer(sent.wrong_shape))
    assert "without" in await fault(provider, server, Answer(sent.without_fields))
    assert "nested" in await fault(provider, server, Answer(sent.nested))


@pytest.mark.parametrize(
    ("answer", "patience"),
    [
        (Answer(conduct="hang"), replace(PATIENCE, read_seconds=0.1)),
        (Answer(b" ", conduct="trickle"), replace(PATIENCE, call_seconds=0.2)),
    ],
    ids=["silent", "trickle"],
)
async def test_a_provider_that_takes_too_long_is_given_up_at_once(
    provider: LoopbackProvider, server: str, answer: Answer, patience: Any
) -> None:
    assert "in time" in await fault(provider, server, answer, patience=patience)
    assert len(provider.requests) == 1


async def test_a_refused_connection_is_the_providers_fault(refusing_url: str, server: str) -> None:
    clock = JumpingClock()
    with pytest.raises(Unavailable, match="could not be reached"):
        await ask(refusing_url, server, PROBES[server].tool, PROBES[server].arguments, clock=clock)
    assert len(clock.slept) == 3


HOSTILE = (
    *("AAPL/../../x", "../../etc/passwd", "..", ".", "", "A?apikey=", "A#b", "A%2f..", "A&limit=1", "A B"),
    *(
        "A\nB",
        "A\x00",
        "ＡＡＰＬ",
        "A" * 10_000,
        "http://127.0.0.1/",
        None,
        7,
        ["AAPL"],
        {"symbol": "AAPL"},
    ),
)


@pytest.mark.parametrize(
    ("tool", "key"),
    [
        *((f"fmp_get_{name}", "symbol") for name in ("quote", "company_profile", "income_statement")),
        *((f"fmp_get_{name}", "symbol") for name in ("change_percent", "previous_close")),
        ("fmp_get_stock_news", "tickers"),
        *((f"polygon_get_{name}", "ticker") for name in ("aggs", "news", "ticker_details", "previous_close")),
    ],
)
async def test_a_hostile_symbol_is_not_sent(provider: LoopbackProvider, tool: str, key: str) -> None:
    days = {"start_date": "2024-01-02", "end_date": "2024-01-03"} if tool == "polygon_get_aggs" else {}
    async with open_tools(provider.url, tool.partition("_")[0]) as call:
        for symbol in HOSTILE:
            if not symbol and tool == "fmp_get_stock_news":
                continue  # there no ticker means the latest news of all
            with pytest.raises(ToolError, match=key) as caught:
                await call(tool, {key: symbol, **days})
            assert len(str(caught.value)) < 200
            assert str(caught.value).isprintable()
    assert provider.requests == []
