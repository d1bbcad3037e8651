"""The seeded plan of faults by call.

Standard library only, because a proxy starts with every server process and must start quickly.
"""

import json
import random
from dataclasses import asdict, dataclass

TIMEOUT_SECONDS = 10.0
"""Of every server in mcp.json; an answer after it is too late."""
MAX_MESSAGE_BYTES = 1_000_000
"""Of every server in mcp.json; a larger reply is not taken."""

WRITERS = ("send_slack_message", "write_file", "create_entities", "write_query")
"""Tools that change something: a call of theirs must reach its server at most once an episode."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The fault settings of one server."""

    server: str
    folder: str
    """Where the ledger is."""
    seed: int
    call_rate: float
    """Share of calls that meet a fault."""
    call_faults: tuple[str, ...]
    start_rate: float = 0.0
    """Share of process starts that meet a fault."""
    start_faults: tuple[str, ...] = ()

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str) -> "Settings":
        fields = json.loads(text)
        return cls(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        )


class Plan:
    """Draws faults; for a seed, the same place always draws the same fault."""

    def __init__(self, settings: Settings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._num_calls = 0

    def at_start(self) -> str | None:
        """No fault for a server's first process: a run cannot begin if one of its servers does not start."""
        if self._place == f"{self._settings.server} 1":
            return None
        return self._drawn("start", self._settings.start_rate, self._settings.start_faults)

    def at_call(self) -> str | None:
        self._num_calls += 1
        return self._drawn(f"call {self._num_calls}", self._settings.call_rate, self._settings.call_faults)

    def _drawn(self, moment: str, rate: float, faults: tuple[str, ...]) -> str | None:
        luck = random.Random(f"{self._settings.seed}/{self._place}/{moment}")
        return luck.choice(faults) if faults and luck.random() < rate else None
