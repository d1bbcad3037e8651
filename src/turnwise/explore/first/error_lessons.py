"""What an error message teaches: allowed values, formats, missing parameters, folders, and what is needed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

from turnwise.explore.first.evidence import is_quoted
from turnwise.explore.first.value_formats import JSON_EXAMPLES, format_examples, format_place
from turnwise.explore.first.values import Source, Value
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.types import Tool

MAX_MESSAGE_CHARS = 6_000
MAX_VALUES = 40
MAX_MATCHES = 20
MAX_VALUE_CHARS = 120

_KEY = re.compile(
    r"\b(?:api[ _-]?key|access[ _-]?token|auth[ _-]?token|credentials?|apikey)\b[^\n]{0,80}"
    r"\b(?:missing|required|not (?:set|provided|found|configured)|invalid|needed|must be|absent|incorrect)\b"
    r"|\b(?:missing|set|provide|no|invalid|requires?|incorrect)\b[^\n]{0,60}"
    r"\b(?:api[ _-]?key|access[ _-]?token|apikey|credentials)\b"
    r"|\b(?-i:[A-Z][A-Z0-9_]{0,40}_(?:KEY|TOKEN|SECRET|PASSWORD))\b",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\b(?:(?:http|status|error|code)[ :=]{1,3}(?:code )?40[13]|40[13] (?:client|error)|unauthori[sz]ed"
    r"|forbidden|not (?:logged|signed) in|(?:log|sign) ?in (?:first|required|to)|login required"
    r"|authentication (?:is )?(?:required|failed)|unauthenticated|permission_denied)\b",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|getaddrinfo|fetch failed"
    r"|could not resolve host|name or service not known|temporary failure in name resolution"
    r"|network is unreachable|connection (?:refused|reset|timed out|error)|connect(?:ion)? ?timeout"
    r"|connection (?:issue|problem|failure)|max retries exceeded|no route to host"
    r"|all connection attempts failed|nodename nor servname"
    r"|proxy ?error|ssl: ",
    re.IGNORECASE,
)

_CHOICES = re.compile(
    r"\b(?:(?:must|should|can|has to|have to|needs to) be (?:one of|either|any of|in)|expected one of|one of"
    r"|(?:valid|allowed|possible|supported|available|permitted|accepted|known)"
    r" (?:options?|values?|choices|types?|names?|formats?|units?|tables?|[a-z]{3,20}s)(?: are| is| include)?"
    r"|(?:valid|allowed|known|available|existing) [a-z]{3,20}:|there (?:are|is)(?: only)?:|only have"
    r"|options(?: are)?|choose (?:from|one of|between)|choices are|available|input should be|expected)"
    r"\"?[ \t]{0,3}[:=]?[ \t\n]{0,3}(?:\"(?='))?",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"`([^`\n]{1,120})`|\"([^\"\n]{1,120})\"|(?<!\w)'([^'\n]{1,120})'(?!\w)|“([^”\n]{1,120})”"
)
_ONE_QUOTED = r"[`\"'“][^`\"'“”\n]{1,120}[`\"'”]"
_QUOTED_LIST = re.compile(
    rf"[\[({{]?\s{{0,12}}(?:{_ONE_QUOTED}(?:\s{{0,12}}[,|/]\s{{0,12}}(?:or |and )?| or | and ))"
    rf"{{0,60}}{_ONE_QUOTED}"
)
_BARE_LIST = re.compile(
    r"[\[({]?[ ]?([\w./+:-]{1,60}(?:[ ]?[,|][ ]?(?:or[ ]|and[ ])?[\w./+:-]{1,60}"
    r"|[ ]or[ ][\w./+:-]{1,60}){1,60})"
)
_BETWEEN = re.compile(r"[ ]?[,|][ ]?(?:or[ ]|and[ ])?|[ ]or[ ]")
_DID_YOU_MEAN = re.compile(
    r"(?:did you mean|perhaps you meant|maybe you meant|similar(?: names?)?:|closest match(?:es)?:?)[ :]{0,3}"
    r"(?:[`\"'“]([^`\"'”\n]{1,120})[`\"'”]|([\w./+-]{1,60}))",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:e\.g\.|for example|example|such as|like|format)[,:]?[ ]{1,3}"
    r"(?:[`\"'“]([^`\"'”\n]{1,120})[`\"'”]|([\w./+:-]{2,60}))",
    re.IGNORECASE,
)
_MISSING = (
    re.compile(
        r"[`\"']?(\w{1,64})[`\"']?[ ](?:parameter |argument |field )?(?:is|are)(?: a)? required",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:missing|required)(?: \d+)?(?: required)?(?: positional| keyword-only)?"
        r" (?:argument|parameter|property|field|key)s?[ :]{0,3}[`\"']?(\w{1,64})",
        re.IGNORECASE,
    ),
    re.compile(r"[`\"'](\w{1,64})[`\"'] is a required property", re.IGNORECASE),
    re.compile(r"^(\w{1,64})\n[ \t]+(?:Field required|Missing required)", re.MULTILINE),
    re.compile(r"missing required [`\"'](\w{1,64})", re.IGNORECASE),
)
_FOLDERS = re.compile(
    r"(?:not in|allowed (?:directories|directory|paths?|roots?|folders?)(?: are| is)?:?"
    r"|outside (?:of )?(?:the )?(?:workspace|root|sandbox):?)"
    r"[ \n]{1,3}((?:/|[A-Z]:\\)[^\n]{0,2000}(?:\n(?:/|[A-Z]:\\)[^\n]{0,300}){0,20})"
)
_NOT_JSON = re.compile(
    r"\b(?:(?:not|invalid|must be|expected|expects)(?: a)?(?: valid)?|parse) JSON\b", re.IGNORECASE
)
_ZOD_PATH = re.compile(r"\"path\":\s*\[\s*\"(\w{1,64})\"")
_TYPE_WORDS = frozenset(
    (
        *("string", "number", "integer", "object", "array", "boolean", "str", "int"),
        *("bool", "float", "list", "dict", "null", "none", "undefined", "valid", "received", "input"),
    )
)
"""Words that follow "expected" without being a value."""
_ARTICLES = frozenset(("the", "a", "an", "of"))


@dataclass(frozen=True, slots=True)
class Lessons:
    """What an error message says about how to call a tool."""

    values: tuple[Value, ...] = ()
    """Values that it names, under the parameter's name where that is known."""
    missing: tuple[str, ...] = ()
    """Parameters that the call lacks."""
    needs: str = ""
    """What the tool cannot work without: `key`, `login` or `network`; empty if nothing is named."""


def lessons_of(message: str, tool: Tool, arguments: Mapping[str, Any] = MappingProxyType({})) -> Lessons:
    """Read an error message of a tool.

    arguments: those of the call; values that the message lists are for the parameter whose value it quotes.
    """
    message = message[:MAX_MESSAGE_CHARS]
    parameters = parameters_of(tool)
    meant = _meant(message, parameters, arguments)
    found: dict[tuple[str, str], Value] = {}
    for value in _values_in(message, meant):
        if any(char.isalnum() or char == "/" for char in value.value[:MAX_VALUE_CHARS]):
            found.setdefault((value.name, value.value), value)
    missing = tuple(_missing_in(message, parameters))
    return Lessons(tuple(found.values())[:MAX_VALUES], missing, needs_of(message))


def _meant(
    message: str, parameters: Sequence[Parameter], arguments: Mapping[str, Any]
) -> Sequence[Parameter]:
    """Return the parameters that a message may be about: the only one whose value it quotes, else all."""
    if any(_last_word(message, one.name) >= 0 for one in parameters):
        return parameters
    quoted = [one for one in parameters if is_quoted(arguments.get(one.name), message)]
    return quoted if len(quoted) == 1 else parameters


def needs_of(message: str) -> str:
    """Return what a call failed for lack of: `key`, `login` or `network`; empty if it is something else."""
    for needed, pattern in (("key", _KEY), ("network", _NETWORK), ("login", _LOGIN)):
        if pattern.search(message[:MAX_MESSAGE_CHARS]):
            return needed
    return ""


def _values_in(message: str, parameters: Sequence[Parameter]) -> Iterator[Value]:
    for folders in islice(_FOLDERS.finditer(message), MAX_MATCHES):
        # "path outside allowed directories: /etc not in /data": only what follows "not in" is allowed.
        for folder in re.split(r",[ ]?|\n", folders.group(1).rpartition(" not in ")[2]):
            yield _value(folder.strip().rstrip(".]"), "path")
    for match in islice(_DID_YOU_MEAN.finditer(message), MAX_MATCHES):
        yield _value(match.group(1) or match.group(2), _named_near(message, match.start(), parameters))
    for match in islice(_CHOICES.finditer(message), MAX_MATCHES):
        name = _named_near(message, match.start(), parameters)
        yield from (_value(text, name) for text in _choices_at(message, match.end()))
    for match in islice(_EXAMPLE.finditer(message), MAX_MATCHES):
        text = match.group(1) or match.group(2)
        if any(char.isdigit() or char == "/" for char in text):
            yield _value(text, _named_near(message, match.start(), parameters))
    for match in islice(_NOT_JSON.finditer(message), MAX_MATCHES):
        name = _named_near(message, match.start(), parameters)
        yield from (_value(example, name) for example in JSON_EXAMPLES)
    for example in format_examples(message):
        yield _value(example, _named_near(message, format_place(message), parameters))


def _value(text: str, name: str) -> Value:
    return Value(text, name, Source.ERROR)


def _choices_at(message: str, start: int) -> list[str]:
    """Return the values listed at a position, quoted or not."""
    quoted = _QUOTED_LIST.match(message, start)
    if quoted:
        texts = [next(filter(None, groups)) for groups in _QUOTED.findall(quoted.group())]
        return [] if any(text.lower() in _TYPE_WORDS for text in texts) else texts
    bare = _BARE_LIST.match(message, start)
    texts = [text.rstrip(".:") for text in _BETWEEN.split(bare.group(1))] if bare else []
    return [] if any(text.lower() in _TYPE_WORDS or text.lower() in _ARTICLES for text in texts) else texts


def _named_near(message: str, position: int, parameters: Sequence[Parameter]) -> str:
    """Return the parameter that is named closest before a position, else after it; empty if none is."""
    zod = _ZOD_PATH.search(message, max(0, position - 600), position + 600)
    if zod and any(parameter.name == zod.group(1) for parameter in parameters):
        return zod.group(1)
    before, after = message[max(0, position - 400) : position], message[position : position + 400]
    places = {one.name: _last_word(before, one.name) for one in parameters}
    named = [name for name, place in places.items() if place >= 0]
    if named:
        return max(named, key=lambda name: places[name])
    following = [one.name for one in parameters if _last_word(after, one.name) >= 0]
    if following:
        return following[0]
    return parameters[0].name if len(parameters) == 1 else ""


def _last_word(text: str, name: str) -> int:
    """Return where a name is last used as a whole word, in any case; -1 if nowhere."""
    found = -1
    if name:
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
            found = match.start()
    return found


def _missing_in(message: str, parameters: Sequence[Parameter]) -> Iterator[str]:
    names = [parameter.name for parameter in parameters]
    found = [name for pattern in _MISSING for name in pattern.findall(message)]
    if '"Required"' in message:
        found.extend(_ZOD_PATH.findall(message))
    yield from (name for name in dict.fromkeys(found) if name in names)
