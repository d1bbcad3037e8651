"""Drills: short copying exercises that repeat sequences and look up values.

A lesson has about thirty tokens to learn in two hundred, and an untrained model needs tens of thousands of
lessons before it can copy. Drills are denser and have four stages; every stage includes the earlier ones:

    repeat   <|im_start|> x <|im_end|> x <|im_end|>
    look up  <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> k2 <|im_end|> v2 <|im_end|> …
    recall   <|im_start|> k2 <|im_end|> <tool_response> k1 v1 k2 v2 … </tool_response> <|im_start|> v2 …
    ask      the same, with words for the key (`day low` for `"dayLow"`) somewhere among others

From the third stage on, most values begin with the same digits, like the prices of one company. Copying what
followed the same digits earlier is then not enough: the model must attend to the key.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.training.packing.samples import Sample
from turnwise.worlds.market.families.lookups import BAR_KEYS, FIGURES

REPEATING, LOOKING_UP, ALIKE = 0.25, 0.6, 0.8
"""As shares of the drills before the last stage: the ends of the first two stages, and the point from which
the share of values with a common beginning is at its maximum."""

_MAX_ASKED = 4
"""Maximum keys asked for in one drill."""

_MAX_NOISE = 8
"""Maximum number of unrelated words on either side of the question."""

_OTHER_KEYS = ("change", "changePercentage", "pe", "previousClose", "timestamp")
"""Keys of a quote that no question asks for."""

_DISTRACTION = " previous close"
"""Words in most questions about a bar, whichever figure they ask for."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A key as in results, and its words in questions."""

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
    """`count` batches of the first three stages, in order; the samples of a batch are of one kind."""
    alphabet = _alphabet(tokenizer)
    rng = random.Random(f"{seed}/drills")  # noqa: S311 (exercises, not secrets)
    return (_batch(alphabet, number / count, per_batch, rng) for number in range(count))


def make_questions(tokenizer: Any, count: int, *, per_batch: int, seed: int) -> Iterator[list[Sample]]:
    """`count` batches of the last stage, including some repeated sequences."""
    alphabet = _alphabet(tokenizer)
    rng = random.Random(f"{seed}/questions")  # noqa: S311
    return (_question_batch(alphabet, number / count, per_batch, rng) for number in range(count))


def practice(tokenizer: Any, *, per_batch: int, seed: int) -> Iterator[list[Sample]]:
    """Endless batches like those at the end of the last stage, so that lessons do not erase the skill."""
    alphabet = _alphabet(tokenizer)
    rng = random.Random(f"{seed}/practice")  # noqa: S311
    while True:
        yield _question_batch(alphabet, 1.0, per_batch, rng)


def _batch(alphabet: _Alphabet, progress: float, size: int, rng: random.Random) -> list[Sample]:
    if progress < REPEATING:
        kind = "repeat"
    elif progress < LOOKING_UP:
        kind = rng.choice(("repeat", "look up"))
    else:
        kind = rng.choice(("repeat", "look up", "recall", "recall", "recall"))
    if kind == "repeat":
        return [_repeat(alphabet, rng) for _ in range(size)]
    common = _unit_interval((progress - LOOKING_UP) / (ALIKE - LOOKING_UP))
    return [_look_up(alphabet, rng, common=common, is_asked_first=kind == "recall") for _ in range(size)]


def _question_batch(alphabet: _Alphabet, progress: float, size: int, rng: random.Random) -> list[Sample]:
    if rng.random() < 0.25:
        return [_repeat(alphabet, rng) for _ in range(size)]
    return [_ask(alphabet, rng, progress) for _ in range(size)]


def _unit_interval(value: float) -> float:
    return min(1.0, max(0.0, value))


# --- kinds of drills ----------------------------------------------------------------------------------------


def _repeat(alphabet: _Alphabet, rng: random.Random) -> Sample:
    pool = rng.choice((alphabet.letters, alphabet.texts, None))
    if pool is None:
        tokens = [token for _ in range(4) for token in _value(alphabet, rng)]
    else:
        tokens = rng.choices(pool, k=rng.randrange(6, 28))
    return _sample([([alphabet.start, *tokens, alphabet.end], False), ([*tokens, alphabet.end], True)])


def _look_up(alphabet: _Alphabet, rng: random.Random, *, common: float, is_asked_first: bool) -> Sample:
    """`common` is the share of values with a common beginning."""
    num_keys = rng.randrange(3, min(9 + int(4 * common), len(alphabet.keys) + 1))
    keys = rng.sample(alphabet.keys, num_keys)
    beginning = rng.choices(alphabet.digits, k=rng.randrange(1, 4))
    values = {key: _listed(alphabet, rng, beginning, common) for key in keys}
    listing = [alphabet.response, *(token for key in keys for token in (key, *values[key]))]
    asked = rng.sample(keys, min(_MAX_ASKED, len(keys)))
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


def _ask(alphabet: _Alphabet, rng: random.Random, progress: float) -> Sample:
    """A result as from the servers and questions for four of its figures; early drills ask by the key."""
    is_bar = rng.random() < 0.5
    fields = alphabet.bar if is_bar else alphabet.quote
    keys = [field.key for field in fields]
    if not is_bar:
        keys += rng.sample(alphabet.others, rng.randrange(4))
    if rng.random() < 0.5:
        rng.shuffle(keys)
    beginning = rng.choices(alphabet.digits, k=rng.randrange(1, 4))
    values = {key: _listed(alphabet, rng, beginning, 0.9, is_number=True) for key in keys}
    listing = [alphabet.response, *(token for key in keys for token in (*key, *values[key]))]
    shown = [*listing, alphabet.response_end]
    parts: list[tuple[list[int], bool]] = []
    for field in rng.sample(fields, _MAX_ASKED):
        has_words = rng.random() < 0.5 + 2 * progress
        words = field.words if has_words else field.key
        noise = _unit_interval((progress - 0.15) / 0.4)
        question = _with_noise(alphabet, rng, words, noise, is_distracted=is_bar)
        parts.append(([*question, *shown, alphabet.start], False))
        parts.append(([*values[field.key], alphabet.end], True))
        shown = []
    return _sample(parts)


def _with_noise(
    alphabet: _Alphabet, rng: random.Random, words: Sequence[int], noise: float, *, is_distracted: bool
) -> list[int]:
    """The words of a question among unrelated words."""

    def some(max_words: int) -> list[int]:
        return rng.choices(alphabet.words, k=rng.randrange(max_words + 1))

    before, after = some(int(_MAX_NOISE * noise)), some(int(_MAX_NOISE * noise))
    if is_distracted and rng.random() < noise:
        if rng.random() < 0.5:
            before += [*alphabet.distraction, *some(2)]
        else:
            after = [*some(2), *alphabet.distraction, *after]
    return [alphabet.start, *before, *words, *after, alphabet.end]


# --- values -------------------------------------------------------------------------------------------------


def _listed(
    alphabet: _Alphabet,
    rng: random.Random,
    beginning: list[int],
    common: float,
    *,
    is_number: bool = False,
) -> list[int]:
    if not is_number and rng.random() < 0.33 * (1 - common) + 0.1:
        return _value(alphabet, rng)
    if rng.random() >= 0.7 * common:
        return _number(alphabet, rng)
    whole = [*beginning[:-1], rng.choice(alphabet.digits)] if rng.random() < 0.3 else beginning
    return [*whole, alphabet.dot, *rng.choices(alphabet.digits, k=rng.randrange(1, 3))]


def _value(alphabet: _Alphabet, rng: random.Random) -> list[int]:
    match rng.randrange(3):
        case 0:
            return rng.choices(alphabet.letters, k=5)
        case 1:
            return _number(alphabet, rng)
        case _:
            return rng.choices(alphabet.texts, k=rng.randrange(1, 6))


def _number(alphabet: _Alphabet, rng: random.Random) -> list[int]:
    if rng.random() < 0.25:
        return rng.choices(alphabet.digits, k=rng.randrange(5, 14))
    whole = rng.choices(alphabet.digits, k=rng.randrange(1, 5))
    return [*whole, alphabet.dot, *rng.choices(alphabet.digits, k=rng.randrange(1, 3))]


# --- tokens -------------------------------------------------------------------------------------------------


def _sample(parts: Sequence[tuple[list[int], bool]]) -> Sample:
    ids = tuple(token for tokens, _ in parts for token in tokens)
    mask = tuple(int(is_own) for tokens, is_own in parts for _ in tokens)
    return own_sample(ids, mask, "drill")


def own_sample(ids: tuple[int, ...], mask: tuple[int, ...], task_id: str) -> Sample:
    """A sample for supervised learning, without log-probs and reward."""
    return Sample(
        token_ids=ids,
        loss_mask=mask,
        logprobs=(0.0,) * len(ids),
        turns=tuple(own - 1 for own in mask),
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
    texts = {number: str(tokenizer.decode([number])) for number in numbers}

    def matching(pattern: str) -> list[int]:
        return [number for number, text in texts.items() if re.fullmatch(pattern, text)]

    def encoded(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    def field(what: str, key: str) -> _Field:
        # The first figure follows a text, so its key also closes the quote of that text.
        closing = '"' if key in ("price", "o") else ""
        return _Field(encoded(f'{closing},"{key}":'), encoded(f" {what}"))

    quote = [field(what, key) for what, (key, _, _) in FIGURES.items()]
    bar = [field(what, key) for what, key in BAR_KEYS.items()]
    meaningful = {token for field in (*quote, *bar) for token in field.words} | set(encoded(_DISTRACTION))
    [dot] = matching(r"\.")
    return _Alphabet(
        digits=matching(r"\d"),
        letters=matching("[A-Z]"),
        texts=[number for number, text in texts.items() if text.isprintable() and "\ufffd" not in text],
        words=[number for number in matching(" [a-z]+") if number not in meaningful],
        keys=matching(r',"\w+":'),
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
