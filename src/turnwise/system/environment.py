"""The user's settings: environment variables, `.env` files, and where their caches and state are kept."""

import os
from pathlib import Path

from dotenv import dotenv_values

from turnwise.system.redaction import Redaction
from turnwise.system.secret_values import environment_secrets


def dotenv_variables(directory: Path | None = None) -> dict[str, str]:
    """The variables of `.env` in the directory and in its parent; the directory's take precedence."""
    here = (directory or Path.cwd()).resolve()
    variables: dict[str, str] = {}
    for path in (here.parent / ".env", here / ".env"):
        if path.is_file():
            variables.update({key: value for key, value in dotenv_values(path).items() if value is not None})
    return variables


def environment(directory: Path | None = None) -> dict[str, str]:
    """Our environment, with defaults from `.env`: an exported variable takes precedence."""
    return {**dotenv_variables(directory), **os.environ}


def known_secrets() -> set[str]:
    """The secrets in the environment and in `.env`, here and in the parent directory."""
    # both: a variable that we were given may hide another value in the file
    return environment_secrets(dotenv_variables()) | environment_secrets(os.environ)


def known_redaction() -> Redaction:
    """Removes the known secrets from what is written or printed."""
    return Redaction(known_secrets())


def user_folder(variable: str, default: str) -> Path | None:
    """Our folder under `$variable` (XDG_CACHE_HOME) or the default; None if the user has no home folder."""
    configured = Path(os.environ.get(variable, ""))
    try:
        # The XDG specification says that a relative path is invalid and must be ignored.
        root = configured if configured.is_absolute() else Path(default).expanduser()
    except RuntimeError:
        return None
    return root / "turnwise"
