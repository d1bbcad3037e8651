"""The endpoint client against a loopback HTTP server that speaks the documented shapes, and others."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from turnwise.engines.openai import ChatMessage, OpenAIEndpoint
from turnwise.engines.replies import EndpointReply
from turnwise.protocols import EngineDown
from turnwise.types import Finish, FormatErrorKind, Tool, ToolCall

KEY = "sk-very-secret-0123456789"
PRICE = Tool(
    "fmp.price", "The price.", {"type": "object", "properties": {"symbol": {"type": "string"}}}, "fmp", "p"
)


@dataclass
class Served:
    """Answers in order (the last again and again), and the requests that came."""

    answers: list[tuple[int, dict[str, str], bytes]]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@contextmanager
def serving(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Served]:
    served = Served(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            body = self.rfile.read(int(self.headers["content-length"]))
            served.requests.append(json.loads(body))
            served.keys.append(self.headers.get("authorization", ""))
            served.times.append(time.monotonic())
            status, headers, content = served.answers.pop(0) if len(served.answers) > 1 else served.answers[0]
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/v1/"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(message: dict[str, Any], finish: str = "stop") -> tuple[int, dict[str, str], bytes]:
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    return 200, {"content-type": "application/json"}, json.dumps(document).encode()


def called(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def ask(served: Served, *messages: ChatMessage, key: str = KEY, **options: Any) -> EndpointReply:
    async def scenario() -> EndpointReply:
        endpoint = OpenAIEndpoint(served.url, "teacher", key=key, **options)
        try:
            return await endpoint.chat(messages or [ChatMessage("user", "hello")], [PRICE], seed=3)
        finally:
            await endpoint.close()

    return asyncio.run(scenario())


def test_a_tool_call_comes_back_under_our_name_with_its_arguments() -> None:
    with serving(answer(called("fmp_price", '{"symbol": "ACME"}'), "tool_calls")) as served:
        reply = ask(served)
    assert reply.parsed.calls == (ToolCall("call_1", "fmp.price", {"symbol": "ACME"}),)
    assert (reply.finish, reply.num_prompt_tokens, reply.num_completion_tokens) == (Finish.STOP, 11, 7)
    assert served.keys == [f"Bearer {KEY}"]


def test_the_conversation_is_sent_in_the_documented_shape() -> None:
    call = ToolCall("call_1", "fmp.price", {"symbol": "ÄB"})
    with serving(answer({"content": "42", "reasoning_content": "so"})) as served:
        reply = ask(
            served,
            ChatMessage("user", "price?"),
            ChatMessage("assistant", "", calls=(call,)),
            ChatMessage("tool", "42", call_id="call_1"),
        )
    assert (reply.parsed.text, reply.parsed.reasoning, reply.parsed.error) == ("42", "so", None)
    [request] = served.requests
    assert request["model"] == "teacher"
    assert request["seed"] == 3
    assert request["tools"] == [
        {
            "type": "function",
            "function": {"name": "fmp_price", "description": "The price.", "parameters": PRICE.input_schema},
        }
    ]
    _, assistant, tool = request["messages"]
    assert assistant["tool_calls"][0]["function"] == {"name": "fmp_price", "arguments": '{"symbol": "ÄB"}'}
    assert tool == {"role": "tool", "content": "42", "tool_call_id": "call_1"}


@pytest.mark.parametrize(
    ("message", "finish", "kind"),
    [
        (called("fmp_price", '{"symbol": '), "tool_calls", FormatErrorKind.BAD_JSON),
        (called("fmp_price", "[1]"), "tool_calls", FormatErrorKind.ARGUMENTS_NOT_OBJECT),
        ({"content": "  "}, "stop", FormatErrorKind.EMPTY),
        ({"content": "and then"}, "length", FormatErrorKind.TRUNCATED),
        (called("fmp_price", '{"symbol": '), "length", FormatErrorKind.TRUNCATED),
    ],
)
def test_what_the_model_got_wrong_is_a_format_error(
    message: dict[str, Any], finish: str, kind: FormatErrorKind
) -> None:
    with serving(answer(message, finish)) as served:
        parsed = ask(served).parsed
    assert parsed.error is not None
    assert parsed.error.kind is kind
    assert parsed.calls == ()


@pytest.mark.parametrize(
    "content",
    [
        b"<html>hello</html>",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"tool_calls": [{"id": 1}]}}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_reply_that_is_no_chat_completion_is_engine_down(content: bytes) -> None:
    with serving((200, {}, content)) as served, pytest.raises(EngineDown, match="no chat completion"):
        ask(served)


def test_retry_after_is_honoured_and_the_answer_comes() -> None:
    busy = (429, {"retry-after": "0.3"}, b"slow down")
    dated = (503, {"retry-after": formatdate(time.time() - 5, usegmt=True)}, b"")
    with serving(busy, dated, answer({"content": "ok"})) as served:
        assert ask(served).parsed.text == "ok"
    first, second, third = served.times
    assert second - first >= 0.3
    assert third - second < 0.3


def test_retries_are_bounded() -> None:
    with serving((503, {"retry-after": "0"}, b"")) as served:
        with pytest.raises(EngineDown, match=r"answered 503 .3 attempts"):
            ask(served, num_retries=2)
    assert len(served.requests) == 3


def test_a_wait_longer_than_allowed_is_engine_down_at_once() -> None:
    with serving((429, {"retry-after": "3600"}, b"")) as served:
        with pytest.raises(EngineDown, match=r"answered 429 .attempt 1; the next, in [34]... s"):
            ask(served)
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_said_clearly_and_never_shown(status: int) -> None:
    body = f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'.encode()
    with serving((status, {}, body)) as served:
        with pytest.raises(EngineDown, match=f"refused the key .status {status}") as refused:
            ask(served)
        with pytest.raises(EngineDown, match="none was given"):
            ask(served, key="")
    assert KEY not in repr(refused.value)
    assert len(served.requests) == 2  # not tried again


def test_a_refused_request_is_the_callers_mistake_and_does_not_quote_the_key() -> None:
    body = f"maximum context length is 8192, key {KEY}".encode()
    with serving((400, {}, body)) as served, pytest.raises(ValueError, match="maximum context") as refused:
        ask(served)
    assert KEY not in str(refused.value)


def test_a_redirect_is_not_followed_with_the_key() -> None:
    with serving(answer({"content": "thief"})) as other:
        target = f"{other.url}chat/completions"
        with serving((302, {"location": target}, b"")) as served, pytest.raises(EngineDown, match="302"):
            ask(served)
    assert other.requests == []


def test_an_endpoint_that_is_not_there_is_engine_down() -> None:
    with serving(answer({"content": "x"})) as served:
        pass
    with pytest.raises(EngineDown, match=r"ConnectError. .2 attempts"):
        ask(served, num_retries=1)


async def test_tools_whose_names_cannot_be_told_apart_are_refused() -> None:
    endpoint = OpenAIEndpoint("http://127.0.0.1:9/v1", "m")
    twin = Tool("fmp_price", "", {}, "fmp", "p")
    with pytest.raises(ValueError, match="not different enough"):
        await endpoint.chat([ChatMessage("user", "x")], [PRICE, twin])
    await endpoint.close()
