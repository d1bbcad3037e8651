"""The seccomp filter of an execution: built as BPF bytes, and loaded."""

import errno
import functools
import os
import struct
from dataclasses import dataclass

from .kernel import prctl
from .syscalls import DENIED, DENIED_ON_HOST, JUDGED, LAST_KNOWN

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the column of the syscall tables, and the value of AUDIT_ARCH."""

_LOAD, _EQUAL, _GREATER, _GREATER_EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGS_OFFSET = 0, 4, 16

_X32_BIT = 0x40000000
_CLONE_NEW = 0x7E020000  # all CLONE_NEW* flags that clone takes
_CLONE_THREAD = 0x00010000
_IOCTLS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: all that interpreters use. Others change
a file's attributes or send keystrokes to a terminal."""
_F_GETLK, _F_SETLK, _F_SETLKW, _F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 5, 6, 7, 8, 10, 15
_FCNTLS_ON_SHARED_FILES = (
    *(_F_GETLK, 36, 37, 38),  # the F_OFD_ locks: on a read-only file a lock can only signal others
    *(1024, 1025, 1026),  # F_SETLEASE, F_GETLEASE, F_NOTIFY
    *(1035, 1036, 1037, 1038),  # the F_(GET|SET)_(FILE_)RW_HINT, which the kernel keeps with the file
)
_MAP_SHARED_ANONYMOUS, _MAP_HUGETLB = 0x21, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 1, 22, 2
_AF_UNIX, _NOT_STREAM = 1, 0b1110  # SOCK_STREAM is 1, its flags lie above the low four bits


@dataclass(frozen=True, slots=True)
class _Refuse:
    """Refuse if argument number `arg` (its low 32 bits) is in `relation` to `value`."""

    arg: int
    relation: str
    """is | is not | has (any bit) | has not (any bit) | has all (bits)."""
    value: int


@dataclass(frozen=True, slots=True)
class _Only:
    """Refuse unless argument number `arg` (its low 32 bits) is one of `values`."""

    arg: int
    values: tuple[int, ...]


def build(machine: str, *, shares_host: bool, pid: int) -> bytes:
    """Return the filter; `shares_host` (no namespaces) also refuses forks, and signals to any but `pid`."""
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no seccomp table for {machine}")
    column, _ = _MACHINES[machine]
    judgements = _judgements(shares_host=shares_host, pid=pid)
    blocks = [op for name, rules in judgements.items() for op in _block(JUDGED[name][column], rules)]
    return b"".join([_fixed_part(machine, shares_host=shares_host), *blocks, _op(_RETURN, _ALLOW)])


@functools.cache
def _fixed_part(machine: str, *, shares_host: bool) -> bytes:
    """Return the part that is the same for every process: built once, in the zygote, for all children."""
    column, arch = _MACHINES[machine]
    program = [
        _op(_LOAD, _ARCH_OFFSET),
        _op(_EQUAL, arch, 1, 0),
        _op(_RETURN, _KILL_PROCESS),  # 32-bit calls have other numbers
        _op(_LOAD, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        program += [_op(_GREATER_EQUAL, _X32_BIT, 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    program += [_op(_GREATER, LAST_KNOWN, 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    denied = DENIED | (DENIED_ON_HOST if shares_host else {})
    for numbers in denied.values():
        number = numbers[column]
        if number is not None:
            program += [_op(_EQUAL, number, 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)]
    # glibc falls back from clone3 to clone, whose flags a filter can read, only on ENOSYS
    program += [_op(_EQUAL, JUDGED["clone3"][column], 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    return b"".join(program)


def load(program: bytes) -> None:
    """Apply the filter to this process and all it starts; needs no_new_privs."""
    import ctypes

    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointer))


def build_here(*, shares_host: bool) -> bytes:
    """Return the filter for this machine and this process."""
    return build(os.uname().machine, shares_host=shares_host, pid=os.getpid())


def _judgements(*, shares_host: bool, pid: int) -> dict[str, list[_Refuse | _Only]]:
    fcntls = [_Refuse(1, "is", command) for command in _FCNTLS_ON_SHARED_FILES]
    judgements: dict[str, list[_Refuse | _Only]] = {
        "clone": [_Refuse(0, "has", _CLONE_NEW)],
        # only streams: a datagram socket can send each message to any address
        "socketpair": [_Refuse(0, "is not", _AF_UNIX), _Refuse(1, "has", _NOT_STREAM)],
        "ioctl": [_Only(1, _IOCTLS)],
        "fcntl": [*fcntls],
        # huge pages come from a pool of the whole machine, and no memory limit of a process counts them
        "mmap": [_Refuse(3, "has", _MAP_HUGETLB)],
    }
    if not shares_host:
        # processes may share memory only in /tmp, whose size is limited; within one, RLIMIT_AS counts it
        judgements["mmap"].append(_Refuse(3, "has all", _MAP_SHARED_ANONYMOUS))
        return judgements
    # there is no /tmp, so no file to lock
    on_host = (_F_SETLK, _F_SETLKW, _F_SETOWN, _F_SETSIG, _F_SETOWN_EX)
    return {
        **judgements,
        "clone": [*judgements["clone"], _Refuse(0, "has not", _CLONE_THREAD)],
        "kill": [_Refuse(0, "is not", pid)],
        "tgkill": [_Refuse(0, "is not", pid)],
        "prlimit64": [_Refuse(0, "is not", 0)],
        "fcntl": [*fcntls, *(_Refuse(1, "is", command) for command in on_host)],
        # this process must still die with the zygote
        "prctl": [_Refuse(0, "is", _PR_SET_PDEATHSIG)],
    }


def _block(number: int, refusals: list[_Refuse | _Only]) -> list[bytes]:
    tests = [op for refusal in refusals for op in _tests(refusal)]
    tests.append(_op(_RETURN, _ALLOW))
    return [_op(_EQUAL, number, 0, len(tests)), *tests]


def _tests(refusal: _Refuse | _Only) -> list[bytes]:
    load = _op(_LOAD, _ARGS_OFFSET + 8 * refusal.arg)
    refuse = _op(_RETURN, _ERRNO | errno.EPERM)
    if isinstance(refusal, _Only):
        count = len(refusal.values)
        jumps = [_op(_EQUAL, value, count - i, 0) for i, value in enumerate(refusal.values)]
        return [load, *jumps, refuse]
    if refusal.relation == "has all":
        return [load, _op(_AND, refusal.value), _op(_EQUAL, refusal.value, 0, 1), refuse]
    jump = _ANY_BIT if refusal.relation.startswith("has") else _EQUAL
    if_true, if_false = (1, 0) if refusal.relation.endswith("not") else (0, 1)
    return [load, _op(jump, refusal.value, if_true, if_false), refuse]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
