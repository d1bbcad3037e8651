"""A server that imports modules and then runs every program that is requested as a fork of itself.

A request is one line of JSON and the open files of the requester. The answers are the process id of the fork
and, once it has ended, its status. If the connection closes before, the fork is killed, with its process
group if it leads one. The server ends when its stdin closes.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import warnings
from typing import Any, NoReturn


class Asked(Exception):
    """Raised in a fork to leave the frames of the server; its argument is the request."""


def serve(address: str) -> None:
    """Serve until stdin closes; raises Asked in a fork."""
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    forks: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as waiting:
        listener.bind(address)
        listener.listen(64)
        for descriptor in (0, wake, listener):
            waiting.register(descriptor, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            for key, _ in waiting.select():
                if key.fileobj == 0:
                    return
                if key.fileobj is wake:
                    wake.recv(4096)
                    for number, status in ended():
                        connection = forks.pop(number)
                        waiting.unregister(connection)
                        with contextlib.suppress(OSError), connection:
                            connection.sendall(b"%d\n" % status)
                elif key.fileobj is listener:
                    connection = listener.accept()[0]
                    try:
                        number, leads = fork(connection, [wake, woken, listener, waiting, *forks.values()])
                    except OSError:
                        connection.close()
                        continue
                    forks[number] = connection
                    end = functools.partial(os.killpg if leads else os.kill, number, signal.SIGKILL)
                    waiting.register(connection, selectors.EVENT_READ, end)
                else:  # the requester is gone
                    with contextlib.suppress(ProcessLookupError):
                        key.data()


def ended() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(child)
    return found


def fork(connection: socket.socket, others: list[Any]) -> tuple[int, bool]:
    """The process id of the fork, and whether it leads a process group, as its requester does."""
    text, files, *_ = socket.recv_fds(connection, 2**20, 256)
    while not text.endswith(b"\n"):
        more = connection.recv(2**20)
        if not more:
            raise OSError("the requester is gone")
        text += more
    asked = json.loads(text)
    number = os.fork()
    if number:
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # the main loop notices that the requester is gone
            connection.sendall(b"%d\n" % number)
        return number, asked["leads"]
    if asked["leads"]:
        os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for peer in (connection, *others):  # before a file gets the descriptor of one of them
        peer.close()
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, 512) for file in files]
    for file in files:
        os.close(file)
    for file, place in zip(above, asked["files"], strict=True):
        os.dup2(file, place)
        os.close(file)
    raise Asked(asked)


def become(asked: dict[str, Any]) -> None:
    """Make this process like a new `python`, but with modules imported."""
    sys.executable = asked["python"]
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for stream, place in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.reconfigure(line_buffering=os.isatty(place) or place == 2, write_through=is_unbuffered)  # type: ignore[union-attr]
    sys.path[0:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def run(argv: list[str]) -> None:
    match argv:
        case ["-W", action, *rest]:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            # an ARM CPU without bf16: torch takes another kernel
            warnings.filterwarnings("ignore", "mkldnn_matmul failed", UserWarning)
            run(rest)
        case ["-u", *rest]:  # as torchrun starts its workers
            run(rest)
        case ["-m", module, *rest]:
            sys.argv, sys.path[0] = [module, *rest], os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
        case [file, *rest]:
            sys.argv, sys.path[0] = [file, *rest], os.path.dirname(file)
            runpy.run_path(file, run_name="__main__")


def status_of(argv: list[str]) -> int:
    """The exit status of the program; 130 after an interrupt, as in a shell."""
    try:
        run(argv)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 (as an interpreter does)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(status: int) -> NoReturn:
    """Exit without tearing down the imported modules, which takes longer than most programs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork keeps only one thread"
    gc.freeze()  # a collection in a fork would copy the pages of all imported modules
    try:
        serve(sys.argv[1])
    except Asked as error:
        asked = error.args[0]
    else:
        sys.exit()
    become(asked)
    end(status_of(asked["argv"]))
