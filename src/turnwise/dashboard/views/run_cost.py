"""What the list shows of a run's metrics: cost, course of success and alarms, counted as its metrics grow."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnwise.system.files.regular_files import Damaged, lines_from

_NUMBER = rb"\s*:\s*(-?[0-9][0-9.eE+-]{0,24})"
_EPISODES = re.compile(rb'"episodes/finished"' + _NUMBER)
_SPEED = re.compile(rb'"rollout/tokens_per_second"' + _NUMBER)
_SECONDS = re.compile(rb'"time/rollout_seconds"' + _NUMBER)
_SUCCESS = re.compile(rb'"success/rate"' + _NUMBER)
_ALARM = re.compile(rb'"name"\s*:\s*"(\w{1,60})"\s*,\s*"level"\s*:')
_LINES_AT_ONCE = 200
_MAX_POINTS = 40


@dataclass(frozen=True, slots=True)
class RunCost:
    """Totals over the counted part of metrics.jsonl; None if no line has them."""

    num_tokens: float | None = None
    num_episodes: float | None = None
    course: tuple[float, ...] = ()
    """Success in training: the mean of each part of the run, at most 40 of them."""
    alarms: frozenset[str] = frozenset()
    """The kinds that fired."""


class CostCounter:
    """Counts a run's cost. The lines are searched, not parsed: a long run has a hundred megabytes of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counted = (0, 0)
        self._offset = 0
        self._so_far = RunCost()
        self._rates: list[float] = []
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
            self._offset, self._so_far, self._rates = 0, RunCost(), []
        try:
            is_done = self._count(deadline)
        except (OSError, Damaged):
            is_done = True
        self.cost = replace(self._so_far, course=_course(self._rates)) if is_done else None
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
        so_far, rate = self._so_far, _found(_SUCCESS, line)
        self._rates += [] if rate is None else [rate]
        fired = so_far.alarms | {name.decode() for name in _ALARM.findall(line)}
        self._so_far = RunCost(
            _sum(so_far.num_tokens, tokens), _sum(so_far.num_episodes, episodes), alarms=fired
        )


def _course(rates: Sequence[float]) -> tuple[float, ...]:
    width = max(1, -(-len(rates) // _MAX_POINTS))
    parts = [rates[start : start + width] for start in range(0, len(rates), width)]
    return tuple(round(sum(part) / len(part), 4) for part in parts)


def _found(what: re.Pattern[bytes], line: bytes) -> float | None:
    match = what.search(line)
    try:
        number = float(match[1]) if match else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e15 else None


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else (one or 0.0) + other
