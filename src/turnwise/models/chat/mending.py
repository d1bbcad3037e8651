"""Mend malformed calls in the Hermes format: what was certainly meant, and what has to be written instead."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.system.lenient_json import NotReadable, read_leniently

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_FORM = '{"name": "the tool", "arguments": {"an argument": "its value"}}'
_MAX_ENDS = 8
"""The most tags at which a malformed call is tried to end: one tag may stand inside a string of it."""


@dataclass(slots=True)
class Mended:
    """The calls that were meant, as they are decoded, and the changes that make them calls."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    changes: dict[str, None] = field(default_factory=dict)
    has_only_literals: bool = True
    """Whether nothing was changed but Python's True, False and None."""

    def change(self, sentence: str) -> None:
        self.has_only_literals = False
        self.changes[sentence] = None


def mend_calls(written: str) -> Mended:
    """Return the calls of a malformed turn. Raises NotReadable if it leaves open what was meant."""
    mended = Mended()
    for block in _blocks(written, mended):
        mended.calls += [_call_of(value, mended) for value in _members(block, mended)]
    return mended


def _blocks(written: str, mended: Mended) -> Iterator[tuple[Any, ...]]:
    """Yield the values of every block between tags, or up to the tag that should have ended it."""
    start = written.find(OPEN)
    if start < 0 or 0 <= written.find(CLOSE) < start:
        brace = written.find("{")
        if brace < 0:
            raise NotReadable(f"there is no call before the closing tag: a call is {_FORM}")
        mended.change("write the opening tag before the call")
        written, start = OPEN + written[brace:], 0
    while start >= 0:
        values, end = _block(written, start + len(OPEN), mended)
        yield values
        start = written.find(OPEN, end)
        if written.find(CLOSE, end, start if start >= 0 else len(written)) >= 0:
            mended.change("write the closing tag once for each call")


def _block(written: str, start: int, mended: Mended) -> tuple[tuple[Any, ...], int]:
    """Return the values that begin at `start` and where their block ends."""
    first: NotReadable | None = None
    for end in _ends(written, start):
        content = written[start:end]
        try:
            read = read_leniently(content)
        except NotReadable as problem:
            first = first or problem
            continue
        mended.changes |= dict.fromkeys(read.changes)
        mended.has_only_literals = mended.has_only_literals and read.has_only_literals
        if written.startswith(CLOSE, end):
            return read.values, end + len(CLOSE)
        mended.change("write the closing tag after the call")
        return read.values, end
    assert first is not None, "the end of the text is always tried"
    raise first


def _ends(written: str, start: int) -> Iterator[int]:
    at = start
    for _ in range(_MAX_ENDS):
        places = [place for tag in (OPEN, CLOSE) if (place := written.find(tag, at)) >= 0]
        if not places:
            break
        yield min(places)
        at = min(places) + 1
    yield len(written)


def _members(block: tuple[Any, ...], mended: Mended) -> Sequence[Any]:
    """Return the calls of a block, which should be one."""
    calls = [item for value in block for item in (value if isinstance(value, list) else [value])]
    if len(calls) > 1 or any(isinstance(value, list) for value in block):
        mended.change("write every call between its own tags, not in a list")
    return calls or [None]


def _call_of(value: Any, mended: Mended) -> dict[str, Any]:
    """Return the call that an object means: its name and arguments may stand under other keys."""
    if not isinstance(value, dict):
        raise NotReadable(f"a call is {_FORM}")
    inner = [item for item in value.values() if isinstance(item, dict) and isinstance(item.get("name"), str)]
    if "name" not in value and len(inner) == 1:
        mended.change('write only the object with "name" and "arguments"')
        [value] = inner
    rest = {key: item for key, item in value.items() if key != "name"}
    name = value.get("name")
    if "name" not in value:
        texts = [key for key, item in value.items() if isinstance(item, str)]
        if len(texts) != 1 or len(value) > 2:
            raise NotReadable(f"the name of the tool is missing: a call is {_FORM}")
        mended.change(f'write "name" in place of "{texts[0]}"')
        name, rest = value[texts[0]], {key: item for key, item in value.items() if key != texts[0]}
    if not isinstance(name, str) or not name.strip():
        raise NotReadable(f'"name" is the name of a tool as text: a call is {_FORM}')
    return {"name": name, "arguments": _arguments_of(rest, mended)}


def _arguments_of(rest: dict[str, Any], mended: Mended) -> dict[str, Any]:
    """Return the arguments, given everything of a call but its name."""
    if "arguments" not in rest:
        return _unnamed_arguments(rest, mended)
    if len(rest) > 1:
        others = ", ".join(f'"{key}"' for key in list(rest)[:3] if key != "arguments")
        raise NotReadable(f'{others} must stand inside "arguments" or be left out')
    arguments = rest["arguments"]
    if isinstance(arguments, str) and arguments.strip():
        mended.change('"arguments" is an object, not text: write it without quotes')
        read = read_leniently(arguments)
        mended.changes |= dict.fromkeys(read.changes)
        [arguments, *more] = read.values
        if more:
            raise NotReadable('"arguments" is one object')
    elif arguments in (None, "", []):
        mended.change('without arguments write "arguments": {}')
        arguments = {}
    if not isinstance(arguments, dict):
        raise NotReadable(f'"arguments" is an object with the name of every argument: a call is {_FORM}')
    return arguments


def _unnamed_arguments(rest: dict[str, Any], mended: Mended) -> dict[str, Any]:
    if not rest:
        mended.change('"arguments" is missing: without arguments write "arguments": {}')
        return {}
    [key, item] = next(iter(rest.items()))
    if len(rest) == 1 and isinstance(item, dict):
        mended.change(f'write "arguments" in place of "{key}"')
        return item
    mended.change('"arguments" is missing: write the arguments inside it')
    return rest
