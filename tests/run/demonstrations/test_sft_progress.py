"""Learning is never silent for long: a step of minutes is reported by its parts, with the time left."""

import pytest

from turnwise.run.demonstrations import sft_progress
from turnwise.run.demonstrations.sft_progress import SftProgress
from turnwise.training.update.sft import SftPart, SftStep


def part(share: float) -> SftPart:
    return SftPart(step=0, num_steps=2, share_of_step=share, seconds=share * 600)


def test_a_long_step_is_reported_by_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    progress = SftProgress(lines.append, "warm start, step")
    progress.part(part(0.1))
    assert lines == [], "nothing was silent for long"
    monkeypatch.setattr(sft_progress, "SILENT_SECONDS", 0.0)
    progress.part(part(0.25))
    progress.step(SftStep(0, 2, 1.5, 1.0, 1e-3, 100, 4, 600.0))
    assert lines == [
        "warm start, step    1/2  25% learned, about 18 min left",
        "warm start, step    1/2  loss 1.5000",
    ]
