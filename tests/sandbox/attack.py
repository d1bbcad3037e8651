"""Gives `Attack`, a hostile snippet with the mark of its failure, and the prelude of every snippet."""

from dataclasses import dataclass

from turnwise.sandbox import ExecutionStop, Kind

BOTH = (Kind.BUBBLEWRAP, Kind.LANDLOCK)
NAMESPACES = (Kind.BUBBLEWRAP,)
"""For what the fallback refuses altogether: processes and files of its own."""


@dataclass(frozen=True, slots=True)
class Attack:
    """`code` prints `ESCAPED` where it gets through; `seen` must be in its output, so it really tried."""

    name: str
    code: str
    seen: str = "blocked"
    stops: tuple[ExecutionStop, ...] = (ExecutionStop.NONE,)
    kinds: tuple[Kind, ...] = BOTH
    error: str = ""
    """What the reported error must contain."""

    @property
    def is_fine(self) -> bool:
        """It must come to its own end without an error."""
        return self.stops == (ExecutionStop.NONE,) and not self.error


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
