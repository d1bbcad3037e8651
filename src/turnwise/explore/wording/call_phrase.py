"""A call in words: "the orders of the customer “Keller”", from its tool, arguments and answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.algebra.things import Things
from turnwise.explore.wording.names import (
    PREPOSITIONS,
    article,
    handled_noun,
    human,
    listing,
    quoted,
    singular,
    words_of,
)
from turnwise.types import Tool

_MAX_ORDER_WORDS = 14
_NO_ORDER = ("a", "an", "the", "this", "these", "tool", "use", "used", "if", "when", "for", "it", "to")


@dataclass(frozen=True, slots=True)
class Said:
    """An argument of a call in words."""

    parameter: str
    words: str
    """The value in quotes, or a noun phrase if it is read from an earlier answer."""
    entity: str = ""
    """What the value is, if the parameter takes things that other answers hold."""
    is_phrase: bool = False

    @property
    def named(self) -> str:
        """Return "the customer “Keller”", or the phrase itself."""
        return self.words if self.is_phrase else f"the {self.entity} {self.words}"


def value_words(value: Any) -> str:
    """Return a value of an argument as it stands in a question."""
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        return listing([quoted(item) for item in value])
    return quoted(value)


def object_of(tool: Tool) -> str:
    """Return what a tool's name is about: "text file" of `read_text_file`."""
    words = list(words_of(tool.server_tool))
    prefix = [*words_of(tool.server)]
    while len(words) > 1 and words[0] in prefix:
        words.pop(0)
    thing = words[1:] or words
    ends = [place for place, word in enumerate(thing) if word in PREPOSITIONS and place]
    return singular(" ".join(thing[: min(ends, default=len(thing))]))


def things_of(tool: Tool, noun: str, is_list: bool, arguments: Sequence[Said]) -> Things:
    """Return how the rows of a call's answer are called."""
    linked = [one for one in arguments if one.entity or one.is_phrase]
    others = [one for one in arguments if one not in linked]
    noun = noun or object_of(tool)
    extra = _with(others)
    if not linked:
        return Things(noun, extra)
    first, *rest = linked
    more = _with([*rest, *others])
    if is_list:
        is_row = first.entity == noun or (first.is_phrase and first.words.endswith(f" {noun}"))
        return Things(noun, f" of {first.named}{more}", f"{first.named}{more}" if is_row else "")
    return Things(noun, f" of {first.named}{more}", subject=f"{first.named}{more}")


def _with(arguments: Sequence[Said]) -> str:
    if not arguments:
        return ""
    first, *rest = [f"{_parameter(one)} {one.named if one.is_phrase else one.words}" for one in arguments]
    return f" for {first}" + (f" with {listing(rest)}" if rest else "")


def _parameter(said: Said) -> str:
    """Return a parameter's name as words; of a nested one the last part."""
    return f"the {human(_last(said.parameter))}"


def _last(parameter: str) -> str:
    return re.split(r"[.\[\]]+", parameter.rstrip("[]"))[-1]


def order(tool: Tool, arguments: Sequence[Said]) -> str:
    """Return what the tool does with the arguments, as an order without a full stop."""
    listed = listing([f"{_parameter(one).removeprefix('the ')} {one.words}" for one in arguments])
    work = imperative(tool)
    if len(arguments) == 1 and " " not in work:  # "calculate the expression “2 + 3”"
        return f"{work} the {listed}"
    return f"{work}{f' with {listed}' if listed else ''}"


def change_order(tool: Tool, arguments: Sequence[Said], *, is_new: bool) -> str:
    """Return a change as an order: "create an entity with name “Tomas”"."""
    verb, *words = words_of(tool.server_tool)
    if not words or verb in words_of(tool.server):
        return order(tool, arguments)
    noun = singular(" ".join(words))
    thing = article(noun) if is_new else f"the {noun}"
    for one in arguments:
        if handled_noun(_last(one.parameter)) == noun:  # `entityNames` of `delete_entities`
            thing = f"the {noun} {one.words}"
            arguments = [other for other in arguments if other is not one]
            break
    listed = listing([f"{_parameter(one).removeprefix('the ')} {one.words}" for one in arguments])
    return f"{verb} {thing}{f' with {listed}' if listed else ''}"


def imperative(tool: Tool) -> str:
    """Return the tool's work as an order: the first clause of its description, or its name as words."""
    first = re.split(r"[.:;(\n]|, | - |\bby\b|\bwith\b", tool.description.strip(), maxsplit=1)[0].strip()
    words = first.split()
    name = " ".join(words_of(tool.server_tool))
    if 2 <= len(words) <= _MAX_ORDER_WORDS and words[0].isalpha() and words[0].lower() not in _NO_ORDER:
        verb = words[0].lower()
        base = words_of(tool.server_tool)[0]
        if verb in (f"{base}s", f"{base}es"):
            verb = base
        elif verb.endswith("s") and not verb.endswith("ss"):
            verb = verb[:-1]
        rest = " ".join(words[1:])
        if rest.isprintable() and not set(rest) & set("`*{}[]<>"):
            return f"{verb} {rest}"
    return name
