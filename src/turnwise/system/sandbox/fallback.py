"""Start a zygote that confines its children by Landlock alone, where bubblewrap is missing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from turnwise.system.sandbox.launch import ENVIRONMENT, Launch, python_arguments
from turnwise.system.sandbox.layout import PythonLayout

_DEVICES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@contextlib.contextmanager
def landlock_launch(layout: PythonLayout) -> Iterator[Launch]:
    """Yield a launch whose interpreter reads its library through open directories.

    A child that has dropped root may not traverse /root to an interpreter installed there, but it may start
    from a directory that is already open.
    """
    home = layout.prefix
    parents = list(dict.fromkeys(path.parent for path in layout.packages.values()))
    with contextlib.ExitStack() as stack:
        descriptors = {
            path: stack.enter_context(_directory(path)) for path in dict.fromkeys([home, *parents])
        }
        yield Launch(
            command=[str(layout.executable), *python_arguments(str(layout.inside))],
            environment={**ENVIRONMENT, "PYTHONHOME": _through(descriptors[home])},
            fds=tuple(descriptors.values()),
            shares_host=True,
            import_path=tuple(_through(descriptors[path]) for path in parents),
            readable=tuple(map(str, _readable(layout))),
        )


def _readable(layout: PythonLayout) -> Iterator[Path]:
    yield from layout.libraries
    yield from (path for name in ("lib", "lib64") if (path := layout.prefix / name).is_dir())
    yield from layout.packages.values()
    yield from (Path(device) for device in _DEVICES)


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _through(fd: int) -> str:
    return f"/proc/self/fd/{fd}"
