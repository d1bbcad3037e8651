"""Give up everything that model-written code must not have, for good, in this process."""

import os
import random
import resource
import signal

from . import landlock, seccomp
from .kernel import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    NEWIPC,
    NEWNS,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    drop_capabilities,
    empty_bounding_set,
    mount_tmpfs,
    prctl,
    unshare,
)
from .settings import Settings

_WRITABLE_DEVICE = "/dev/null"


def confine(settings: Settings, *, base_bytes: int) -> None:
    """Confine this process for good; `base_bytes` is its address space before the code's own.

    The kernel demands this order: mounts need capabilities, dropping capabilities needs one, Landlock must
    still be able to open the paths it allows, and the seccomp filter comes last because it refuses the rest.
    """
    _offer_to_the_oom_killer()
    # random, so that concurrent executions do not share one count of RLIMIT_NPROC
    uid = settings.first_uid + random.randrange(settings.num_uids) if settings.num_uids else os.getuid()  # noqa: S311
    gid = uid if settings.num_uids else os.getgid()
    if not settings.shares_host:
        _enter_fresh_mounts(settings, uid, gid)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if settings.shares_host:
        landlock.restrict(list(settings.readable), [_WRITABLE_DEVICE])
    empty_bounding_set()
    if settings.num_uids:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    drop_capabilities()
    os.chdir("/" if settings.shares_host else "/tmp")  # noqa: S108
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after the ids: changing them clears it
    _limit(settings, base_bytes)
    seccomp.load(seccomp.build_here(shares_host=settings.shares_host))


def _enter_fresh_mounts(settings: Settings, uid: int, gid: int) -> None:
    unshare(NEWNS | NEWIPC)
    # the smallest file takes 4 KiB of a tmpfs, so inodes run out no earlier than bytes
    inodes = max(64, settings.tmp_bytes // 4096)
    mount_tmpfs(
        "/tmp",  # noqa: S108 (this execution's own)
        MS_NOSUID | MS_NODEV | MS_NOEXEC,
        f"size={settings.tmp_bytes},nr_inodes={inodes},mode=0700,uid={uid},gid={gid}",
    )
    # hides the zygote's /proc, which shows the zygote; without capabilities it cannot be unmounted
    mount_tmpfs("/proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=1,mode=0555")


def _limit(settings: Settings, base_bytes: int) -> None:
    limits = {
        resource.RLIMIT_AS: base_bytes + settings.memory_bytes,
        resource.RLIMIT_CPU: settings.cpu_seconds,
        resource.RLIMIT_FSIZE: settings.file_bytes,
        resource.RLIMIT_NOFILE: settings.num_files,
        resource.RLIMIT_NPROC: settings.num_processes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_STACK: 8 << 20,
    }
    for which, value in limits.items():
        resource.setrlimit(which, (value, value))


def _offer_to_the_oom_killer() -> None:
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 (startup cost)
        file.write("1000")
