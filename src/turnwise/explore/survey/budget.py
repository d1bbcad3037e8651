"""How much an exploration may ask of one server."""

import math
import time
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one server is asked for."""

    num_calls: int = 2_000
    seconds: float = 120.0
    """Time spent waiting for its start and its answers."""
    num_bytes: int = 20_000_000
    num_faults: int = 5
    """Infrastructure faults after which it is left alone."""
    num_rests: int = 4
    """Rests that it may ask for before it is left alone."""
    rest_seconds: float = 15.0
    """The longest rest that is waited for."""


@dataclass(slots=True)
class Budget:
    """What one server was asked for so far."""

    limits: Limits
    num_calls: int = 0
    num_bytes: int = 0
    num_faults: int = 0
    num_rests: int = 0
    seconds: float = 0.0
    why_stopped: str = ""
    deadline: float = math.inf
    """A time of `time.monotonic()`: the end of the stage that makes the calls."""
    is_limited: bool = False
    """Whether the server was left alone because it asked for fewer calls."""

    @property
    def is_late(self) -> bool:
        """Whether the time of the current stage is over."""
        return time.monotonic() > self.deadline

    def begin(self, seconds: float) -> None:
        """Begin a stage that ends after this time."""
        self.deadline = time.monotonic() + seconds

    def extend(self, num_calls: int) -> None:
        """Raise the limit so that this many calls can still be made."""
        self.limits = replace(self.limits, num_calls=max(self.limits.num_calls, self.num_calls + num_calls))

    def may_rest(self, seconds: float) -> bool:
        """Return whether to wait and go on; if not, the server is left alone from now on."""
        if self.num_rests < self.limits.num_rests and seconds <= self.limits.rest_seconds:
            self.num_rests += 1
            return True
        self.is_limited = True
        self.why_stopped = (
            f"it limits the rate of calls (a rest of {seconds:g} s after {self.num_calls} calls)"
        )
        return False

    @property
    def is_spent(self) -> bool:
        return bool(self.why_spent) or self.is_late

    @property
    def why_spent(self) -> str:
        """Why no more calls are made; empty if more may be made."""
        limits = self.limits
        if self.why_stopped:
            return self.why_stopped
        if self.num_faults >= limits.num_faults:
            return f"{self.num_faults} calls failed by faults of the server"
        if self.num_calls >= limits.num_calls:
            return f"{self.num_calls} calls were made"
        if self.seconds >= limits.seconds:
            return f"its starts and calls took {self.seconds:.0f} s"
        if self.num_bytes >= limits.num_bytes:
            return f"its answers had {self.num_bytes:,} bytes"
        return ""
