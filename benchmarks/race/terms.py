"""The settings of a comparison, the same for every side, and the figures that a side prints as JSON lines."""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alone import alone
from slow_servers import set_latency

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait give their core away, for all sides alike.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings; written by versus_trl.py, read by the sides."""

    folder: str
    """Scratch folder of this side."""
    model: str
    """A folder that transformers can load, weights and tokenizer."""
    tasks: str
    mcp: str
    backend: str
    """The sampler: transformers, generate, continuous or vllm."""
    device: str
    dtype: str
    tuning: str
    latencies: tuple[int, ...]
    """Milliseconds of a tool call, one entry per step."""
    learning_rate: float
    is_merged: bool
    """Whether turnwise's adapters are merged into the weights that vLLM gets: for small models."""
    prompt_tokens: int
    """Tokens of the longest prompt."""
    tasks_per_step: int = 8
    group_size: int = 8
    max_turns: int = 8
    tokens_per_turn: int = 96
    completion_tokens: int = 1024
    """Tokens after the prompt, tool output included, as TRL counts."""
    result_tokens: int = 512
    """Tokens of one tool result."""
    rows: int = 8
    """Rows of TRL's micro-batches; 8 is its default."""
    cache_gib: float = 16.0
    """Size of vLLM's cache."""
    together: tuple[str, ...] = ()
    """Folders of the sides that start together; timing begins when all have made their first step."""

    @property
    def num_steps(self) -> int:
        return len(self.latencies)

    @property
    def num_episodes(self) -> int:
        return self.tasks_per_step * self.group_size


def read_terms() -> Terms:
    return Terms(**json.loads(Path(sys.argv[1]).read_text()))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a side: its wall time by phase, and what was played."""

    latency: int
    seconds: float
    cpu_seconds: float
    """CPU time of the side's threads, without the servers; meaningful on shared machines too."""
    generation: float
    """Seconds with at least one completion being sampled."""
    tools: float
    """Seconds of the rollouts without sampling: tool calls, rendering, parsing, rewards."""
    update: float
    """The rest: forward, backward, optimizer step, publication."""
    num_episodes: float
    success: float
    calls: float
    """Tool calls per episode."""
    tokens: float
    """Sampled tokens per episode."""


READY = "ready"


class Busy:
    """Counts the seconds in which at least one of several activities was running."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0
        self._num_running = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        if not self._num_running:
            self._since = time.perf_counter()
        self._num_running += 1
        try:
            yield
        finally:
            self._num_running -= 1
            if not self._num_running:
                self._seconds += time.perf_counter() - self._since

    def take(self) -> float:
        """Return the seconds since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class Laps:
    """Prints each step as it ends, and gives the servers the next step's latency."""

    def __init__(self, terms: Terms) -> None:
        self._mcp = Path(terms.mcp)
        self._latencies = iter(terms.latencies)
        self._ready = Path(terms.folder, READY)
        self._others = [Path(folder, READY) for folder in terms.together]
        self._held = contextlib.ExitStack()
        self.sampling = Busy()
        self.playing = Busy()
        """Seconds of the rollouts, sampling included."""

    def begin(self) -> None:
        self._latency = next(self._latencies, 0)
        set_latency(self._mcp, self._latency)
        self._began = (time.perf_counter(), time.process_time())

    def end(self, **played: float) -> None:
        seconds, cpu_seconds = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        generation, playing = self.sampling.take(), self.playing.take()
        times = (seconds, cpu_seconds, generation, playing - generation, seconds - playing)
        tell(step=asdict(Step(self._latency, *times, **played)))
        if self._others and not self._ready.exists():
            self._take_turn()
        self.begin()

    def _take_turn(self) -> None:
        """Wait after the first step, in which engines start, and then run alone until the end of this
        process."""
        self._ready.touch()
        while not all(other.exists() for other in self._others):
            time.sleep(0.1)
        self._held.enter_context(alone())


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def peak_mib(device: str) -> float:
    """Peak memory of this process; on a GPU, without vLLM's separate process."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_reserved() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
