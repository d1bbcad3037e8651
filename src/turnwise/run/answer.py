"""Whether a run learned, in one sentence that claims no more than its interval allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.rollout.measure.statistics import Estimate, success_rate

FIRST_STEPS = 5
"""Before this many steps a sentence claims nothing: training success varies from step to step."""

_ENDED_BADLY = {"halted": "Halted", "crashed": "Crashed", "died": "Died", "damaged": "Damaged"}


@dataclass(frozen=True, slots=True)
class Change:
    """A share before and after, and the interval of the difference."""

    before: float
    after: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """1 for a rise and -1 for a fall beyond chance; 0 if the interval contains 0 or is not known."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)

    @property
    def shares(self) -> tuple[str, str]:
        """Both shares in whole percent, with as many decimals as tell them apart."""
        for digits in (0, 1, 2):
            words = f"{100 * self.before:.{digits}f}%", f"{100 * self.after:.{digits}f}%"
            if words[0] != words[1] or self.before == self.after:
                return words
        return words


@dataclass(frozen=True, slots=True)
class RunCourse:
    """What a run's sentence is made of; None for what is not measured or not known."""

    state: str
    num_done: int
    num_steps: int | None
    reason: str = ""
    heldout: Change | None = None
    training: Change | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentence, and its tone: `ok`, `fault`, `crit` or `plain`."""

    words: str
    tone: str = "plain"


def answer_of(run: RunCourse) -> Answer:
    """The sentence on a run: what ended it badly comes first, then held-out success, then training."""
    if run.state in _ENDED_BADLY:
        return Answer(_ended_badly(run), "crit")
    if run.state == "stopped":
        return Answer(f"Stopped at step {run.num_done}{_of(run)}; it can go on.")
    return _finished(run) if run.state == "finished" else _running(run)


def success_change(first: Sequence[Sequence[bool]], last: Sequence[Sequence[bool]]) -> Change | None:
    """The change between two windows of groups' outcomes, with Newcombe's interval; None without groups.

    The tries of one group are not independent, so each share's interval is over groups.
    """
    if not first or not last:
        return None
    before, after = success_rate(first), success_rate(last)
    down = math.hypot(after.value - _end(after.low, after), _end(before.high, before) - before.value)
    up = math.hypot(_end(after.high, after) - after.value, before.value - _end(before.low, before))
    gain = after.value - before.value
    return Change(before.value, after.value, gain - down, gain + up)


def window_of(num_steps: int) -> int:
    """The steps at each end of a run that are compared: an eighth of them, at least 3, at most half."""
    return min(max(3, 2 * round(num_steps / 16) + 1), max(1, num_steps // 2))


def _end(bound: float | None, estimate: Estimate) -> float:
    return estimate.value if bound is None else bound


def _running(run: RunCourse) -> Answer:
    if run.num_done < FIRST_STEPS:
        done = f"{run.num_done}{_of(run)} {'step' if (run.num_steps or run.num_done) == 1 else 'steps'}"
        return Answer(f"Too early to say: {done if run.num_done else 'no step is finished yet'}.")
    if run.training is None:
        return Answer(f"Step {run.num_done}{_of(run)}; whether it learns is still being read.")
    claim, tone = {
        1: ("It is learning", "ok"),
        0: ("No change to be seen yet", "plain"),
        -1: ("It is getting worse", "fault"),
    }[run.training.sign]
    first, now = run.training.shares
    return Answer(f"{claim}: {first} of tries succeeded at first, {now} do now.", tone)


def _finished(run: RunCourse) -> Answer:
    change, where = run.heldout, "success on tasks it never trained on"
    if change is None and run.training is not None and run.num_done >= FIRST_STEPS:
        change, where = run.training, "success in training"
    if change is None:
        return Answer(f"Finished {run.num_done} steps; held-out success was not measured.")
    before, after = change.shares
    rest = "" if run.heldout else " Held-out success was not measured."
    if not change.sign:
        return Answer(f"No change beyond chance: {before} before, {after} after.{rest}")
    verb, tone = ("rose", "ok") if change.sign > 0 else ("fell", "fault")
    if run.heldout is None:
        return Answer(f"{where.capitalize()} {verb} from {before} to {after}.{rest}", tone)
    claim = "It learned" if change.sign > 0 else "It got worse"
    return Answer(f"{claim}: {where} {verb} from {before} to {after}.", tone)


def _ended_badly(run: RunCourse) -> str:
    where = f"at step {run.num_done}" if run.num_done else "before the first step"
    [line, *_] = [*run.reason.strip().splitlines(), ""]
    line = line.partition(":")[0] if run.state == "died" else line
    words = f"{_ENDED_BADLY[run.state]}{'' if run.state == 'damaged' else ' ' + where}"
    return f"{words}: {line.rstrip('.')}." if line else f"{words}."


def _of(run: RunCourse) -> str:
    return "" if run.num_steps is None else f" of {run.num_steps}"
