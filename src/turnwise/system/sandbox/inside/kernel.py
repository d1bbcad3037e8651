"""Linux calls that Python's standard library lacks."""

import ctypes
import errno
import os

NEWNS, NEWIPC, NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]


def prctl(option: int, arg2: int = 0, arg3: int = 0, arg4: int = 0, arg5: int = 0) -> int:
    return _checked("prctl", _libc.prctl(option, arg2, arg3, arg4, arg5))


def unshare(flags: int) -> None:
    _checked("unshare", _libc.unshare(flags))


def setns(fd: int, kind: int) -> None:
    _checked("setns", _libc.setns(fd, kind))


def mount_tmpfs(target: str, flags: int, options: str) -> None:
    _checked(f"mount on {target}", _libc.mount(b"tmpfs", target.encode(), b"tmpfs", flags, options.encode()))


def wait4(pid: int, status_address: int, usage_address: int) -> None:
    """Reap a child; the kernel writes its status (int) and resource usage to these addresses."""
    _checked("wait4", _libc.wait4(pid, ctypes.c_void_p(status_address), 0, ctypes.c_void_p(usage_address)))


def syscall(number: int, *arguments: int | bytes) -> int:
    """Make a system call by number; every argument is passed as a machine word or a pointer."""
    words = [
        ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value) for value in arguments
    ]
    return _checked(f"syscall {number}", _libc.syscall(ctypes.c_long(number), *words))


def empty_bounding_set() -> None:
    """Keep later execs from gaining a capability; without CAP_SETPCAP there is none to drop."""
    try:
        for capability in range(64):  # EINVAL past the kernel's last capability
            prctl(PR_CAPBSET_DROP, capability)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM):
            raise


def drop_capabilities() -> None:
    """Empty the effective, permitted, inheritable and ambient sets."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    empty = (ctypes.c_uint32 * 6)()
    _checked("capset", _libc.capset(header, empty))


def _checked(what: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
