"""Prompts from a tokenizer's own chat template, and the exact glue after a sampled turn.

The glue is what the template writes between the end of an assistant's turn and the start of the next one:

    <|im_start|>assistant SAMPLED <|im_end|> <|im_start|>tool RESULT <|im_end|> <|im_start|>assistant
                                            |------------------------- glue -------------------------|

It is cut out of a short made-up conversation, so what was sampled is never rendered again.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from turnwise.models.chat import hermes, library
from turnwise.models.chat.guard import TextGuard

Wire = dict[str, Any]
"""A message or tool in OpenAI's format, as templates and renderers take it."""

QUESTION, SPEECH, RESULT = "Questionanchor", "Speechanchor", "Resultanchor"
PROBE_TOOL: Wire = {
    "type": "function",
    "function": {
        "name": "probetool",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PROBE_CALL = ("probetool", {"city": "Oslo"})


class NoGlue(ValueError):
    """The template gives no exact extension; the message says why."""


def call_ids(num_calls: int) -> list[str]:
    return [f"call{number:05d}" for number in range(num_calls)]  # Mistral requires nine characters


def speech(num_calls: int = 0, text: str = SPEECH) -> Wire:
    name, arguments = PROBE_CALL
    calls = [
        {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number in call_ids(num_calls)
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def tool_messages(observations: Sequence[tuple[str, str]]) -> list[Wire]:
    """Observations as tool messages; a corrective note is one too, so that no new user query begins."""
    return [
        {"role": "tool", "name": name or "note", "tool_call_id": number, "content": content}
        for (name, content), number in zip(observations, call_ids(len(observations)), strict=True)
    ]


class Template:
    """One tokenizer's template, with its own tool format or (`is_folded`) tools written into the messages."""

    def __init__(
        self, tokenizer: Any, guard: TextGuard, options: Mapping[str, Any], *, is_folded: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._guard = guard
        self._options = dict(options)
        self.is_folded = is_folded
        self.renderer = library.default_renderer(tokenizer, self._options)

    def text(self, messages: Sequence[Wire], tools: Sequence[Wire] = (), *, prompt: bool = True) -> str:
        """Render messages; raises NoGlue with the template's own error if it refuses them."""
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) or None,
                    tokenize=False,
                    add_generation_prompt=prompt,
                    **self._options,
                )
            )
        except (TemplateError, TypeError, KeyError, AttributeError, IndexError, ValueError) as refusal:
            raise NoGlue(f"the template refuses the conversation ({refusal})") from refusal

    # --- opening --------------------------------------------------------------------------------------------

    def open(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> list[int]:
        if self.is_folded:
            messages, tools = self._with_tools(messages, tools), ()
        return list(
            self.renderer.render_ids(list(messages), tools=list(tools) or None, add_generation_prompt=True)
        )

    def _with_tools(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> list[Wire]:
        """Add the tools to the system prompt, or to the first message if the template has no system role."""
        block = hermes.write_tools(tools) if tools else ""
        system = messages[0]["content"] if messages[0]["role"] == "system" else ""
        rest = list(messages[1:] if messages[0]["role"] == "system" else messages)
        head = "\n\n".join(part for part in (system, block) if part)
        if not head:
            return rest
        if self.has_system_role:
            return [{"role": "system", "content": head}, *rest]
        return [{**rest[0], "content": f"{head}\n\n{rest[0]['content']}"}, *rest[1:]]

    @cached_property
    def has_system_role(self) -> bool:
        try:
            text = self.text([{"role": "system", "content": SPEECH}, {"role": "user", "content": QUESTION}])
        except NoGlue:
            return False
        return SPEECH in text

    @cached_property
    def shows_tools(self) -> bool:
        messages = [{"role": "user", "content": QUESTION}]
        return self.text(messages) != self.text(messages, [PROBE_TOOL])

    # --- the end of a turn ----------------------------------------------------------------------------------

    @cached_property
    def turn_end(self) -> tuple[str, str]:
        """The text between the last word and the end-of-turn token (usually empty), and that token."""
        user = {"role": "user", "content": QUESTION}
        closed = self.text([user, speech()], prompt=False)
        followed = self.text([user, speech(), user])
        for text in (closed, followed):
            tail = text.partition(SPEECH)[2]
            ends = [(tail.find(token), token) for token in self._guard.strings if token in tail]
            if ends:
                start, token = min(ends, key=lambda pair: (pair[0], -len(pair[1])))
                if not tail[:start].strip() and len(self._guard.encode(token)) == 1:
                    return tail[:start], token
        raise NoGlue("the template puts no end-of-turn token after an assistant's message")

    @property
    def close_ids(self) -> list[int]:
        """The ids that end a turn that was cut off."""
        return self._guard.encode("".join(self.turn_end))

    @property
    def end_id(self) -> int:
        return self._guard.encode(self.turn_end[1])[0]

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        eos = self._tokenizer.eos_token_id
        return frozenset({self.end_id} | ({eos} if eos is not None else set()))

    # --- the glue -------------------------------------------------------------------------------------------

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> list[int]:
        is_closed = bool(ids) and ids[-1] in self.stop_ids
        return [*([] if is_closed else self.close_ids), *self.glue(observations)]

    def glue(
        self, observations: Sequence[tuple[str, str]], history: Sequence[Wire] | None = None
    ) -> list[int]:
        """The ids that follow an end-of-turn token; contents must be defused."""
        history = history or self._history(len(observations))
        end = self.turn_end[1]
        anchored = self.text([*history, *self._results([(name, RESULT) for name, _ in observations])])
        if RESULT not in anchored:
            raise NoGlue("the template leaves out what a tool answered")
        num_ends = anchored.partition(RESULT)[0].count(end)
        text = self.text([*history, *self._results(observations)])
        parts = text.split(end, num_ends)
        if not num_ends or len(parts) <= num_ends:
            raise NoGlue("no end-of-turn token stands before a tool's answer")
        # Encoded together with the end-of-turn token, which may absorb the white space after it.
        first, *glue = self._guard.encode(end + parts[-1])
        assert first == self.end_id
        return glue

    def _results(self, observations: Sequence[tuple[str, str]]) -> list[Wire]:
        if self.is_folded:
            content = hermes.write_responses([content for _, content in observations])
            return [{"role": "user", "content": content}]
        return tool_messages(observations)

    def _history(self, num_calls: int, text: str = SPEECH) -> list[Wire]:
        """A conversation up to the tool results; native templates may require calls before them."""
        said = speech(0 if self.is_folded else num_calls, text)
        return [{"role": "user", "content": QUESTION}, said]

    def check(self) -> list[str]:
        """Raise NoGlue unless the glue is the same after different histories; return notes for the user."""
        one = [("probetool", "Answeranchor")]
        glue = self.glue(one)
        longer = [*self._history(1), *self._results(one), *self._history(1, "Other words.")[1:]]
        for history in (longer, [{"role": "user", "content": "Other."}, *longer[1:]]):
            if self.glue(one, history) != glue:
                raise NoGlue("what the template writes after a turn depends on the turns before it")
        if "Answeranchor" not in self._tokenizer.decode(glue):
            raise NoGlue("the template leaves out what a tool answered")
        if not self.text([*self._history(1), *self._results(one)]).endswith(self.turn_opening):
            raise NoGlue("the template opens the model's next turn otherwise than its first")
        self.glue([*one, *one])
        return self._notes()

    @cached_property
    def turn_opening(self) -> str:
        """The text that opens the model's turn; empty if the end of the user's turn does."""
        messages = [{"role": "user", "content": QUESTION}]
        with_prompt, without = self.text(messages), self.text(messages, prompt=False)
        if not with_prompt.startswith(without):
            raise NoGlue("the template writes a prompt that is no extension of the conversation before it")
        return with_prompt[len(without) :]

    def _notes(self) -> list[str]:
        """A note if plain re-rendering would change earlier turns."""
        for text in (SPEECH, f"<think>\nThoughtanchor\n</think>\n\n{SPEECH}"):
            called, spoke = self._history(1, text), self._history(0, text)
            results = self._results([("probetool", RESULT)])
            for history, added in ((called, results), (spoke, [{"role": "user", "content": QUESTION}])):
                before = self.text(history, prompt=False).rstrip()
                if not self.text([*history, *added]).startswith(before):
                    return [
                        "the chat template is not prefix-stable: it rewrites an assistant's earlier message "
                        "once another follows; turns are kept as they were sampled and only its glue is used"
                    ]
        return []
