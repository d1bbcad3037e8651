"""Requests for changes, in several wordings."""

from collections.abc import Mapping, Sequence

from turnwise.explore.wording.arguments import Argument, arguments_of
from turnwise.explore.wording.call_phrase import call_phrase, entity_phrase
from turnwise.explore.wording.names import is_plural, listing, with_article
from turnwise.explore.wording.tool_prose import CHANGE_VERBS, ToolProse, prose_of
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool

_MAKES = word_set("create add insert make post send schedule book register log record store save")
"""Verbs whose object does not exist before."""
_CONTENTS = word_set("content contents text body data message")
_DESTINATIONS = word_set("destination target to new_path newpath new_name newname dest dst")
_ORIGINS = word_set("source from path old_path oldpath src old_name name")


def write_questions(tool: Tool, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """Return wordings of a request for the change that a call makes, the first two with the tool's name."""
    given = arguments_of(tool, arguments)
    named = call_phrase(tool, arguments).named
    deed = _deed(prose_of(tool), given)
    sentences = [
        f"Use {named}.",
        f"Please call {named}.",
        f"{deed[0].upper()}{deed[1:]}.",
        f"Please {deed}.",
        f"I need you to {deed}.",
        f"Could you {deed}?",
        f"I would like you to {deed}.",
        f"Can you {deed}?",
    ]
    attachments = [argument.attachment for argument in given if argument.attachment]
    return tuple("\n\n".join([sentence, *attachments]) for sentence in sentences)


def _deed(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return the change as an infinitive without "to": "write “hello” to the file “a.txt”"."""
    if prose.verb not in CHANGE_VERBS:
        what = f"carry out “{' '.join(filter(None, [prose.verb, prose.topic])) or 'this'}”"
        return _with(what, given)
    by_name = {argument.name.lower(): argument for argument in given}
    target = next((by_name[name] for name in by_name if name in _DESTINATIONS), None)
    origin = next((by_name[name] for name in by_name if name in _ORIGINS), None)
    if prose.verb in ("move", "rename", "copy") and target and origin and target is not origin:
        others = [argument for argument in given if argument is not target and argument is not origin]
        thing = f"the {prose.topic} " if prose.topic else ""
        return _with(f"{prose.verb} {thing}{_value(origin)} to {_value(target)}", others)
    topic = prose.topic or "entry"
    if topic in ("query", "SQL", "statement", "command") and len(given) == 1:
        return f"run the {topic} {_value(given[0])}" if given[0].text else f"run the {topic} below"
    content = next((argument for argument in given if argument.name.lower() in _CONTENTS), None)
    for argument in given:
        entity = "" if argument is content else entity_phrase(topic, argument)
        if entity:
            others = [other for other in given if other is not argument]
            return _about(prose.verb, entity, content, others)
    if prose.verb in _MAKES:
        thing = topic if is_plural(topic) else with_article(topic)
        return _with(f"{prose.verb} {thing}", given)
    return _with(f"{prose.verb} the {topic}", given)


def _about(verb: str, entity: str, content: Argument | None, others: Sequence[Argument]) -> str:
    if content is not None and verb in ("write", "append", "add", "post", "send", "save", "put"):
        rest = [other for other in others if other is not content]
        return _with(f"{verb} {_value(content)} to {entity}", rest)
    return _with(f"{verb} {entity}", others)


def _value(argument: Argument) -> str:
    return argument.text or argument.phrase


def _with(start: str, given: Sequence[Argument]) -> str:
    return f"{start} with {listing([argument.phrase for argument in given])}" if given else start
