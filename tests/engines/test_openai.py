"""The endpoint client against a loopback HTTP server that answers in the documented shapes, and in others."""

import time
from email.utils import formatdate
from typing import Any

import pytest

from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.rollout.players.openai import ChatMessage, OpenAIEndpoint
from turnwise.rollout.players.replies import EndpointReply
from turnwise.types import Finish, FormatErrorKind, Tool, ToolCall
from turnwise.types.protocols import EngineDown

KEY = "sk-very-secret-0123456789"
PRICE = Tool(
    "fmp.price", "The price.", {"type": "object", "properties": {"symbol": {"type": "string"}}}, "fmp", "p"
)


def reply_of(message: dict[str, Any], finish: str = "stop") -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return Answer({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage})


def called(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


async def ask(
    *answers: Answer, messages: tuple[ChatMessage, ...] = (), key: str = KEY, **options: Any
) -> tuple[EndpointReply, list[Any]]:
    """The reply and the requests, of a server that gives these answers in turn."""
    with LoopbackProvider() as provider:
        provider.play("chat/completions", *answers)
        endpoint = OpenAIEndpoint(provider.url, "teacher", key=key, **options)
        try:
            reply = await endpoint.chat(messages or [ChatMessage("user", "hello")], [PRICE], seed=3)
        except Exception as error:
            error.add_note(f"{len(provider.requests)} requests")
            raise
        finally:
            await endpoint.close()
        return reply, provider.requests


async def fails(
    error: type[Exception], words: str, *answers: Answer, num_requests: int = 1, **options: Any
) -> str:
    """The message of the error that these answers cause, after that many requests."""
    with pytest.raises(error, match=words) as caught:
        await ask(*answers, **options)
    assert caught.value.__notes__ == [f"{num_requests} requests"]
    return repr(caught.value)


async def test_a_tool_call_is_returned_under_our_name_with_its_arguments() -> None:
    reply, [request] = await ask(reply_of(called("fmp_price", '{"symbol": "ACME"}'), "tool_calls"))
    assert reply.parsed.calls == (ToolCall("call_1", "fmp.price", {"symbol": "ACME"}),)
    assert (reply.finish, reply.num_prompt_tokens, reply.num_completion_tokens) == (Finish.STOP, 11, 7)
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_the_conversation_is_sent_in_the_documented_shape() -> None:
    call = ToolCall("call_1", "fmp.price", {"symbol": "ÄB"})
    messages = (
        ChatMessage("user", "price?"),
        ChatMessage("assistant", "", calls=(call,)),
        ChatMessage("tool", "42", call_id="call_1"),
    )
    reply, [request] = await ask(reply_of({"content": "42", "reasoning_content": "so"}), messages=messages)
    assert (reply.parsed.text, reply.parsed.reasoning, reply.parsed.error) == ("42", "so", None)
    assert (request.body["model"], request.body["seed"]) == ("teacher", 3)
    function = {"name": "fmp_price", "description": "The price.", "parameters": PRICE.input_schema}
    assert request.body["tools"] == [{"type": "function", "function": function}]
    _, assistant, tool = request.body["messages"]
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
async def test_a_mistake_of_the_model_is_a_format_error(
    message: dict[str, Any], finish: str, kind: FormatErrorKind
) -> None:
    reply, _ = await ask(reply_of(message, finish))
    assert reply.parsed.error is not None
    assert (reply.parsed.error.kind, reply.parsed.calls) == (kind, ())


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
async def test_a_reply_that_is_not_a_chat_completion_is_engine_down(content: bytes) -> None:
    await fails(EngineDown, "no chat completion", Answer(content))


async def test_retry_after_is_honoured_and_the_answer_is_returned() -> None:
    busy = Answer(b"slow down", 429, {"retry-after": "0.3"})
    past = Answer(b"", 503, {"retry-after": formatdate(time.time() - 5, usegmt=True)})
    started = time.monotonic()
    reply, requests = await ask(busy, past, reply_of({"content": "ok"}))
    assert (reply.parsed.text, len(requests)) == ("ok", 3)
    assert time.monotonic() - started >= 0.3


async def test_retries_are_bounded_and_so_is_a_wait() -> None:
    failing, slow = (Answer(b"", 503, {"retry-after": "0"}), Answer(b"", 429, {"retry-after": "3600"}))
    await fails(EngineDown, r"answered 503 .3 attempts", failing, num_requests=3, num_retries=2)
    await fails(EngineDown, r"answered 429 .attempt 1; the next, in [34]... s", slow)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_reported_and_never_shown(status: int) -> None:
    refusal = Answer({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status)
    assert KEY not in await fails(EngineDown, f"refused the key .status {status}", refusal)
    await fails(EngineDown, "none was given", refusal, key="")


async def test_a_refused_request_is_the_callers_mistake_and_does_not_quote_the_key() -> None:
    refusal = Answer(f"maximum context length is 8192, key {KEY}".encode(), 400)
    assert KEY not in await fails(ValueError, "maximum context", refusal, num_requests=2)


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    with LoopbackProvider() as other:
        await fails(EngineDown, "302", Answer(b"", 302, {"location": f"{other.url}/chat/completions"}))
    assert other.requests == []


async def test_a_missing_endpoint_and_tools_with_the_same_name_are_refused() -> None:
    endpoint = OpenAIEndpoint("http://127.0.0.1:9/v1", "m", num_retries=1)
    with pytest.raises(EngineDown, match=r"ConnectError. .2 attempts"):
        await endpoint.chat([ChatMessage("user", "x")], [PRICE])
    twin = Tool("fmp_price", "", {}, "fmp", "p")
    with pytest.raises(ValueError, match="not different enough"):
        await endpoint.chat([ChatMessage("user", "x")], [PRICE, twin])
    await endpoint.close()
