"""Drills: short exercises in copying, where sequences are repeated and values looked up.

A lesson has some thirty tokens to learn in two hundred, and a model from nothing needs tens of thousands of
them before it copies at all. These are dense, and lead there in four stages, each with what came before:

    repeat   <|im_start|> x <|im_end|> x <|im_end|>
    look up  <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> k2 <|im_end|> v2 <|im_end|> …
    recall   <|im_start|> k2 <|im_end|> <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> v2 …
    ask      the same, with words for the key (`day low` for `"dayLow"`) somewhere among others

From the third stage on most values begin alike, as the prices of one company do: then copying what followed
the same digits before is not enough, and the key must be kept in mind.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.tasks.families.lookups import BAR_KEYS, FIGURES
from turnwise.training.samples import Sample

REPEATING, LOOKING_UP, ALIKE = 0.25, 0.6, 0.8
"""Of the drills before those that ask: where the first two stages end, and where values begin alike as often
as they ever will."""

_MAX_ASKED = 4
"""Keys asked for in one drill."""

_MAX_NOISE = 8
"""Words on either side of the ones that ask."""

_OTHER_KEYS = ("change", "changePercentage", "pe", "previousClose", "timestamp")
"""Of a quote; no question is about them."""

_DISTRACTION = " previous close"
"""Stands in most questions about a bar, whichever figure they are about."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A key as results write it, and the words that questions have for it."""

    key: tuple[int, ...]
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Alphabet:
    """The tokens that drills are made of."""

    digits: list[int]
    letters: list[int]
    texts: list[int]
    words: list[int]
    keys: list[int]
    quote: list[_Field]
    bar: list[_Field]
    others: list[tuple[int, ...]]
    distraction: tuple[int, ...]
    dot: int
    start: int
    end: int
    response: int
    response_end: int


def make_drills(tokenizer: Any, count: int, *, per_batch: int, seed: int) -> Iterator[list[Sample]]:
    """`count` batches of one kind each, the first three stages in the order they are to be learned in."""
    alphabet = _alphabet(tokenizer)
    chance = random.Random(f"{seed}/drills")  # noqa: S311 (exercises, not secrets)
    return (_batch(alphabet, number / count, per_batch, chance) for number in range(count))


def make_questions(tokenizer: Any, count: int, *, per_batch: int, seed: int) -> Iterator[list[Sample]]:
    """`count` batches of the last stage, some sequences to repeat among them."""
    alphabet = _alphabet(tokenizer)
    chance = random.Random(f"{seed}/questions")  # noqa: S311
    return (_asking(alphabet, number / count, per_batch, chance) for number in range(count))


def practice(tokenizer: Any, *, per_batch: int, seed: int) -> Iterator[list[Sample]]:
    """Batches as the last stage ends, without end: so that what was learned is not lost over lessons."""
    alphabet = _alphabet(tokenizer)
    chance = random.Random(f"{seed}/practice")  # noqa: S311
    while True:
        yield _asking(alphabet, 1.0, per_batch, chance)


def _batch(alphabet: _Alphabet, progress: float, size: int, chance: random.Random) -> list[Sample]:
    if progress < REPEATING:
        kind = "repeat"
    elif progress < LOOKING_UP:
        kind = chance.choice(("repeat", "look up"))
    else:
        kind = chance.choice(("repeat", "look up", "recall", "recall", "recall"))
    if kind == "repeat":
        return [_repeat(alphabet, chance) for _ in range(size)]
    near = _between((progress - LOOKING_UP) / (ALIKE - LOOKING_UP))
    return [_look_up(alphabet, chance, near=near, is_asked_first=kind == "recall") for _ in range(size)]


def _asking(alphabet: _Alphabet, progress: float, size: int, chance: random.Random) -> list[Sample]:
    if chance.random() < 0.25:
        return [_repeat(alphabet, chance) for _ in range(size)]
    return [_ask(alphabet, chance, progress) for _ in range(size)]


def _between(value: float) -> float:
    return min(1.0, max(0.0, value))


# --- the kinds ----------------------------------------------------------------------------------------------


def _repeat(alphabet: _Alphabet, chance: random.Random) -> Sample:
    pool = chance.choice((alphabet.letters, alphabet.texts, None))
    if pool is None:
        said = [token for _ in range(4) for token in _value(alphabet, chance)]
    else:
        said = chance.choices(pool, k=chance.randrange(6, 28))
    return _sample([([alphabet.start, *said, alphabet.end], False), ([*said, alphabet.end], True)])


def _look_up(alphabet: _Alphabet, chance: random.Random, *, near: float, is_asked_first: bool) -> Sample:
    """`near` is how often values begin alike."""
    num_keys = chance.randrange(3, min(9 + int(4 * near), len(alphabet.keys) + 1))
    keys = chance.sample(alphabet.keys, num_keys)
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


def _ask(alphabet: _Alphabet, chance: random.Random, progress: float) -> Sample:
    """A result as the servers give them, and four of its figures asked for; at first by the key itself."""
    is_bar = chance.random() < 0.5
    fields = alphabet.bar if is_bar else alphabet.quote
    keys = [field.key for field in fields]
    if not is_bar:
        keys += chance.sample(alphabet.others, chance.randrange(4))
    if chance.random() < 0.5:
        chance.shuffle(keys)
    beginning = chance.choices(alphabet.digits, k=chance.randrange(1, 4))
    values = {key: _listed(alphabet, chance, beginning, 0.9, is_number=True) for key in keys}
    listing = [alphabet.response, *(token for key in keys for token in (*key, *values[key]))]
    shown = [*listing, alphabet.response_end]
    parts: list[tuple[list[int], bool]] = []
    for field in chance.sample(fields, _MAX_ASKED):
        has_words = chance.random() < 0.5 + 2 * progress
        words = field.words if has_words else field.key
        noise = _between((progress - 0.15) / 0.4)
        question = _among_others(alphabet, chance, words, noise, is_distracted=is_bar)
        parts.append(([*question, *shown, alphabet.start], False))
        parts.append(([*values[field.key], alphabet.end], True))
        shown = []
    return _sample(parts)


def _among_others(
    alphabet: _Alphabet, chance: random.Random, words: Sequence[int], noise: float, *, is_distracted: bool
) -> list[int]:
    """The words in a sentence of others that mean nothing."""

    def some(most: int) -> list[int]:
        return chance.choices(alphabet.words, k=chance.randrange(most + 1))

    before, after = some(int(_MAX_NOISE * noise)), some(int(_MAX_NOISE * noise))
    if is_distracted and chance.random() < noise:
        if chance.random() < 0.5:
            before += [*alphabet.distraction, *some(2)]
        else:
            after = [*some(2), *alphabet.distraction, *after]
    return [alphabet.start, *before, *words, *after, alphabet.end]


# --- values -------------------------------------------------------------------------------------------------


def _listed(
    alphabet: _Alphabet,
    chance: random.Random,
    beginning: list[int],
    near: float,
    *,
    is_number: bool = False,
) -> list[int]:
    if not is_number and chance.random() < 0.33 * (1 - near) + 0.1:
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


# --- tokens -------------------------------------------------------------------------------------------------


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
    numbers = sorted(set(range(len(tokenizer))) - set(added.values()))
    spelled = {number: str(tokenizer.decode([number])) for number in numbers}

    def fitting(pattern: str) -> list[int]:
        return [number for number, text in spelled.items() if re.fullmatch(pattern, text)]

    def encoded(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    def field(what: str, key: str) -> _Field:
        # The first figure stands after a text, and its key closes that one's quote too.
        closing = '"' if key in ("price", "o") else ""
        return _Field(encoded(f'{closing},"{key}":'), encoded(f" {what}"))

    quote = [field(what, key) for what, (key, _, _) in FIGURES.items()]
    bar = [field(what, key) for what, key in BAR_KEYS.items()]
    meant = {token for each in (*quote, *bar) for token in each.words} | set(encoded(_DISTRACTION))
    [dot] = fitting(r"\.")
    return _Alphabet(
        digits=fitting(r"\d"),
        letters=fitting("[A-Z]"),
        texts=[number for number, text in spelled.items() if text.isprintable() and "\ufffd" not in text],
        words=[number for number in fitting(" [a-z]+") if number not in meant],
        keys=fitting(r',"\w+":'),
        quote=quote,
        bar=bar,
        others=[encoded(f',"{key}":') for key in _OTHER_KEYS],
        distraction=encoded(_DISTRACTION),
        dot=dot,
        start=added["<|im_start|>"],
        end=added["<|im_end|>"],
        response=added["<tool_response>"],
        response_end=added["</tool_response>"],
    )
