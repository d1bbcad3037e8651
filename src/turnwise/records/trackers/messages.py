"""What goes to a tracker: figures, histograms, episodes and evaluations, as values that cross a pipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call as the model made it; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message of an episode, with a role of chat templates."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[CallRecord, ...] = ()
    """Only if the role is assistant: the tool calls it made."""
    name: str = ""
    """Only if the role is tool: the tool's name."""
    call_id: str = ""
    seconds: float = 0.0
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One episode as trackers show it: its messages, counts, outcome and reward."""

    id: str
    task_id: str
    family: str
    difficulty: str
    reward: float
    parts: Mapping[str, float]
    is_success: bool
    stop: str
    num_turns: int
    num_calls: int
    num_failed_calls: int
    """Calls that failed through the model's fault."""
    num_tokens: int
    """Sampled by the model."""
    seconds: float
    answer: str
    """The final text; empty if the episode ended without one."""
    said: tuple[Said, ...]

    @property
    def question(self) -> str:
        """The first user message."""
        return next((turn.content for turn in self.said if turn.role == "user"), "")


@dataclass(frozen=True, slots=True)
class HistogramRecord:
    """Counts between edges; the first and last count are the values below and above all edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def closed_edges(self) -> tuple[float, ...]:
        """The edges with one more at each end, so that every count has a bin.

        The outer bins are as wide as their neighbours.
        """
        low, high = self.edges[1] - self.edges[0], self.edges[-1] - self.edges[-2]
        return (self.edges[0] - low, *self.edges, self.edges[-1] + high)


@dataclass(frozen=True, slots=True)
class Log:
    """Metrics and histograms of one step."""

    step: int
    metrics: Mapping[str, float]
    histograms: Mapping[str, HistogramRecord]
    record: Literal["log"] = "log"


@dataclass(frozen=True, slots=True)
class Episodes:
    """Some of one step's episodes."""

    step: int
    episodes: tuple[EpisodeRecord, ...]
    record: Literal["episodes"] = "episodes"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of the policy after `step` steps."""

    name: str
    step: int
    model: str
    figures: Mapping[str, float]
    """Computed over all its episodes."""
    episodes: tuple[EpisodeRecord, ...]
    """Some of them."""
    record: Literal["evaluation"] = "evaluation"


@dataclass(frozen=True, slots=True)
class Cut:
    """The run resumes after `num_steps` steps: records of later steps are void."""

    num_steps: int
    record: Literal["cut"] = "cut"


Record = Annotated[Log | Episodes | Evaluation | Cut, Field(discriminator="record")]
