"""Start a zygote inside bubblewrap."""

import os
import shutil
from pathlib import Path

from turnwise.system.sandbox.launch import ENVIRONMENT, Launch, python_arguments
from turnwise.system.sandbox.layout import PythonLayout

_HOME = Path("/python")
"""Where an interpreter from outside /usr is mounted, so that no home directory is visible."""
_PACKAGES = Path("/python/packages")
_INSIDE = Path("/sandbox")

_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL")
"""What the zygote needs to put each child into its own namespaces and to kill it; the child keeps none."""

_DEVICES = ("null", "full", "random", "urandom")
"""Not /dev/zero: a shared mapping of it is memory that no limit counts."""


def find_bubblewrap() -> str | None:
    """Return the path of bwrap, or None if it is not installed."""
    return shutil.which("bwrap")


def bubblewrap_launch(bwrap: str, layout: PythonLayout) -> Launch:
    """Return a launch in its own pid, net, ipc, uts and mount namespaces, with a root of read-only binds."""
    home = layout.prefix if layout.prefix.is_relative_to("/usr") else _HOME
    executable = home / "bin" / layout.executable.name
    line = [bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() != 0:
        line += ["--unshare-user"]  # root needs none, and without one can drop to other user ids
    line += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for capability in _CAPABILITIES:
        line += ["--cap-add", capability]
    line += _binds(layout, home, executable)
    line += ["--clearenv", "--setenv", "LD_LIBRARY_PATH", f"{home}/lib"]
    for name, value in ENVIRONMENT.items():
        line += ["--setenv", name, value]
    line += ["--chdir", "/", "--remount-ro", "/", "--", str(executable), *python_arguments(str(_INSIDE))]
    return Launch(
        command=line, environment={}, fds=(), shares_host=False, import_path=(str(_PACKAGES),), readable=()
    )


def _binds(layout: PythonLayout, home: Path, executable: Path) -> list[str]:
    links = {path: path.readlink() for path in layout.libraries if path.is_symlink()}
    sources = {path: path for path in layout.libraries if path not in links}
    for name in ("lib", "lib64"):
        if (layout.prefix / name).is_dir() and home / name not in layout.libraries:
            sources[home / name] = layout.prefix / name
    sources[executable] = layout.executable
    for name, path in layout.packages.items():
        sources[_PACKAGES / name] = path
    sources[_INSIDE / "inside"] = layout.inside / "inside"
    devices = [Path("/dev") / name for name in _DEVICES]
    line: list[str] = []
    parents = {parent for path in (*sources, *devices) for parent in path.parents} - {Path("/")}
    for parent in sorted(parents):  # bubblewrap would make them closed to other user ids
        line += ["--perms", "0755", "--dir", str(parent)]
    for target, source in links.items():
        line += ["--symlink", str(source), str(target)]
    for target, source in sources.items():
        line += ["--ro-bind", str(source), str(target)]
    for device in devices:
        line += ["--dev-bind", str(device), str(device)]
    # multiprocessing's locks live in /dev/shm
    return [*line, "--symlink", "/tmp", "/dev/shm", "--proc", "/proc", "--dir", "/tmp"]  # noqa: S108
