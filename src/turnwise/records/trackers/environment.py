"""The environment variables a tracker's process may see, and text without secrets."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from turnwise.system.environment import dotenv_variables
from turnwise.system.redaction import Redaction
from turnwise.system.secret_values import environment_secrets, is_secret_name

_OF_TRACKERS = ("WANDB_", "WEAVE_", "WF_", "TRACKIO_", "HF_", "HUGGING_FACE_")
_MAX_CHARS = 500


def variables() -> dict[str, str]:
    """Our environment, plus the trackers' variables of `.env`, here and in the parent directory.

    The environment takes precedence.
    """
    from_file = {name: value for name, value in dotenv_variables().items() if value and _is_trackers(name)}
    return {**from_file, **os.environ}


def for_tracker(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tracker's process: no secrets except those of trackers themselves."""
    kept = {name: value for name, value in given.items() if _is_trackers(name) or not is_secret_name(name)}
    # the tracker's process must find the same modules, including the user's own trackers
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    # W&B and Weave send crash reports to their vendor: off unless the user turns them on
    return {"WANDB_ERROR_REPORTING": "false", **kept, "PYTHONPATH": paths}


def without_keys(text: str, given: Mapping[str, str]) -> str:
    """One line for a log, at most 500 characters, without secrets that a library may have quoted."""
    text = Redaction(environment_secrets(given)).redact(text)
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]} …"


def _is_trackers(name: str) -> bool:
    return name.startswith(_OF_TRACKERS)
