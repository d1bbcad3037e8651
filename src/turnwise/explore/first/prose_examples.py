"""Find example values in descriptions: `e.g. AAPL`, `such as 'USD'`, `one of: metric, imperial`."""

import re
from functools import lru_cache

MAX_PROSE_CHARS = 4_000
MAX_EXAMPLES = 12
MAX_EXAMPLE_CHARS = 120
MAX_EXAMPLE_WORDS = 4

_MARKER = re.compile(
    r"\b(?:e\.\s?g\.|eg\.|for example|for instance|such as|examples?\s?[:=]|examples? (?:is|are|include)"
    r"|one of|(?:possible|valid|allowed) values|options(?: are)?|either|like(?= [\"'`“])"
    r"|default(?:s to| is|:))"
    r"[\s,:=]{0,4}",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"`([^`\n]{1,120})`|\"([^\"\n]{1,120})\"|“([^”\n]{1,120})”|(?<!\w)'([^'\n]{1,120})'(?!\w)"
)
_QUOTED_CHOICE = re.compile(
    r"(?:[\"'`][\w./+ -]{1,40}[\"'`](?:\s?[,|/]\s?|,? or | and )){1,12}[\"'`][\w./+ -]{1,40}[\"'`]"
)
_QUOTED_WORD = re.compile(r"(?<!\w)'([\w./:+-]{1,40})'(?!\w)|\"([\w./:+-]{1,40})\"|`([\w./:+-]{1,40})`")
_CLAUSE_END = re.compile(r"[\n;)\]]|\.(?=\s|$)")
_BETWEEN = re.compile(r"\s*(?:,\s*or\s|,|\||\bor\b|\band\b)\s*")
_NOT_A_VALUE = frozenset(
    (
        "the",
        "a",
        "an",
        "if",
        "it",
        "etc",
        "this",
        "that",
        "your",
        "any",
        "none",
        "null",
        "true",
        "false",
        "when",
        "to",
    )
)


@lru_cache(maxsize=5_000)
def announced_examples(prose: str) -> tuple[str, ...]:
    """Return the values that follow words such as "for example" in a description."""
    prose = prose[:MAX_PROSE_CHARS]
    found: dict[str, None] = {}
    for marker in _MARKER.finditer(prose):
        values = _values_after(prose, marker.end())
        if marker.group().lower().startswith("default"):  # "Default: all sheets." is prose
            values = [value for value in values if " " not in value]
        found.update(dict.fromkeys(values))
    return tuple(value for value in found if value)[:MAX_EXAMPLES]


@lru_cache(maxsize=5_000)
def examples_in(prose: str) -> tuple[str, ...]:
    """Return the example values that a parameter's description names, in its order."""
    prose = prose[:MAX_PROSE_CHARS]
    found = dict.fromkeys(announced_examples(prose))
    for choice in _QUOTED_CHOICE.finditer(prose):
        found.update(dict.fromkeys(_quoted_in(choice.group())))
    words = [next(filter(None, match.groups())) for match in _QUOTED_WORD.finditer(prose)]
    if len(set(words)) > 1:  # one quoted word may be the name of something; several are the choices
        found.update(dict.fromkeys(words))
    return tuple(value for value in found if value)[:MAX_EXAMPLES]


def _values_after(prose: str, start: int) -> list[str]:
    quoted = _QUOTED.match(prose, start)
    end = _CLAUSE_END.search(prose, quoted.end() if quoted else start)
    clause = prose[start : end.start() if end else len(prose)][:400]
    return _quoted_in(clause) or _bare_in(clause)


def _quoted_in(text: str) -> list[str]:
    return [next(filter(None, match.groups())).strip() for match in _QUOTED.finditer(text)]


def _bare_in(clause: str) -> list[str]:
    """Return the unquoted values of a clause up to the first part that is prose."""
    values: list[str] = []
    for part in _BETWEEN.split(clause.strip()):
        value = part.strip().rstrip(".:")
        words = value.split()
        is_value = words and len(words) <= MAX_EXAMPLE_WORDS and len(value) <= MAX_EXAMPLE_CHARS
        if not is_value or words[0].lower() in _NOT_A_VALUE:
            break
        values.append(value)
    return values
