"""Requests for changes, in several wordings."""

import re
from collections.abc import Iterator, Mapping, Sequence

from turnwise.explore.first.wording.arguments import Argument, arguments_of, with_arguments
from turnwise.explore.first.wording.call_phrase import CallPhrase, call_phrase
from turnwise.explore.first.wording.entity import entity_of
from turnwise.explore.first.wording.names import (
    fits_in_sentence,
    is_plural,
    listing,
    plural,
    quoted,
    singular,
    with_article,
    words_of,
)
from turnwise.explore.first.wording.tool_prose import CHANGE_VERBS, ToolProse, prose_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

DONE = "When it is done, answer with “Done.”"
"""The form of the answer to a request for a change."""
_MAKES = word_set("create add insert make post send schedule book register log record store save")
"""Verbs whose object does not exist before."""
_PUTS = word_set("write append add post send save put insert")
_ADDS = word_set("add append insert")
_REMOVES = word_set("delete remove clear drop")
_STATEMENTS = word_set("query SQL statement command")
_CONTENTS = word_set("content contents text body data message")
_DESTINATIONS = word_set("""
    destination target to new_path newpath new_name newname dest dst destination_filename destination_path
""")
_ORIGINS = word_set("""
    source from path old_path oldpath src old_name name source_filename source_path sheet
""")
_OLD_TEXTS = re.compile(r"(?:old|find|search)_?(?:text|string|str|value)|query", re.IGNORECASE)
_NEW_TEXTS = re.compile(r"(?:new|replace|replacement)_?(?:text|string|str|value)|replacement", re.IGNORECASE)
_CONFIRMS = ("confirm", "confirmation", "confirmed")
_OPERATIONS = word_set("operation action mode command op")
_FILES = word_set(
    "file document directory folder note page workbook spreadsheet image report database resource"
)
"""What a path can name by itself; a sheet or a paragraph is in the file that the path names."""
_BINARY = (".xlsx", ".xlsm", ".docx", ".pptx", ".csv", ".db", ".sqlite")
_OWN_PATHS = ("", "file", "old", "new", "source", "destination", "output")
"""Words before "path" that do not say what the path is of."""
_MAX_SETTINGS = 3


def write_questions(tool: Tool, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """Return wordings of a request for the change that a call makes, the first two with the tool's name."""
    named = call_phrase(tool, arguments)
    calls = [f"Use {named.named}.", f"Please call {named.named}."]
    deed, attachments = deed_of(tool, arguments)
    sentences = [
        f"{deed[0].upper()}{deed[1:]}.",
        f"Please {deed}.",
        f"I need you to {deed}.",
        f"Could you {deed}?",
        f"I would like you to {deed}.",
        f"Can you {deed}?",
    ]
    return tuple(
        "\n\n".join([f"{sentence} {DONE}", *below])
        for group, below in ((calls, named.attachments), (sentences, attachments))
        for sentence in group
    )


def transfer_questions(
    noun: str, phrase: CallPhrase, tool: Tool, arguments: Mapping[str, object], content: str
) -> tuple[str, ...]:
    """Return wordings of a request to look up `noun` and to write it where the call writes `content`."""
    deed, attachments = deed_of(tool, arguments)
    text = re.escape(quoted(content))
    deed = re.sub(rf"the ([\w ]{{1,40}}?) {text}", r"that value as the \1", deed)
    deed = re.sub(text, "exactly that value", deed)
    sentences = [
        f"Look up {noun}. Then {deed}.",
        f"Find out {noun}, and then {deed}.",
        f"Please find out {noun}. Then {deed}.",
        f"I need {noun}. Look it up, and {deed}.",
        f"Could you look up {noun}, and then {deed}?",
        f"First find {noun}. After that, {deed}.",
        f"Can you find {noun}, and {deed}?",
    ]
    below = [*phrase.attachments, *attachments]
    return tuple("\n\n".join([f"{sentence} {DONE}", *below]) for sentence in sentences)


def deed_of(tool: Tool, arguments: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Return a change as an infinitive without "to", and the texts that stand below the question."""
    given = [one for one in arguments_of(tool, dict(_flat(arguments))) if not _is_confirmation(one)]
    prose, given = _with_operation(prose_of(tool), given)
    settings = _settings(prose, given, arguments)
    if settings:
        return settings, ()
    is_one = any(isinstance(value, list) and len(value) == 1 for value in arguments.values())
    if is_one and is_plural(prose.topic) and not (given and _is_naming(given[0], prose.topic)):
        prose = ToolProse(prose.verb, singular(prose.topic))
    return _deed(prose, given), tuple(one.attachment for one in given if one.attachment)


def _flat(arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the arguments as a person would say them: those of a single record, and a list's only item."""
    for name, value in arguments.items():
        if isinstance(value, list) and len(value) == 1:
            [only] = value
            if isinstance(only, Mapping) and not set(only) & set(arguments):
                yield from _flat(only)
                continue
            if fits_in_sentence(only):
                yield singular(name), only
                continue
        yield name, value


def _settings(prose: ToolProse, given: Sequence[Argument], arguments: Mapping[str, object]) -> str:
    """Return "set “status” to “open” in the frontmatter of the file “a.md”", for a record of free keys."""
    record = next((one for one in given if _is_record(arguments.get(one.name))), None)
    if record is None or prose.verb not in ("update", "set", "change", "modify", "edit", "patch"):
        return ""
    values = arguments[record.name]
    assert isinstance(values, Mapping)
    rest = [one for one in given if one is not record]
    owner = _owner(ToolProse("", "file"), rest)
    where = f" of {owner[0]}" if owner else ""
    others = [one for one in rest if owner is None or one is not owner[1]]
    settings = listing([f"“{key}” to {quoted(value)}" for key, value in values.items()])
    return with_arguments(f"set {settings} in the {record.noun}{where}", others, "with")


def _is_record(value: object) -> bool:
    if not isinstance(value, Mapping) or not 0 < len(value) <= _MAX_SETTINGS:
        return False
    return all(fits_in_sentence(str(key)) and fits_in_sentence(item) for key, item in value.items())


def _is_confirmation(argument: Argument) -> bool:
    return words_of(argument.name)[:1] in ([word] for word in _CONFIRMS)


def _is_naming(argument: Argument, topic: str) -> bool:
    return argument.noun == topic


def _with_operation(prose: ToolProse, given: list[Argument]) -> tuple[ToolProse, list[Argument]]:
    """Take the verb from an argument that says what to do: `manage_tags` with the operation “add”."""
    for one in given:
        verb = one.text.strip("“”").lower()
        if one.name.lower() in _OPERATIONS and verb in CHANGE_VERBS and prose.verb not in CHANGE_VERBS:
            topic = prose.topic.removeprefix("manage ").strip()
            return ToolProse(verb, topic), [other for other in given if other is not one]
    return prose, given


def _deed(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return the change as an infinitive without "to": "write “hello” to the file “a.txt”"."""
    if prose.verb not in CHANGE_VERBS:
        what = " ".join(filter(None, [prose.verb, prose.topic])) or "this"
        return _replacement(prose, given) or with_arguments(f"carry out “{what}”", given, "with")
    for frame in (_replacement, _contained, _move, _topicless, _statement, _sending, _part_deed):
        deed = frame(prose, given)
        if deed:
            return deed
    return _object_deed(prose, given)


def _contained(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return "create the branch “a” in the repository “b”", if an argument names what the thing is in."""
    container = _container(prose, given)
    if container is None:
        return ""
    inner = _deed(prose, [one for one in given if one is not container[1]])
    joint = "from" if prose.verb in _REMOVES else "to" if prose.verb in _ADDS else "in"
    return f"{inner} {joint} {container[0]}"


def _statement(prose: ToolProse, given: Sequence[Argument]) -> str:
    is_statement = prose.topic in _STATEMENTS and len(given) == 1
    return f"run the {prose.topic} {given[0].text or 'below'}" if is_statement else ""


def _container(prose: ToolProse, given: Sequence[Argument]) -> tuple[str, Argument] | None:
    """Return the phrase of what the changed thing is in, if an argument names it: a repository, a file."""
    last_of_topic = singular(prose.topic).rpartition(" ")[2]
    for one in given:
        *about, last = one.noun.split() or [""]
        head = " ".join(about)
        value = one.text.strip("“”")
        if last not in ("path", "name") or not one.text or len(given) < 2:
            continue
        if last == "path" and head not in (*_OWN_PATHS, prose.topic):
            return f"the {head} {one.text}", one
        is_file = head in ("", "file") and "." in value and " " not in value.rpartition(".")[2]
        is_other = last_of_topic not in _FILES or (
            last_of_topic in ("note", "page") and value.endswith(_BINARY)
        )
        if is_file and prose.topic and is_other and (last == "path" or head == "file"):
            return f"the file {one.text}", one
    return None


def _topicless(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return "check out the branch “a”", for a tool whose name is a verb."""
    verb = prose.verb
    if prose.topic:
        return ""
    spoken = "check out" if verb == "checkout" else verb
    if not given:
        return f"carry out “{verb}”"
    first, *others = given
    if not first.text or first.noun in ("message", "comment"):
        return with_arguments(spoken, given, "with")
    thing = first.noun.removesuffix(" name")
    return with_arguments(f"{spoken} the {thing} {first.text}", others, "with")


def _replacement(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return "replace “a” with “b” in the file “c”", for a call with an old and a new text."""
    container = _container(ToolProse("", prose.topic or "text"), given)
    old = next((one for one in given if _OLD_TEXTS.fullmatch(one.name) and one.text), None)
    new = next((one for one in given if _NEW_TEXTS.fullmatch(one.name) and one.text), None)
    if old is None or new is None:
        return ""
    rest = [one for one in given if one is not old and one is not new]
    owner = container or _owner(prose, rest)
    where = f" in {owner[0]}" if owner else ""
    others = [one for one in rest if owner is None or one is not owner[1]]
    return with_arguments(f"replace {old.text} with {new.text}{where}", others, "with")


def _owner(prose: ToolProse, given: Sequence[Argument]) -> tuple[str, Argument] | None:
    """Return the phrase of what a part belongs to: "the entity “Ann”" of `entityName`, "the file “a”"."""
    found = entity_of(prose.topic or "file", given)
    if found is not None:
        return found
    for one in given:
        *about, last = one.noun.split() or [""]
        if last in ("name", "title", "path", "ID") and one.text:
            thing = " ".join(about) or "file"
            return (f"the {thing} {one.text}" if last != "ID" else f"the {thing} with the ID {one.text}"), one
    return None


def _part_deed(prose: ToolProse, given: Sequence[Argument]) -> str:
    """Return "add the tag “a” to the note “b”", for a part that is added to a thing or removed from it."""
    joint = "to" if prose.verb in _PUTS else "from" if prose.verb in _REMOVES else ""
    thing = singular(prose.topic)
    names = (thing, thing.rpartition(" ")[2], *(_CONTENTS if prose.verb in _PUTS else ()))
    part = next((one for one in given if singular(one.noun) in names and one.text), None)
    if not joint or part is None or len(given) < 2:
        return ""
    rest = [one for one in given if one is not part]
    is_thing_itself = prose.verb == "write" or entity_of(prose.topic, rest) is not None
    owner = _owner(ToolProse("", "file"), rest)
    if owner is None or (is_thing_itself and singular(part.noun) not in names[:2]):
        return ""
    others = [one for one in rest if one is not owner[1]]
    return with_arguments(f"{prose.verb} the {thing} {part.text} {joint} {owner[0]}", others, "with")


def _move(prose: ToolProse, given: Sequence[Argument]) -> str:
    if prose.verb not in ("move", "rename", "copy"):
        return ""
    target = next((argument for argument in given if argument.name.lower() in _DESTINATIONS), None)
    own = [one for one in given if one.noun == prose.topic]
    origins = [*own, *(one for one in given if one.name.lower() in _ORIGINS)]
    origin = next(iter(origins), None)
    if target is None or origin is None:
        return ""
    others = [argument for argument in given if argument is not target and argument is not origin]
    thing = f"the {prose.topic} " if prose.topic else ""
    owner = _owner(ToolProse("", "file"), others)
    where = f" in {owner[0]}" if owner else ""
    rest = [one for one in others if owner is None or one is not owner[1]]
    return with_arguments(f"{prose.verb} {thing}{_value(origin)} to {_value(target)}{where}", rest, "with")


def _sending(prose: ToolProse, given: Sequence[Argument]) -> str:
    content = next((argument for argument in given if argument.name.lower() in _CONTENTS), None)
    receiver = next((argument for argument in given if argument is not content), None)
    is_sent = prose.verb in ("send", "post") and len(given) == 2
    if not is_sent or content is None or receiver is None or not content.text:
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
