"""A call that was made while exploring, and its answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from turnwise.explore.first.document import Document
from turnwise.explore.first.values import Value
from turnwise.types import Tool


@dataclass(frozen=True, slots=True)
class Observation:
    """A successful call: its arguments with their origins, and the answer as a document."""

    number: int
    tool: Tool
    arguments: Mapping[str, Value]
    document: Document

    @property
    def plain_arguments(self) -> dict[str, object]:
        """The arguments as they were sent."""
        return {name: value.value for name, value in self.arguments.items()}

    @property
    def key(self) -> str:
        """The same for the same tool and arguments."""
        return f"{self.tool.name} {json.dumps(self.plain_arguments, sort_keys=True, ensure_ascii=False)}"
