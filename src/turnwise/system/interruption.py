"""SIGTERM, a hang-up and lost output interrupt a command as Ctrl-C does: it keeps what it finished."""

import contextlib
import os
import signal
from collections.abc import Iterator

from turnwise.system.lasting_output import lasting_output


def is_hang_up_ignored() -> bool:
    """Whether the process is meant to outlive its terminal and its reader, as under nohup."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@contextlib.contextmanager
def interrupted_as_by_ctrl_c() -> Iterator[None]:
    """Send this process one SIGINT at the first SIGTERM, hang-up or loss of stdout or stderr.

    A closed terminal causes several of them, and a second SIGINT would end the command before it has written
    its results. For the main thread. Under nohup, hang-ups and lost output are ignored.
    """
    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            os.kill(os.getpid(), signal.SIGINT)

    is_lasting = is_hang_up_ignored()
    heard = (signal.SIGTERM,) if is_lasting else (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        with lasting_output((lambda what: None) if is_lasting else interrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
