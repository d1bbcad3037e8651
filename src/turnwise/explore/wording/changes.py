"""Requests for changes, in several wordings."""

from collections.abc import Mapping, Sequence

from turnwise.explore.wording.arguments import Argument, arguments_of, with_arguments
from turnwise.explore.wording.call_phrase import call_phrase
from turnwise.explore.wording.entity import entity_of
from turnwise.explore.wording.names import is_plural, listing, plural, with_article
from turnwise.explore.wording.tool_prose import CHANGE_VERBS, ToolProse, prose_of
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool

DONE = "When it is done, answer with “Done.”"
"""The form of the answer to a request for a change."""
_MAKES = word_set("create add insert make post send schedule book register log record store save")
"""Verbs whose object does not exist before."""
_PUTS = word_set("write append add post send save put")
_STATEMENTS = word_set("query SQL statement command")
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
    return tuple("\n\n".join([f"{sentence} {DONE}", *attachments]) for sentence in sentences)


def _deed(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return the change as an infinitive without "to": "write “hello” to the file “a.txt”"."""
    if prose.verb not in CHANGE_VERBS:
        what = " ".join(filter(None, [prose.verb, prose.topic])) or "this"
        return with_arguments(f"carry out “{what}”", given, "with")
    if prose.verb in ("move", "rename", "copy"):
        moved = _move(prose, given)
        if moved:
            return moved
    if not prose.topic:
        return with_arguments(prose.verb if given else f"carry out “{prose.verb}”", given, "with")
    if prose.topic in _STATEMENTS and len(given) == 1:
        return f"run the {prose.topic} {given[0].text or 'below'}"
    if prose.verb in ("send", "post") and len(given) == 2:
        sent = _sending(prose, given)
        if sent:
            return sent
    return _object_deed(prose, given)


def _move(prose: ToolProse, given: Sequence[Argument]) -> str:
    target = next((argument for argument in given if argument.name.lower() in _DESTINATIONS), None)
    origin = next((argument for argument in given if argument.name.lower() in _ORIGINS), None)
    if target is None or origin is None:
        return ""
    others = [argument for argument in given if argument is not target and argument is not origin]
    thing = f"the {prose.topic} " if prose.topic else ""
    return with_arguments(f"{prose.verb} {thing}{_value(origin)} to {_value(target)}", others, "with")


def _sending(prose: ToolProse, given: Sequence[Argument]) -> str:
    content = next((argument for argument in given if argument.name.lower() in _CONTENTS), None)
    receiver = next((argument for argument in given if argument is not content), None)
    if content is None or receiver is None or not content.text:
        return ""
    to = receiver.phrase if receiver.is_direction else f"to {receiver.phrase}"
    return f"{prose.verb} the {prose.topic} {content.text} {to}"


def _object_deed(prose: ToolProse, given: Sequence[Argument]) -> str:
    content = next((argument for argument in given if argument.name.lower() in _CONTENTS), None)
    found = entity_of(prose.topic, [argument for argument in given if argument is not content])
    is_new = prose.verb in _MAKES
    # A thing that does not exist yet is described, "a note with the title …", unless its path names it.
    if found is None or (is_new and found[1].name.lower() in ("name", "title", "id", "key")):
        thing = f"the {prose.topic}"
        if is_new:
            thing = prose.topic if is_plural(prose.topic) else with_article(prose.topic)
        return with_arguments(f"{prose.verb} {thing}", given, "with")
    entity, identified_by = found
    others = [other for other in given if other is not identified_by]
    if not others and identified_by.text.startswith("`"):
        return f"{prose.verb} these {plural(prose.topic)}: {identified_by.text}"
    return _about(prose.verb, entity, content, others)


def _about(verb: str, entity: str, content: Argument | None, others: Sequence[Argument]) -> str:
    """Return what to do with an existing thing."""
    rest = [other for other in others if other is not content]
    preposition = "for" if " with " in entity else "with"
    if content is not None and verb in _PUTS:
        return with_arguments(f"{verb} {_value(content)} to {entity}", rest, preposition)
    value = next((other for other in others if other.name.lower() in ("value", "new_value")), None)
    if value is not None and verb == "set":
        rest = [other for other in others if other is not value]
        return with_arguments(f"set {entity} to {_value(value)}", rest, preposition)
    if others and verb in ("update", "modify", "change", "patch"):
        return (
            f"{verb} {entity} and set {listing([f'the {other.noun} to {_value(other)}' for other in others])}"
        )
    return with_arguments(f"{verb} {entity}", others, preposition)


def _value(argument: Argument) -> str:
    return argument.text or argument.phrase
