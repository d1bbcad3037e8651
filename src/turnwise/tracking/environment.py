"""Takes the environment and `.env`, gives what a tracker's process may know of it, and texts without keys."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from turnwise.secret_values import is_secret_name

_OF_TRACKERS = ("WANDB_", "WEAVE_", "WF_", "TRACKIO_", "HF_", "HUGGING_FACE_")
_MAX_CHARS = 500


def variables() -> dict[str, str]:
    """Our environment, over what `.env` here, and in the parent directory, says to trackers."""
    found: dict[str, str] = {}
    for file in (Path.cwd().parent / ".env", Path.cwd() / ".env"):
        given = dotenv_values(file) if file.is_file() else {}
        found.update({name: value for name, value in given.items() if value and _is_trackers(name)})
    return {**found, **os.environ}


def for_tracker(given: Mapping[str, str]) -> dict[str, str]:
    """The keys of models, providers and servers are none of a tracker's business."""
    kept = {name: value for name, value in given.items() if _is_trackers(name) or not is_secret_name(name)}
    # where this process finds its modules, one's own trackers among them, that one finds them too
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    # crash reports of W&B and Weave go to their makers: only where one has asked for that
    return {"WANDB_ERROR_REPORTING": "false", **kept, "PYTHONPATH": paths}


def without_keys(text: str, given: Mapping[str, str]) -> str:
    """One line of bounded length for a log, whatever a library has quoted in it."""
    secrets = {value for name, value in given.items() if is_secret_name(name) and len(value) >= 8}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[removed]")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]} …"


def _is_trackers(name: str) -> bool:
    return name.startswith(_OF_TRACKERS)
