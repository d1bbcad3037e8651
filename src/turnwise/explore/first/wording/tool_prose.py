"""A tool's verb and topic, from its name and the first sentence of its description."""

import re
from dataclasses import dataclass

from turnwise.explore.first.wording.names import humanised, words_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

MAX_SENTENCE_CHARS = 100
MAX_TOPIC_WORDS = 5

READ_VERBS = word_set("""
    get fetch retrieve show view read open load describe display return obtain check lookup inspect
    explain list browse enumerate search find query select count calculate compute convert evaluate
    solve translate encode decode format parse validate analyze analyse compare extract summarize
    summarise generate resolve estimate measure look tell give provide render hash
    process simulate transform round
""")
CHANGE_VERBS = word_set("""
    create write update delete remove insert set put append edit move rename copy save store patch drop
    clear reset upload send post push merge restore archive assign close reopen mark complete schedule
    book cancel run execute make replace modify change register link unlink attach detach apply add log
    record upsert enable disable start stop import increment commit stage checkout
    publish subscribe share invite approve reject transfer deposit withdraw pay order buy sell
""")
_FILLERS = word_set("""
    the a an all any some specific specified given detailed complete full multiple single one existing
    new entire whole your my our this that these those matching available simple
""")
_ENDS_TOPIC = word_set("""
    of for from by with in on at to that which using via based as and or between within into about given
    when if where whose including through under over matching across inside along without per
""")
_PLAIN_PROSE = re.compile(r"[\w ,'’()\-./:]+")
_INSTRUCTION = re.compile(
    r"\b(?:ignore|must|always|never|important|system|assistant|instead|do not|don't|you|your|please)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolProse:
    """`get_current_time`: verb "get", topic "current time"; either may be empty."""

    verb: str
    topic: str


def prose_of(tool: Tool) -> ToolProse:
    """Return the tool's verb and topic; the description only adds to what the name says."""
    words = words_of(tool.server_tool or tool.name)
    words = _without_server(words, tool.server)
    verb, topic = _verb_and_topic(words)
    said_verb, said_topic = _verb_and_topic(first_sentence(tool.description).split())
    if not verb and said_verb and said_topic and set(said_topic.split()) <= set(topic.split()):
        return ToolProse(said_verb, said_topic)
    is_fuller = set(topic.split()) < set(said_topic.split())
    adds = is_fuller and said_verb == verb if topic else bool(said_verb)
    if said_topic and adds:
        return ToolProse(verb or said_verb, said_topic)
    return ToolProse(verb, topic)


def first_sentence(description: str) -> str:
    """Return a description's first sentence if it is short, plain prose and no instruction; else nothing."""
    text = description.strip()[: 4 * MAX_SENTENCE_CHARS].partition("\n")[0]
    sentence = re.split(r"(?<=[a-z)])\.(?:\s|$)", text, maxsplit=1)[0].rstrip(".: ")
    if (
        len(sentence) > MAX_SENTENCE_CHARS
        or not _PLAIN_PROSE.fullmatch(sentence)
        or _INSTRUCTION.search(sentence)
    ):
        return ""
    return sentence


def _without_server(words: list[str], server: str) -> list[str]:
    """Drop the server's name where a tool carries it as a prefix: `sqlite_get_catalog`."""
    prefix = words_of(server)
    if prefix and words[: len(prefix)] == prefix and len(words) > len(prefix):
        return words[len(prefix) :]
    return words


def _verb_and_topic(words: list[str]) -> tuple[str, str]:
    verb = _base_form(words[0].lower()) if words else ""
    if verb not in READ_VERBS | CHANGE_VERBS:
        # `user_get`, `directory_list`: some servers put the verb last.
        last = words[-1].lower() if len(words) > 1 else ""
        if last in ("get", "list", "search", "create", "delete", "update", "add", "read", "write", "set"):
            return last, _topic(words[:-1])
        return "", _topic(words)
    rest = words[1:]
    if rest[:1] in (["for"], ["up"]):
        rest = rest[1:]
    return verb, _topic(rest)


def _topic(words: list[str]) -> str:
    kept: list[str] = []
    for word in words:
        bare = word.strip(",.:;'’()")
        if bare.lower() in _ENDS_TOPIC:
            break
        if bare and bare.lower() not in _FILLERS:
            kept.append(bare)
        if word != bare or len(kept) > MAX_TOPIC_WORDS:
            break
    topic = humanised(" ".join(kept)) if len(kept) <= MAX_TOPIC_WORDS else ""
    return topic if re.search(r"[^\W\d_]{2}", topic) else ""


def _base_form(verb: str) -> str:
    """Return "get" for "gets", "search" for "searches", "calculate" for "calculating"."""
    for ending, instead in (("s", ""), ("es", ""), ("ies", "y"), ("ing", ""), ("ing", "e")):
        base = verb[: -len(ending)] + instead
        if verb.endswith(ending) and base in READ_VERBS | CHANGE_VERBS:
            return base
    return verb
