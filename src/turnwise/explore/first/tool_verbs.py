"""What a tool's name and annotations promise: that it only reads, or that it may change something."""

import itertools
import re

from turnwise.explore.first.wording import names
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

_READS = word_set("""
    get list read search find describe show query fetch lookup look view check count calculate compute
    convert parse validate analyze analyse compare evaluate explain extract summarize summarise
    diff status log inspect browse retrieve select stat tree head tail open resolve translate encode
    decode hash generate now current info metadata peek print echo solve simplify factor detect measure
    sample profile history help version exists has is today time date random roll pick
    subtract multiply divide sum mean median power sqrt round return provide display report relate load
    determine estimate preview trace outline
""")
_CHANGES = word_set("""
    create write update delete remove insert set put append edit move rename copy save store upsert
    patch drop clear reset import upload send post push commit merge checkout stash restore revert
    archive assign close reopen mark toggle complete schedule book cancel order buy sell pay install
    enable disable start stop run execute kill merge make mkdir touch replace modify change register
    unregister link unlink attach detach apply fill draw paint rotate crop resize
""")


_AMBIGUOUS = word_set("add format sort filter export")
"""Verbs that compute on plain values, but change something that is stored: `add_numbers`, `add_note`."""
_WEAK = word_set("execute run")
"""Verbs of descriptions that the name is more exact than: "Execute a query"."""
_STORED = word_set("""
    path file filename filepath document doc sheet workbook id session table repo repository database note
    notebook project folder directory
""")
_DEPRECATED = re.compile(
    r"^\W{0,8}deprecated\b|\b(?:is|are|now|been) deprecated\b|[(\[]deprecated[)\]]"
    r"|(?-i:\bDEPRECATED\b)",
    re.IGNORECASE,
)


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case."""
    return [word.lower() for word in names.words_of(name)]


def presumes_reading(tool: Tool) -> bool:
    """Return whether a tool should be tried as a reader first; that is verified by execution later.

    `add_numbers` computes and `add_note` changes: `add` reads only if every parameter is a number.
    """
    if tool.is_read_only:
        return True
    verb = _verb_of(tool)
    if verb in _AMBIGUOUS:
        return not _names_something(tool)
    if verb:
        return verb in _READS
    return not tool.input_schema.get("properties")


def is_deprecated(tool: Tool) -> bool:
    """Return whether a tool's own description advises against it."""
    return bool(_DEPRECATED.search(tool.description[:500]))


def _verb_of(tool: Tool) -> str:
    """Return the verb of a tool: its name's first word, its description's, else any word of its name.

    The verb of `wiki_link` ("Read a link") is `read`: the other words of a name may be nouns.
    """
    words = words_of(tool.server_tool)
    joined = [
        word for joint, word in itertools.pairwise(words) if joint in ("and", "or") and word in _CHANGES
    ]
    if joined:
        return joined[0]
    first = tool.description[:80].split()[:1]
    described = [form for word in first for form in _base_forms(word.strip(",.:;*`\"'").lower())]
    for word in (*words[:1], *(form for form in described if form not in _WEAK), *words[1:], *described):
        if word in _READS or word in _CHANGES or word in _AMBIGUOUS:
            return word
    return ""


def _base_forms(word: str) -> tuple[str, ...]:
    """Return a verb without the endings of `returns` and `searches`."""
    return (word, word.removesuffix("s"), word.removesuffix("es"))


def _names_something(tool: Tool) -> bool:
    """Return whether a tool acts on something stored: a parameter names a file, a document or an id."""
    properties = tool.input_schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    if any(_STORED.intersection(words_of(str(name))) for name in names):
        return True
    return _verb_of(tool) == "add" and not _takes_only_numbers(tool)


def _takes_only_numbers(tool: Tool) -> bool:
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return False
    return all(_is_numeric(schema) for schema in properties.values())


def _is_numeric(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "array":
        return _is_numeric(schema.get("items"))
    return schema.get("type") in ("number", "integer")
