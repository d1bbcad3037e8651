"""The namespaces that a set of server processes runs in: its own files, processes, memory, users and network.

A script makes a mount namespace with the private folders, and runs bubblewrap in it. Bubblewrap adds the
other namespaces, makes all else read-only, and stays as their first process. Servers enter with nsenter,
without capabilities. When the first process ends, the kernel ends all others; it ends when we do.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.mcp.processes.mount_table import mount_points
from turnwise.mcp.processes.mounts import MAX_MEMORY_BYTES, SCRIPT, Mount, Way, is_hidden, prepare
from turnwise.mcp.processes.scratch import Scratch

logger = logging.getLogger(__name__)

FRESH_FOLDERS = (Path("/dev"), Path("/dev/shm"), Path("/run"))  # noqa: S108 (made private)
"""Devices, shared memory and sockets of this machine: each set has its own instead."""
_FRESH_BYTES = 256 * 2**20
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_TERMINALS = Path("/dev/pts")
_ROOT_CAPABILITIES = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid")
"""What servers of root keep, in their own user namespace: other users' files stay theirs to change."""
_NAMESPACES = {"user": "user", "mnt": "mount", "pid": "pid", "ipc": "ipc", "uts": "uts", "net": "net"}
"""The names in /proc, and of nsenter's options."""
_BOUND = re.compile(r"(?:\S+ +){7}(/.*)")
"""A line of /proc/net/unix: a socket with a path."""
_UNREACHED = ("Ip:OutNoRoutes", "Ip6OutNoRoutes", "Tcp:AttemptFails", "Udp:NoPorts", "Udp6NoPorts")
"""The kernel's counts of packets and connections that found nobody."""
_START_SECONDS = 20.0
_END_SECONDS = 5.0
_HOLD = ("sh", "-c", "echo ready; exec cat")
"""Runs until its stdin is closed."""


class NotPrivate(Exception):
    """Servers cannot be walled in on this machine, or a folder cannot be private; the message says why."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """What the processes of a set see and can change."""

    mounts: tuple[Mount, ...] = ()
    is_walled: bool = False
    """Whether nothing but the mounts can be changed; else only the mounts are theirs."""
    has_network: bool = False


class Namespace:
    """The open namespaces of one set; a server's program enters them."""

    def __init__(
        self, holder: asyncio.subprocess.Process, pid: int, kinds: tuple[str, ...], at: Path
    ) -> None:
        self.directory = at
        self.has_network = "net" not in kinds
        self._holder = holder
        self._kinds = kinds
        # Later lookups in this folder fail if the process has ended, also if its number is given out again.
        self._process = os.open(f"/proc/{pid}", os.O_DIRECTORY | os.O_PATH | os.O_CLOEXEC)

    @contextlib.contextmanager
    def entry(self, argv: Sequence[str], cwd: Path | None) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """The command line that runs `argv` inside, and the descriptors that it needs."""
        with contextlib.ExitStack() as exits:
            line = [_program("nsenter"), "--preserve-credentials"]
            descriptors = []
            for kind in self._kinds:
                descriptor = os.open(f"ns/{kind}", os.O_RDONLY, dir_fd=self._process)
                exits.callback(os.close, descriptor)
                descriptors.append(descriptor)
                line.append(f"--{_NAMESPACES[kind]}=/proc/self/fd/{descriptor}")
            line += ["--", _program("setpriv")]
            if "pid" in self._kinds:
                line += ["--no-new-privs", "--inh-caps=-all"]
                if os.geteuid() == 0:
                    line.append(f"--bounding-set=-all,{','.join(f'+{name}' for name in _ROOT_CAPABILITIES)}")
            else:
                line += ["--pdeathsig", "KILL"]
            yield [*line, _program("env"), "-C", str(cwd or Path.cwd()), *argv], tuple(descriptors)

    @property
    def process(self) -> Path:
        """The folder in /proc of the first process inside."""
        return Path(f"/proc/self/fd/{self._process}")

    @property
    def num_network_failures(self) -> int:
        """How often the processes inside could not reach an address."""
        if self.has_network:
            return 0
        net = self.process / "net"
        try:
            lines = [line.split() for line in (net / "snmp").read_text("ascii").splitlines()]
            counts = [line.split() for line in (net / "snmp6").read_text("ascii").splitlines()]
        except OSError:  # they have ended, or there is no IPv6
            return 0
        for (protocol, *names), (_, *values) in zip(lines[::2], lines[1::2], strict=True):
            counts += [[protocol + name, value] for name, value in zip(names, values, strict=True)]
        return sum(int(count) for name, count in counts if name in _UNREACHED)

    async def close(self) -> None:
        """End all processes inside."""
        os.close(self._process)
        self._process = -1
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        try:
            await asyncio.wait_for(self._holder.wait(), _END_SECONDS)
        except TimeoutError:
            _kill(self._holder)
            await self._holder.wait()


async def open_namespace(enclosure: Enclosure, scratch: Scratch) -> Namespace:
    """Create the namespaces; raises NotPrivate, also if a process inside could write elsewhere."""
    directory = await scratch.fresh("private", None)
    try:
        with contextlib.ExitStack() as exits:
            namespace = await _open(enclosure, directory, exits)
        try:
            if enclosure.is_walled:
                require_sealed(namespace, enclosure.mounts)
        except BaseException:
            await namespace.close()
            raise
        return namespace
    except BaseException:
        await scratch.discard(directory)
        raise


async def run_inside(namespace: Namespace, argv: Sequence[str]) -> bytes:
    """Run a command inside to its end and return its output; raises NotPrivate if it fails."""
    with namespace.entry(argv, Path("/")) as (line, descriptors):
        inside = await asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
        )
    output, words = await inside.communicate()
    if inside.returncode:
        raise NotPrivate(
            words.decode("utf-8", "replace").strip().partition("\n")[0] or str(inside.returncode)
        )
    return output


async def _open(enclosure: Enclosure, directory: Path, exits: contextlib.ExitStack) -> Namespace:
    arguments = await asyncio.to_thread(prepare, enclosure.mounts, directory)
    is_root = os.geteuid() == 0
    unshare = [_program("unshare"), "--mount", "--propagation", "private"]
    if not is_root:
        unshare += ["--map-root-user"] if enclosure.is_walled else ["--map-current-user", "--keep-caps"]
    if not enclosure.is_walled:
        kinds: tuple[str, ...] = ("mnt",) if is_root else ("user", "mnt")
        holder = await _start([*unshare, "sh", "-c", SCRIPT, "turnwise", *arguments, *_HOLD], _settings())
        return Namespace(holder, holder.pid, kinds, directory)
    users = ["--unshare-user", "--uid", str(os.geteuid()), "--gid", str(os.getegid())]
    passed = list[int]()
    if is_root:
        passed.append(await _user_namespace())
        exits.callback(os.close, passed[0])
        users = ["--userns", str(passed[0])]
    told, tell = os.pipe()
    exits.callback(os.close, told)
    try:
        wall = [_program("bwrap"), *users, "--info-fd", str(tell), *_wall(enclosure), "--", *_HOLD]
        line = [*unshare, "sh", "-c", SCRIPT, "turnwise", *arguments, *wall]
        settings = _settings(enclosure.mounts, directory)
        holder = await _start(line, settings, (*passed, tell))
    finally:
        os.close(tell)
    pid = json.loads(os.read(told, 10_000))["child-pid"]
    kinds = tuple(kind for kind in _NAMESPACES if kind != "net" or not enclosure.has_network)
    return Namespace(holder, pid, kinds, directory)


def _settings(mounts: Sequence[Mount] = (), directory: Path | None = None) -> dict[str, str]:
    """Return the script's environment."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "OVERLAY": "" if os.geteuid() == 0 else ",userxattr",
        "MEMORY_BYTES": str(MAX_MEMORY_BYTES),
        "IS_HIDDEN": "yes" if directory is not None and is_hidden(directory, mounts) else "",
        "TERMINALS": "yes" if directory is not None and _TERMINALS.is_dir() else "",
    }


def _wall(enclosure: Enclosure) -> Iterator[str]:
    """Yield bubblewrap's arguments: the namespaces, then the mounts in their order."""
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session")
    if not enclosure.has_network:
        yield "--unshare-net"
    yield from ("--ro-bind", "/", "/", "--proc", "/proc")
    if os.geteuid() == 0:  # root could change settings of the kernel
        yield from ("--remount-ro", "/proc")
    yield from ("--tmpfs", "/dev")
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, target in _LINKS.items():
        yield from ("--symlink", f"/proc/self/{target}", f"/dev/{name}")
    if _TERMINALS.is_dir():
        yield from ("--dev-bind", "/dev/pts", "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx")
    fresh = ("--size", str(_FRESH_BYTES), "--perms")
    yield from (*fresh, "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108 (made private)
    if Path("/run").is_dir():
        yield from (*fresh, "0755", "--tmpfs", "/run", *_kept_of_run(enclosure))
    for mount in enclosure.mounts:
        folder = str(mount.folder)
        if mount.way is Way.EMPTY:
            yield from (*fresh, "1777", "--tmpfs", folder)
        else:
            yield from ("--ro-bind" if mount.way is Way.READ_ONLY else "--bind", folder, folder)
    for socket in _sockets([*FRESH_FOLDERS, *(mount.folder for mount in enclosure.mounts)]):
        yield from ("--ro-bind", "/dev/null", socket)


def _kept_of_run(enclosure: Enclosure) -> Iterator[str]:
    """Yield arguments for links to programs, and for the name servers if there is a network."""
    for entry in Path("/run").iterdir():
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), str(entry))
    servers = Path("/etc/resolv.conf").resolve()
    if enclosure.has_network and servers.is_relative_to("/run") and servers.is_file():
        yield from ("--ro-bind", str(servers), str(servers))


def _sockets(covered: Sequence[Path]) -> Iterator[str]:
    """Yield the sockets of other processes: being read-only keeps nobody from connecting to one."""
    for line in Path("/proc/net/unix").read_text("utf-8", "surrogateescape").split("\n")[1:]:
        bound = _BOUND.match(line)
        if bound is None or any(Path(bound[1]).is_relative_to(folder) for folder in covered):
            continue
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(Path(bound[1]).lstat().st_mode):
                yield bound[1]


def require_sealed(namespace: Namespace, mounts: Sequence[Mount]) -> None:
    """Raise NotPrivate if a file system that was mounted meanwhile, or in an odd place, can be written to."""
    ours = {mount.folder for mount in mounts if mount.way is not Way.READ_ONLY}
    for point in mount_points(namespace.process):
        is_fresh = any(point.folder.is_relative_to(folder) for folder in (*FRESH_FOLDERS, Path("/proc")))
        if not point.is_read_only and not is_fresh and point.folder not in ours:
            raise NotPrivate(f"{point.folder} could be written to")


async def _user_namespace() -> int:
    """Return a descriptor of a new user namespace in which all users are the same as outside."""
    holder = await _start([_program("unshare"), "--user", *_HOLD], _settings())
    try:
        _map_all(holder.pid, "uid_map")
        _map_all(holder.pid, "gid_map")
        return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        await holder.communicate(b"")


def _map_all(pid: int, kind: str) -> None:
    own = [line.split() for line in Path(f"/proc/self/{kind}").read_text("ascii").splitlines()]
    same = "".join(f"{first} {first} {count}\n" for first, _, count in own)
    Path(f"/proc/{pid}/{kind}").write_text(same, "ascii")


async def _start(
    line: Sequence[str], settings: dict[str, str], passed: tuple[int, ...] = ()
) -> asyncio.subprocess.Process:
    """Start a process that says `ready` and waits until its stdin is closed; raises NotPrivate."""
    holder = await asyncio.create_subprocess_exec(
        *line,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=settings,
        pass_fds=passed,
        start_new_session=True,
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            if await holder.stdout.readline() == b"ready\n":
                return holder
            words = (await holder.stderr.read(2000)).decode("utf-8", "replace").strip()
    except TimeoutError:
        words = f"no namespace within {_START_SECONDS:g} s"
        _kill(holder)
    except BaseException:
        _kill(holder)
        raise
    await holder.communicate(b"")
    raise NotPrivate(words.partition("\n")[0] or f"{line[0]} exited with code {holder.returncode}")


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def require_programs() -> None:
    """Raise NotPrivate if this machine has not what the walls are made of."""
    if sys.platform != "linux":
        raise NotPrivate("walls around servers need Linux")
    for name in ("bwrap", "unshare", "nsenter", "setpriv", "env"):
        _program(name)


def _program(name: str) -> str:
    """Return the program's path on our own PATH: a server's environment may find another one."""
    found = shutil.which(name)
    if found is None:
        package = "bubblewrap" if name == "bwrap" else "util-linux, coreutils"
        raise NotPrivate(f"{name} is not installed ({package})")
    return found
