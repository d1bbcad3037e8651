"""The `Chat` of a model: prompts, exact extensions and parsed turns."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from turnwise.models.chat import hermes
from turnwise.models.chat.guard import TextGuard, clean_unicode
from turnwise.models.chat.reading import Reader
from turnwise.models.chat.templates import QUESTION, Wire, speech
from turnwise.types import Message, Parsed, Tool, ToolCall

_UNSHOWN = "[not shown: this text cannot be written safely for this model]"
_ROLES = ("system", "user", "assistant")
_NUM_KEPT = 128
"""Entries per cache. A group's members share one opening, and tool schemas are the largest part of it."""
_TAIL = 512
"""Last tokens that show how a turn ended: in a thought, in a call, or with its end token."""


class Form(Protocol):
    """How one model writes a conversation. Its inputs are already defused."""

    @property
    def stop_ids(self) -> frozenset[int]: ...

    @property
    def end_id(self) -> int: ...

    @property
    def turn_opening(self) -> str: ...

    def open(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> list[int]: ...

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> list[int]: ...


class RenderedChat:
    """The Chat of protocols.py, made by `open_chat`. It caches tool schemas and recent openings."""

    def __init__(
        self, form: Form, reader: Reader, guard: TextGuard, *, system_prompt: str, notes: Sequence[str]
    ) -> None:
        self._form = form
        self._reader = reader
        self._guard = guard
        self._system_prompt = system_prompt
        self._offers: dict[str, _Offer] = {}
        self._skeletons: dict[Hashable, list[int]] = {}
        self._openings: dict[Hashable, tuple[int, ...]] = {}
        self.notes = tuple(notes)
        """Findings about the template and how it is used, one sentence each."""

    @property
    def stop_ids(self) -> frozenset[int]:
        return self._form.stop_ids

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Strings that tool output must not contain; the Pool can defuse them before it is recorded."""
        return self._guard.strings

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer.json, to decode recorded ids later without the model; empty if there is none."""
        return self._guard.as_json()

    def decode(self, ids: Sequence[int]) -> str:
        """The exact text of the ids, special tokens included."""
        return self._guard.decode(ids)

    def count_tokens(self, text: str) -> int:
        return len(self._guard.encode(clean_unicode(text)))

    def open(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """The first prompt: system prompt, tools and task messages, up to the start of the model's turn."""
        if not messages or messages[-1].role == "assistant":
            raise ValueError("prompt: must end with a message to the model")
        if unknown := [message.role for message in messages if message.role not in _ROLES]:
            raise ValueError(f"prompt: role {unknown[0]!r} is not one of {', '.join(_ROLES)}")
        offers = [self._offer(tool) for tool in tools]
        wires, numbers = [offer.wire for offer in offers], tuple(offer.number for offer in offers)
        asked = (tuple(messages), numbers)
        if asked not in self._openings:
            _make_room(self._openings)
            self._openings[asked] = self._guarded(
                lambda contents: self._form.open(self._with_system_prompt(messages, contents), wires),
                [message.content for message in messages],
                key=("open", *(message.role for message in messages), *numbers),
            )
        return self._openings[asked]

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Return only the new ids; the next prompt begins with `ids`, unchanged."""
        if not ids or not observations:
            raise ValueError("extend: needs the ids so far and at least one observation")
        names = [self._guard.defuse(name) for name, _ in observations]
        return self._guarded(
            lambda contents: self._form.extend(ids, list(zip(names, contents, strict=True))),
            [content for _, content in observations],
            key=("extend", *names, *self._guard.structure_of(ids[-_TAIL:])),
        )

    def follow(
        self, ids: Sequence[int], text: str, added: Sequence[Tool] = (), withdrawn: Sequence[Tool] = ()
    ) -> tuple[int, ...]:
        """Return only the new ids, as `extend` does, for a user message after the model's turn."""
        ended = () if ids[-1] in self.stop_ids else (self._form.end_id,)
        words = "\n\n".join([text, *self._tool_notes(added, withdrawn)])
        return (
            *ended,
            *self._guarded(lambda contents: self._follow_up(contents[0]), [words], key=("follow",)),
        )

    def _tool_notes(self, added: Sequence[Tool], withdrawn: Sequence[Tool]) -> Iterator[str]:
        """Say which tools come and go; no template writes tools after its first message."""
        if added:
            offers = "\n".join(json.dumps(self._offer(tool).wire, ensure_ascii=False) for tool in added)
            yield f"You can now also call these functions:\n{offers}"
        if withdrawn:
            yield f"You can no longer call: {', '.join(tool.name for tool in withdrawn)}"

    def _follow_up(self, text: str) -> list[int]:
        """Render a made-up conversation and return what follows the end of the model's turn in it."""
        asked: Wire = {"role": "user", "content": QUESTION}
        ids = self._form.open([asked, speech(), {"role": "user", "content": text}], ())
        ends = [place for place, token in enumerate(ids) if token == self._form.end_id]
        return ids[ends[self._num_ends_before] + 1 :]

    @cached_property
    def _num_ends_before(self) -> int:
        """End-of-turn tokens before the model's first turn: a template may end other messages with it too."""
        return self._form.open([{"role": "user", "content": QUESTION}], ()).count(self._form.end_id)

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        """Return calls, an answer, or a format error; call ids count from `call_0` within the turn."""
        stop_ids = self.stop_ids
        end = next((at for at, token in enumerate(completion_ids) if token in stop_ids), None)
        tools = [offer.wire for offer in self._offers.values()]
        return self._reader.read(completion_ids[:end], prompt_ids, tools, is_cut=is_cut)

    def say(self, text: str, calls: Sequence[ToolCall] = ()) -> tuple[int, ...]:
        """Return the ids of a completion with this text and these calls, for demonstrations and scripts."""
        safe = self._guard.defuse(text)
        parsed = Parsed()
        # Some vocabularies lack or normalise characters; with ASCII escapes, any arguments can be written.
        for is_ascii in (False, True):
            words = hermes.write_turn(safe, calls, is_ascii=is_ascii)
            ids = (*self._guard.encode(words), self._form.end_id)
            parsed = self.parse(ids, (), is_cut=False)
            if [_key(call) for call in parsed.calls] == [_key(call) for call in calls]:
                return ids
        raise ValueError(f"say: this model cannot make these calls in the Hermes form ({parsed.error})")

    @property
    def call_ids(self) -> tuple[int, ...]:
        """The special tokens of every tool call, such as `<tool_call>`; empty if calls are plain text."""
        ids = self.say("", [ToolCall("call_0", "tool", {})])
        return tuple(dict.fromkeys(id for id in self._guard.structure_of(ids) if id not in self.stop_ids))

    def offers(self, tools: Sequence[Tool]) -> list[Wire]:
        """The tools as they are shown to the model."""
        return [self._offer(tool).wire for tool in tools]

    def _offer(self, tool: Tool) -> "_Offer":
        """The tool in OpenAI's function format, defused once. The schema's keys keep their server's order."""
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": _plain(tool.input_schema),
        }
        wire: Wire = {"type": "function", "function": function}
        text = json.dumps(wire, ensure_ascii=False)
        if text not in self._offers:
            safe = wire if self._guard.defuse(text) == text else self._guard.defuse_json(wire)
            self._offers[text] = _Offer(len(self._offers), safe)
        return self._offers[text]

    def _with_system_prompt(self, messages: Sequence[Message], contents: Sequence[str]) -> list[Wire]:
        """Put our system prompt first, merged with the task's: many templates accept one system message."""
        wires: list[Wire] = [
            {"role": message.role, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        if not self._system_prompt:
            return wires
        if wires[0]["role"] != "system":
            return [{"role": "system", "content": self._system_prompt}, *wires]
        return [{"role": "system", "content": f"{self._system_prompt}\n\n{wires[0]['content']}"}, *wires[1:]]

    def _guarded(
        self, render: Callable[[Sequence[str]], list[int]], contents: Sequence[str], *, key: Hashable = None
    ) -> tuple[int, ...]:
        """Render untrusted contents; show a placeholder if they change the special ids of the prompt.

        Defusing should be enough; the comparison with harmless contents covers unknown templates and
        tokenizers. `key` identifies everything but the contents: the harmless special ids are cached by it.
        """
        if key in self._skeletons:
            ids = render([self._guard.defuse_strings(content) for content in contents])
            if self._guard.structure_of(ids) == self._skeletons[key]:
                return tuple(ids)
        ids = render([self._guard.defuse(content) for content in contents])
        structure = self._guard.structure_of(ids)
        skeleton = self._guard.structure_of(render(["x"] * len(contents)))
        if key is not None:
            _make_room(self._skeletons)
            self._skeletons[key] = skeleton
        if structure != skeleton:
            ids = render([_UNSHOWN] * len(contents))
            assert self._guard.structure_of(ids) == skeleton, "a plain sentence brought special tokens"
        return tuple(ids)


def _make_room(kept: dict[Any, Any]) -> None:
    """Remove the oldest entry of a full cache."""
    if len(kept) >= _NUM_KEPT:
        del kept[next(iter(kept))]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A tool as it is shown to the model, and its number, which stands for it in cache keys."""

    number: int
    wire: Wire


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(dict(call.arguments))


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
