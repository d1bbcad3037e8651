"""A tool call as a phrase: by the tool's name for easy tasks, by what it is about for the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.first.wording.arguments import Argument, arguments_of, with_arguments
from turnwise.explore.first.wording.entity import entity_of
from turnwise.explore.first.wording.names import is_plural, listing, plural, singular
from turnwise.explore.first.wording.tool_prose import ToolProse, prose_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool


@dataclass(frozen=True, slots=True)
class CallPhrase:
    """Two noun phrases for a call; `described` does not have the tool's name in it."""

    named: str
    """ "`get_stock` with part “steel gear”" """
    described: str
    """ "the stock for the part “steel gear”" """
    joint: str = "according to"
    """How a noun is joined to `place`: the size *of* a file, a row *in* a list, a price *according to* an
    offer; empty if `described` is itself what one asks for, like "the sum of 2 and 3"."""
    place: str = ""
    """What a noun is joined to: "the directory “a”" if `described` is "the contents of the directory “a”"."""
    rows: str = ""
    """What the call lists: "orders"."""
    rest: str = ""
    """What follows a row: "for the customer with the ID 7" in "the third order for the customer …"."""
    order: str = ""
    """The call as an order: "Search the notes for “tea”"; empty for "Look up" and `described`."""
    attachments: tuple[str, ...] = ()
    """Values too long for a sentence: they stand below the question."""


_SCOPES = word_set("path directory folder dir root root_path base_path directory_path folder_path")
"""Parameters that say where to search."""
_SEARCHED = word_set("query q pattern text keyword keywords term terms search phrase question regex needle")
SEARCH_VERBS = word_set("search find query browse")
LIST_VERBS = word_set("list enumerate")
_STATEMENTS = word_set("query SQL statement command expression")
CONTAINERS = word_set("directory folder table database channel project repository branch sheet collection")
"""What can be listed itself: "the contents of the directory", not "the list of directories"."""
_CONTENTS = word_set("""
    file files document sheet worksheet graph article log text table resource nodes node note notes tree
    outline list lines range page message email report
""")
"""What is asked about for what stands in it, rather than for its properties."""
_PARTS = word_set("""
    outline tree structure text lines history headings sections tags links sheets comments footnotes
    paragraphs tables columns members replies messages children attachments files logs log schema diff
""")
"""Parts of a thing: "the outline of the note “a.md”"."""
COLLECTIVES = ("history", "log", "logs", "list", "records")
"""Words for many things of a kind: a commit history has commits."""
NOT_ROWS = word_set("result results details data information status statistics stats contents entries query")
"""Plurals and other words for what has no rows of its own kind."""
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
    attachments = tuple(argument.attachment for argument in given if argument.attachment)
    return replace(_described(prose_of(tool), given), named=_named(tool, given), attachments=attachments)


def _named(tool: Tool, given: Sequence[Argument]) -> str:
    name = f"`{tool.name}`"
    return f"{name} with {listing([argument.bare_phrase for argument in given])}" if given else name


def _described(prose: ToolProse, given: Sequence[Argument]) -> CallPhrase:
    """Return the description of a call by the frame that the verb asks for."""
    formula = _ARITHMETIC.get((prose.verb or prose.topic).partition(" ")[0])
    numbers = [argument.text for argument in given if argument.is_number]
    if formula is not None and len(numbers) == len(given) == 2:
        return CallPhrase("", formula.format(*numbers), "")
    sought = next((argument for argument in given if _is_sought(argument)), None)
    if prose.topic in _STATEMENTS and prose.verb not in _RESULT_OF and given:
        return CallPhrase("", with_arguments("the result", given, "of"), "in")
    if prose.verb in SEARCH_VERBS and sought is not None:
        return _search(prose, sought, given)
    if prose.verb in _RESULT_OF:
        return CallPhrase("", _computation(prose, given), "in")
    return _lookup(prose, given)


def _is_sought(argument: Argument) -> bool:
    """Return whether an argument is what to search for: `query`, `text_to_find`, `searchTerm`."""
    words = argument.noun.lower().split()
    return argument.name.lower() in _SEARCHED or (len(words) > 1 and words[-1] in _SEARCHED | {"find"})


def _lookup(prose: ToolProse, given: Sequence[Argument]) -> CallPhrase:
    topic = prose.topic or ("search results" if prose.verb in SEARCH_VERBS else "result")
    found = _part_of(topic, given) or (_entity(prose, topic, given) if prose.verb else None)
    if found is not None:
        return found
    is_list = prose.verb in LIST_VERBS
    rest = with_arguments("", given)
    rows = rows_of(topic) if is_list or is_plural(topic) or topic.endswith(COLLECTIVES) else ""
    last = rows.rpartition(" ")[2]
    no_rows = CONTAINERS - {"table"} | NOT_ROWS | (frozenset() if is_list else _CONTENTS)
    if rows and {last, singular(last)}.isdisjoint(no_rows):
        start = f"the list of {plural(topic)}" if is_list else f"the {topic}"
        joint = "in" if is_list or rows != topic else "among"
        return CallPhrase("", f"{start} {rest}".strip(), joint, rows=rows, rest=rest)
    if is_list:
        if topic in ("directory", "folder") and not given:
            return CallPhrase("", f"the contents of the root {topic}", "in", f"the root {topic}")
        topic = f"contents of the {topic}" if topic in CONTAINERS else f"list of {plural(topic)}"
    elif prose.verb == "count":
        topic = f"number of {plural(topic)}"
    elif prose.verb == "describe":
        topic = f"description of the {topic}"
    is_inside = is_list or topic.rpartition(" ")[2] in _CONTENTS | CONTAINERS
    return CallPhrase("", f"the {topic} {rest}".strip(), "in" if is_inside else "according to")


def rows_of(topic: str) -> str:
    """Return what a topic is a collection of, in the plural: "commits" of "commit logs"."""
    head, _, last = topic.rpartition(" ")
    return plural(head if head and last.startswith(COLLECTIVES) else topic)


def _entity(prose: ToolProse, topic: str, given: Sequence[Argument]) -> CallPhrase | None:
    """Return the phrase of a call whose argument identifies what it is about: "the file “a.txt”"."""
    found = entity_of(topic, given)
    if found is None:
        return None
    entity, identified_by = found
    others = [argument for argument in given if argument is not identified_by]
    if prose.verb in LIST_VERBS:
        place = with_arguments(entity, others, "with")
        return CallPhrase("", f"the contents of {place}", "in", place)
    if prose.verb == "describe":
        place = with_arguments(entity, others, "with")
        return CallPhrase("", f"the description of {place}", "in", place)
    preposition = "for" if " with " in entity or identified_by.is_linked else "with"
    return CallPhrase("", with_arguments(entity, others, preposition), _joint(topic))


def _part_of(topic: str, given: Sequence[Argument]) -> CallPhrase | None:
    """Return "the outline of the note “a.md”" for the topic "note outline"."""
    head, _, part = topic.rpartition(" ")
    found = entity_of(head, given) if head and part in _PARTS else None
    if found is None:
        return None
    entity, identified_by = found
    others = [argument for argument in given if argument is not identified_by]
    return CallPhrase("", with_arguments(f"the {part} of {entity}", others, "with"), "in")


def _joint(topic: str) -> str:
    """Return how something is joined to an entity: on a page, in a file, of a user."""
    last = topic.rpartition(" ")[2]
    return "on" if last in ("page", "URL", "website") else "in" if last in _CONTENTS else "of"


def _search(prose: ToolProse, sought: Argument, given: Sequence[Argument]) -> CallPhrase:
    scope = next((other for other in given if other.name.lower() in _SCOPES and other is not sought), None)
    others = [other for other in given if other not in (sought, scope)]
    where = f" in {scope.text or scope.phrase}" if scope is not None else ""
    is_said = prose.topic not in ("", "search", "result", "results")
    is_whole = prose.topic.rpartition(" ")[2] in _WHOLES
    topic = prose.topic if is_whole else plural(prose.topic)
    value = sought.text or ("that text" if sought.is_linked else sought.phrase)
    is_pattern = sought.name.lower() in ("pattern", "glob", "regex")
    found = f"{'matching' if is_pattern else 'found for'} {value}{where}"
    what = f"the {topic}{where}" if is_said else f"everything{where}"
    start = f"the results of searching {what} for {value}"
    if not is_said and not where:
        start = f"the search results for {value}"
    return CallPhrase(
        "",
        with_arguments(start, others, "with"),
        "in",
        rows="" if is_whole else topic if is_said else "results",
        rest=with_arguments(found, others, "with"),
        order=with_arguments(f"Search {what} for {value}", others, "with"),
    )


def _computation(prose: ToolProse, given: Sequence[Argument]) -> str:
    start = f"the result of {_RESULT_OF[prose.verb]}"
    found = entity_of(prose.topic, given) if prose.topic else None
    if found is not None:
        return with_arguments(
            f"{start} {found[0]}", [other for other in given if other is not found[1]], "with"
        )
    if len(given) == 1 and not (given[0].is_direction and prose.topic):
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
