"""Questions about the answers of calls, in several wordings."""

import itertools
import re
from collections.abc import Sequence

from turnwise.explore.first.query import Form
from turnwise.explore.first.wording.call_phrase import CallPhrase
from turnwise.explore.first.wording.location import WHOLE, is_said_by, located
from turnwise.explore.first.wording.names import listing

FORMS = {
    Form.NUMBER: (
        "Answer with the number only.",
        "Reply with just the number.",
        "Give me only the number.",
    ),
    Form.ROUNDED: (
        "Answer with the number only, rounded to two decimals.",
        "Round to two decimals and reply with just the number.",
        "Give me only the number, rounded to two decimals.",
    ),
    Form.TEXT: (
        "Answer with exactly that text and nothing else.",
        "Reply with just that, exactly as it is written there.",
        "Give me only that, copied exactly.",
    ),
    Form.DATE: (
        "Answer with the date only, as YYYY-MM-DD.",
        "Reply with just the date, in the form YYYY-MM-DD.",
        "Give me only the date, written as YYYY-MM-DD.",
    ),
    Form.TIME: (
        "Answer with the time only, as HH:MM on a 24-hour clock.",
        "Reply with just the time, in the form HH:MM from 00:00 to 23:59.",
        "Give me only the time, written as HH:MM on a 24-hour clock.",
    ),
    Form.YES_NO: ("Answer with yes or no.", "Reply with just yes or no."),
}
"""By form of the answer: sentences that ask for it; the wordings take turns."""

_CONDITION = re.compile(r"(.*?)((?: whose | for which | that are | among ).*)?$", re.DOTALL)

NUM_NAMED = 2
"""The first wordings name the tools: they are for easy tasks."""


def questions(
    noun: str,
    phrases: Sequence[CallPhrase],
    form: Form,
    *,
    link_nouns: Sequence[str] = (),
    is_named: bool = False,
) -> tuple[str, ...]:
    """Return wordings of the question for `noun`, the first two with the tools' names; all with `is_named`.

    With `link_nouns` the phrases are a chain: link_nouns[i] is what phrases[i] is looked up for, and the next
    phrase refers to it as a linked argument. Without, the phrases are independent calls.
    """
    if link_nouns:
        sentences = _chain(noun, phrases, link_nouns)
    else:
        sentences = _named(noun, phrases) if is_named else _direct(noun, phrases)
    attachments = list(dict.fromkeys(text for phrase in phrases for text in phrase.attachments))
    forms = itertools.cycle(FORMS[form])
    return tuple("\n\n".join([f"{sentence} {next(forms)}", *attachments]) for sentence in sentences)


def with_form(sentences: Sequence[str], form: Form) -> tuple[str, ...]:
    """Return the sentences, each with one that asks for this form of the answer."""
    return tuple(f"{sentence} {said}" for sentence, said in zip(sentences, itertools.cycle(FORMS[form])))


def wordings_for(split: str, wordings: Sequence[str]) -> tuple[str, ...]:
    """Return one split's wordings: the last is for test, the one before for validation."""
    return {
        "train": tuple(wordings[:-2]),
        "validation": tuple(wordings[-2:-1]),
        "test": tuple(wordings[-1:]),
    }[split]


def _direct(noun: str, phrases: Sequence[CallPhrase]) -> list[str]:
    described = listing([phrase.described for phrase in phrases])
    whole = _whole(noun, phrases)
    order = phrases[0].order if len(phrases) == 1 else ""
    is_whole = len(phrases) > 1 or is_said_by(noun, phrases[0]) or whole in (described, noun)
    return [
        *_named(noun, phrases)[:NUM_NAMED],
        _asked(noun, whole),
        f"Please tell me {whole}.",
        f"I need to know {whole}.",
        f"Find out {whole}." if is_whole else f"{order or f'Look up {described}'} and tell me {noun}.",
        f"I would like to know {whole}.",
        f"Could you look up {whole}?",
        f"Can you find {whole} for me?",
    ]


def _whole(noun: str, phrases: Sequence[CallPhrase]) -> str:
    """Return the noun with its place; a noun about several calls names them already."""
    return located(noun, phrases[0]) if len(phrases) == 1 else noun


def _named(noun: str, phrases: Sequence[CallPhrase]) -> list[str]:
    """Return wordings that say which tools to use."""
    names = listing([phrase.named for phrase in phrases])
    wanted = noun
    if len(phrases) == 1 and noun in WHOLE:
        wanted = "the result"  # the tool's name and its arguments say which
    return [
        f"Use {names}{' and' if len(phrases) == 1 else ', then'} tell me {wanted}.",
        f"{_asked(wanted, wanted)} Use {names}.",
        f"Please use {names} and tell me {wanted}.",
        f"Call {names}. {_asked(wanted, wanted)}",
        f"I need to know {wanted}. Use {names}.",
        f"Using {names}, find out {wanted}.",
        f"Can you use {names} and tell me {wanted}?",
        f"Could you tell me {wanted}? Please use {names}.",
    ]


def _asked(noun: str, whole: str) -> str:
    """Return the question for a noun: "How many orders are there for the customer “Ann”?"."""
    counted = noun.removeprefix("the number of ")
    place = whole.removeprefix(noun)
    if counted == noun or not whole.startswith(noun) or place.startswith((" of ", " according ")):
        return f"What is {whole}?"
    if place.startswith((" found ", " matching ")):
        place = place.replace(" found ", " are found ", 1).replace(" matching ", " match ", 1)
        return f"How many {counted}{place}?"
    things, condition = _CONDITION.match(counted).groups(default="")  # type: ignore[union-attr]  # it matches any text
    return f"How many {things} are there{condition}{place}?"


def _chain(noun: str, phrases: Sequence[CallPhrase], link_nouns: Sequence[str]) -> list[str]:
    if len(phrases) != len(link_nouns) + 1:
        raise ValueError(
            f"{len(link_nouns)} link_nouns need {len(link_nouns) + 1} phrases, not {len(phrases)}"
        )
    links = [located(link, phrase) for link, phrase in zip(link_nouns, phrases[:-1], strict=True)]
    last, named = located(noun, phrases[-1]), [phrase.named for phrase in phrases]
    using = "; then ".join(
        f"use {name} to find {link}" for name, link in zip(named[:-1], link_nouns, strict=True)
    )
    first, then = links[0], links[1:]
    also = "".join(f" Then find {link}." for link in then)
    with_it = "".join(f", then {link}" for link in then)
    return [
        f"First {using}. Then use {named[-1]} and tell me {noun}.",
        f"{using[0].upper()}{using[1:]}. Then, using {named[-1]}, what is {noun}?",
        f"Find {first}.{also} Then tell me {last}.",
        f"First look up {first}{with_it}. What is {last}?",
        f"Please find out {first}{with_it}, and then tell me {last}.",
        f"Look up {first}{with_it}. With that, I need to know {last}.",
        f"Start with {first}{with_it}. From there, what is {last}?",
        f"Can you find {first}{with_it}, and tell me {last}?",
    ]
