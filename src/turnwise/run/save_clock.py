"""When a checkpoint is due by time: little work is ever at risk, and little time goes into saving."""

import time

MAX_SECONDS_AT_RISK = 300.0
"""A checkpoint is due before the next step would make more work than this unsaved."""
MAX_SHARE_OF_SAVING = 0.02
"""The largest part of the time that checkpoints by time may take."""


def is_due_by_time(unsaved_seconds: float, step_seconds: float, save_seconds: float) -> bool:
    """Whether to save after a step that took `step_seconds`, if the last save took `save_seconds`.

    Seconds of a step 10, of a save 1: due after 300 s without a save. Of a save 30: due after 1,500 s.
    """
    is_cheap = save_seconds <= unsaved_seconds * MAX_SHARE_OF_SAVING
    return is_cheap and unsaved_seconds + step_seconds > MAX_SECONDS_AT_RISK


class SaveClock:
    """Measures the time since the last save, the last step and the last save itself."""

    def __init__(self) -> None:
        self._saved_at = self._step_ended_at = time.monotonic()
        self._save_seconds = 0.0

    def end_step(self) -> bool:
        """Called after every step; whether a checkpoint is due."""
        now = time.monotonic()
        step_seconds, self._step_ended_at = now - self._step_ended_at, now
        return is_due_by_time(now - self._saved_at, step_seconds, self._save_seconds)

    def end_save(self, seconds: float) -> None:
        """Called after every save, with its duration."""
        self._saved_at = self._step_ended_at = time.monotonic()
        self._save_seconds = seconds
