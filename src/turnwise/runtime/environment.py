"""Environment variables, and under them those of `.env` in the working directory and in its parent."""

import os
from pathlib import Path

from dotenv import dotenv_values


def dotenv_variables(directory: Path | None = None) -> dict[str, str]:
    """What `.env` in the directory sets, over what `.env` in its parent sets."""
    here = (directory or Path.cwd()).resolve()
    found: dict[str, str] = {}
    for path in (here.parent / ".env", here / ".env"):
        if path.is_file():
            found.update({key: value for key, value in dotenv_values(path).items() if value is not None})
    return found


def environment(directory: Path | None = None) -> dict[str, str]:
    """Our environment over `.env`: an exported variable wins."""
    return {**dotenv_variables(directory), **os.environ}
