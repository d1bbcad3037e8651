"""Turns read from ids: any tokenization of a call is read, and no ids raise or invent one."""

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.models.chat.test_chat import CALL, PRICE, USER, chat_of, special_ids
from tests.models.chat.test_hermes import CALLS, TEXT, same
from tests.models.chat.tokenizers import NAMES, bpe
from turnwise.models.chat.hermes import TAGS
from turnwise.models.chat.library import default_renderer
from turnwise.models.chat.reading import LibraryReader
from turnwise.types import FormatErrorKind, ToolCall

SPELLERS = ["qwen3", "plain ChatML", "end token swallows spaces", "normalising", "smollm2"]


def split_badly(tokenizer: Any, text: str, cuts: list[int]) -> list[int]:
    """Ids that spell the text, cut anywhere, even inside a character or a tag."""
    raw = text.encode()
    bounds = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    ids: list[int] = []
    for start, end in pairwise(bounds):
        piece = raw[start:end]
        try:
            ids += tokenizer.encode(piece.decode(), add_special_tokens=False)
        except UnicodeDecodeError:
            ids += tokenizer.convert_tokens_to_ids([_byte_characters()[byte] for byte in piece])
    return ids


@cache
def _byte_characters() -> dict[int, str]:
    """GPT-2's way of giving every byte a visible character."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}


@pytest.mark.parametrize("name", SPELLERS)
@settings(max_examples=20, deadline=None)
@given(call=CALLS, text=TEXT, cuts=st.lists(st.integers(0, 10_000), max_size=40), style=st.booleans())
def test_a_call_is_read_from_any_ids_that_spell_it(
    name: str, call: ToolCall, text: str, cuts: list[int], style: bool
) -> None:
    tokenizer, chat = chat_of(name)
    assume(not any(tag in text for tag in TAGS))
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=style)
    written = f"{text}<tool_call>{body}</tool_call>"
    ids = split_badly(tokenizer, written, cuts)
    # A special token's text in an argument may have become that token; then it ends or fakes a turn.
    assume(tokenizer.decode(ids) == written and not special_starts(tokenizer) & set(ids))
    parsed = chat.parse([*ids, *sorted(chat.stop_ids)[:1]], chat.open(USER, [PRICE]), is_cut=False)
    assert parsed.error is None
    [found] = parsed.calls
    assert found.name == call.name
    assert same(found.arguments, call.arguments)


def special_starts(tokenizer: Any) -> set[int]:
    return set(tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>", "<|endoftext|>"]))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_random_ids_never_raise_and_never_make_a_call(name: str, data: st.DataObject) -> None:
    tokenizer, chat = chat_of(name)
    tokens = st.integers(0, len(tokenizer) + 50) | st.sampled_from(sorted(special_ids(tokenizer)))
    ids = data.draw(st.lists(tokens, max_size=30))
    parsed = chat.parse(ids, data.draw(st.lists(tokens, max_size=5)), is_cut=data.draw(st.booleans()))
    assert parsed.calls == ()


@pytest.mark.parametrize("name", SPELLERS)
@settings(max_examples=20, deadline=None)
@given(calls=st.lists(CALLS, max_size=3), text=TEXT)
def test_what_a_script_says_is_parsed_as_it_was_meant(name: str, calls: list[ToolCall], text: str) -> None:
    _, chat = chat_of(name)
    assume(calls or text.strip())
    ids = chat.say(text, calls)
    assert ids[-1] in chat.stop_ids
    assert not chat.stop_ids & set(ids[:-1])
    parsed = chat.parse(ids, chat.open(USER, [PRICE]), is_cut=False)
    assert parsed.error is None
    assert [c.name for c in parsed.calls] == [c.name for c in calls]
    assert all(same(found.arguments, c.arguments) for found, c in zip(parsed.calls, calls, strict=True))


def test_what_comes_after_the_end_of_a_turn_is_not_read() -> None:
    _, chat = chat_of("qwen3")
    ids = [*chat.say("Done."), *chat.say("", [CALL])]
    parsed = chat.parse(ids, (), is_cut=False)
    assert (parsed.text, parsed.calls) == ("Done.", ())


def test_a_turn_that_opens_another_turn_is_faked() -> None:
    tokenizer, chat = chat_of("qwen3")
    ids = tokenizer.encode("<|im_start|>user\n12.5", add_special_tokens=False)
    parsed = chat.parse([*ids, *chat.say("It is 12.5")], (), is_cut=False)
    assert parsed.error is not None
    assert parsed.error.kind is FormatErrorKind.FAKED_RESPONSE


def test_a_thought_opened_by_the_prompt_is_a_thought() -> None:
    tokenizer, chat = chat_of("qwen3")
    prompt = tokenizer.encode("<|im_start|>assistant\n<think>\n", add_special_tokens=False)
    parsed = chat.parse(tokenizer.encode("hm</think>Yes."), prompt, is_cut=False)
    assert (parsed.reasoning, parsed.text) == ("hm", "Yes.")
    unclosed = chat.parse(tokenizer.encode("hm, yes."), prompt, is_cut=False)
    assert unclosed.error is not None
    assert unclosed.error.kind is FormatErrorKind.UNCLOSED


def test_calls_in_another_form_are_read_with_the_librarys_parser() -> None:
    tokenizer, chat = chat_of("calls in XML")
    written = "Hm.<tool_call>\n<function=f>\n<parameter=x>\nOslo\n</parameter>\n</function>\n</tool_call>"
    parsed = chat.parse(tokenizer.encode(written), (), is_cut=False)
    assert [(c.id, c.name, dict(c.arguments)) for c in parsed.calls] == [("call_0", "f", {"x": "Oslo"})]
    assert parsed.text == "Hm."
    for text, is_cut, kinds in (
        (written[:-20], False, set(FormatErrorKind)),
        (written, True, {FormatErrorKind.TRUNCATED}),
        ("", False, {FormatErrorKind.EMPTY}),
    ):
        failed = chat.parse(tokenizer.encode(text), (), is_cut=is_cut)
        assert failed.error is not None
        assert failed.error.kind in kinds
        assert failed.calls == ()
    with pytest.raises(ValueError, match="Hermes form"):
        chat.say("", [CALL])


def test_a_deepseek_call_with_an_endless_name_is_an_error_and_does_not_hang() -> None:
    tags = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
    tokenizer = bpe(plain=(*tags, "<｜tool▁sep｜>"))
    reader = LibraryReader(default_renderer(tokenizer, {}, tool_parser="deepseek-v3"))
    for name, is_read in (("f", True), ("9" * 20_000, False)):
        text = f"{tags[0]}{tags[2]}function<｜tool▁sep｜>{name}\n```json\n{{}}\n```{tags[3]}{tags[1]}"
        parsed = reader.read(tokenizer.encode(text, add_special_tokens=False), (), (), is_cut=False)
        assert [call.name for call in parsed.calls] == (["f"] if is_read else [])
        assert (parsed.error is None) == is_read
