"""Every function that handles text of a model, bytes of a server or a file of a user."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from httpx2._sse import EventSource
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.models.chat import tokenizers
from turnwise.config import read_recipe
from turnwise.engines import remote, wire
from turnwise.mcp import spec
from turnwise.mcp.calls import arguments, results
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.processes import launch, named_data
from turnwise.models.chat import hermes
from turnwise.models.chat.guard import TextGuard
from turnwise.rewards import numbers
from turnwise.rewards.answer import matches, normalise
from turnwise.rewards.judge import read_verdict
from turnwise.rollout.players import replies
from turnwise.run.demonstrations import replay
from turnwise.system import environment, secret_values
from turnwise.system.files.json_lines import Lines
from turnwise.system.files.regular_files import lines_from
from turnwise.system.net.addresses import host_of
from turnwise.system.net.line_splitter import LineSplitter
from turnwise.system.net.retry_after import retry_after_seconds
from turnwise.system.redaction import Redaction
from turnwise.system.terminal import printable
from turnwise.tasks import load
from turnwise.tasks.earlier import recording
from turnwise.types import Answer, Matcher
from turnwise.types.protocols import EngineDown
from turnwise.worlds.market import unknown_tickers


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the longest text that it ever gets."""

    handle: Callable[[str], object]
    max_chars: int = 1 << 20


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


# --- what a model writes -----------------------------------------------------------------------------------


@cache
def guard() -> TextGuard:
    return TextGuard(tokenizers.qwen3(), hermes.TAGS)


@cache
def guard_without_letters() -> TextGuard:
    """Its vocabulary has one letter; the unknown token, which is special, replaces all other characters."""
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")  # type: ignore[assignment]
    return TextGuard(PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>"))


def matching(matcher: Matcher, value: Any) -> Handler:
    return Handler(lambda text: matches(Answer(value, matcher), text, given=text), numbers.MAX_CHARS)


def reads_call(text: str) -> object:
    return hermes.read_turn(
        f'<tool_call>{{"name": "f", "arguments": {{"x": {json.dumps(text)}}}}}</tool_call>'
    )


CHECKER = arguments.ArgumentChecker(
    "f", {"type": "object", "properties": {"ticker": {"type": "string"}}, "required": ["ticker"]}
)


def checks_arguments(text: str) -> None:
    for given in ({"symbol": text}, {text: 1, f"{text}2": [text]}):
        with contextlib.suppress(arguments.BadArguments):
            CHECKER.check(given)


def reads_verdict(text: str) -> None:
    with contextlib.suppress(ValueError):
        read_verdict(text)


# --- what a server sends -----------------------------------------------------------------------------------

SANITISER = results.Sanitiser(
    special_tokens=("<|im_end|>", "</s>", "[INST]", "<"), redaction=Redaction(["hunter22", "aaaaaaaa"])
)


def reads_stdout(text: str) -> None:
    for line in LineSplitter(1 << 23).feed(encoded(text) + b"\n"):
        launch._parse(line)


def reads_stdout_by_bytes(text: str) -> None:
    splitter = LineSplitter(1 << 16)
    for byte in encoded(text):
        splitter.feed(bytes((byte,)))


def reads_engine_lines(text: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for byte in encoded(text):
            yield bytes((byte,))

    async def read() -> None:
        with contextlib.suppress(EngineDown):
            async for _ in remote.read_lines(parts()):
                pass

    asyncio.run(read())


def reads_events(text: str) -> None:
    """The SDK's reader, one byte at a time: input below its size limit must not take quadratic time."""
    content = encoded(text)
    body = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=(content[place : place + 1] for place in range(len(content))),
        request=httpx2.Request("GET", "http://here"),
    )
    with contextlib.suppress(httpx2.SSEError):
        for _ in EventSource(body, 1 << 20):
            pass


UNIQUE_ITEMS = Schema("f", {"type": "array", "uniqueItems": True})


def checks_output(text: str) -> None:
    rows = [{"a": number, "b": character} for number, character in enumerate(text)]
    for items in (rows, list(text), [[row] for row in rows]):
        UNIQUE_ITEMS.first_error(items)


def reads_reply(text: str) -> None:
    call = {"id": "1", "function": {"name": text, "arguments": text}}
    message = {"content": text, "reasoning_content": text, "tool_calls": [call]}
    replies.read_reply(json.dumps({"choices": [{"message": message}]}).encode(), {})
    with contextlib.suppress(EngineDown):
        replies.read_reply(encoded(text), {})


def reads_engine_reply(text: str) -> None:
    for read in (wire.read_line, wire.read_state):
        with contextlib.suppress(EngineDown):
            read(encoded(text))


# --- what a client sends to a server of ours ----------------------------------------------------------------


def reads_asks(text: str) -> None:
    with contextlib.suppress(ValueError):
        wire.read_asks(encoded(text))


def unpacks_weights(text: str) -> None:
    content = encoded(text)
    for header in (content, json.dumps({"__metadata__": {"version": text}}).encode()):
        with contextlib.suppress(ValueError):
            wire.unpack(len(header).to_bytes(8, "little") + header)


# --- what a user's file holds ------------------------------------------------------------------------------


def in_file(name: str, read: Callable[[Path], object], content: Callable[[str], str] = str) -> Handler:
    def handle(text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(encoded(content(text)))
            with contextlib.suppress(ValueError):
                read(path)

    return Handler(handle, 1 << 18)


def in_task(text: str) -> str:
    return json.dumps({"id": text, "prompt": text, "truth": {"answer": {"value": text}, "more": text}})


def in_legacy_task(text: str) -> str:
    played = [{"role": "user", "content": text}, *({"role": "assistant", "content": text},) * 2]
    truth = {"ground_truth": {"answer": text, "success_criteria": {"a": text}}}
    return json.dumps({"prompt": text, "reward_spec": truth, "extra_info": {"original_conversation": played}})


def in_mcp_json(text: str) -> str:
    return json.dumps({"mcpServers": {"s": {"command": text, "args": [text], "env": {"A": text}}}})


def in_recipe(text: str) -> str:
    return (
        f"[rollout]\nseconds = {json.dumps(text)}\n{json.dumps(text)} = 1\n[model]\npath = {json.dumps(text)}"
    )


def finds_secrets(text: str) -> None:
    server = spec.ServerSpec(name="s", command="x", args=(text, f"--key={text}"), env={"TOKEN": text})
    Redaction(server.secrets).redact(text)
    secret_values.secrets_in_data(text)
    named_data.named_data(server)


def cuts_figures(path: Path) -> None:
    lines = Lines(path)
    lines.cut(3)
    lines.close()


def finds_old_quotes(text: str) -> None:
    known = replay.KnownNumbers(replay.numbers_of(text))
    for number in replay.numbers_of(text):
        assert number in known
    replay.first_quote(text, f"x{text}", f"y{text}")


HANDLERS: Mapping[str, Handler] = {
    # a model's text
    "hermes.read_turn": Handler(hermes.read_turn),
    "hermes.read_turn in a thought": Handler(lambda text: hermes.read_turn(text, starts_in_thought=True)),
    "hermes.read_turn of a call": Handler(reads_call),
    "Guard.defuse": Handler(lambda text: guard().defuse(text), 1 << 18),
    "Guard.defuse of unknown characters": Handler(lambda text: guard_without_letters().defuse(text), 1 << 16),
    "numbers.stated_number": Handler(lambda text: numbers.stated_number(text, given=text), numbers.MAX_CHARS),
    "numbers.lines_of": Handler(numbers.lines_of, numbers.MAX_CHARS),
    "answer.normalise": Handler(normalise),
    "answer.matches numeric": matching(Matcher.NUMERIC, 1.0),
    "answer.matches exact": matching(Matcher.EXACT, "x"),
    "answer.matches normalised": matching(Matcher.NORMALISED, "x"),
    "answer.matches one_of": matching(Matcher.ONE_OF, ["x", "y"]),
    "answer.matches json_subset": matching(Matcher.JSON_SUBSET, {"a": 1}),
    "judge.read_verdict": Handler(reads_verdict),
    "ArgumentChecker.check": Handler(checks_arguments),
    "printable": Handler(printable),
    # a server's bytes
    "Sanitiser.clean": Handler(SANITISER.clean),
    "results.cut": Handler(lambda text: results.cut(text, 100)),
    "stdout by lines": Handler(reads_stdout),
    "stdout by bytes": Handler(reads_stdout_by_bytes, 1 << 18),
    "engine's lines by bytes": Handler(reads_engine_lines, 1 << 16),
    "events by bytes": Handler(reads_events, 1 << 16),
    "Schema.first_error": Handler(checks_output, 1 << 16),
    "replies.read_reply": Handler(reads_reply),
    "wire.read_line": Handler(reads_engine_reply),
    "asked_seconds": Handler(retry_after_seconds, 1 << 16),
    # a client's bytes
    "wire.read_asks": Handler(reads_asks),
    "wire.unpack": Handler(unpacks_weights),
    "host_of": Handler(host_of),
    # files
    "spec.load": in_file("mcp.json", spec.load),
    "spec.load of a server": in_file("mcp.json", spec.load, in_mcp_json),
    "secret_values": Handler(finds_secrets, 1 << 16),
    "read_recipe": in_file("recipe.toml", read_recipe, in_recipe),
    "tasks.load of JSON": in_file("tasks.json", load.load),
    "tasks.load of JSONL": in_file("tasks.jsonl", load.load),
    "tasks.load of a task": in_file("tasks.jsonl", load.load, in_task),
    "tasks.load of a legacy task": in_file("tasks.jsonl", load.load, in_legacy_task),
    "recording.calls": Handler(lambda text: list(recording._calls({"content": text}))),
    "recording.text": Handler(lambda text: recording._text({"content": text})),
    "recording.result": Handler(recording._result),
    "demonstrations": Handler(finds_old_quotes, 1 << 16),
    "tickers": Handler(unknown_tickers._TICKER.findall),
    ".env": in_file(".env", lambda path: environment.dotenv_variables(path.parent)),
    "Cassette": in_file("cassette.jsonl", lambda path: Cassette(path, Mode.REPLAY)),
    "the page's lines": in_file("metrics.jsonl", lambda path: list(lines_from(path, 0))),
    "Lines.cut": in_file("metrics.jsonl", cuts_figures),
}
"""By name; every one is given every input of `INPUTS`."""
