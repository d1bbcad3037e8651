"""Resuming a run: what it goes on from, and the command that does it."""

from pathlib import Path

from turnwise.records.folder import RunFolder
from turnwise.training.update import checkpoint


def open_to_resume(path: Path, *, from_start: bool) -> RunFolder:
    """Open a run that saved a checkpoint or its warm start; with `from_start`, one without a checkpoint.

    ValueError in the other cases: starting over is not a resume.
    """
    folder = RunFolder.open(path)
    try:
        _check(folder, from_start=from_start)
    except BaseException:
        folder.close()
        raise
    return folder


def _check(folder: RunFolder, *, from_start: bool) -> None:
    try:
        saved = checkpoint.last_step(folder.checkpoints)
    except checkpoint.Unreadable as error:
        raise ValueError(f"{folder.path}: no checkpoint can be read: {error}") from error
    if from_start and saved is not None:
        raise ValueError(
            f"{folder.path}: it saved a checkpoint after step {saved}: resume from that, or start a new run"
        )
    if not from_start and saved is None and not folder.warm_model.exists():
        raise ValueError(
            f"{folder.path}: it ended before it saved anything, so there is nothing to resume. It can start "
            "over in this folder: --from-start, in Python from_start=True"
        )


def resume_command(folder: RunFolder) -> str:
    """The command that resumes a run that ended early."""
    saved = checkpoint.last_step(folder.checkpoints) is not None or folder.warm_model.exists()
    return f"turnwise train --resume {folder.path}{'' if saved else ' --from-start'}"
