"""Values that answers, mcp.json and descriptions hold."""

import heapq
import itertools
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from turnwise.explore.first.document import Document, Scalar
from turnwise.explore.first.name_words import name_words, names_several, singular
from turnwise.explore.first.prose_examples import examples_in
from turnwise.explore.first.value_formats import format_of
from turnwise.explore.first.values import Source, Value
from turnwise.explore.survey.parameters import parameters_of
from turnwise.mcp.spec import ServerSpec
from turnwise.system.secret_values import is_secret_name
from turnwise.types import Tool

MAX_VALUE_CHARS = 120
MAX_WORDS = 3
"""Words of an answer that is one text: a longer one ("File written successfully") is a message."""
MAX_VALUES_OF_DOCUMENT = 1_000
MAX_ENTRIES = 50
"""Entries of a folder in mcp.json whose paths are offered."""
MAX_SCANNED = 20_000

_NAMELESS = frozenset(("", "lines", "rows", "items", "entries", "records"))
"""Names of tables that say nothing about what is in them."""
_NOTHING = frozenset(("", "-", "true", "false", "null", "none", "n/a", "nan", "undefined"))
_ENTRY_NAMES = frozenset(("item", "name", "file", "folder", "path", "entry"))
_ENTRY = re.compile(r"(?!\d[\d.]* [A-Za-z]{1,3}$)[\w@+(.][\w@+().-]*(?: [^\W\d][\w@+().-]*){0,5}")
"""The name of a file or a folder, with at most a few spaces; "303 B" is a size and "On branch:" a heading."""
_LISTS = frozenset(("list", "folder", "tree", "find", "search", "file", "ls", "browse", "contents", "entry"))
_INTERPRETERS = frozenset(("node", "python", "python3", "deno", "bun", "ruby", "java", "dotnet"))
_RUNNERS = frozenset(("npx", "uvx", "bunx", "pnpm", "docker", "pipx"))


def values_of(
    observation_number: int, document: Document, *, tool_name: str = "", folder: str = ""
) -> Iterator[Value]:
    """Yield the values of an answer that are worth trying in other calls.

    tool_name: the tool that answered; it says what the records of a nameless list are.
    folder: the folder that the call listed; names in the answer are then also offered as full paths.
    """
    found = _found_in(document, observation_number, tool_name)
    for _, value in zip(range(MAX_VALUES_OF_DOCUMENT), found, strict=False):
        yield value
        if _may_be_folder(folder, tool_name) and isinstance(value.value, str) and _is_entry(value):
            joined = posixpath.join(folder, value.value)
            yield Value(joined, "path", Source.ANSWER, context=value.context)


def _found_in(document: Document, number: int, tool_name: str) -> Iterator[Value]:
    for field in document.fields:
        is_sentence = not field.path and len(str(field.value).split()) > MAX_WORDS
        if _is_worth_trying(field.value) and not is_sentence:
            parents = [part for part in field.path[:-1] if isinstance(part, str)]
            context = parents[-1] if parents else tool_name
            yield Value(field.value, field.name, Source.ANSWER, number, field.path, context)
    yield from _keys_in(document, tool_name)
    for table in document.tables:
        context = table.name
        if table.name in _NAMELESS:
            context = tool_name if names_several(tool_name) else ""
        for row_number, row in enumerate(table.rows):
            for column in table.columns:
                if column in row and _is_worth_trying(row[column]):
                    path = (*table.path, row_number, column)
                    yield Value(row[column], column, Source.ANSWER, number, path, context)


def _keys_in(document: Document, tool_name: str) -> Iterator[Value]:
    """Yield keys that name things: `Books` in `{"sheets": {"Books": {…}}}`, or the path of a file."""
    for path in dict.fromkeys(field.path for field in document.fields):
        for parent, key in itertools.pairwise(("", *path)):
            if not isinstance(parent, str) or not isinstance(key, str) or not _is_worth_trying(key):
                continue
            if parent and singular(parent) != parent:
                yield Value(key, singular(parent), Source.ANSWER, context=tool_name)
            elif format_of(key) in ("path", "file"):
                yield Value(key, "path", Source.ANSWER, context=tool_name)


def _is_worth_trying(value: Scalar) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        is_short = len(value) <= MAX_VALUE_CHARS and "\n" not in value
        return is_short and value.strip().lower() not in _NOTHING
    return True


def _may_be_folder(path: str, tool_name: str) -> bool:
    """Whether a call listed the entries of a folder: its path is not that of a file, and the tool lists."""
    is_file = format_of(posixpath.basename(path)) == "file"
    return bool(path) and not is_file and bool(_LISTS.intersection(name_words(tool_name)))


def _is_entry(value: Value) -> bool:
    """Whether a value may be the name of a file or a folder."""
    text = value.value
    is_named = bool(_ENTRY_NAMES.intersection(name_words(value.name)))
    return is_named and bool(_ENTRY.fullmatch(text)) and format_of(text) in ("", "file", "date", "hash")


def description_values(tool: Tool) -> Iterator[Value]:
    """Yield the examples in the descriptions of a tool and of its parameters."""
    for parameter in parameters_of(tool):
        for text in examples_in(parameter.description):
            yield Value(text, parameter.name, Source.DESCRIPTION)
        for value in (*parameter.examples, *parameter.enum):
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield Value(value, parameter.name, Source.SCHEMA)
    for text in examples_in(tool.description):
        yield Value(text, "", Source.DESCRIPTION, context=tool.server_tool)


def config_values(spec: ServerSpec) -> Iterator[Value]:
    """Yield the values in a server's entry of mcp.json, and the entries of its folders; no secrets."""
    secrets = spec.secrets
    for name, text in _named_in(spec):
        is_secret = is_secret_name(name) or any(secret in text or text in secret for secret in secrets)
        if text and not is_secret and len(text) <= MAX_VALUE_CHARS * 4:
            yield from _config_value(name, text)


def _named_in(spec: ServerSpec) -> Iterator[tuple[str, str]]:
    """Yield the name and text of arguments, variables and the working directory."""
    program = Path(spec.command or "").name
    is_program_next = program in _RUNNERS | _INTERPRETERS  # `npx package`, `node script.js`
    flag = ""
    for argument in spec.args:
        if argument.startswith("-"):
            flag, _, text = argument.lstrip("-").partition("=")
            if text:
                yield flag, text
                flag = ""
        elif is_program_next:
            is_program_next, flag = False, ""
        else:
            if flag or format_of(argument):  # a bare word (`stdio`) is a setting
                yield flag, argument
            flag = ""
    for name, text in spec.env.items():
        yield name, text
    if spec.cwd is not None:
        yield "cwd", str(spec.cwd)


def _config_value(name: str, text: str) -> Iterator[Value]:
    path = Path(text).expanduser()
    if not _exists(text) or not path.is_absolute():
        yield Value(text, name, Source.CONFIG)
        return
    yield Value(str(path), "folder" if path.is_dir() else "file", Source.CONFIG, context=name)
    if path.is_dir():
        for entry in _entries(path):
            yield Value(str(entry), "folder" if entry.is_dir() else "file", Source.CONFIG, context=name)


def _exists(text: str) -> bool:
    try:
        return Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _entries(folder: Path) -> list[Path]:
    """Return the first entries of a folder by name, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            scanned = (entry.name for _, entry in zip(range(MAX_SCANNED), entries, strict=False))
            names = heapq.nsmallest(MAX_ENTRIES, (name for name in scanned if not name.startswith(".")))
            return [folder / name for name in names]
    except OSError:
        return []
