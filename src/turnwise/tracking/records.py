"""What goes to a tracker: figures, histograms, episodes and evaluations, as values that cross a pipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call as the model made it; the arguments are JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message of an episode, in the roles that chat templates have."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[CallRecord, ...] = ()
    """assistant: what it asked for."""
    name: str = ""
    """tool: whose result it is."""
    call_id: str = ""
    seconds: float = 0.0
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One episode to look at: what was asked, said and done, and what it earned."""

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
    """By the model's own doing."""
    num_tokens: int
    """Sampled by the model."""
    seconds: float
    answer: str
    """Empty if it ended without one."""
    said: tuple[Said, ...]

    @property
    def question(self) -> str:
        """What the task asked for."""
        return next((turn.content for turn in self.said if turn.role == "user"), "")


@dataclass(frozen=True, slots=True)
class HistogramRecord:
    """Counts between edges; the first and the last are of what lies below and above all edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def closed_edges(self) -> tuple[float, ...]:
        """With an edge more at each end, as far out as the next one is in: one bin for every count."""
        low, high = self.edges[1] - self.edges[0], self.edges[-1] - self.edges[-2]
        return (self.edges[0] - low, *self.edges, self.edges[-1] + high)


@dataclass(frozen=True, slots=True)
class Log:
    """Figures of one step."""

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
    """One measurement of the policy, when `step` steps were done."""

    name: str
    step: int
    model: str
    figures: Mapping[str, float]
    """Of all its episodes."""
    episodes: tuple[EpisodeRecord, ...]
    """Some of them."""
    record: Literal["evaluation"] = "evaluation"


@dataclass(frozen=True, slots=True)
class Cut:
    """The run goes on from where `num_steps` steps were done: what was sent of later ones is void."""

    num_steps: int
    record: Literal["cut"] = "cut"


Record = Annotated[Log | Episodes | Evaluation | Cut, Field(discriminator="record")]
