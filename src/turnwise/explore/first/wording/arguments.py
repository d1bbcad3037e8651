"""A call's arguments as phrases: "the city “Berlin”", "a radius of 5", "the query below"."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.first.wording.names import (
    MAX_INLINE_CHARS,
    fits_in_sentence,
    humanised,
    is_plain_name,
    is_plural,
    listing,
    plural,
    quoted,
    singular,
    with_article,
    words_of,
)
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

MAX_LISTED = 5
MAX_LINES = 12
MAX_ATTACHED_CHARS = 2_000
"""A question with a longer value is not one that a person would write."""

_COUNTED_FROM = word_set("page id number index line year version chapter day month issue row column port")
"""Parameters whose number names something: "the page 2", not "a page of 2"."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its name in words, its value if it fits into a sentence, and the whole phrase."""

    name: str
    noun: str
    phrase: str
    """ "the city “Berlin”", "a radius of 5", "at most 3 results", "that city" if linked, "the text below"."""
    text: str = ""
    """The value alone: "“Berlin”"; empty if it is linked or stands below the question."""
    is_linked: bool = False
    is_number: bool = False
    is_list: bool = False
    is_direction: bool = False
    """Whether the phrase begins with a preposition of its own: "from the unit “mile”", "sorted by size"."""
    attachment: str = ""
    """A value too long for a sentence, under its name, to stand below the question."""

    @property
    def bare_phrase(self) -> str:
        """The argument as a programmer would say it: "city “Berlin”", "that value as city"."""
        if self.is_linked:
            return f"that value as {self.noun}"
        return f"{self.noun} {self.text or 'as given below'}"

    def phrase_of(self, noun: str) -> str:
        """Return the phrase under another noun: "the ID 7" for a `note_id`."""
        return f"the {noun} {self.text}" if self.text else f"the {noun} below"


_PLACES = word_set("""
    category genre group section department folder directory country region language sheet worksheet
    workbook file repository database spreadsheet document project
""")
"""Parameters that things are in: "the products in the category “lighting”"."""
_PATHS = ("path", "file path", "file name", "filename", "filepath")
_SORTED = {"sort by": "sorted by", "order by": "ordered by", "group by": "grouped by", "sort": "sorted by"}


def arguments_of(
    tool: Tool, arguments: Mapping[str, object], linked: Collection[str] = ()
) -> tuple[Argument, ...]:
    """Return the arguments in the schema's order, without optional ones that have their default value."""
    schemas = _properties(tool)
    required = tool.input_schema.get("required") or ()
    ordered = [name for name in schemas if name in arguments] + [
        name for name in arguments if name not in schemas
    ]
    kept = []
    for name in ordered:
        schema = schemas.get(name, {})
        has_default = "default" in schema and schema["default"] == arguments[name] and name not in required
        if name in linked or not has_default:
            kept.append(_argument(name, arguments[name], name in linked))
    return tuple(kept)


def with_arguments(start: str, given: Sequence[Argument], preposition: str = "for") -> str:
    """Return "start for the city “Berlin” and at most 3 results"; "from" and "to" come last."""
    plain = [argument.phrase for argument in given if not argument.is_direction]
    directions = [argument.phrase for argument in given if argument.is_direction]
    places = [phrase for phrase in directions if phrase.startswith("in ")]
    # The schema names the file before the sheet in it; a sentence does not.
    inside = [place if number == 0 else f"of{place[2:]}" for number, place in enumerate(reversed(places))]
    others = [phrase for phrase in directions if phrase not in places]
    parts = [start, *([preposition, listing(plain)] if plain else []), *others, *inside]
    return " ".join(part for part in parts if part)


def fits_in_question(arguments: Mapping[str, object]) -> bool:
    """Return whether a question can state these arguments: all of them short enough, with sensible names."""
    return all(
        is_plain_name(name) and len(_compact(value)) <= MAX_ATTACHED_CHARS
        for name, value in arguments.items()
    )


def _argument(name: str, value: object, is_linked: bool) -> Argument:
    noun = humanised(name) or "value"
    if is_linked:
        is_place = noun in _PLACES
        thing = singular(noun).removesuffix(" ID")
        phrase = f"in that {thing}" if is_place else f"that {thing}"
        return Argument(name, noun, phrase, is_linked=True, is_direction=is_place)
    match value:
        case bool():
            return Argument(name, noun, f"“{noun}” set to {json.dumps(value)}", json.dumps(value))
        case int() | float():
            return Argument(name, noun, _number_phrase(name, noun, value), quoted(value), is_number=True)
        case str() if fits_in_sentence(value) and value.strip() == value != "":
            return _text_argument(name, noun, quoted(value))
        case list() | tuple() if 0 < len(value) <= MAX_LISTED and all(map(fits_in_sentence, value)):
            text = listing([quoted(item) for item in value])
            if len(text) <= MAX_LISTED * MAX_INLINE_CHARS:
                nouns = singular(noun) if len(value) == 1 else plural(noun)
                return Argument(name, nouns, f"the {nouns} {text}", text, is_list=True)
    return _too_long_for_a_sentence(name, noun, value)


def _text_argument(name: str, noun: str, text: str) -> Argument:
    first, _, rest = noun.partition(" ")
    if noun in _SORTED and text.strip("“”").isidentifier():
        return Argument(name, noun, f"{_SORTED[noun]} {humanised(text.strip('“”'))}", text, is_direction=True)
    place = _place(noun, text)
    if place:
        return Argument(name, noun, place, text, is_direction=True)
    if first not in ("from", "to"):
        one = noun if "," in text else singular(noun)
        owner = one.removesuffix(" ID")
        phrase = f"the {one} {text}" if owner == one else f"the {owner} with the ID {text}"
        return Argument(name, noun, phrase, text)
    return Argument(
        name, noun, f"{first} the {rest} {text}" if rest else f"{first} {text}", text, is_direction=True
    )


def _place(noun: str, text: str) -> str:
    """Return "in the sheet “Books”" for the name of something that things are in; else nothing."""
    if noun in _PATHS:
        is_file = "." in text.rpartition("/")[2].strip(".”")
        return f"in the file {text}" if is_file else f"in {text}"
    thing = noun.removesuffix(" path").removesuffix(" name")
    return f"in the {thing} {text}" if thing in _PLACES else ""


def _number_phrase(name: str, noun: str, value: float) -> str:
    words = words_of(name)
    last = words[-1].lower() if words else ""
    if last in _COUNTED_FROM:
        owner = noun.removesuffix(" ID")
        return f"the {noun} {value}" if owner == noun else f"the {owner} with the ID {value}"
    if len(noun) == 1:
        return f"{noun} = {value}"
    if words[0] == "max" and len(words) > 1 and is_plural(noun):
        return f"at most {value} {noun.removeprefix('maximum ')}"
    if noun.startswith("number of "):
        return f"{value} {noun.removeprefix('number of ')}"
    if is_plural(noun):
        return f"{value} {noun}" if len(words) == 1 and value != 1 else f"“{noun}” set to {value}"
    return f"{with_article(noun)} of {value}"


def _too_long_for_a_sentence(name: str, noun: str, value: object) -> Argument:
    compact = _compact(value)
    if len(compact) <= MAX_INLINE_CHARS and "\n" not in compact and "`" not in compact:
        return Argument(name, noun, f"the {noun} `{compact}`", f"`{compact}`")
    shown = value if isinstance(value, str) else _listed(value) or compact
    return Argument(name, noun, f"the {noun} below", attachment=f"{noun[:1].upper()}{noun[1:]}:\n{shown}")


def _listed(value: object) -> str:
    """Return a list of texts or of flat records as lines; nothing if it is deeper than that."""
    if not isinstance(value, list) or not value or len(value) > MAX_LINES:
        return ""
    lines = [_line(item) for item in value]
    return "\n".join(f"- {line}" for line in lines) if all(lines) else ""


def _line(item: object) -> str:
    if isinstance(item, dict) and item:
        cells = [(humanised(str(key)), _cell(value)) for key, value in item.items()]
        return (
            ", ".join(f"{key}: {cell}" for key, cell in cells)
            if all(key and cell for key, cell in cells)
            else ""
        )
    return _cell(item)


def _cell(value: object) -> str:
    if isinstance(value, list) and value and all(map(fits_in_sentence, value)):
        return listing([quoted(item) for item in value])
    return quoted(value) if fits_in_sentence(value) and value != "" else ""


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _properties(tool: Tool) -> Mapping[str, Mapping[str, Any]]:
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: schema for name, schema in properties.items() if isinstance(schema, Mapping)}
