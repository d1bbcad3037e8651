"""Play written completions as if a model had sampled them, for tests and `--script`.

A script is one list played in the order of the requests, or one list per opening prompt. The second form is
stateless: the prompt determines the next completion, so episodes may run concurrently and be retried.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import Adapter, Ask, EngineDown

Written = str | Sequence[int]
"""Text, which is encoded and ended with the stop id, or token ids, which are played unchanged."""


class ScriptedEngine:
    """Plays `by_prompt` (opening prompt to completions), else the next of `sequence`; log-probs are 0."""

    def __init__(
        self,
        encode: Callable[[str], Sequence[int]],
        stop_id: int,
        *,
        sequence: Sequence[Written] = (),
        by_prompt: Mapping[tuple[int, ...], Sequence[Written]] | None = None,
        version: int = 0,
    ) -> None:
        self._encode = encode
        self._stop_id = stop_id
        self._sequence = iter([self._ids(written) for written in sequence])
        scripts = (by_prompt or {}).items()
        self._by_prompt = {opening: [self._ids(turn) for turn in script] for opening, script in scripts}
        self._opening_lengths = sorted({len(opening) for opening in self._by_prompt}, reverse=True)
        self._version = version
        self._is_closed = False

    def _ids(self, written: Written) -> tuple[int, ...]:
        if isinstance(written, str):
            return (*self._encode(written), self._stop_id)
        return tuple(written)

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Return the next completion, cut to `max_tokens`; LookupError if the script has no more."""
        return self._complete(Ask(tuple(prompt_ids), sampling, seed))

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Return one finished future per ask; completions are taken in the order of the asks."""
        futures = []
        for ask in asks:
            future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
            futures.append(future)
            try:
                future.set_result(self._complete(ask))
            except (EngineDown, LookupError, ValueError) as error:
                future.set_exception(error)
        return futures

    async def forget(self) -> None:
        """Do nothing: nothing is cached."""

    def _complete(self, ask: Ask) -> Completion:
        prompt_ids, sampling = ask.prompt_ids, ask.sampling
        if self._is_closed:
            raise EngineDown("the engine is closed")
        if not prompt_ids:
            raise ValueError("prompt_ids is empty")
        if sampling.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {sampling.max_tokens}")
        written = self._next(prompt_ids)
        ids = written[: sampling.max_tokens]
        is_whole = len(ids) == len(written) and ids[-1] in sampling.stop_ids | {self._stop_id}
        finish = Finish.STOP if is_whole else Finish.LENGTH
        return Completion(ids, (0.0,) * len(ids), finish, self._version)

    def _next(self, prompt_ids: tuple[int, ...]) -> tuple[int, ...]:
        for length in self._opening_lengths:
            script = self._by_prompt.get(prompt_ids[:length])
            if script is not None:
                remaining = _unplayed(script, prompt_ids[length:])
                written = next(remaining, None)
                break
        else:
            written = next(self._sequence, None)
        if written is None:
            raise LookupError(f"the script has no completion for this prompt of {len(prompt_ids)} tokens")
        return written

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Set the version; a script has no weights."""
        del weights
        if self._is_closed:
            raise EngineDown("the engine is closed")
        self._version = version

    async def close(self) -> None:
        self._is_closed = True


def _unplayed(script: Sequence[tuple[int, ...]], history: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the completions that are not in the history yet; they are searched for in order."""
    position = 0
    for number, written in enumerate(script):
        place = _find(history, written, position)
        if place is None:
            yield from script[number:]
            return
        position = place + len(written)


def _find(ids: tuple[int, ...], wanted: tuple[int, ...], start: int) -> int | None:
    places = range(start, len(ids) - len(wanted) + 1)
    return next((place for place in places if ids[place : place + len(wanted)] == wanted), None)
