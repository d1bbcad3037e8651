"""A run's training.log: every line that turnwise's loggers write, with its time, until the run is over."""

import faulthandler
import io
import logging
import threading
from pathlib import Path

from turnwise.system.files.regular_files import open_to_append
from turnwise.system.redaction import Redaction
from turnwise.system.terminal import ON_SCREEN, printable

logger = logging.getLogger(__name__)


def is_on_screen(record: logging.LogRecord) -> bool:
    return getattr(record, "is_on_screen", False)


class RunLog:
    """Logs to the file until closed; every line is flushed, and only the owner can read the file.

    Uncaught exceptions of threads are logged too. So is the stack at a crash of native code (SIGSEGV,
    SIGABRT), unless faulthandler was enabled before.
    """

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._stream = io.TextIOWrapper(io.BufferedWriter(open_to_append(path)), encoding="utf-8")
        self._handler = logging.StreamHandler(self._stream)
        self._handler.setFormatter(_Formatter(redaction))
        package = logging.getLogger("turnwise")
        package.addHandler(self._handler)
        if package.level == logging.NOTSET:
            package.setLevel(logging.INFO)
        self._is_fault_handler = not faulthandler.is_enabled()
        if self._is_fault_handler:
            faulthandler.enable(self._stream)
        self._thread_hook = threading.excepthook
        threading.excepthook = self._thread_failed

    def close(self) -> None:
        """Stop logging and close the file; idempotent."""
        if self._stream.closed:
            return
        if threading.excepthook == self._thread_failed:
            threading.excepthook = self._thread_hook
        if self._is_fault_handler:
            faulthandler.disable()
        logging.getLogger("turnwise").removeHandler(self._handler)
        self._stream.close()

    def _thread_failed(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            name = args.thread.name if args.thread is not None else "unknown"
            logger.error("thread %s failed", name, exc_info=args.exc_value, extra=ON_SCREEN)
        self._thread_hook(args)


class _Formatter(logging.Formatter):
    """`time LEVEL module: text`; the module is left out of records that the terminal shows.

    Lines after the first are indented, so that text of a model or a server cannot pass for a log entry.
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S %z")
        self._redaction = redaction

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        if not is_on_screen(record):
            record.message = f"{record.name}: {record.message}"
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._redaction.redact(super().format(record))).replace("\n", "\n    ")
