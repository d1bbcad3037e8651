"""Prompts and exact extensions by a hand-written renderer of the `renderers` library."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from turnwise.models.chat.templates import PROBE_TOOL, QUESTION, NoGlue, Wire, speech, tool_messages


class Bridge:
    """One model family's renderer; every extension is checked to leave the old ids unchanged."""

    def __init__(self, tokenizer: Any, renderer: Any) -> None:
        self._tokenizer = tokenizer
        self.renderer = renderer

    def open(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> list[int]:
        return list(
            self.renderer.render_ids(list(messages), tools=list(tools) or None, add_generation_prompt=True)
        )

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        return frozenset(self.renderer.get_stop_token_ids())

    @cached_property
    def end_id(self) -> int:
        """The token that ends an assistant's turn; a renderer may have more stop tokens."""
        ids = self.renderer.render_ids([_question(), speech()])
        ends = [token for token in ids if token in self.stop_ids]
        if not ends:
            raise NoGlue("the renderer writes no end-of-turn token after an assistant's message")
        return int(ends[-1])

    @cached_property
    def turn_opening(self) -> str:
        return str(self._tokenizer.decode(self._opening_ids, skip_special_tokens=False))

    @cached_property
    def _opening_ids(self) -> list[int]:
        prompt = self.renderer.render_ids([_question()], add_generation_prompt=True)
        return list(prompt[len(self.renderer.render_ids([_question()])) :])

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> list[int]:
        """Return the renderer's own extension, or its glue after a plain turn if it declines this one."""
        messages = tool_messages(observations)
        split, has_ended = self._turn_start(ids), ids[-1] in self.stop_ids
        extended = self._bridge(ids[:split], ids[split:], messages)
        # It takes a line break after an end-of-turn token within the turn for its own, and ends nothing.
        if extended is not None and (has_ended or extended[0] in self.stop_ids):
            return extended
        # It declines, for example, a turn that ended inside a thought; what follows a turn is still the same.
        return [*([] if has_ended else [self.end_id]), *self._plain_glue(messages)]

    def _bridge(
        self, prompt: Sequence[int], completion: Sequence[int], messages: Sequence[Wire]
    ) -> list[int] | None:
        """Return only the new ids; None if the renderer declines or changes the old ids."""
        bridged = self.renderer.bridge_to_next_turn(list(prompt), list(completion), list(messages))
        if bridged is None:
            return None
        num_old = len(prompt) + len(completion)
        if bridged.token_ids[:num_old] != [*prompt, *completion]:
            return None
        return list(bridged.token_ids[num_old:])

    def _plain_glue(self, messages: Sequence[Wire]) -> list[int]:
        prompt = self.open([_question()], [])
        thought_end = self._tokenizer.convert_tokens_to_ids("</think>")
        for completion in ([self.end_id], [thought_end, self.end_id]):
            if None not in completion:
                glue = self._bridge(prompt, completion, messages)
                if glue is not None:
                    return glue
        raise NoGlue("the renderer gives no extension after a turn that ended")

    def _turn_start(self, ids: Sequence[int]) -> int:
        """The index at which the last turn's sampled part begins: after the last turn opening."""
        if not self._opening_ids:
            return len(ids)
        first, *others = self._opening_ids
        for start in range(len(ids) - len(others) - 1, 0, -1):
            if ids[start] == first and list(ids[start + 1 : start + 1 + len(others)]) == others:
                return start + 1 + len(others)
        return max(len(ids) - 1, 1)

    def check(self) -> list[str]:
        """Raise NoGlue unless both finished and cut-off turns can be extended exactly; there are no notes."""
        prompt = self.open([_question()], [PROBE_TOOL])
        words = self._tokenizer.encode("Some words", add_special_tokens=False)
        one = [("probetool", "Answeranchor")]
        glue = self._plain_glue(tool_messages(one))
        if self.extend([*prompt, *words, self.end_id], one) != glue:
            raise NoGlue("what the renderer writes after a turn depends on the turns before it")
        if self.extend([*prompt, *words], one)[-len(glue) :] != glue:
            raise NoGlue("the renderer writes something else after a turn that was cut off")
        if "Answeranchor" not in self._tokenizer.decode(glue):
            raise NoGlue("the renderer leaves out what a tool answered")
        return []


def _question() -> Wire:
    return {"role": "user", "content": QUESTION}
