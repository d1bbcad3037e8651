"""A `python` that runs its program in a fork of the server at ADDRESS, with its own files and signals.

It exits with the status of the fork, and the fork ends with it.
"""

import json
import os
import signal
import socket
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def inherited() -> list[int]:
    """The inherited file descriptors."""
    found = []
    for number in range(256):
        try:
            if os.get_inheritable(number):
                found.append(number)
        except OSError:  # not open
            continue
    return found


FILES = inherited()


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # none is lost before the fork exists
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(ADDRESS)  # type: ignore[name-defined]  # noqa: F821
    except OSError:  # inside the walls around a server: it starts like any other
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.execv(sys.executable, [sys.executable, *BEFORE, *sys.argv[1:]])  # type: ignore[name-defined]  # noqa: F821
    wanted = {
        "python": os.path.join(os.path.dirname(sys.argv[0]), "python"),
        "argv": BEFORE + sys.argv[1:],  # type: ignore[name-defined]  # noqa: F821
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "files": FILES,
        "leads": os.getpgrp() == os.getpid(),
    }
    socket.send_fds(server, [json.dumps(wanted).encode() + b"\n"], FILES)
    answers = server.makefile("r")
    forked = int(answers.readline())
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: os.kill(forked, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    status = os.waitstatus_to_exitcode(int(answers.readline() or signal.SIGKILL))
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
