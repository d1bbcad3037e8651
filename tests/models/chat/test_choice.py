"""Which chat form a tokenizer gets: found from its tokens and its template, never guessed."""

import logging
from pathlib import Path

import pytest

from tests.models.chat import tokenizers as made
from tests.models.chat.tokenizers import bpe, qwen3, smollm2
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.models.chat.bridge import Bridge
from turnwise.models.chat.templates import Template


def form_of(tokenizer: object, **options: bool) -> object:
    return open_chat(tokenizer, **options)._form  # type: ignore[arg-type]


@pytest.mark.parametrize("enable_thinking", [True, False])
def test_qwen3_is_known_by_its_tokens_and_its_template_under_any_name(enable_thinking: bool) -> None:
    tokenizer = qwen3()
    tokenizer.name_or_path = "/models/mine"
    assert isinstance(form_of(tokenizer, enable_thinking=enable_thinking), Bridge)
    assert isinstance(form_of(qwen3(None)), Bridge)


def test_the_tokens_of_qwen3_with_another_template_are_not_qwen3() -> None:
    assert isinstance(form_of(bpe(plain=made.QWEN3_PLAIN, template=made.NATIVE)), Template)
    assert isinstance(form_of(bpe(plain=made.QWEN3_PLAIN, template=made.XML_CALLS)), Template)


@pytest.mark.parametrize(
    ("template", "is_folded", "reason"),
    [
        (made.CHATML, True, "ignores tools"),
        (made.NO_TOOL_ROLE, True, "no tool role"),
        (made.DEAF, True, "leaves out what a tool answered"),
        (made.OWN_CALLS, True, "a form that no parser reads"),
        (made.FORGETFUL, False, "not prefix-stable"),
        (made.NATIVE, False, ""),
        (made.NO_LAST_NEWLINE, False, ""),
    ],
)
def test_a_missing_feature_of_a_template_is_logged_once_and_worked_around(
    template: str, is_folded: bool, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="turnwise.models.chat"):
        chat = open_chat(bpe(template=template))
    assert isinstance(chat._form, Template)
    assert chat._form.is_folded == is_folded
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == list(chat.notes)
    if reason:
        assert reason in chat.notes[0]
    else:
        assert chat.notes == ()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (made.COUNTING, "depends on the turns before it"),
        (made.UNENDING, "no end-of-turn token"),
        (None, "no chat template"),
        ("{{ raise_exception('closed') }}", "closed"),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}<|im_end|>{% endfor %}", "end-of-turn"),
    ],
)
def test_a_template_without_an_exact_extension_is_refused(template: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        open_chat(bpe(template=template))


def test_a_renderer_can_be_named() -> None:
    assert isinstance(open_chat(qwen3(), renderer="default")._form, Template)
    assert isinstance(open_chat(qwen3(made.CHATML), renderer="qwen3")._form, Bridge)
    with pytest.raises(ValueError, match="renderer: 'nonsense'"):
        open_chat(qwen3(), renderer="nonsense")
    with pytest.raises(ValueError, match="renderer 'qwen3'"):
        open_chat(bpe(template=made.CHATML), renderer="qwen3")


def test_a_saved_tokenizer_is_loaded_from_its_folder(tmp_path: Path) -> None:
    qwen3().save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.get_vocab() == qwen3().get_vocab()
    assert isinstance(form_of(loaded), Bridge)


def test_smollm2_gets_tools_in_the_hermes_form() -> None:
    chat = open_chat(smollm2())
    assert "ignores tools" in chat.notes[0]
    assert chat.stop_ids == {2}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing"):
        load_tokenizer(tmp_path / "nothing")
