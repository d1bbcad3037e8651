"""Scripts are played in order, or by prompt with no count kept."""

import asyncio

import pytest

from turnwise.engines.scripted import ScriptedEngine
from turnwise.types import Finish, Sampling

STOP = 0
LONG = Sampling(max_tokens=100, stop_ids=frozenset({STOP}))


def encode(text: str) -> list[int]:
    return [ord(letter) for letter in text]


async def test_a_sequence_is_played_in_order_cut_to_length_and_runs_out() -> None:
    engine = ScriptedEngine(encode, STOP, sequence=["ab", (7, 8), "abc", "abc"])
    first = await engine.complete([1], LONG, 0)
    assert (first.token_ids, first.logprobs, first.finish) == ((97, 98, STOP), (0.0,) * 3, Finish.STOP)
    second = await engine.complete([1], LONG, 0)
    # ids are played as they are, without a stop token
    assert (second.token_ids, second.finish) == ((7, 8), Finish.LENGTH)
    cut = await engine.complete([1], Sampling(max_tokens=3), 0)
    assert (cut.token_ids, cut.finish) == ((97, 98, 99), Finish.LENGTH)
    whole = await engine.complete([1], Sampling(max_tokens=4), 0)
    assert (whole.token_ids[-1], whole.finish) == (STOP, Finish.STOP)
    with pytest.raises(LookupError, match="no completion"):
        await engine.complete([1], LONG, 0)


async def test_scripts_by_prompt_are_played_concurrently_and_again() -> None:
    scripts = {(1, 2): ["x", "x", "y"], (1, 3): ["p", "q"], (1, 2, 9): ["longer"]}
    engine = ScriptedEngine(encode, STOP, by_prompt=scripts)

    async def play(opening: tuple[int, ...]) -> None:
        ids = list(opening)
        for text in scripts[opening]:
            completion = await engine.complete(ids, LONG, 0)
            assert completion.token_ids == (*encode(text), STOP)
            ids += [*completion.token_ids, 55, 66]
            await asyncio.sleep(0)

    await asyncio.gather(*(play(opening) for opening in (*scripts, (1, 2))))
    for ids in ([4, 5], [1, 3, *encode("p"), STOP, 5, *encode("q"), STOP, 5]):
        with pytest.raises(LookupError):
            await engine.complete(ids, LONG, 0)
