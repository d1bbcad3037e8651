"""Choose the chat format of a model from its tokenizer."""

import logging
from typing import Any

from turnwise.models.chat import hermes, library
from turnwise.models.chat.bridge import Bridge
from turnwise.models.chat.guard import TextGuard
from turnwise.models.chat.reading import HermesReader, LibraryReader, Reader
from turnwise.models.chat.rendered import Form, RenderedChat
from turnwise.models.chat.templates import (
    PROBE_CALL,
    PROBE_TOOL,
    QUESTION,
    SPEECH,
    NoGlue,
    Template,
    Wire,
    speech,
)

_log = logging.getLogger(__name__)

_QWEN3_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


def open_chat(
    tokenizer: Any, *, system_prompt: str = "", enable_thinking: bool = False, renderer: str = "auto"
) -> RenderedChat:
    """Return the chat for this tokenizer; ValueError if no exact one exists.

    `renderer`: a name in the `renderers` library, `default` for the tokenizer's own template, or `auto`.
    """
    guard = TextGuard(tokenizer, hermes.TAGS)
    name = _renderer_name(tokenizer, enable_thinking) if renderer == "auto" else renderer
    try:
        if name == "default":
            form, reader, notes = _templated(tokenizer, guard, enable_thinking)
        else:
            form, reader, notes = _hand_written(tokenizer, name, enable_thinking)
    except NoGlue as refusal:
        raise ValueError(f"model {_name_of(tokenizer)!r}: {refusal}") from refusal
    for note in notes:
        _log.warning("%s: %s", _name_of(tokenizer), note)
    return RenderedChat(form, reader, guard, system_prompt=system_prompt, notes=notes)


def _name_of(tokenizer: Any) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "unnamed")


def _renderer_name(tokenizer: Any, enable_thinking: bool) -> str:
    known = library.renderer_for(_name_of(tokenizer))
    return known or ("qwen3" if _is_qwen3(tokenizer, enable_thinking) else "default")


def _is_qwen3(tokenizer: Any, enable_thinking: bool) -> bool:
    """Recognise Qwen 3 by its tokens and by what its template writes: a copy may have any name."""
    added = tokenizer.get_added_vocab()
    if not all(token in added for token in _QWEN3_TOKENS):
        return False
    if not tokenizer.chat_template:
        return True
    # Qwen 3.5 has the same tokens but another call format.
    template = Template(
        tokenizer, TextGuard(tokenizer), {"enable_thinking": enable_thinking}, is_folded=False
    )
    messages = [{"role": "system", "content": "Probe."}, {"role": "user", "content": QUESTION}]
    renderer = library.make_renderer(tokenizer, "qwen3", enable_thinking=enable_thinking)
    try:
        theirs = [template.open(messages, tools) for tools in ((), (PROBE_TOOL,))]
        calling = template.text([*messages, speech(1)], [PROBE_TOOL], prompt=False)
    except NoGlue:
        return False
    ours = [
        renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
        for tools in (None, [PROBE_TOOL])
    ]
    return theirs == ours and _is_hermes(calling)


def _hand_written(tokenizer: Any, name: str, enable_thinking: bool) -> tuple[Form, Reader, list[str]]:
    renderer = library.make_renderer(tokenizer, name, enable_thinking=enable_thinking)
    bridge = Bridge(tokenizer, renderer)
    notes = bridge.check()
    messages: list[Wire] = [{"role": "user", "content": QUESTION}, speech(1)]
    calling = tokenizer.decode(renderer.render_ids(messages, tools=[PROBE_TOOL]), skip_special_tokens=False)
    if _is_hermes(calling):
        return bridge, _hermes_reader(tokenizer, bridge), notes
    return bridge, LibraryReader(renderer), notes


def _hermes_reader(tokenizer: Any, form: Form) -> Reader:
    guard = TextGuard(tokenizer)
    return HermesReader(tokenizer, frozenset(guard.structure_of(guard.encode(form.turn_opening))[:1]))


def _is_hermes(calling: str) -> bool:
    """Whether the Hermes parser reads the probe call back from this rendered conversation."""
    _, tag, after = calling.rpartition("<tool_call>")
    if not tag:
        return False
    try:
        name, arguments, _ = hermes.take_call(after, 0)
    except hermes.Malformed:
        return False
    return (name, arguments) == PROBE_CALL


# --- a tokenizer's own template -----------------------------------------------------------------------------


def _templated(tokenizer: Any, guard: TextGuard, enable_thinking: bool) -> tuple[Form, Reader, list[str]]:
    if not tokenizer.chat_template:
        raise NoGlue("the tokenizer has no chat template; name a renderer")
    options = {"enable_thinking": enable_thinking}
    template = Template(tokenizer, guard, options, is_folded=False)
    try:
        return _native(tokenizer, template, options)
    except NoGlue as refusal:
        reason = str(refusal)
    folded = Template(tokenizer, guard, options, is_folded=True)
    try:
        notes = folded.check()
    except NoGlue as refusal:
        raise NoGlue(f"{reason}; and with tools written into the messages, {refusal}") from refusal
    offer = f"{reason}; tools are offered in the Hermes form, written into the system and user messages"
    return folded, _hermes_reader(tokenizer, folded), [offer, *notes]


def _native(tokenizer: Any, template: Template, options: dict[str, Any]) -> tuple[Form, Reader, list[str]]:
    """Use the template's own tool format; raises NoGlue with the reason if it has no usable one."""
    if not template.shows_tools:
        raise NoGlue("the chat template ignores tools")
    notes = template.check()
    messages: list[Wire] = [{"role": "user", "content": QUESTION}, speech(1)]
    calling = template.text(messages, [PROBE_TOOL], prompt=False)
    if _is_hermes(calling):
        return template, _hermes_reader(tokenizer, template), notes
    for name in library.TOOL_PARSERS:
        reader = _library_reader(tokenizer, name, options)
        if reader is not None and _reads_probe(reader, tokenizer, calling):
            return template, reader, [*notes, f"calls are read with the {name!r} parser of renderers"]
    raise NoGlue("the chat template writes calls in a form that no parser reads")


def _library_reader(tokenizer: Any, name: str, options: dict[str, Any]) -> Reader | None:
    """Return the library's parser `name`, or None if the tokenizer lacks its tags."""
    try:
        return LibraryReader(library.default_renderer(tokenizer, options, tool_parser=name))
    except (ValueError, AssertionError, KeyError):
        return None


def _reads_probe(reader: Reader, tokenizer: Any, calling: str) -> bool:
    said = calling.partition(SPEECH)[2]
    parsed = reader.read(tokenizer.encode(said, add_special_tokens=False), (), (PROBE_TOOL,), is_cut=False)
    return [(call.name, dict(call.arguments)) for call in parsed.calls] == [PROBE_CALL]
