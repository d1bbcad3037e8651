"""Report the progress of supervised learning: about twenty steps, and parts of a step on a slow machine."""

import time
from collections.abc import Callable

from turnwise.system.terminal import duration
from turnwise.training.update.sft import SftPart, SftStep

SILENT_SECONDS = 20.0
"""The longest silence while micro-batches are learned."""


class SftProgress:
    """Says a line for some steps, and between them the time left if nothing was said lately."""

    def __init__(self, say: Callable[[str], None], name: str) -> None:
        self._say = say
        self._name = name
        self._said_at = time.monotonic()

    def step(self, step: SftStep) -> None:
        if step.is_shown:
            self._line(f"{self._name} {step.step + 1:>4}/{step.num_steps}  loss {step.loss:.4f}")

    def part(self, part: SftPart) -> None:
        if time.monotonic() - self._said_at >= SILENT_SECONDS:
            done, left = f"{part.share_of_step:.0%} learned", duration(part.seconds_left)
            self._line(f"{self._name} {part.step + 1:>4}/{part.num_steps}  {done}, about {left} left")

    def _line(self, text: str) -> None:
        self._said_at = time.monotonic()
        self._say(text)
