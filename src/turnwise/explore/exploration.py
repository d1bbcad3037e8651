"""What an exploration found: tools reached, calls made, links, accepted tasks, rejections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnwise.types import Task, Tool


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """What was learned about one tool."""

    tool: Tool
    num_calls: int
    num_answers: int
    """Calls that the tool answered without an error."""
    is_reader: bool
    """Whether its calls were seen to change nothing."""
    is_stable: bool
    """Whether it answered alike in fresh sessions, apart from what changes by itself."""
    why_not: str = ""
    """Why it was not reached: it needs a key, a network, a person; or what its last error said."""
    num_tasks: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """An output field of one tool that was seen to work as an input of another."""

    source_tool: str
    field: str
    target_tool: str
    parameter: str
    num_calls: int


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """What was learned about one server."""

    server: str
    tools: tuple[ToolFinding, ...]
    num_calls: int
    seconds: float
    why_not: str = ""
    """Why the server was not explored, or not to the end; empty if it was."""


class Limit(StrEnum):
    """The option that ended an exploration; with another value it might have found more."""

    NONE = "none"
    TIME = "time"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration, in the order in which it was found."""

    servers: tuple[ServerFinding, ...]
    links: tuple[Link, ...]
    tasks: tuple[Task, ...]
    """Accepted tasks of all splits; `task.family` is the shape, `task.split` the split."""
    rejections: Mapping[str, int]
    """Rejected drafts by reason."""
    rejected_examples: Mapping[str, str]
    """For every reason, one rejected question with the details."""
    held_out: tuple[str, ...]
    """The combinations of tools that only test tasks use."""
    seconds: float
    seed: int
    limit: Limit = Limit.NONE
    was_interrupted: bool = False
    num_kept: int = 0
    """Tasks of an earlier exploration that still hold; they are among `tasks`."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Tasks of an earlier exploration that do not hold any more, by reason."""
    rewordings: Mapping[str, int] = field(default_factory=dict)
    """Outcomes of `--writer`: what it kept, dropped and joined, and why a composed question stays."""

    def tasks_of(self, split: str) -> tuple[Task, ...]:
        """Return the tasks of `train`, `validation` or `test`."""
        return tuple(task for task in self.tasks if task.split == split)
