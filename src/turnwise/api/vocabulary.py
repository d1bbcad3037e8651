"""The types that a user of the Python interface names, in one place."""

from turnwise.config import Recipe
from turnwise.mcp.serve import Unavailable
from turnwise.rollout.store import StoredEpisode
from turnwise.types import (
    Answer,
    CallFailed,
    FollowUp,
    Matcher,
    Message,
    Mistake,
    ModelUser,
    ScriptedUser,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
    UserRule,
)
from turnwise.types.protocols import EnvironmentDown

__all__ = [
    "Answer",
    "CallFailed",
    "EnvironmentDown",
    "FollowUp",
    "Matcher",
    "Message",
    "Mistake",
    "ModelUser",
    "Recipe",
    "ScriptedUser",
    "StoredEpisode",
    "Task",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "Truth",
    "Unavailable",
    "UserRule",
]
