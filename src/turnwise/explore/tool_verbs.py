"""What a tool's name and annotations promise: that it only reads, or that it may change something."""

from turnwise.explore.wording import names
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool

_READS = word_set("""
    get list read search find describe show query fetch lookup look view check count calculate compute
    convert parse validate analyze analyse compare evaluate explain extract format summarize summarise
    diff status log inspect browse retrieve select stat tree head tail open resolve translate encode
    decode hash generate now current info metadata peek print echo solve simplify factor detect measure
    sample profile export history help version exists has is today time date random roll pick add
    subtract multiply divide sum mean median power sqrt round
""")
_CHANGES = word_set("""
    create write update delete remove insert set put append edit move rename copy save store upsert
    patch drop clear reset import upload send post push commit merge checkout stash restore revert
    archive assign close reopen mark toggle complete schedule book cancel order buy sell pay install
    enable disable start stop run execute kill merge make mkdir touch replace modify change register
    unregister link unlink attach detach apply fill draw paint rotate crop resize
""")


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case."""
    return [word.lower() for word in names.words_of(name)]


def presumes_reading(tool: Tool) -> bool:
    """Return whether a tool should be tried as a reader first; that is verified by execution later.

    `add_numbers` computes and `add_note` changes: `add` reads only if every parameter is a number.
    """
    if tool.is_read_only:
        return True
    words = words_of(tool.server_tool)
    if any(word in _CHANGES for word in words):
        return False
    if "add" in words:
        return _takes_only_numbers(tool)
    return any(word in _READS for word in words) or not tool.input_schema.get("properties")


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
