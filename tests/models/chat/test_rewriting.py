"""What templates would rewrite when a user comes back, known for every renderer; our prompts keep it all."""

from typing import Any

import pytest

from tests.models.chat.tokenizers import NAMES, TOKENIZERS
from turnwise.models.chat import RenderedChat, load_tokenizer, open_chat
from turnwise.models.places import EMBEDDED
from turnwise.types import Message

THOUGHT = "<think>\nIt was 11.\n</think>\n\n"
ANSWER = "It is 12."
DROPPED = {
    "qwen3": THOUGHT,
    "qwen3 without a template": THOUGHT,
    EMBEDDED: THOUGHT,
    "forgets thoughts": THOUGHT,
    "forgetful": THOUGHT + ANSWER,
}
"""What a renderer would leave out of an earlier turn once a user message follows; the others, nothing."""
ALL: list[Any] = [*NAMES, EMBEDDED]


def opened(name: str, *, enable_thinking: bool) -> RenderedChat:
    tokenizer = load_tokenizer(EMBEDDED) if name == EMBEDDED else TOKENIZERS[name]()
    return open_chat(tokenizer, enable_thinking=enable_thinking)


def two_messages(chat: RenderedChat, said: str) -> tuple[str, str]:
    """A question, what the model said, and the next question: as our prompt, and rendered from scratch."""
    ids = chat.open((Message("user", "Now?"),), ())
    ids = (*ids, *chat._guard.encode(said), chat._form.end_id)
    ours = (*ids, *chat.follow(ids, "Then?"))
    wires = [("user", "Now?"), ("assistant", said), ("user", "Then?")]
    rendered = chat._form.open([{"role": role, "content": content} for role, content in wires], ())
    return chat.decode(ours), chat.decode(rendered)


@pytest.mark.parametrize("name", ALL)
def test_an_earlier_turn_is_kept_as_sampled_whatever_the_renderer_would_drop(name: str) -> None:
    chat = opened(name, enable_thinking=True)
    ours, rendered = two_messages(chat, THOUGHT + ANSWER)
    assert THOUGHT + ANSWER in ours
    assert rendered == ours.replace(DROPPED.get(name, ""), "")


@pytest.mark.parametrize("name", [name for name in ALL if name != "forgetful"])
def test_without_thoughts_our_prompt_is_what_the_renderer_writes(name: str) -> None:
    ours, rendered = two_messages(opened(name, enable_thinking=False), ANSWER)
    assert ours == rendered


@pytest.mark.parametrize("name", ["forgets thoughts", "forgetful", "native", "smollm2"])
def test_a_template_that_rewrites_turns_before_a_user_message_is_noted(name: str) -> None:
    notes = opened(name, enable_thinking=True).notes
    assert any("not prefix-stable" in note for note in notes) == (name in DROPPED)
