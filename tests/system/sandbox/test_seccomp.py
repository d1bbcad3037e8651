"""Runs the filter's program on calls of both machines, of which only one runs the tests."""

import errno
import struct

import pytest

from turnwise.system.sandbox.inside import seccomp
from turnwise.system.sandbox.inside.syscalls import DENIED, DENIED_ON_HOST, LAST_KNOWN

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMNS = {"x86_64": 0, "aarch64": 1}
ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
PID = 4242

both_machines = pytest.mark.parametrize("machine", ARCHES)


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would answer: a BPF machine of the seven instructions the filter uses."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, arch, 0, *[word & 0xFFFFFFFFFFFFFFFF for word in words])
    position, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("HBBI", program, 8 * position)
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x25: accumulator > value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            position += if_true if holds else if_false


@both_machines
@pytest.mark.parametrize("shares_host", [False, True])
def test_every_listed_call_is_refused(machine: str, shares_host: bool) -> None:
    program = seccomp.build(machine, shares_host=shares_host, pid=PID)
    for name, numbers in (DENIED | DENIED_ON_HOST).items():
        number = numbers[COLUMNS[machine]]
        if number is not None:
            is_refused = verdict(program, ARCHES[machine], number) == REFUSE
            assert is_refused is (shares_host or name in DENIED), name


@both_machines
def test_a_foreign_architecture_is_killed_and_later_calls_are_absent(machine: str) -> None:
    program = seccomp.build(machine, shares_host=False, pid=PID)
    assert verdict(program, 0x40000003, 1) == KILL
    assert verdict(program, ARCHES[machine], LAST_KNOWN + 1) == ABSENT
    assert verdict(program, ARCHES[machine], 435) == ABSENT
    if machine == "x86_64":
        assert verdict(program, ARCHES[machine], 0x40000000 | 39) == ABSENT


@both_machines
def test_arguments_decide_where_a_call_has_two_sides(machine: str) -> None:
    clone, socketpair, kill, prlimit = {"x86_64": (56, 53, 62, 302), "aarch64": (220, 199, 129, 261)}[machine]
    ioctl, fcntl, mmap = {"x86_64": (16, 72, 9), "aarch64": (29, 25, 222)}[machine]
    arch = ARCHES[machine]
    caged = seccomp.build(machine, shares_host=False, pid=PID)
    on_host = seccomp.build(machine, shares_host=True, pid=PID)
    thread = 0x3D0F00
    assert verdict(caged, arch, clone, 17) == ALLOW
    assert verdict(on_host, arch, clone, 17) == REFUSE
    for program in (caged, on_host):
        assert verdict(program, arch, clone, thread) == ALLOW
        assert verdict(program, arch, clone, thread | 0x10000000) == REFUSE
        assert verdict(program, arch, socketpair, 1, 1 | 0x80800) == ALLOW
        assert verdict(program, arch, socketpair, 1, 2) == REFUSE
        assert verdict(program, arch, socketpair, 1, 5) == REFUSE
        assert verdict(program, arch, socketpair, 2, 1) == REFUSE
        for request in (0x5401, 0x5421, 0x5451):
            assert verdict(program, arch, ioctl, 0, request) == ALLOW
        for request in (0x5412, 0x541C, 0x40086602, 0x401C5820, 0x8901, 0):
            assert verdict(program, arch, ioctl, 0, request) == REFUSE
        for command in (0, 1, 2, 3, 4, 1030):
            assert verdict(program, arch, fcntl, 0, command) == ALLOW
        for command in (5, 36, 37, 38, 1024, 1025, 1026, 1035, 1036, 1037, 1038):
            assert verdict(program, arch, fcntl, 0, command) == REFUSE
        assert verdict(program, arch, mmap, 0, 4096, 3, 0x22) == ALLOW
        assert verdict(program, arch, mmap, 0, 4096, 3, 0x01) == ALLOW
        assert verdict(program, arch, mmap, 0, 4096, 3, 0x40022) == REFUSE
    assert verdict(caged, arch, mmap, 0, 4096, 3, 0x21) == REFUSE
    assert verdict(on_host, arch, mmap, 0, 4096, 3, 0x21) == ALLOW
    assert verdict(caged, arch, fcntl, 0, 6) == ALLOW
    assert verdict(on_host, arch, fcntl, 0, 6) == REFUSE
    assert verdict(on_host, arch, kill, PID, 9) == ALLOW
    for pid in (PID + 1, 0, -1, -PID):
        assert verdict(on_host, arch, kill, pid, 9) == REFUSE
    assert verdict(on_host, arch, prlimit, 0) == ALLOW
    assert verdict(on_host, arch, prlimit, 1) == REFUSE


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(OSError, match="no seccomp table for riscv64"):
        seccomp.build("riscv64", shares_host=False, pid=PID)
