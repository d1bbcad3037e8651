"""What a run has cost: tokens sampled and episodes played in training, counted as its metrics grow."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from turnwise.system.files.regular_files import Damaged, lines_from

_NUMBER = rb"\s*:\s*(-?[0-9][0-9.eE+-]{0,24})"
_EPISODES = re.compile(rb'"episodes/finished"' + _NUMBER)
_SPEED = re.compile(rb'"rollout/tokens_per_second"' + _NUMBER)
_SECONDS = re.compile(rb'"time/rollout_seconds"' + _NUMBER)
_LINES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class RunCost:
    """Totals over the counted part of metrics.jsonl; None if no line has them."""

    num_tokens: float | None = None
    num_episodes: float | None = None


class CostCounter:
    """Counts a run's cost. The lines are searched, not parsed: a long run has a hundred megabytes of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counted = (0, 0)
        self._offset = 0
        self._so_far = RunCost()
        self.cost: RunCost | None = RunCost()
        """None while lines are left to be counted."""

    def count(self, *, deadline: float) -> None:
        """Count new lines until the deadline (time.monotonic)."""
        try:
            status = self._path.lstat()
        except OSError:
            return
        now = (status.st_ino, status.st_size)
        if now == self._counted:
            return
        if status.st_ino != self._counted[0] or status.st_size < self._offset:  # a resumed run has cut it
            self._offset, self._so_far = 0, RunCost()
        try:
            is_done = self._count(deadline)
        except (OSError, Damaged):
            is_done = True
        self.cost = self._so_far if is_done else None
        self._counted = (status.st_ino, status.st_size if is_done else -1)

    def _count(self, deadline: float) -> bool:
        for number, line in enumerate(lines_from(self._path, self._offset)):
            if not line.is_ended:
                break
            self._add(line.content)
            self._offset = line.end
            if number % _LINES_AT_ONCE == _LINES_AT_ONCE - 1 and time.monotonic() > deadline:
                return False
        return True

    def _add(self, line: bytes) -> None:
        episodes, speed, seconds = (_found(what, line) for what in (_EPISODES, _SPEED, _SECONDS))
        tokens = None if speed is None or seconds is None else speed * seconds
        so_far = self._so_far
        self._so_far = RunCost(_sum(so_far.num_tokens, tokens), _sum(so_far.num_episodes, episodes))


def _found(what: re.Pattern[bytes], line: bytes) -> float | None:
    match = what.search(line)
    try:
        number = float(match[1]) if match else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e15 else None


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else (one or 0.0) + other
