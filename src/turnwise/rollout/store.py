"""Trajectories as JSON lines: written as they finish, and read back.

Thousands of episodes share the same tools: a separate line stores them once, and a trajectory refers to it by
digest. Demonstrations are not stored.
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

from turnwise.system.files.regular_files import Damaged, lines_from, open_to_append
from turnwise.types import Reward, Tool, Trajectory

logger = logging.getLogger(__name__)

_TRAJECTORY = TypeAdapter(Trajectory)
_REWARD = TypeAdapter(Reward)
_TOOLS = TypeAdapter(tuple[Tool, ...])
_OF_ANOTHER_SHAPE = (KeyError, AttributeError, TypeError, AssertionError, RecursionError)
"""What a line of another shape raises; AssertionError if its fields contradict each other."""


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """An episode as stored: its trajectory, its reward and its step of the run."""

    trajectory: Trajectory
    reward: Reward
    step: int = 0


class TrajectoryWriter:
    """Appends whole lines; a kill leaves at most one incomplete line, which `read_episodes` skips."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_to_append(path)
        self._known_tools: set[str] = set()
        if path.stat().st_size and not _ends_a_line(path):
            self._file.write(b"\n")

    def write(self, played: StoredEpisode) -> None:
        tools = _TOOLS.dump_json(played.trajectory.tools)
        digest = hashlib.sha256(tools).hexdigest()[:16]
        if digest not in self._known_tools:
            self._known_tools.add(digest)
            self._line({"kind": "tools", "digest": digest, "tools": json.loads(tools)})
        stored_task = replace(played.trajectory.task, demonstration=())
        stored = replace(played.trajectory, tools=(), task=stored_task)
        self._line(
            {
                "kind": "trajectory",
                "step": played.step,
                "reward": _REWARD.dump_python(played.reward, mode="json"),
                "tools": digest,
                "trajectory": _TRAJECTORY.dump_python(stored, mode="json"),
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


def read_episodes(path: Path) -> Iterator[StoredEpisode]:
    """All stored episodes, in order; an incomplete line is skipped and logged, any other line is an error."""
    tools: dict[str, tuple[Tool, ...]] = {}
    for number, line in enumerate(lines_from(path), start=1):
        try:
            record = json.loads(line.content)
        except ValueError:
            logger.warning("%s:%d: skipped an incomplete line", path, number)
            continue
        except RecursionError:
            raise ValueError(f"{path}:{number}: nested too deeply for a line of a trajectory file") from None
        try:
            played = _played(record, tools, f"{path}:{number}")
        except _OF_ANOTHER_SHAPE as error:
            reason = f"{type(error).__name__}: {error!s:.200}"
            raise ValueError(f"{path}:{number}: not a line of a trajectory file: {reason}") from None
        if played is not None:
            yield played


def read_valid_episodes(path: Path, on_bad: Callable[[str], None]) -> Iterator[StoredEpisode]:
    """All stored episodes that can be read; `on_bad` gets the place and the error of every other line.

    If the file itself cannot be read, or a line is too long, `on_bad` gets that and reading ends.
    """
    tools: dict[str, tuple[Tool, ...]] = {}
    lines = enumerate(lines_from(path), start=1)
    while True:
        try:
            number, line = next(lines)
        except StopIteration:
            return
        except Damaged as error:
            on_bad(f"{path.name}: {error.reason}")
            return
        try:
            played = _played(json.loads(line.content), tools, f"{path.name}:{number}")
        except (ValueError, *_OF_ANOTHER_SHAPE) as error:
            on_bad(f"{path.name}:{number}: {type(error).__name__}: {error!s:.200}")
            continue
        if played is not None:
            yield played


def _played(record: Any, tools: dict[str, tuple[Tool, ...]], place: str) -> StoredEpisode | None:
    """The episode of a line; None for a line of tools, which are kept for the following lines."""
    if record.get("kind") == "tools":
        tools[record["digest"]] = _TOOLS.validate_python(record["tools"])
        return None
    if record.get("kind") != "trajectory":
        raise ValueError(f"{place}: not a line of a trajectory file")
    trajectory = _TRAJECTORY.validate_python(record["trajectory"])
    complete = replace(trajectory, tools=tools[record["tools"]])
    return StoredEpisode(complete, _REWARD.validate_python(record["reward"]), record["step"])


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
