"""The embedded tokenizer: lossless, the same tokens for a text at every position, Qwen3's format."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_model.tokenizer import make_tokenizer
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.models.chat.bridge import Bridge
from turnwise.models.places import EMBEDDED
from turnwise.types import Message, Tool, ToolCall

QUOTE = '{"symbol":"KALDJ","name":"Kaldovane Robotics","price":21.1,"dayLow":-20.67,"volume":1792506}'
TOOL = Tool(
    "fmp_get_quote",
    "Latest quote.",
    {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
    "fmp",
    "fmp_get_quote",
)


@cache
def small() -> Any:
    return make_tokenizer([QUOTE, "What is the latest price of KALDJ? Look it up."] * 5, 400)


@pytest.fixture(params=["made now", "shipped"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return small() if request.param == "made now" else load_tokenizer(EMBEDDED)


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


@settings(deadline=None, max_examples=50)  # the first example trains the tokenizer
@given(st.text())
def test_every_text_is_decoded_unchanged(text: str) -> None:
    assert small().decode(ids(small(), text)) == text


def test_the_included_tokenizer_decodes_texts_unchanged(tokenizer: Any) -> None:
    for text in (QUOTE, "naïve 東京 🙂\t\r\n  x", json.dumps({"a": [1, {"b": "<tool>"}]}), "A" * 50, '"}}]'):
        assert tokenizer.decode(ids(tokenizer, text)) == text


@pytest.mark.parametrize("copied", ["KALDJ", "1792506", "20.67", "Kaldovane Robotics"])
def test_a_text_has_the_same_tokens_at_every_position(tokenizer: Any, copied: str) -> None:
    alone = ids(tokenizer, copied)
    if " " not in copied:
        assert len(alone) == len(copied), "digits and letters of tickers are single tokens"
    for before, after in (('"symbol": "', '"}'), ("of ", "? Answer"), ("(", ")"), (":", ","), ("\n", " is")):
        found = ids(tokenizer, before + copied + after)
        assert any(found[at : at + len(alone)] == alone for at in range(len(found))), (before, after)


def test_every_choice_in_a_call_is_one_token() -> None:
    tokenizer = load_tokenizer(EMBEDDED)
    said = open_chat(tokenizer).say("", [ToolCall("", "fmp_get_quote", {"symbol": "KALDJ"})])
    assert [tokenizer.decode([token]) for token in said] == [
        *("<tool_call>", '\n{"name": "', "fmp_get_quote", '", "arguments": {"symbol": "', *"KALDJ"),
        *('"}}\n', "</tool_call>", "<|im_end|>"),
    ]


def test_the_chat_has_the_format_of_qwen3_and_prompts_extend_each_other(tokenizer: Any) -> None:
    chat = open_chat(tokenizer)
    assert isinstance(chat._form, Bridge)
    assert chat.notes == ()
    prompt = chat.open((Message("user", "The price of KALDJ?"),), (TOOL,))
    said = chat.say("", [ToolCall("", "fmp_get_quote", {"symbol": "KALDJ"})])
    seen = chat.extend([*prompt, *said], [("fmp_get_quote", QUOTE)])
    text = tokenizer.decode([*prompt, *said, *seen])
    assert text.startswith("<|im_start|>system\n# Tools\n\nYou may call one or more functions")
    assert text.endswith(
        '<think>\n\n</think>\n\n<tool_call>\n{"name": "fmp_get_quote", "arguments": {"symbol": "KALDJ"}}\n'
        f"</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n{QUOTE}\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    [call] = chat.parse(said, prompt, is_cut=False).calls
    assert (call.name, call.arguments) == ("fmp_get_quote", {"symbol": "KALDJ"})


def test_the_template_renders_the_same_as_the_renderer(tokenizer: Any) -> None:
    """For users who load the folder without turnwise."""
    chat = open_chat(tokenizer)
    wire = {
        "type": "function",
        "function": {
            "name": TOOL.name,
            "description": TOOL.description,
            "parameters": dict(TOOL.input_schema),
        },
    }
    theirs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}],
        tools=[wire],
        add_generation_prompt=True,
        enable_thinking=False,
        return_dict=False,
    )
    assert list(chat.open((Message("user", "Hello"),), (TOOL,))) == list(theirs)
