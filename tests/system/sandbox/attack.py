"""A hostile snippet, what must be seen of it when it fails, and the code that runs before every snippet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.system.sandbox import ExecutionStop, Kind

BOTH = (Kind.BUBBLEWRAP, Kind.LANDLOCK)
NAMESPACES, FALLBACK = (Kind.BUBBLEWRAP,), (Kind.LANDLOCK,)
"""The fallback has no namespaces: it refuses all processes and files of the code's own."""


@dataclass(frozen=True, slots=True)
class Attack:
    """`code` prints `ESCAPED` if it succeeds; `seen` must be in its output, as proof that it tried."""

    name: str
    code: str
    seen: str = "blocked"
    stops: tuple[ExecutionStop, ...] = (ExecutionStop.NONE,)
    kinds: tuple[Kind, ...] = BOTH
    error: str = ""
    """What the reported error must contain."""

    @property
    def is_fine(self) -> bool:
        """The code must run to its end without an error."""
        return self.stops == (ExecutionStop.NONE,) and not self.error


def attacks(codes: Mapping[str, str], **expected: Any) -> list[Attack]:
    """Attacks by name that must all fail in the same way."""
    return [Attack(name, code, **expected) for name, code in codes.items()]


PRELUDE = '''
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
IS_X86 = os.uname().machine == "x86_64"

def raw(x86, arm, *args):
    """A system call by its number on each machine."""
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args]
    result = libc.syscall(ctypes.c_long(x86 if IS_X86 else arm), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def attempt(what, *args, **named):
    try:
        got = what(*args, **named)
    except Exception as error:
        code = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
        print("blocked:", type(error).__name__, code, flush=True)
    else:
        print("ESCAPED:", repr(got)[:300], flush=True)

def read(path):
    with open(path, "rb") as file:
        return file.read(4096)
'''
