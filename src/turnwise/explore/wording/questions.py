"""Questions about the answers of calls, in several wordings."""

import re
from collections.abc import Sequence

from turnwise.explore.query import Form
from turnwise.explore.wording.call_phrase import CallPhrase
from turnwise.explore.wording.names import listing

FORMS = {
    Form.NUMBER: "Answer with the number only.",
    Form.ROUNDED: "Answer with the number only, rounded to two decimals.",
    Form.TEXT: "Answer with exactly that text and nothing else.",
    Form.DATE: "Answer with the date only, as YYYY-MM-DD.",
    Form.YES_NO: "Answer with yes or no.",
}

_WHOLE = ("the result", "the value", "the output", "the answer", "the response")
"""What a field is called that holds all there is to know: the question is then for the call itself."""

_SEARCHING = "the results of searching "

NUM_NAMED = 2
"""The first wordings name the tools: they are for easy tasks."""


def questions(
    noun: str, phrases: Sequence[CallPhrase], form: Form, *, link_nouns: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return wordings of the question for `noun`, the first two with the tools' names.

    With `link_nouns` the phrases are a chain: link_nouns[i] is what phrases[i] is looked up for, and the next
    phrase refers to it as a linked argument. Without, the phrases are independent calls.
    """
    sentences = _chain(noun, phrases, link_nouns) if link_nouns else _direct(noun, phrases)
    attachments = list(dict.fromkeys(text for phrase in phrases for text in phrase.attachments))
    return tuple("\n\n".join([f"{sentence} {FORMS[form]}", *attachments]) for sentence in sentences)


def wordings_for(split: str, wordings: Sequence[str]) -> tuple[str, ...]:
    """Return one split's wordings: the last is for test, the one before for validation."""
    return {
        "train": tuple(wordings[:-2]),
        "validation": tuple(wordings[-2:-1]),
        "test": tuple(wordings[-1:]),
    }[split]


def located(noun: str, phrase: CallPhrase) -> str:
    """Return where a noun is found: "the size of the file “a.txt”", "the stock for the part “gear”"."""
    described = phrase.described
    if _says(noun, phrase):
        return noun
    if described.startswith(f"{noun} "):
        return described
    if noun in _WHOLE and phrase.joint in ("", "according to"):
        return described
    if described.startswith(_SEARCHING) and "result" in noun:
        return f"{noun} when searching {described.removeprefix(_SEARCHING)}"
    joint = phrase.joint or "according to"
    if joint == "according to" and re.search(r"\bentr(?:y|ies)\b", noun):
        joint = "in"
    if joint in ("of", "in", "on") and noun in _WHOLE and not described.startswith("the result"):
        return f"the content of {described}"
    if joint == "of" and (noun.startswith("the value") or " of " in noun or noun.endswith(("empty", "”"))):
        joint = "in"
    return f"{noun} {joint} {described}"


def _says(noun: str, phrase: CallPhrase) -> bool:
    """Return whether a noun already says which call it is about."""
    return phrase.described.removeprefix(_SEARCHING) in noun


def _direct(noun: str, phrases: Sequence[CallPhrase]) -> list[str]:
    is_said = all(_says(noun, phrase) for phrase in phrases)
    named = listing([phrase.named for phrase in phrases])
    described = listing([phrase.described for phrase in phrases])
    if is_said or len(phrases) != 1:
        whole = noun if is_said else f"{noun} according to {described}"
    else:
        whole = located(noun, phrases[0])
    wanted = whole if is_said or whole == described else noun
    return [
        f"Use {named}{' and' if len(phrases) == 1 else ', then'} tell me {wanted}.",
        f"What is {wanted}? Use {named}.",
        f"What is {whole}?",
        f"Please tell me {whole}.",
        f"I need to know {whole}.",
        f"Find out {whole}." if wanted == whole else f"Look up {described} and tell me {noun}.",
        f"Could you look up {whole}?",
        f"Can you find {whole} for me?",
    ]


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
