"""What turnwise's loggers print on stderr: warnings, or more by `--debug` and `TURNWISE_LOG`."""

import logging
import os
import sys

from turnwise.records.run_log import is_on_screen
from turnwise.system.terminal import printable

VARIABLE = "TURNWISE_LOG"

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


def set_up(*, is_debug: bool) -> None:
    """Set the log level by --debug or the variable; ValueError if the variable's value is unknown."""
    name = "debug" if is_debug else os.environ.get(VARIABLE, "").strip().lower() or "warning"
    if name not in LEVELS:
        raise ValueError(f"{VARIABLE} is {name!r}: expected {', '.join(LEVELS)}")
    if is_debug:
        os.environ[VARIABLE] = name  # the other processes of a run inherit it
    ours = logging.getLogger("turnwise")
    ours.setLevel(min(LEVELS[name], logging.INFO))  # a run's log file has INFO, whatever stderr shows
    for handler in list(ours.handlers):
        if isinstance(handler, _OnStderr):
            ours.removeHandler(handler)
    ours.addHandler(_OnStderr(LEVELS[name]))


def is_debug() -> bool:
    return logging.getLogger("turnwise").level == logging.DEBUG


class _OnStderr(logging.Handler):
    """Prints `warning: text`; under --debug also the time, the module and the traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        if is_on_screen(record):
            return
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        if is_debug():
            text = _DETAILED.format(record)
        # a message may quote what a server or a model wrote
        print(printable(text), file=sys.stderr, flush=True)


_DETAILED = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
