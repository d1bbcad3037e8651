"""Takes a tokenizer and a seed, gives short exercises in copying: sequences repeated, values looked up.

A lesson has some thirty tokens to learn in two hundred, and a model from nothing needs tens of thousands of
them before it copies at all. These are dense, and lead there in three stages, each with what came before:

    repeat   <|im_start|> x <|im_end|> x <|im_end|>
    look up  <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> k2 <|im_end|> v2 <|im_end|> …
    recall   <|im_start|> k2 <|im_end|> <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> v2 …

In the last stage most values begin alike, as the prices of one company do: then copying what followed the
same digits before is not enough, and the key must be kept in mind.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.training.samples import Sample

REPEATING, LOOKING_UP = 0.25, 0.6
"""Where the stages end, as shares of all drills."""

_NEAR_BY = 0.8
"""Where values begin alike as often as they ever will; from the start of the last stage it rises to that."""

_MAX_ASKED = 4
"""Keys asked for in one drill."""


@dataclass(frozen=True, slots=True)
class _Alphabet:
    """The tokens that drills are made of."""

    digits: list[int]
    letters: list[int]
    texts: list[int]
    keys: list[int]
    dot: int
    start: int
    end: int
    response: int
    response_end: int


def make_drills(tokenizer: Any, count: int, *, per_batch: int, seed: int) -> list[list[Sample]]:
    """`count` batches of one kind each, in the order they are to be learned in."""
    alphabet = _alphabet(tokenizer)
    chance = random.Random(f"{seed}/drills")  # noqa: S311 (exercises, not secrets)
    return [_batch(alphabet, number / count, per_batch, chance) for number in range(count)]


def _batch(alphabet: _Alphabet, progress: float, size: int, chance: random.Random) -> list[Sample]:
    near = min(1.0, max(0.0, (progress - LOOKING_UP) / (_NEAR_BY - LOOKING_UP)))
    if progress < REPEATING:
        kind = "repeat"
    elif progress < LOOKING_UP:
        kind = chance.choice(("repeat", "look up"))
    else:
        kind = chance.choice(("repeat", "look up", "recall", "recall", "recall"))
    if kind == "repeat":
        return [_repeat(alphabet, chance) for _ in range(size)]
    return [_look_up(alphabet, chance, near=near, is_asked_first=kind == "recall") for _ in range(size)]


def _repeat(alphabet: _Alphabet, chance: random.Random) -> Sample:
    pool = chance.choice((alphabet.letters, alphabet.texts, None))
    if pool is None:
        said = [token for _ in range(4) for token in _value(alphabet, chance)]
    else:
        said = chance.choices(pool, k=chance.randrange(6, 28))
    return _sample([([alphabet.start, *said, alphabet.end], False), ([*said, alphabet.end], True)])


def _look_up(alphabet: _Alphabet, chance: random.Random, *, near: float, is_asked_first: bool) -> Sample:
    keys = chance.sample(alphabet.keys, chance.randrange(3, min(9 + int(4 * near), len(alphabet.keys) + 1)))
    beginning = chance.choices(alphabet.digits, k=chance.randrange(1, 4))
    values = {key: _listed(alphabet, chance, beginning, near) for key in keys}
    listing = [alphabet.response, *(token for key in keys for token in (key, *values[key]))]
    asked = chance.sample(keys, min(_MAX_ASKED, len(keys)))
    parts: list[tuple[list[int], bool]] = []
    if is_asked_first:
        first = asked.pop()
        parts.append(([alphabet.start, first, alphabet.end, *listing, alphabet.response_end], False))
        parts.extend([([alphabet.start], False), ([*values[first], alphabet.end], True)])
    else:
        parts.append(([*listing, alphabet.response_end], False))
    for key in asked:
        parts.append(([alphabet.start, key, alphabet.end], False))
        parts.append(([*values[key], alphabet.end], True))
    return _sample(parts)


def _listed(alphabet: _Alphabet, chance: random.Random, beginning: list[int], near: float) -> list[int]:
    if chance.random() < 0.33 * (1 - near) + 0.1:
        return _value(alphabet, chance)
    if chance.random() >= 0.7 * near:
        return _number(alphabet, chance)
    whole = [*beginning[:-1], chance.choice(alphabet.digits)] if chance.random() < 0.3 else beginning
    return [*whole, alphabet.dot, *chance.choices(alphabet.digits, k=chance.randrange(1, 3))]


def _value(alphabet: _Alphabet, chance: random.Random) -> list[int]:
    match chance.randrange(3):
        case 0:
            return chance.choices(alphabet.letters, k=5)
        case 1:
            return _number(alphabet, chance)
        case _:
            return chance.choices(alphabet.texts, k=chance.randrange(1, 6))


def _number(alphabet: _Alphabet, chance: random.Random) -> list[int]:
    if chance.random() < 0.25:
        return chance.choices(alphabet.digits, k=chance.randrange(5, 14))
    whole = chance.choices(alphabet.digits, k=chance.randrange(1, 5))
    return [*whole, alphabet.dot, *chance.choices(alphabet.digits, k=chance.randrange(1, 3))]


def _sample(parts: Sequence[tuple[list[int], bool]]) -> Sample:
    ids = tuple(token for tokens, _ in parts for token in tokens)
    mask = tuple(int(is_own) for tokens, is_own in parts for _ in tokens)
    return own_sample(ids, mask, "drill")


def own_sample(ids: tuple[int, ...], mask: tuple[int, ...], task_id: str) -> Sample:
    """Something to be learned as it is: no log-probs, no reward."""
    return Sample(
        token_ids=ids,
        loss_mask=mask,
        logprobs=(0.0,) * len(ids),
        turns=tuple(each - 1 for each in mask),
        group=0,
        task_id=task_id,
        reward=0.0,
        turn_rewards=(0.0,),
        is_truncated=False,
        policy_version=0,
    )


def _alphabet(tokenizer: Any) -> _Alphabet:
    added = tokenizer.get_added_vocab()
    spelled = {
        number: str(tokenizer.decode([number]))
        for number in range(len(tokenizer))
        if number not in added.values()
    }

    def fitting(pattern: str) -> list[int]:
        return [number for number, text in spelled.items() if re.fullmatch(pattern, text)]

    [dot] = fitting(r"\.")
    return _Alphabet(
        digits=fitting(r"\d"),
        letters=fitting("[A-Z]"),
        texts=[number for number, text in spelled.items() if text.isprintable() and "\ufffd" not in text],
        keys=fitting(r',"\w+":'),
        dot=dot,
        start=added["<|im_start|>"],
        end=added["<|im_end|>"],
        response=added["<tool_response>"],
        response_end=added["</tool_response>"],
    )
