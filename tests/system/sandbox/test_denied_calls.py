"""Tries every system call that must be refused, inside the real sandbox."""

import json

from tests.system.sandbox.attack import PRELUDE
from tests.system.sandbox.boxes import both_kinds, sandboxed
from turnwise.system.sandbox import Kind
from turnwise.system.sandbox.inside.syscalls import DENIED, DENIED_ON_HOST

TRY_ALL = (
    PRELUDE
    + """
import fcntl, json, mmap, struct
found = {}
def note(name, what, *args):
    try:
        what(*args)
        found[name] = "allowed"
    except OSError as error:
        found[name] = errno.errorcode[error.errno]

for name, (x86, arm) in calls.items():
    if (x86 if IS_X86 else arm) is not None:
        note(name, raw, x86, arm, 0, 0, 0, 0, 0, 0)
with open(json.__file__, "rb") as shared, open("/dev/null", "r+b") as null:
    folder = os.open(os.path.dirname(json.__file__), os.O_RDONLY)
    lock = struct.pack("hhqqi4x", 1, 0, 0, 0, 0)
    hint = struct.pack("Q", 2)
    for name, fd, command, argument in (
        ("F_GETLK", shared, 5, lock),
        ("F_OFD_GETLK", shared, 36, lock),
        ("F_OFD_SETLK", null, 37, lock),
        ("F_OFD_SETLKW", null, 38, lock),
        ("F_SETLEASE", shared, 1024, 0),
        ("F_GETLEASE", shared, 1025, 0),
        ("F_NOTIFY", folder, 1026, 1),
        ("F_GET_RW_HINT", shared, 1035, hint),
        ("F_SET_RW_HINT", shared, 1036, hint),
        ("F_GET_FILE_RW_HINT", shared, 1037, hint),
        ("F_SET_FILE_RW_HINT", shared, 1038, hint),
        ("F_SETLK of a device", null, 6, lock),
        ("F_SETOWN", null, 8, 1),
    ):
        note(name, fcntl.fcntl, fd, command, argument)
    for name, request in (
        ("FS_IOC_GETFLAGS", 0x80086601),
        ("FS_IOC_SETFLAGS", 0x40086602),
        ("FS_IOC_SETVERSION", 0x40087602),
        ("FS_IOC_FSSETXATTR", 0x401C5820),
        ("FIFREEZE", 0xC0045877),
        ("FICLONE", 0x40049409),
        ("TIOCSTI", 0x5412),
        ("FIOSETOWN", 0x8901),
    ):
        note(name, fcntl.ioctl, shared, request, bytes(64))
note("huge pages", raw, 9, 222, 0, 2 << 20, 3, 0x40022, -1, 0)
note("shared memory", raw, 9, 222, 0, 1 << 20, 3, 0x21, -1, 0)
found
"""
)

ARGUMENTS = [
    *("F_GETLK", "F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW", "F_SETLEASE", "F_GETLEASE", "F_NOTIFY"),
    *("F_GET_RW_HINT", "F_SET_RW_HINT", "F_GET_FILE_RW_HINT", "F_SET_FILE_RW_HINT"),
    *("FS_IOC_GETFLAGS", "FS_IOC_SETFLAGS", "FS_IOC_SETVERSION", "FS_IOC_FSSETXATTR", "FIFREEZE", "FICLONE"),
    *("TIOCSTI", "FIOSETOWN", "huge pages"),
]
ONLY = {
    Kind.BUBBLEWRAP: ["shared memory"],
    Kind.LANDLOCK: ["F_SETLK of a device", "F_SETOWN"],
}
CHANNELS = (
    *("inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark", "flock", "io_setup"),
    *("io_submit", "sync", "syncfs", "add_key", "request_key", "keyctl", "shmget", "msgget", "semget"),
    *("mq_open", "memfd_create", "personality", "ptrace", "process_vm_readv", "process_vm_writev"),
    *("userfaultfd", "perf_event_open", "setpriority", "sched_setscheduler", "sched_setattr", "ioprio_set"),
)
"""Ways from one execution to another, or to something that lasts: they must stay in the table."""


@both_kinds
async def test_every_denied_call_is_refused_inside_the_sandbox(kind: Kind) -> None:
    calls = DENIED | (DENIED_ON_HOST if kind is Kind.LANDLOCK else {})
    async with sandboxed(kind) as sandbox:
        execution = await sandbox.run(TRY_ALL, {"calls": calls})
    assert execution.error == ""
    found = json.loads(execution.value_json or "")
    # A call that is not in the result does not exist on this machine.
    outcomes = {name: found.get(name, "EPERM") for name in (*calls, *ARGUMENTS, *ONLY[kind])}
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "EPERM"} == {}
    assert len(found) > 100


def test_every_known_channel_is_in_the_table() -> None:
    assert set(CHANNELS) <= set(DENIED)
