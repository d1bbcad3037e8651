"""A tool call as a phrase: by the tool's name for easy tasks, by what it is about for the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.wording.arguments import Argument, arguments_of
from turnwise.explore.wording.names import is_plural, listing, plural, singular
from turnwise.explore.wording.tool_prose import ToolProse, prose_of
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool


@dataclass(frozen=True, slots=True)
class CallPhrase:
    """Two noun phrases for a call; `described` never has the tool's name in it."""

    named: str
    """ "`get_stock` with part “steel gear”" """
    described: str
    """ "the stock for the part “steel gear”" """
    is_entity: bool = False
    """Whether `described` is a thing that has properties: "the size of the file “a.txt”"."""
    attachments: tuple[str, ...] = ()
    """Values too long for a sentence: they stand below the question."""


_NAMES = word_set("""
    name title path file filename filepath url uri slug symbol ticker key code email
""")
_SEARCHED = word_set("""
    query q pattern text keyword keywords term terms search phrase question regex needle
""")
_SEARCH_VERBS = word_set("search find query browse")
_LIST_VERBS = word_set("list enumerate")
_RESULT_OF = {
    "calculate": "calculating", "compute": "computing", "evaluate": "evaluating", "solve": "solving",
    "convert": "converting", "translate": "translating", "encode": "encoding", "decode": "decoding",
    "format": "formatting", "parse": "parsing", "validate": "validating", "compare": "comparing",
    "analyze": "analyzing", "analyse": "analysing", "hash": "hashing", "summarize": "summarizing",
    "summarise": "summarising", "extract": "extracting", "estimate": "estimating", "measure": "measuring",
    "generate": "generating", "render": "rendering",
}  # fmt: skip
_ARITHMETIC = {
    "add": "the sum of {0} and {1}", "sum": "the sum of {0} and {1}", "subtract": "{0} minus {1}",
    "multiply": "the product of {0} and {1}", "divide": "{0} divided by {1}",
    "power": "{0} to the power of {1}", "modulo": "{0} modulo {1}",
}  # fmt: skip
_CONTAINERS = word_set("""
    directory folder table database channel project repository branch sheet collection
""")
"""What can be listed itself: "the contents of the directory", not "the list of directories"."""


def call_phrase(tool: Tool, arguments: Mapping[str, object], *, linked: Collection[str] = ()) -> CallPhrase:
    """Return the phrases of a call; `linked` arguments come from earlier calls and are only referred to."""
    given = arguments_of(tool, arguments, linked)
    prose = prose_of(tool)
    described, is_entity = _described(tool, prose, given)
    attachments = tuple(argument.attachment for argument in given if argument.attachment)
    return CallPhrase(_named(tool, given), described, is_entity, attachments)


def with_arguments(topic: str, given: Sequence[Argument], preposition: str = "for") -> str:
    """Return "topic for the city “Berlin” and at most 3 results"."""
    if not given:
        return topic
    return f"{topic} {preposition} {listing([argument.phrase for argument in given])}"


def entity_phrase(topic: str, argument: Argument) -> str:
    """Return the thing that an argument identifies, "the file “a.txt”", or nothing if it does not identify one."""
    words = argument.noun.split()
    rest = words[-1] if words else ""
    thing = singular(topic)
    # `get_user` with `user_id` or `id`; `describe_table` with `table_name` or `table`.
    about = " ".join(words[:-1])
    if argument.noun == topic or argument.noun == thing.rpartition(" ")[2]:
        return f"that {thing}" if argument.is_linked else f"the {topic} {argument.text or 'below'}"
    if rest.lower() in (*_NAMES, "id", "number", "ids") and about in (
        "",
        topic,
        thing,
        thing.rpartition(" ")[2],
    ):
        if argument.is_linked:
            return f"that {thing}"
        if not argument.text:
            return ""
        if rest.lower() in ("id", "number", "ids", "key", "code", "symbol", "ticker", "email", "slug"):
            return f"the {topic} with the {rest} {argument.text}"
        return f"the {topic} {argument.text}"
    if words and words[-1] in ("names", "paths", "IDs") and argument.text and is_plural(topic):
        return f"the {topic} {argument.text}"
    return ""


def _named(tool: Tool, given: Sequence[Argument]) -> str:
    if not given:
        return f"`{tool.name}`"
    parts = []
    for argument in given:
        value = "that value" if argument.is_linked else argument.text or "below"
        joint = " taken from" if argument.attachment else ""
        parts.append(
            f"{argument.noun}{joint} {value}" if not argument.is_linked else f"{value} as {argument.noun}"
        )
    return f"`{tool.name}` with {listing(parts)}".replace("taken from below", "as given below")


def _described(tool: Tool, prose: ToolProse, given: Sequence[Argument]) -> tuple[str, bool]:
    numbers = [argument.text for argument in given if argument.is_number]
    sums = _ARITHMETIC.get((prose.verb or prose.topic).split(" ")[0])
    if sums is not None and len(numbers) == len(given) == 2:
        return sums.format(*numbers), True
    if prose.verb in _SEARCH_VERBS:
        return _search(prose, given), False
    if prose.verb in _RESULT_OF:
        return _computation(prose, given), False
    topic = prose.topic or "result"
    for argument in given:
        entity = entity_phrase(topic, argument) if prose.verb else ""
        if entity:
            others = [other for other in given if other is not argument]
            if prose.verb in _LIST_VERBS:
                entity = f"the contents of {entity}"
            if prose.verb == "describe":
                entity = f"the description of {entity}"
            return with_arguments(entity, others, "with"), not others and prose.verb not in _LIST_VERBS
    if prose.verb in _LIST_VERBS:
        topic = f"contents of the {topic}" if topic in _CONTAINERS else f"list of {plural(topic)}"
    elif prose.verb == "count":
        topic = f"number of {plural(topic)}"
    elif prose.verb == "describe":
        topic = f"description of the {topic}"
    return with_arguments(f"the {topic}", given), False


def _search(prose: ToolProse, given: Sequence[Argument]) -> str:
    sought = next((argument for argument in given if argument.name.lower() in _SEARCHED), None)
    topic = "" if prose.topic in ("", "query", "search", "result") else plural(prose.topic)
    if sought is None:
        if prose.topic == "" or not topic:
            return with_arguments("the search results", given)
        return with_arguments(f"the {topic} found", given)
    others = [other for other in given if other is not sought]
    value = sought.text or sought.phrase
    if sought.attachment or (prose.verb == "query" and not topic):
        return with_arguments(f"the result of {sought.phrase}", others, "with")
    start = (
        f"the results of searching the {topic} for {value}" if topic else f"the search results for {value}"
    )
    return with_arguments(start, others, "with")


def _computation(prose: ToolProse, given: Sequence[Argument]) -> str:
    doing = _RESULT_OF[prose.verb]
    if len(given) == 1 and not given[0].is_number and given[0].text:
        return f"the result of {doing} {given[0].phrase}"
    if not prose.topic or any(prose.topic == argument.noun for argument in given):
        return with_arguments("the result of " + doing, given, "").replace("  ", " ")
    return with_arguments(f"the result of {doing} {_object(prose.topic)}", given, "with")


def _object(topic: str) -> str:
    return topic if is_plural(topic) else f"the {topic}"
