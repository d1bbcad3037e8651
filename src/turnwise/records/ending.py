"""How a run ended, as `ended.json` in its folder says; a run that goes on has none."""

import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.regular_files import Damaged, read_table


class How(StrEnum):
    """The endings that a run can record itself; one that is killed records nothing."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """By the user or the scheduler."""
    HALTED = "halted"
    """By an alarm of `[health]`."""
    CRASHED = "crashed"
    """By an error: at the start, in the loop, or of the infrastructure."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The content of ended.json."""

    how: How
    why: str = ""
    """The reason, in one or a few lines; empty for a finished run."""
    rank: int = 0
    """The rank of the process that recorded it."""
    traceback: str = ""
    """Set if the process that failed is not the one that writes training.log."""
    time: float = field(default_factory=lambda: round(time.time(), 3))


_ENDING = TypeAdapter(Ending)


def write_ending(path: Path, ending: Ending) -> None:
    write_json(path, asdict(ending))


def read_ending(path: Path) -> Ending | None:
    """Read the record; None if there is no file. Damaged if it cannot be read."""
    try:
        return _ENDING.validate_python(read_table(path))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise Damaged(
            path, f"is not a record of how a run ended: {error.error_count()} wrong fields"
        ) from None
