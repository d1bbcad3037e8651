"""The thing that an argument identifies: `path` of `read_file` is "the file “a.txt”"."""

from collections.abc import Sequence

from turnwise.explore.first.wording.arguments import Argument
from turnwise.explore.first.wording.names import is_plural, singular
from turnwise.explore.first.wording.word_set import word_set

_NAMED_BY = word_set("name title path file filename filepath url uri login username handle")
"""Parameters whose value stands right behind the noun: "the file “a.txt”"."""
_KEYED_BY = word_set("id ids number key email slug sku isbn")
"""Parameters that are mentioned: "the note with the ID 7"."""
_CODED_BY = word_set("code symbol ticker")
_HAS_CODE = word_set("company stock security fund currency country city product item airport station coin")
"""A company has a symbol; a quote is for a symbol."""
_IN_FILES = word_set("path file filename filepath")
"""Parameters that name a file: what they are about is in it, unless it is the file itself."""
FILES = word_set("""
    file files document documents note notes page directory folder image workbook spreadsheet CSV PDF JSON
    repository project notebook script module video audio media archive template resource presentation
    book article database photo picture config configuration URL link website feed tree path dataset
""")
_ABOUT = word_set("""
    information info details detail metadata status statistics stats content contents data summary profile
    structure
""")
"""The file information of a file is about the file: what one asks for is the size of the file."""


def entity_of(topic: str, given: Sequence[Argument]) -> tuple[str, Argument] | None:
    """Return the phrase of the thing that an argument identifies, and the argument; None if there is none."""
    head, _, last = topic.rpartition(" ")
    thing = head if head and last in _ABOUT else topic
    # `sheet_name` says more about a sheet than `path` does.
    for is_own in (True, False):
        for argument in given:
            phrase = _phrase(thing, argument, is_own)
            if phrase:
                return phrase, argument
    return None


def _phrase(topic: str, argument: Argument, is_own: bool) -> str:
    words = argument.noun.split()
    thing = singular(topic)
    noun = thing.rpartition(" ")[2]
    if is_own and argument.noun in (topic, thing, noun):
        return _called(topic, argument)
    last = words[-1].lower()
    about = " ".join(words[:-1])
    owners = (topic, thing, noun) if is_own else ("", "file") if last in ("path", "name") else ("",)
    is_file = last in _IN_FILES or about == "file"
    if about not in owners or (is_file and not is_own and noun not in FILES):
        return ""
    if singular(last) in ("name", "path") and argument.is_list and is_plural(topic):
        return f"the {topic if is_plural(last) else thing} {argument.text}"
    if last in _NAMED_BY:
        return _called(topic, argument)
    if last in _KEYED_BY or (last in _CODED_BY and (is_own or noun in _HAS_CODE)):
        return f"that {thing}" if argument.is_linked else f"the {topic} with {argument.phrase_of(words[-1])}"
    return ""


def _called(topic: str, argument: Argument) -> str:
    if argument.is_linked:
        return f"that {singular(topic)}"
    thing = "page" if topic == "URL" else topic
    return f"the {thing} {argument.text or 'below'}"
