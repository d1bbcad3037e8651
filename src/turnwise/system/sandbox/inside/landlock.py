"""Restrict this process by Landlock: files, TCP and signals."""

import os
import struct

from .kernel import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""The number of file rights in each ABI: REFER came with 2, TRUNCATE with 3, IOCTL_DEV with 5."""
_NET_RIGHTS = 0b11  # bind and connect TCP, ABI 4
_SCOPES = 0b11  # abstract unix sockets and signals, ABI 6


def abi() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    try:
        return syscall(_CREATE_RULESET, 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(readable: list[str], writable: list[str]) -> None:
    """Restrict this process and all it starts to these paths, for good; needs no_new_privs."""
    version = abi()
    if version < 1:
        raise OSError("Landlock is not available")
    handled = (1 << _RIGHTS_BY_ABI[min(version, 5)]) - 1
    attributes = struct.pack(
        "QQQ", handled, _NET_RIGHTS if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    # older kernels know a shorter struct and accept a longer one only if the rest is zero
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0))  # noqa: PTH112
        for path in writable:
            _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)
