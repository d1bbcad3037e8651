"""Writes trajectories to JSON lines as they finish, and reads them back whole.

Tools and demonstrations are the same for thousands of episodes: a line of their own says them once, and
each trajectory names it by digest.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter

from turnwise.types import Reward, Tool, Trajectory

logger = logging.getLogger(__name__)

_TRAJECTORY = TypeAdapter(Trajectory)
_REWARD = TypeAdapter(Reward)
_TOOLS = TypeAdapter(tuple[Tool, ...])
_OF_ANOTHER_SHAPE = (KeyError, AttributeError, TypeError, AssertionError, RecursionError)
"""What a foreign line raises; AssertionError where its fields contradict each other."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode as stored: what happened, what it earned, and when in the run."""

    trajectory: Trajectory
    reward: Reward
    step: int = 0


class TrajectoryWriter:
    """Appends whole lines; a killed run leaves at most one torn line, which the reader skips and reports."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._known_tools: set[str] = set()
        if path.stat().st_size and not _ends_a_line(path):
            self._file.write(b"\n")

    def write(self, played: Played) -> None:
        tools = _TOOLS.dump_json(played.trajectory.tools)
        digest = hashlib.sha256(tools).hexdigest()[:16]
        if digest not in self._known_tools:
            self._known_tools.add(digest)
            self._line({"kind": "tools", "digest": digest, "tools": json.loads(tools)})
        lean_task = replace(played.trajectory.task, demonstration=())
        lean = replace(played.trajectory, tools=(), task=lean_task)
        self._line(
            {
                "kind": "trajectory",
                "step": played.step,
                "reward": _REWARD.dump_python(played.reward, mode="json"),
                "tools": digest,
                "trajectory": _TRAJECTORY.dump_python(lean, mode="json"),
            }
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")


def read(path: Path) -> Iterator[Played]:
    """Every stored episode, in order; a torn line is skipped and reported, a foreign one is an error."""
    tools: dict[str, tuple[Tool, ...]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
            except ValueError:
                logger.warning("%s:%d: skipped a torn line", path, number)
                continue
            except RecursionError:
                raise ValueError(
                    f"{path}:{number}: nested too deeply for a line of a trajectory file"
                ) from None
            try:
                played = _played(record, tools, f"{path}:{number}")
            except _OF_ANOTHER_SHAPE as error:
                reason = f"{type(error).__name__}: {error!s:.200}"
                raise ValueError(f"{path}:{number}: not a line of a trajectory file: {reason}") from None
            if played is not None:
                yield played


def read_sound(path: Path, on_bad: Callable[[str], None]) -> Iterator[Played]:
    """Every stored episode that can be read; `on_bad` gets the place and the reason of every other line."""
    tools: dict[str, tuple[Tool, ...]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                played = _played(json.loads(line), tools, f"{path.name}:{number}")
            except (ValueError, *_OF_ANOTHER_SHAPE) as error:
                on_bad(f"{path.name}:{number}: {type(error).__name__}: {error!s:.200}")
                continue
            if played is not None:
                yield played


def _played(record: Any, tools: dict[str, tuple[Tool, ...]], place: str) -> Played | None:
    """The line's episode; None for a line of tools, which are kept for those that follow."""
    if record.get("kind") == "tools":
        tools[record["digest"]] = _TOOLS.validate_python(record["tools"])
        return None
    if record.get("kind") != "trajectory":
        raise ValueError(f"{place}: not a line of a trajectory file")
    trajectory = _TRAJECTORY.validate_python(record["trajectory"])
    whole = replace(trajectory, tools=tools[record["tools"]])
    return Played(whole, _REWARD.validate_python(record["reward"]), record["step"])


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
