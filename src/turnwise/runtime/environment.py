"""Environment variables, and under them those of `.env` in the working directory and in its parent."""

import os
from pathlib import Path

from dotenv import dotenv_values


def dotenv_variables(directory: Path | None = None) -> dict[str, str]:
    """The variables of `.env` in the directory and in its parent; the directory's take precedence."""
    here = (directory or Path.cwd()).resolve()
    found: dict[str, str] = {}
    for path in (here.parent / ".env", here / ".env"):
        if path.is_file():
            found.update({key: value for key, value in dotenv_values(path).items() if value is not None})
    return found


def environment(directory: Path | None = None) -> dict[str, str]:
    """Our environment, with defaults from `.env`: an exported variable takes precedence."""
    return {**dotenv_variables(directory), **os.environ}
