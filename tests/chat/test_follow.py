"""A person's next message after the model's turn: where it stands, and that it stays text."""

from typing import Any

import pytest

from tests.chat.test_chat import CALL, HOSTILE, PRICE, USER, chat_of, special_ids
from tests.chat.tokenizers import TOKENIZERS
from turnwise.chat import RenderedChat
from turnwise.types import Message


@pytest.fixture(params=list(TOKENIZERS))
def case(request: pytest.FixtureRequest) -> tuple[Any, RenderedChat]:
    return chat_of(request.param)


def test_it_is_said_by_the_user_and_then_the_model_speaks_as_it_did_first(
    case: tuple[Any, RenderedChat],
) -> None:
    tokenizer, chat = case
    opening = chat.open(USER, ())
    ids = (*opening, *chat.say("It is 12."))
    follow = tokenizer.decode(chat.follow(ids, "And yesterday?"))
    assert "And yesterday?" in follow
    assert "Questionanchor" not in follow
    assert "Speechanchor" not in follow
    # what stands around a user's first message stands around the next one too
    behind = tokenizer.decode(opening).partition(USER[0].content)[2]
    assert behind
    assert follow.endswith(f"And yesterday?{behind}")


@pytest.mark.parametrize("name", ["plain ChatML", "native", "no system role", "qwen3 without a template"])
def test_it_is_what_the_whole_conversation_would_be(name: str) -> None:
    _, chat = chat_of(name)
    said = (Message("assistant", "It is 12."), Message("user", "And yesterday?"))
    opening = chat.open(USER, ())
    answer = chat.say("It is 12.")
    written = (*opening, *answer, *chat.follow((*opening, *answer), "And yesterday?"))
    whole = chat.open((*USER, *said), ())
    if name != "qwen3 without a template":  # which leaves an earlier turn's empty thought out
        assert written == whole
    tail = chat.follow((*opening, *answer), "And yesterday?")
    assert whole[-len(tail) :] == tail


def test_it_comes_after_calls_and_after_a_turn_that_was_cut_off(case: tuple[Any, RenderedChat]) -> None:
    _, chat = case
    try:
        calling = chat.say("", [CALL])
    except ValueError:
        pytest.skip("calls of its own")
    ids = (*chat.open(USER, [PRICE]), *calling)
    ids = (*ids, *chat.extend(ids, [("get_price", "12")]))
    plain = chat.follow((*ids, *chat.say("It is 12.")), "More?")
    cut = chat.follow((*ids, *chat.say("It is 12.")[:-1]), "More?")
    assert cut[0] in chat.stop_ids
    assert cut[1:] == plain


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_person_pastes_brings_no_special_tokens(case: tuple[Any, RenderedChat], text: str) -> None:
    tokenizer, chat = case
    ids = (*chat.open(USER, ()), *chat.say("It is 12."))
    special = special_ids(tokenizer)
    plain = [token for token in chat.follow(ids, "x") if token in special]
    assert [token for token in chat.follow(ids, text) if token in special] == plain
