"""The boundary around every command: a user's mistake ends it with one line, a bug with its traceback."""

import functools
from collections.abc import Callable
from typing import Any

import typer

from turnwise.cli.options import fail

SEE_DEBUG = "(turnwise --debug shows where)"


def reports_mistakes(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: a ValueError, an OSError or a missing optional package is printed as one line."""

    @functools.wraps(command)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as error:
            message = mistake_in(error)
            if message is None:
                raise
            fail(message)

    return guarded


def mistake_in(error: BaseException) -> str | None:
    """The user's mistake as one message; None for a bug, whose traceback must show."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # task groups wrap what their tasks raise
    if isinstance(error, ModuleNotFoundError):
        from turnwise.config.optional_packages import missing_package

        return missing_package(error)
    if isinstance(error, OSError):
        return _readable(error)
    if isinstance(error, ValueError):
        return str(error) if _is_raised_here(error) else f"{type(error).__name__}: {error} {SEE_DEBUG}"
    return None


def _readable(error: OSError) -> str:
    """`runs/x: No space left on device`; the text of an OSError that a library raises is kept."""
    if error.strerror is None:
        return f"{' '.join(str(error).split())} {SEE_DEBUG}"
    return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror} {SEE_DEBUG}"


def _is_raised_here(error: BaseException) -> bool:
    """Whether turnwise raised the error itself: its message then names the key or file and the value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("turnwise.")
