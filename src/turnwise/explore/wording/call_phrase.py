"""A tool call as a phrase: by the tool's name for easy tasks, by what it is about for the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.wording.arguments import Argument, arguments_of, with_arguments
from turnwise.explore.wording.entity import entity_of
from turnwise.explore.wording.names import is_plural, listing, plural
from turnwise.explore.wording.tool_prose import ToolProse, prose_of
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool


@dataclass(frozen=True, slots=True)
class CallPhrase:
    """Two noun phrases for a call; `described` does not have the tool's name in it."""

    named: str
    """ "`get_stock` with part “steel gear”" """
    described: str
    """ "the stock for the part “steel gear”" """
    joint: str = "according to"
    """How a noun is joined to `described`: the size *of* a file, a row *in* a list, a price *according to* an
    offer; empty if `described` is itself what one asks for, like "the sum of 2 and 3"."""
    attachments: tuple[str, ...] = ()
    """Values too long for a sentence: they stand below the question."""


_SEARCHED = word_set("query q pattern text keyword keywords term terms search phrase question regex needle")
SEARCH_VERBS = word_set("search find query browse")
LIST_VERBS = word_set("list enumerate")
_STATEMENTS = word_set("query SQL statement command expression")
CONTAINERS = word_set("directory folder table database channel project repository branch sheet collection")
"""What can be listed itself: "the contents of the directory", not "the list of directories"."""
_CONTENTS = word_set("file files document sheet worksheet graph article log text table resource nodes")
"""What is asked about for what stands in it, rather than for its properties."""
_WHOLES = word_set(
    "web internet documentation wikipedia news history memory graph database index code text base"
)
"""What is searched as a whole: the web, but the issues."""
_RESULT_OF = {
    "calculate": "calculating", "compute": "computing", "evaluate": "evaluating", "solve": "solving",
    "convert": "converting", "translate": "translating", "encode": "encoding", "decode": "decoding",
    "format": "formatting", "parse": "parsing", "validate": "validating", "compare": "comparing",
    "analyze": "analyzing", "analyse": "analysing", "hash": "hashing", "summarize": "summarizing",
    "summarise": "summarising", "extract": "extracting", "estimate": "estimating", "measure": "measuring",
    "generate": "generating", "render": "rendering", "resolve": "resolving",
    "process": "processing", "execute": "executing",
    "run": "running", "simulate": "simulating", "transform": "transforming", "round": "rounding",
}  # fmt: skip
_ARITHMETIC = {
    "add": "the sum of {0} and {1}", "sum": "the sum of {0} and {1}", "subtract": "{0} minus {1}",
    "multiply": "the product of {0} and {1}", "divide": "{0} divided by {1}",
    "power": "{0} to the power of {1}", "modulo": "{0} modulo {1}",
}  # fmt: skip


def call_phrase(tool: Tool, arguments: Mapping[str, object], *, linked: Collection[str] = ()) -> CallPhrase:
    """Return the phrases of a call; `linked` arguments come from earlier calls and are only referred to."""
    given = arguments_of(tool, arguments, linked)
    described, joint = _described(prose_of(tool), given)
    attachments = tuple(argument.attachment for argument in given if argument.attachment)
    return CallPhrase(_named(tool, given), described, joint, attachments)


def _named(tool: Tool, given: Sequence[Argument]) -> str:
    name = f"`{tool.name}`"
    return f"{name} with {listing([argument.bare_phrase for argument in given])}" if given else name


def _described(prose: ToolProse, given: Sequence[Argument]) -> tuple[str, str]:
    """Return the description of a call, and its joint, by the frame that the verb asks for."""
    formula = _ARITHMETIC.get((prose.verb or prose.topic).partition(" ")[0])
    numbers = [argument.text for argument in given if argument.is_number]
    if formula is not None and len(numbers) == len(given) == 2:
        return formula.format(*numbers), ""
    sought = next((argument for argument in given if argument.name.lower() in _SEARCHED), None)
    if prose.topic in _STATEMENTS and prose.verb not in _RESULT_OF and given:
        return with_arguments("the result", given, "of"), "in"
    if prose.verb in SEARCH_VERBS and sought is not None:
        return _search(prose, sought, given), "in"
    if prose.verb in _RESULT_OF:
        return _computation(prose, given), "according to"
    return _lookup(prose, given)


def _lookup(prose: ToolProse, given: Sequence[Argument]) -> tuple[str, str]:
    topic = prose.topic or ("search results" if prose.verb in SEARCH_VERBS else "result")
    is_list = prose.verb in LIST_VERBS
    found = entity_of(topic, given) if prose.verb else None
    if found is not None:
        entity, identified_by = found
        others = [argument for argument in given if argument is not identified_by]
        if is_list:
            return with_arguments(f"the contents of {entity}", others, "with"), "in"
        if prose.verb == "describe":
            return with_arguments(f"the description of {entity}", others, "with"), "in"
        preposition = "for" if " with " in entity or identified_by.is_linked else "with"
        return with_arguments(entity, others, preposition), _joint(topic)
    if is_list and topic in CONTAINERS:
        topic = f"contents of the {topic}"
    elif is_list:
        topic = f"list of {plural(topic)}"
    elif prose.verb == "count":
        topic = f"number of {plural(topic)}"
    elif prose.verb == "describe":
        topic = f"description of the {topic}"
    return with_arguments(f"the {topic}", given), "in" if is_list else "according to"


def _joint(topic: str) -> str:
    """Return how something is joined to an entity: on a page, in a file, of a user."""
    last = topic.rpartition(" ")[2]
    return "on" if last in ("page", "URL", "website") else "in" if last in _CONTENTS else "of"


def _search(prose: ToolProse, sought: Argument, given: Sequence[Argument]) -> str:
    others = [other for other in given if other is not sought]
    if not sought.text and not sought.is_linked:
        return with_arguments(f"the results of a search for {sought.phrase}", others, "with")
    value = sought.text or sought.phrase
    is_said = prose.topic not in ("", "search", "result", "results")
    topic = prose.topic if prose.topic.rpartition(" ")[2] in _WHOLES else plural(prose.topic)
    start = (
        f"the results of searching the {topic} for {value}" if is_said else f"the search results for {value}"
    )
    return with_arguments(start, others, "with")


def _computation(prose: ToolProse, given: Sequence[Argument]) -> str:
    start = f"the result of {_RESULT_OF[prose.verb]}"
    if len(given) == 1:
        return f"{start} {given[0].phrase}"
    own = next((argument for argument in given if argument.noun == prose.topic), None)
    undirected = [argument for argument in given if not argument.is_direction]
    if own is None and len(undirected) == 1 and len(given) > 1:
        own = undirected[0]
    if own is not None:
        return with_arguments(f"{start} {own.phrase}", [other for other in given if other is not own], "with")
    if not prose.topic:
        return with_arguments(start, given, "")
    topic = prose.topic if is_plural(prose.topic) else f"the {prose.topic}"
    return with_arguments(f"{start} {topic}", given, "with")
