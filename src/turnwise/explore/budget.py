"""How much an exploration may ask of one server."""

from dataclasses import dataclass


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
    is_limited: bool = False
    """Whether the server was left alone because it asked for fewer calls."""

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
        return bool(self.why_spent)

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
