"""The types that a user of the Python interface names, in one place."""

from turnwise.config import Recipe
from turnwise.mcp.serve import Unavailable
from turnwise.protocols import EnvironmentDown
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Answer, Matcher, Message, Task, ToolCall, ToolResult, Trajectory, Truth

__all__ = [
    "Answer",
    "EnvironmentDown",
    "Matcher",
    "Message",
    "Recipe",
    "StoredEpisode",
    "Task",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "Truth",
    "Unavailable",
]
