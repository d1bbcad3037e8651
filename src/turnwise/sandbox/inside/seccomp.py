"""Takes the machine and the wanted strictness, gives a seccomp filter as BPF bytes, and loads it."""

import errno
import os
import struct
from dataclasses import dataclass

from .kernel import prctl
from .syscalls import DENIED, DENIED_ON_HOST, JUDGED, LAST_KNOWN

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the syscall tables, and AUDIT_ARCH."""

_LOAD, _EQUAL, _GREATER, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGS_OFFSET = 0, 4, 16

_X32_BIT = 0x40000000
_CLONE_NEW = 0x7E020000  # every CLONE_NEW* that clone takes
_CLONE_THREAD = 0x00010000
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_NOTIFY = 8, 10, 15, 1026
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 1, 22, 2
_AF_UNIX, _NOT_STREAM = 1, 0b1110  # SOCK_STREAM is 1, its flags lie above the low four bits


@dataclass(frozen=True, slots=True)
class _Refuse:
    """Refuse when argument number `arg` (its low 32 bits) stands in `relation` to `value`."""

    arg: int
    relation: str
    value: int


def build(machine: str, *, shares_host: bool, pid: int) -> bytes:
    """The filter; `shares_host` (no namespaces) also refuses processes, and signals to any but `pid`."""
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no seccomp table for {machine}")
    column, arch = _MACHINES[machine]
    program = [
        _op(_LOAD, _ARCH_OFFSET),
        _op(_EQUAL, arch, 1, 0),
        _op(_RETURN, _KILL_PROCESS),  # a 32-bit call would be read by the wrong table
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
    for name, refusals in _judgements(shares_host=shares_host, pid=pid).items():
        program += _block(JUDGED[name][column], refusals)
    program.append(_op(_RETURN, _ALLOW))
    return b"".join(program)


def load(program: bytes) -> None:
    """Bind this process and all it starts; needs no_new_privs."""
    import ctypes

    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointer))


def build_here(*, shares_host: bool) -> bytes:
    """The filter for this machine and this process."""
    return build(os.uname().machine, shares_host=shares_host, pid=os.getpid())


def _judgements(*, shares_host: bool, pid: int) -> dict[str, list[_Refuse]]:
    judgements = {
        "clone": [_Refuse(0, "has", _CLONE_NEW)],
        # only streams: a datagram socket can be aimed at any address with each message
        "socketpair": [_Refuse(0, "is not", _AF_UNIX), _Refuse(1, "has", _NOT_STREAM)],
        "ioctl": [_Refuse(1, "is", _TIOCSTI), _Refuse(1, "is", _TIOCLINUX)],
    }
    if not shares_host:
        return judgements
    owner_calls = [_Refuse(1, "is", value) for value in (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_NOTIFY)]
    return {
        "clone": [*judgements["clone"], _Refuse(0, "has not", _CLONE_THREAD)],
        "socketpair": judgements["socketpair"],
        "ioctl": [*judgements["ioctl"], _Refuse(1, "is", _FIOSETOWN), _Refuse(1, "is", _SIOCSPGRP)],
        "kill": [_Refuse(0, "is not", pid)],
        "tgkill": [_Refuse(0, "is not", pid)],
        "prlimit64": [_Refuse(0, "is not", 0)],
        "fcntl": owner_calls,
        # the zygote's death must stay this process's death
        "prctl": [_Refuse(0, "is", _PR_SET_PDEATHSIG)],
    }


def _block(number: int, refusals: list[_Refuse]) -> list[bytes]:
    tests: list[bytes] = []
    for refusal in refusals:
        jump = _ANY_BIT if refusal.relation.startswith("has") else _EQUAL
        if_true, if_false = (1, 0) if refusal.relation.endswith("not") else (0, 1)
        tests += [
            _op(_LOAD, _ARGS_OFFSET + 8 * refusal.arg),
            _op(jump, refusal.value, if_true, if_false),
            _op(_RETURN, _ERRNO | errno.EPERM),
        ]
    tests.append(_op(_RETURN, _ALLOW))
    return [_op(_EQUAL, number, 0, len(tests)), *tests]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
