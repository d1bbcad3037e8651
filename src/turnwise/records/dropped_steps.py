"""What a run wrote after the checkpoint that it is resumed from: moved to another folder, not deleted.

runs/cpu-20261115-070000/dropped/after-step-000007/
  metrics.jsonl  trajectories/  tokens/  evaluations/  summary.json     as in the run's folder
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.free_path import numbered
from turnwise.system.files.json_lines import step_of


@dataclass(frozen=True, slots=True)
class DroppedSteps:
    """Where the old figures and files are, and which steps had figures."""

    place: Path
    steps: range
    """Counted from 0; empty if no step was finished after the checkpoint."""


def move_to_dropped(
    run: Path, num_steps: int, lines: Sequence[bytes], files: Sequence[Path]
) -> DroppedSteps | None:
    """Copy the lines of metrics.jsonl and move the files to `dropped/after-step-N`; None without any."""
    if not lines and not files:
        return None
    (run / "dropped").mkdir(exist_ok=True)
    place = next(place for place in numbered(run / "dropped" / f"after-step-{num_steps:06d}") if _made(place))
    if lines:
        write_atomically(place / "metrics.jsonl", b"".join(line + b"\n" for line in lines))
    for file in files:
        target = place / file.relative_to(run)
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
    last = max((step for line in lines if (step := step_of(line)) is not None), default=num_steps - 1)
    return DroppedSteps(place, range(num_steps, last + 1))


def _made(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True
