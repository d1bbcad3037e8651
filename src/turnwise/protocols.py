"""The seams between packages: what a rollout needs of its tools, never how it is done."""

from collections.abc import Sequence
from typing import Protocol

from turnwise.types import ServerLoss, Tool, ToolCall, ToolResult


class Toolbox(Protocol):
    """One episode's tools, from however many servers, while its lease lasts."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def losses(self) -> Sequence[ServerLoss]:
        """Servers that died during this lease, in the order it was noticed."""
        ...

    async def call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run one turn's calls; results come in call order, and a failed call is a result, not an error."""
        ...
