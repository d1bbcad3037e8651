"""Every parser with its fuzzing inputs and the errors that it may raise."""

import asyncio
import contextlib
import json
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import torch
from httpx2._sse import EventSource
from renderers.parsers import TOOL_PARSERS
from tokenizers import AddedToken

from tests.fuzzing import sound
from tests.fuzzing.inputs import NUMBERS, Inputs, encoded
from turnwise.config import parse_settings, read_recipe
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views import series
from turnwise.dashboard.views.conversation import conversation, side_by_side, tokens
from turnwise.dashboard.views.episode_list import page
from turnwise.dashboard.views.listing import Filter
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.dashboard.views.traffic import traffic
from turnwise.engines import wire
from turnwise.engines.remote import read_lines
from turnwise.engines.server import Server
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp import remote, spec
from turnwise.mcp.calls import results
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.processes import launch
from turnwise.models.chat import hermes, library, load_tokenizer
from turnwise.models.chat.guard import TextGuard
from turnwise.models.chat.reading import HermesReader, LibraryReader
from turnwise.records.run_facts import ShownRecipe
from turnwise.rewards.answer import matches
from turnwise.rewards.judge import read_verdict
from turnwise.rollout import store
from turnwise.rollout.players import replies
from turnwise.system.net.admission import Admission
from turnwise.system.net.line_splitter import LineSplitter
from turnwise.system.net.retry_after import retry_after_seconds
from turnwise.system.redaction import Redaction
from turnwise.tasks import load
from turnwise.types import Answer, Matcher
from turnwise.types.protocols import Adapter, EngineDown


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser: draws an input and parses it; only declared errors may be raised."""

    draw: Callable[[Inputs], Any]
    read: Callable[[Any], object]
    raises: tuple[type[Exception], ...] = ()
    share: float = 1.0
    """Of the cases, beside the others: more for a parser that takes microseconds, less for milliseconds."""


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[str], object]:
    def read_text(text: str) -> object:
        with tempfile.TemporaryDirectory(prefix="turnwise-fuzz-") as folder:
            path = Path(folder) / name
            path.write_bytes(encoded(text))
            return read(path)

    return read_text


def documents(*sounds: Any) -> Callable[[Inputs], str]:
    return lambda inputs: inputs.document(sounds)


def in_lines(*sounds: Any) -> Callable[[Inputs], str]:
    return lambda inputs: "\n".join(inputs.document(sounds) for _ in range(inputs.choice((1, 2, 3)))) + "\n"


# --- recipes and answers -----------------------------------------------------------------------------------


def draw_recipe(inputs: Inputs) -> tuple[str, list[str]]:
    name = inputs.choice(sound.SETTINGS)
    value = inputs.text(3) if inputs.chance(5) else json.dumps(inputs.value())
    settings = [f"{name}={value}"] if inputs.chance(5) else []
    return inputs.damaged_text(sound.RECIPE), settings


def read_a_recipe(given: tuple[str, list[str]]) -> None:
    text, settings = given
    in_file("recipe.toml", lambda path: read_recipe(path, parse_settings(settings)))(text)


TRUTHS = (
    Answer(3.5, Matcher.NUMERIC, 0.01, "USD"),
    Answer("x", Matcher.EXACT),
    Answer("Acme Corp.", Matcher.NORMALISED),
    Answer(["a", "b"], Matcher.ONE_OF),
    Answer("(a|b)+", Matcher.REGEX),
    Answer({"a": [1, {"b": None}]}, Matcher.JSON_SUBSET),
)


def read_answer(text: str) -> None:
    for truth in TRUTHS:
        matches(truth, text, given=text[:50])


def draw_truth(inputs: Inputs) -> Answer:
    return Answer(inputs.value(), inputs.choice(list(Matcher)), inputs.choice(NUMBERS), inputs.text(1))


# --- turns -------------------------------------------------------------------------------------------------

TAGS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<arg_key>", "</arg_key>", "<arg_value>"),
    *("</arg_value>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>"),
)
CALLS = (
    '<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>',
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>f\n<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<think>thought</think>the answer is 3",
)


def readers() -> dict[str, Parser]:
    """The Hermes form and every form of the renderers library, over one tokenizer that has all their tags."""
    tokenizer = load_tokenizer("embedded")
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tool = {"type": "function", "function": {"name": "f", "parameters": sound.SCHEMA}}

    def draw(inputs: Inputs) -> tuple[list[int], bool]:
        text = inputs.choice(CALLS) + inputs.text(2) + inputs.choice(CALLS)
        text = inputs.damaged_text(text).encode("utf-8", "replace").decode()
        ids = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
        return list(ids), inputs.chance(2)

    def reading(reader: Any) -> Parser:
        return Parser(draw, lambda given: reader.read(given[0], (1, 2), (tool,), is_cut=given[1]), share=0.7)

    forms = {
        f"turns, {name} form": reading(
            LibraryReader(library.default_renderer(tokenizer, {}, tool_parser=name))
        )
        for name in TOOL_PARSERS
    }
    guard = TextGuard(tokenizer, hermes.TAGS)
    return {
        "turns, Hermes form": reading(HermesReader(tokenizer, frozenset())),
        **forms,
        "text for the prompt": Parser(Inputs.text, guard.defuse),
    }


# --- replies of servers ------------------------------------------------------------------------------------


def read_stdout(chunks: Sequence[bytes]) -> None:
    splitter = LineSplitter(2_000)
    for chunk in chunks:
        for line in splitter.feed(chunk):
            launch._parse(line)


def draw_stdout(inputs: Inputs) -> list[bytes]:
    return inputs.chunks(inputs.damaged_bytes(encoded(in_lines(*sound.RPC)(inputs))))


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    chunks: list[bytes]


def draw_http(inputs: Inputs) -> Answered:
    choose = inputs.choice
    body = encoded(inputs.document(sound.RPC))
    headers = [(b"content-type", choose((b"application/json", b"text/event-stream", b"text/html", b"\xff")))]
    if choose((True, False)):
        encoding = choose((b"gzip", b"deflate", b"br", b"identity", b"x"))
        headers.append((b"content-encoding", encoding))
        body = zlib.compress(body) if choose((True, False)) else body
    if choose((True, False)):
        headers.append(
            (b"retry-after", choose((b"3", b"-1", b"x", b"Mon, 01 Jan 0001 00:00:00 -2359", b"9" * 30)))
        )
    if choose((True, False)):
        headers.append((b"location", choose((b"//[", b"http://x/y", b"\xff"))))
    status = choose((200, 200, 202, 204, 301, 400, 401, 404, 429, 500, 503, 599))
    return Answered(status, headers, inputs.chunks(inputs.damaged_bytes(body)))


def read_http(answered: Answered) -> None:
    class Inner(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            async def stream() -> AsyncIterator[bytes]:
                for chunk in answered.chunks:
                    yield chunk

            return httpx2.Response(
                answered.status, headers=answered.headers, content=stream(), request=request
            )

    async def ask() -> None:
        transport: Any = remote._TypedFaults(Inner(), 2_000)  # type: ignore[arg-type]
        headers = {"mcp-session-id": "s"}
        await transport.handle_async_request(httpx2.Request("POST", "http://here/mcp", headers=headers))

    asyncio.run(ask())


def draw_events(inputs: Inputs) -> list[bytes]:
    events = "".join(f"{inputs.text(1)}data: {inputs.document(sound.RPC)}\n\n" for _ in range(2))
    return inputs.chunks(inputs.damaged_bytes(encoded(events)))


def read_events(chunks: Sequence[bytes]) -> None:
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=iter(chunks),
        request=httpx2.Request("GET", "http://here"),
    )
    for _ in EventSource(response, 4_000):
        pass


def read_engine_lines(chunks: Sequence[bytes]) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def read() -> None:
        async for line in read_lines(parts()):
            line.completion()

    asyncio.run(read())


def read_schema(given: tuple[Any, Any, Any]) -> None:
    schema, value, arguments = given
    if isinstance(schema, dict):
        Schema("f", schema).first_error(value)
        for is_mending in (True, False):
            with contextlib.suppress(BadArguments):
                ArgumentChecker("f", schema, is_mending=is_mending).check(arguments)


def draw_schema(inputs: Inputs) -> tuple[Any, Any, Any]:
    schema = inputs.damaged(sound.SCHEMA) if inputs.chance(9) else {"type": inputs.value()}
    arguments = inputs.damaged(sound.ARGUMENTS)
    return schema, inputs.damaged(sound.ARGUMENTS), arguments if isinstance(arguments, dict) else {}


def read_result(text: str) -> None:
    sanitiser = results.Sanitiser(("<|im_end|>", "</s>"), Redaction(["hunter22", text[:20]]))
    results.cut(sanitiser.clean(text), 20)


# --- requests to the engine server -------------------------------------------------------------------------


def draw_weights(inputs: Inputs) -> bytes:
    tensors = {"a.lora_A": torch.ones(2, 3), "a.lora_B": torch.zeros(3, 2)}
    if inputs.chance(3):
        tensors["a.lora_A"][0, 0] = inputs.choice((float("nan"), float("inf"), 1e38))
    packed = wire.pack(Adapter(tensors, 2, inputs.choice((4.0, float("nan"), -1.0))), 3, "")
    return inputs.damaged_bytes(packed.content) if inputs.chance(9) else packed.content


def engine_server(exits: contextlib.ExitStack) -> Parser:
    """The whole server with a real engine of a tiny model; it must answer, never with status 500."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        **{"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1},
        **{"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64},
    )
    model = Qwen3ForCausalLM(config)
    names = [
        name for name, parameter in model.named_parameters() if parameter.dim() == 2 and "layers" in name
    ]
    shapes = {name.removesuffix(".weight"): model.get_parameter(name).shape for name in names}

    def draw(inputs: Inputs) -> tuple[str, bytes]:
        if inputs.chance(6):
            return "/complete", encoded(inputs.document([sound.ASKS]))
        module = inputs.choice(sorted(shapes))
        rank = inputs.choice((1, 2, 3))
        wide, tall = inputs.choice((shapes[module], shapes[module][::-1], (1, 1)))
        tensors = {f"{module}.lora_A": torch.ones(2, tall), f"{module}.lora_B": torch.zeros(wide, 2)}
        if inputs.chance(2):
            tensors.popitem()
        if inputs.chance(2):
            tensors[inputs.text(1) or "x"] = torch.ones(1)
        content = wire.pack(Adapter(tensors, rank, inputs.choice((1.0, 1e300, 0.0))), 1, "").content
        return "/publish", content if inputs.chance(7) else inputs.damaged_bytes(content)

    loop = asyncio.new_event_loop()
    engine = TransformersEngine(model, device="cpu", cache_tokens=2_048)
    server = Server(engine, kind="transformers", model="tiny", max_weights_bytes=1 << 20)
    transport = httpx2.ASGITransport(
        server.application(Admission("127.0.0.1", "")), raise_app_exceptions=True
    )
    client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    def close() -> None:
        loop.run_until_complete(client.aclose())
        loop.run_until_complete(engine.close())
        loop.close()

    exits.callback(close)

    def read(given: tuple[str, bytes]) -> None:
        path, content = given
        headers = {"content-digest": wire.content_digest(wire.digest_of(content))}

        async def ask() -> httpx2.Response:
            return await client.post(path, content=content, headers=headers)

        answer = loop.run_until_complete(ask())
        assert answer.status_code in (200, 400, 409, 413, 422), answer.text
        if answer.status_code == 200:
            for line in answer.content.splitlines():
                assert not (line and wire.read_line(line).down), line

    return Parser(draw, read, share=0.3)


# --- files of the dashboard --------------------------------------------------------------------------------


class Page:
    """A run folder to which damaged lines are appended, read by the dashboard."""

    def __init__(self, folder: Path) -> None:
        self._run = folder / "run"
        for name in ("trajectories", "tokens"):
            (self._run / name).mkdir(parents=True)
        self._index = Index(self._run, folder / "cache")
        self._pieces = Pieces(self._run, "embedded")

    def draw(self, inputs: Inputs) -> tuple[str, bytes]:
        name, sounds = inputs.choice(
            (
                ("metrics.jsonl", (sound.METRICS_LINE,)),
                ("trajectories/step-000001.jsonl", sound.trajectory_lines()),
                ("tokens/step-000001.jsonl", (sound.TOKENS_LINE,)),
            )
        )
        sound_line = json.dumps(inputs.choice(list(sounds)))
        return name, encoded(f"{sound_line}\n{inputs.document(sounds)}\n")

    def read(self, given: tuple[str, bytes]) -> None:
        name, content = given
        (self._run / name).write_bytes(content)
        self._index.refresh()
        series.series(self._index, series.names(self._index))
        series.histogram(self._index, "ratio")
        series.alarms(self._index)
        traffic(self._index)
        for row in page(self._index, Filter())["rows"]:
            with contextlib.suppress(LookupError):
                conversation(self._index, row["id"], self._pieces)
                side_by_side(self._index, row["id"], ShownRecipe(), self._pieces)
                tokens(self._index, row["id"], ShownRecipe(), self._pieces)


def read_trajectories(text: str) -> None:
    for read in (
        lambda path: list(store.read_valid_episodes(path, lambda reason: None)),
        lambda path: list(store.read_episodes(path)),
    ):
        in_file("step.jsonl", read)(text)


def parsers(folder: Path, exits: contextlib.ExitStack) -> dict[str, Parser]:
    """Every parser by name, open until `exits` closes; the dashboard's files are written to the folder."""
    shown = Page(folder)
    return {
        "mcp.json": Parser(documents(sound.MCP_JSON), in_file("mcp.json", spec.load), (ValueError,)),
        "recipe (TOML) and --set": Parser(draw_recipe, read_a_recipe, (ValueError,)),
        "tasks, JSON": Parser(documents([sound.TASK]), in_file("tasks.json", load.load), (ValueError,)),
        "tasks, JSONL": Parser(in_lines(sound.TASK), in_file("tasks.jsonl", load.load), (ValueError,)),
        "tasks of earlier systems": Parser(
            in_lines(sound.LEGACY_TASK), in_file("tasks.jsonl", load.load), (ValueError,)
        ),
        **readers(),
        "final answers": Parser(Inputs.text, read_answer),
        "truths of answers": Parser(
            draw_truth, lambda truth: matches(truth, '{"a": 1} 3.5'), (ValueError,), share=3.0
        ),
        "verdicts of a judge": Parser(
            documents({"score": 0.5, "reason": "x"}), read_verdict, (ValueError,), share=3.0
        ),
        "JSON-RPC over stdio": Parser(draw_stdout, read_stdout, share=3.0),
        "HTTP answers": Parser(draw_http, read_http, share=0.7),
        "server-sent events": Parser(draw_events, read_events, (httpx2.SSEError,), share=0.7),
        "Retry-After": Parser(
            lambda inputs: inputs.damaged_text("Mon, 16 Nov 2026 10:00:00 GMT"),
            retry_after_seconds,
            share=3.0,
        ),
        "tool schemas and arguments": Parser(draw_schema, read_schema, share=0.15),
        "tool results": Parser(Inputs.text, read_result, share=3.0),
        "cassettes": Parser(
            in_lines(*sound.CASSETTE_LINES),
            in_file("calls.jsonl", lambda path: Cassette(path, Mode.REPLAY)),
            (ValueError,),
        ),
        "chat completions": Parser(
            documents(sound.REPLY),
            lambda text: replies.read_reply(encoded(text), {}),
            (EngineDown,),
            share=3.0,
        ),
        "engine requests": Parser(
            documents(sound.ASKS), lambda text: wire.read_asks(encoded(text)), (ValueError,), share=3.0
        ),
        "engine answers": Parser(
            lambda inputs: inputs.chunks(encoded(in_lines(sound.ENGINE_LINE)(inputs))),
            read_engine_lines,
            (EngineDown, ValueError),
        ),
        "engine state": Parser(
            documents(sound.ENGINE_STATE),
            lambda text: wire.read_state(encoded(text)),
            (EngineDown,),
            share=3.0,
        ),
        "weights (safetensors)": Parser(draw_weights, wire.unpack, (ValueError,), share=3.0),
        "engine server over HTTP": engine_server(exits),
        "stored trajectories": Parser(
            in_lines(*sound.trajectory_lines()), read_trajectories, (ValueError,), share=0.7
        ),
        "files of the page": Parser(shown.draw, shown.read, share=0.05),
    }
