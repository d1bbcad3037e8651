"""How much an exploration may ask of one server."""

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


@dataclass(slots=True)
class Budget:
    """What one server was asked for so far."""

    limits: Limits
    num_calls: int = 0
    num_bytes: int = 0
    num_faults: int = 0
    seconds: float = 0.0
    why_stopped: str = ""

    def extend(self, *, num_calls: int, seconds: float) -> None:
        """Raise the limits so that this much can still be used."""
        self.limits = replace(
            self.limits,
            num_calls=max(self.limits.num_calls, self.num_calls + num_calls),
            seconds=max(self.limits.seconds, self.seconds + seconds),
        )

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
