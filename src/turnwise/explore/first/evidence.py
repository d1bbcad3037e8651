"""Which values calls succeeded and failed with: what worked once comes first for the server's other tools."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from turnwise.explore.first.name_words import GENERIC, name_words
from turnwise.types import Tool

MAX_PROVEN = 200
"""Values that are remembered for one parameter of a server."""
MIN_QUOTED_CHARS = 2
"""A shorter value is found in any message by chance."""
MAX_DOUBT = 12.0
MAX_MESSAGE_CHARS = 6_000

CHOICE = "schema"
"""The source of values that a schema lists."""
_IS_WRONG = re.compile(
    r"not (?:found|exist|valid|allowed|resolve|a\b|in\b|an\b)|no such|does(?:n't| not)|unknown|invalid|must"
    r"|outside|ENOENT|ENOTDIR|EISDIR",
    re.IGNORECASE,
)

Origin = TypeVar("Origin")
Group = tuple[str, ...]
"""Where values were found: those of one column of a table fit a parameter alike."""
_Key = tuple[str, tuple[str, ...]]


class Evidence(Generic[Origin]):
    """The outcomes of calls, by parameter: for all tools of a server, and for one tool.

    Every proven value is kept with its origin, which links are made of.
    """

    def __init__(self) -> None:
        self._proven: dict[_Key, dict[str, Origin]] = {}
        self._refused: dict[_Key, dict[str, None]] = {}
        self._of_group: dict[tuple[_Key, Group], list[int]] = {}
        """Successes and failures of a tool's parameter with the values of one group."""

    def succeeded(self, tool: Tool, name: str, value: Any, origin: Origin, group: Group) -> None:
        """Remember an argument of a call that was answered."""
        self._counts(tool, name, group)[0] += 1
        for key in _keys(tool, name):
            proven = self._proven.setdefault(key, {})
            if len(proven) < MAX_PROVEN:
                proven.setdefault(_text(value), origin)
            self._refused.get(key, {}).pop(_text(value), None)

    def failed(
        self, tool: Tool, arguments: Mapping[str, Any], groups: Mapping[str, Group], message: str
    ) -> None:
        """Remember the values that an error blames: those that it quotes, else the only unproven argument."""
        unproven = {
            name: [part for part in parts_of(value) if not self.is_proven(tool, name, part)]
            for name, value in arguments.items()
        }
        unproven = {name: parts for name, parts in unproven.items() if parts}
        quoted = {
            name: [part for part in parts if is_quoted(part, message[:MAX_MESSAGE_CHARS])]
            for name, parts in unproven.items()
        }
        quoted = {name: parts for name, parts in quoted.items() if parts}
        has_new_choice = any(groups[name][:1] == (CHOICE,) for name in unproven)
        if has_new_choice and not _IS_WRONG.search(message[:MAX_MESSAGE_CHARS]):
            return  # "A1:D20 holds no formula" may be the fault of the chosen operation
        for name, parts in quoted.items():
            self._counts(tool, name, groups[name])[1] += 1
            for key in _keys(tool, name):
                self._refuse(key, parts)
        if not quoted and len(unproven) == 1:
            [(name, parts)] = unproven.items()
            self._counts(tool, name, groups[name])[1] += 1
            self._refuse(_keys(tool, name)[0], parts)

    def proven(self, tool: Tool, name: str) -> Iterator[Origin]:
        """Yield the values that calls succeeded with: those of the tool, then those of its server."""
        own, *shared = _keys(tool, name)
        refused = self._refused.get(own, {})
        yield from self._proven.get(own, {}).values()
        for key in shared:
            yield from (origin for text, origin in self._proven.get(key, {}).items() if text not in refused)

    def is_proven(self, tool: Tool, name: str, value: Any) -> bool:
        """Whether a call of a tool of the same server succeeded with a value for a parameter."""
        return any(_text(value) in self._proven.get(key, {}) for key in _keys(tool, name))

    def is_refused(self, tool: Tool, name: str, value: Any) -> bool:
        """Whether an error blamed a value: of this tool, or of another one if no tool took it."""
        own, *shared = _keys(tool, name)
        text = _text(value)
        if text in self._proven.get(own, {}):
            return False
        is_taken = any(text in self._proven.get(key, {}) for key in shared)
        keys = (own,) if is_taken else (own, *shared)
        return any(text in self._refused.get(key, {}) for key in keys)

    def doubt(self, tool: Tool, name: str) -> float:
        """Return how unlikely an untried value is to work: refused values per proven one."""
        num_proven = max(len(self._proven.get(key, {})) for key in _keys(tool, name))
        num_refused = max(len(self._refused.get(key, {})) for key in _keys(tool, name))
        return min(MAX_DOUBT, num_refused / num_proven) if num_proven else 0.0

    def group_record(self, tool: Tool, name: str, group: Group) -> tuple[int, int]:
        """Return how often values of a group worked and failed for a parameter of a tool."""
        worked, failed = self._of_group.get((_keys(tool, name)[0], group), (0, 0))
        return worked, failed

    def _counts(self, tool: Tool, name: str, group: Group) -> list[int]:
        return self._of_group.setdefault((_keys(tool, name)[0], group), [0, 0])

    def _refuse(self, key: _Key, parts: list[Any]) -> None:
        refused = self._refused.setdefault(key, {})
        for part in parts:
            if len(refused) < MAX_PROVEN:
                refused[_text(part)] = None


def _keys(tool: Tool, name: str) -> list[_Key]:
    """Return the key of a tool's parameter, and that of its server unless the name is too general to share.

    `repo_path` means the same for all tools of a server; the `id` of an order is not that of a customer.
    """
    words = name_words(name)
    own = (tool.name, words)
    is_general = set(words) <= GENERIC
    return [own] if is_general else [own, (f"{tool.server}\n", words)]


def parts_of(value: Any) -> list[Any]:
    """Return a value, or the items of a list: `paths` takes what `path` takes."""
    return [item for item in value if _is_plain(item)] if isinstance(value, list) else [value]


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


def is_quoted(value: Any, message: str) -> bool:
    """Whether a message contains a value as a whole: not `/data` in `/data/notes.txt`."""
    text = str(value)
    if not _is_plain(value) or len(text) < MIN_QUOTED_CHARS:
        return False
    start = message.find(text)
    while start >= 0:
        before, after = message[start - 1 : start], message[start + len(text) :][:2]
        follows = after[:1] in ("", ".", ":") or not (after[:1].isalnum() or after[:1] in "/_-")
        is_extension = after[:1] == "." and after[1:].isalnum()
        if follows and not is_extension and not (before.isalnum() or before in ("/", "_", "-")):
            return True
        start = message.find(text, start + 1)
    return False
