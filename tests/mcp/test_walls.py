"""A third-party server that an attacker controls reaches nothing outside its episode."""

import asyncio
import contextlib
import logging
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leases import ask, script_spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.exposure import refusal
from turnwise.mcp.processes.mounts import Mount, Way
from turnwise.mcp.processes.private_folders import find_enclosure
from turnwise.mcp.processes.scratch import Scratch
from turnwise.mcp.processes.walls import NotPrivate, open_namespace, require_sealed
from turnwise.mcp.session import ConnectFailed
from turnwise.types import Cause, Fault

REPO = Path(__file__).parents[2]
CONNECT = """
import socket
peer = socket.socket(socket.{family})
peer.settimeout(5)
peer.connect({address!r})
peer.sendall(b"DROP TABLE orders")
print("reached")
"""


@contextlib.asynccontextmanager
async def attacking(**options: Any) -> AsyncIterator[Any]:
    """A function that runs code inside the attacker's server, within one episode."""
    settings = {"num_warm": 0, **options}
    env, args = settings.pop("env", None), settings.pop("args", ())
    async with (
        Pool([script_spec("attacker", *args, env=env, **settings)]) as pool,
        pool.lease(["attacker"], "e") as toolbox,
    ):
        # without walls, root's attacks would harm this machine
        assert pool.exposure("attacker").is_enclosed or options.get("data") == "real"
        yield attack_of(toolbox)


def attack_of(toolbox: Any) -> Any:
    async def run(code: str) -> str:
        return (await ask(toolbox, "run", code=code)).content

    return run


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_reached(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


# --- the network ----------------------------------------------------------------------------------------


async def test_a_service_on_this_machine_cannot_be_reached(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    async with attacking(env={"PGHOST": "127.0.0.1", "PGPORT": str(port)}) as attack:
        answer = await attack(CONNECT.format(family="AF_INET", address=("127.0.0.1", port)))
    assert answer == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert not was_reached(listener)


async def test_another_machine_cannot_be_reached() -> None:
    async with attacking() as attack:
        answer = await attack(CONNECT.format(family="AF_INET", address=("192.0.2.1", 5432)))
    assert answer == "OSError: [Errno 101] Network is unreachable"


async def test_an_abstract_socket_cannot_be_reached() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0turnwise-test-{os.getpid()}")
        server.listen()
        server.setblocking(False)
        async with attacking() as attack:
            answer = await attack(CONNECT.format(family="AF_UNIX", address=server.getsockname()))
        assert answer == "ConnectionRefusedError: [Errno 111] Connection refused"
        assert not was_reached(server)


@pytest.mark.parametrize("parent", ["/run", "/opt", "/dev/shm", "tmp_path"])
async def test_a_socket_with_a_path_cannot_be_reached(parent: str, tmp_path: Path) -> None:
    folder = tmp_path if parent == "tmp_path" else Path(parent)
    if not os.access(folder, os.W_OK):
        pytest.skip("only root can bind a socket there")
    path = folder / f"turnwise-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        try:
            server.listen()
            server.setblocking(False)
            async with attacking() as attack:
                assert "reached" not in await attack(CONNECT.format(family="AF_UNIX", address=str(path)))
            assert not was_reached(server)
        finally:
            path.unlink()


async def test_servers_of_one_episode_reach_each_other(tmp_path: Path) -> None:
    """They name the same folder, so they share one network of their own."""
    serve = "import socket; s = socket.create_server(('127.0.0.1', 4242)); print('listens')"
    names = ("one", "other")
    specs = [
        script_spec("attacker", str(tmp_path), num_warm=0).model_copy(update={"name": name}) for name in names
    ]
    async with Pool(specs) as pool, pool.lease(names, "e") as toolbox:
        assert (await ask(toolbox, "one__run", code=serve)).content == "listens"
        code = CONNECT.format(family="AF_INET", address=("127.0.0.1", 4242))
        assert (await ask(toolbox, "other__run", code=code)).content == "reached"


async def test_an_open_network_is_reached_and_is_an_exposure(listener: socket.socket) -> None:
    code = CONNECT.format(family="AF_INET", address=("127.0.0.1", listener.getsockname()[1]))
    async with attacking(network=True) as attack:
        assert await attack(code) == "reached"
    assert was_reached(listener)
    for network, is_refused in ((False, False), (True, True), ("real", False)):
        async with Pool([script_spec("attacker", num_warm=0, network=network)]) as pool:
            await pool.connect()
            exposure = pool.exposure("attacker")
            assert exposure.is_refused is is_refused
            assert str(exposure).endswith("open network" if network else "no network")


async def test_a_server_that_misses_the_network_is_told_how_to_open_it(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    advice = '"turnwise": {"network": true}'
    with caplog.at_level(logging.WARNING):
        async with attacking() as attack:
            assert advice not in caplog.text
            await attack(CONNECT.format(family="AF_INET", address=("192.0.2.1", 5432)))
    assert advice in caplog.text

    script = tmp_path / "server.py"
    script.write_text("import socket; socket.create_connection(('192.0.2.1', 5432))")
    spec = script_spec("attacker", num_warm=0).model_copy(update={"args": (str(script),)})
    async with Pool([spec]) as pool:
        failed = (await pool.connect())["attacker"]
    assert isinstance(failed, ConnectFailed)
    assert advice in str(failed)


# --- the machine ----------------------------------------------------------------------------------------


SEARCH = """
import os
secret = {reversed_secret!r}[::-1].encode()

def readable(number):
    folder = f"/proc/{{number}}"
    yield "environ", lambda: open(folder + "/environ", "rb").read()
    yield "mem", lambda: memory(folder)
    for name in os.listdir(folder + "/fd"):
        path = f"{{folder}}/fd/{{name}}"
        yield "fd", lambda: os.path.isfile(path) and open(path, "rb").read()

def memory(folder):
    parts = []
    with open(folder + "/maps") as maps, open(folder + "/mem", "rb", 0) as file:
        for line in maps:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                file.seek(first)
                parts.append(file.read(last - first))
    return b"".join(parts)

others = [number for number in {numbers} if number != str(os.getpid())]
for number in others:
    try:
        for name, read in readable(number):
            try:
                if secret in (read() or b""):
                    print("found in", name)
            except OSError:
                pass
    except OSError:
        pass
print(len(others), "other processes")
"""
TRAINER = """
import asyncio, ctypes, os, sys
from pathlib import Path
from tests.mcp.test_walls import SEARCH, attacking

async def main(path, options):
    file = open(path)
    async with attacking(**options) as attack:
        numbers = [str(os.getpid())] if options else "filter(str.isdigit, os.listdir('/proc'))"
        secret = os.environ["SECRET_KEY"][::-1]
        print(await attack(SEARCH.format(reversed_secret=secret, numbers=numbers)))
        print(await attack(f"os.kill({os.getpid()}, 0); print('signalled')"))

asyncio.run(main(sys.argv[1], dict(argument.split("=") for argument in sys.argv[2:])))
"""


def searched(tmp_path: Path, *options: str) -> list[str]:
    """What a server reads of a trainer that has a secret in its environment and in an open file."""
    (tmp_path / "secret").write_text("hunter2-of-the-trainer")
    command = [sys.executable, "-c", TRAINER, str(tmp_path / "secret"), *options]
    secrets = {**os.environ, "SECRET_KEY": "hunter2-of-the-trainer"}
    done = subprocess.run(command, cwd=REPO, env=secrets, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_trainer_cannot_be_found(tmp_path: Path) -> None:
    *places, num_others, signalled = searched(tmp_path)
    assert not places
    assert int(num_others.split()[0]) < 5
    assert "No such process" in signalled


def test_without_walls_the_trainer_can_be_read_by_root_alone(tmp_path: Path) -> None:
    *places, _, signalled = searched(tmp_path, "data=real")
    assert signalled == "signalled"
    is_root = os.geteuid() == 0
    assert set(places) == ({"found in environ", "found in mem", "found in fd"} if is_root else set())


ESCAPES = (
    "mount -o remount,rw /",
    "mount -o remount,rw,bind /",
    "umount -l /proc",
    "mount --bind /proc /mnt",
    "nsenter --target 1 --mount --pid true",
    "unshare --mount true",
    "unshare --user --map-root-user --mount mount -o remount,rw,bind /",
    "unshare --user --map-root-user --mount umount -l /run",
    "mknod /tmp/disk b 254 0",
    "sh -c 'cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness'",
    "sh -c 'echo x > /sys/power/state'",
    "sh -c 'echo x > /etc/turnwise-test'",
    "sh -c ': > /proc/1/root/etc/turnwise-test'",
    "chroot /proc/1/root mount -o remount,rw /",
    "setpriv --inh-caps=+sys_admin true",
)


async def test_mounts_and_namespaces_cannot_be_changed() -> None:
    code = "import subprocess; print(subprocess.run({!r}, shell=True, capture_output=True).returncode != 0)"
    async with attacking() as attack:
        held = {escape: await attack(code.format(escape)) for escape in ESCAPES}
        status = await attack("print(open('/proc/self/status').read())")
    assert set(held.values()) == {"True"}, held
    assert "NoNewPrivs:\t1" in status
    assert not int(status.partition("CapPrm:")[2].split()[0], 16) & ~0xFB, "only what concerns files"


async def test_shared_memory_and_run_belong_to_the_episode(tmp_path: Path) -> None:
    shared = Path("/dev/shm")
    (shared / f"turnwise-test-{os.getpid()}").write_text("real")
    places = [shared / f"turnwise-test-{os.getpid()}", Path(f"/run/turnwise-test-{os.getpid()}")]
    try:
        async with attacking() as attack:
            for place in places:
                assert await attack(f"print(open({str(place)!r}).read())") != "real"
                await attack(f"open({str(place)!r}, 'w').write('by the model')")
        async with attacking() as attack:  # another episode
            for place in places:
                assert "by the model" not in await attack(f"print(open({str(place)!r}).read())")
        assert places[0].read_text() == "real"
        assert not places[1].exists()
    finally:
        places[0].unlink()


async def test_a_named_folder_in_shared_memory_is_private() -> None:
    folder = Path(f"/dev/shm/turnwise-test-{os.getpid()}")
    folder.mkdir()
    (folder / "orders").write_text("real")
    try:
        async with attacking(args=[str(folder)]) as attack:
            path = str(folder / "orders")
            assert await attack(f"print(open({path!r}).read())") == "real"
            assert await attack(f"open({path!r}, 'w').write('x'); print(open({path!r}).read())") == "x"
        assert (folder / "orders").read_text() == "real"
    finally:
        (folder / "orders").unlink()
        folder.rmdir()


SYSTEM_V = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
number = libc.shmget(424242, 4096, {flags})
print(number >= 0 and ctypes.string_at(libc.shmat(number, None, 0), 4))
if number >= 0:
    ctypes.memmove(libc.shmat(number, None, 0), b"mine", 4)
"""


async def test_one_episode_cannot_read_the_system_v_memory_of_another() -> None:
    async with Pool([script_spec("attacker", num_warm=0)]) as pool:
        async with pool.lease(["attacker"], "one") as one, pool.lease(["attacker"], "other") as other:
            create, find = SYSTEM_V.format(flags=0o1666), SYSTEM_V.format(flags=0)
            assert await attack_of(one)(create) == r"b'\x00\x00\x00\x00'"
            assert await attack_of(one)(find) == "b'mine'"
            assert await attack_of(other)(find) == "False"


DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execlp("sleep", "sleep", "{seconds}")
    os._exit(0)
os.wait()
print("left")
"""
PLAYER = """
import asyncio
from tests.mcp.test_walls import attacking

async def main():
    async with attacking() as attack:
        print(await attack({daemon!r}), flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def is_running(argument: str) -> bool:
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if argument in (process / "cmdline").read_text().split("\0"):
                return True
    return False


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.02)


async def test_a_background_process_ends_with_its_episode() -> None:
    seconds = f"3600.{os.getpid()}"
    async with Pool([script_spec("attacker", num_warm=0)]) as pool:
        async with pool.lease(["attacker"], "one") as toolbox:
            assert await attack_of(toolbox)(DAEMON.format(seconds=seconds)) == "left"
            await until(lambda: is_running(seconds))
        await until(lambda: not is_running(seconds))


async def test_all_processes_end_if_the_trainer_is_killed() -> None:
    seconds = f"3601.{os.getpid()}"
    code = PLAYER.format(daemon=DAEMON.format(seconds=seconds))
    player = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=REPO, stdout=asyncio.subprocess.PIPE
    )
    assert player.stdout is not None
    assert await player.stdout.readline() == b"left\n"
    await until(lambda: is_running(seconds))
    player.kill()
    await player.communicate()
    await until(lambda: not is_running(seconds))


FILL = """
for number in range({files}):
    with open(f"{folder}/{{number}}", "wb") as file:
        file.write(bytes(1_000_000))
print("filled")
"""


async def test_an_episode_that_fills_the_disk_ends_at_its_own_cost(tmp_path: Path) -> None:
    spec = script_spec("attacker", str(tmp_path), num_warm=0, max_disk_bytes=8_000_000)
    async with Pool([spec]) as pool:
        async with pool.lease(["attacker"], "greedy") as toolbox, pool.lease(["attacker"], "other") as other:
            waiting = f"{FILL.format(folder=tmp_path, files=40)}\nimport time; time.sleep(60)"
            ended, refused = [await ask(toolbox, "run", code=code) for code in (waiting, "")]
            for result in (ended, refused):
                assert (result.cause, result.fault) == (Cause.TOOL_ERROR, Fault.MODEL)
                assert "max_disk_bytes allows 8 MB" in result.content
            assert not toolbox.losses
            assert await attack_of(other)(FILL.format(folder=tmp_path, files=4)) == "filled"
        async with pool.lease(["attacker"], "next") as toolbox:
            assert await attack_of(toolbox)(FILL.format(folder=tmp_path, files=4)) == "filled"


# --- mounts -----------------------------------------------------------------------------------------------


IN_A_MOUNT_NAMESPACE = """
set -e
mkdir -p {home}/disk/inner {home}/disk/hidden
mount -t tmpfs tmpfs {home}/disk
mkdir {home}/disk/inner {home}/disk/hidden
mount -t tmpfs tmpfs {home}/disk/inner
mount -t tmpfs tmpfs {home}/disk/hidden
mount -t tmpfs tmpfs {home}/disk
mkdir {home}/disk/inner
mount -t tmpfs tmpfs {home}/disk/inner
for name in 'a b' 'a,b:c' "a'b" 'a
b' "$(printf 'a\\014b\\342\\200\\250c')" 'a\\b'; do
  mkdir {home}/"$name"
  mount -t tmpfs tmpfs {home}/"$name"
done
exec {python} -c {code} {home}
"""
WRITE_EVERYWHERE = """
import asyncio, sys
from pathlib import Path
from tests.mcp.leases import script_spec
from tests.mcp.test_walls import attack_of
from turnwise.mcp.pool import Pool

async def main(home):
    spec = script_spec("attacker", env={"HOME": str(home)}, num_warm=0)
    folders = [folder for folder in home.rglob("*") if folder.is_dir()]
    assert len(folders) >= 8, folders
    async with Pool([spec]) as pool, pool.lease(["attacker"], "e") as toolbox:
        exposure = pool.exposure("attacker")
        assert exposure.is_enclosed and not exposure.is_refused, exposure
        for folder in folders:
            await attack_of(toolbox)(f"open({str(folder / 'file')!r}, 'w').write('by the model')")
    assert not list(home.rglob("file")), list(home.rglob("file"))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_no_mount_below_a_mount_and_no_name_of_one_lets_writes_through(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    script = IN_A_MOUNT_NAMESPACE.format(home=home, python=sys.executable, code=shlex.quote(WRITE_EVERYWHERE))
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *as_root, "sh", "-c", script]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_file_system_that_appears_before_the_start_ends_it(tmp_path: Path) -> None:
    """Nobody knows about it, so nobody has made it private: the processes would reach the real one."""
    scratch = Scratch()
    (tmp_path / "real").mkdir()
    try:
        known = await find_enclosure([tmp_path], [], [], scratch)
        unknown = replace(known, mounts=(*known.mounts, Mount(tmp_path / "real", Way.REAL)))
        opened = await open_namespace(unknown, scratch)
        with pytest.raises(NotPrivate, match="real could be written to"):
            require_sealed(opened, known.mounts)
        await opened.close()
    finally:
        scratch.close()


async def test_the_home_folder_is_private_and_can_be_written_to() -> None:
    """Also that of a user below a folder of root in a temporary folder; see AS_USER."""
    name = f"turnwise-test-{os.getpid()}"
    async with attacking() as attack:
        write = f"import pathlib; print((pathlib.Path.home() / {name!r}).write_text('by the model'))"
        assert await attack(write) == "12"
    assert not (Path.home() / name).exists()


async def test_without_walls_a_server_that_may_write_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in ("sh", "unshare", "nsenter", "setpriv", "env"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with Pool([script_spec("attacker", num_warm=0)]) as pool:
        assert not await pool.connect()
        exposure = pool.exposure("attacker")
        assert exposure.is_refused
        assert "bwrap is not installed (bubblewrap)" in refusal(exposure)
        assert '"turnwise": {"data": "real"}' in refusal(exposure)
    async with Pool([script_spec("attacker", num_warm=0, data="real")]) as pool:
        assert not await pool.connect()
        assert not pool.exposure("attacker").is_refused


AS_USER = """
set -e
folder=$1; closed=$2; user=$3; shift 3
mount -t tmpfs tmpfs "$folder"
for path in $closed; do
  upper=$(mktemp -d "$folder/XXXXXX")
  mkdir "$upper/upper" "$upper/work"
  chmod 755 "$upper/upper"
  mount -t overlay overlay -o "lowerdir=$path,upperdir=$upper/upper,workdir=$upper/work" "$path"
done
mkdir "$folder/closed" "$folder/closed/home"
chown "$user" "$folder" "$folder/closed/home"
export TMPDIR="$folder" HOME="$folder/closed/home" PYTHONDONTWRITEBYTECODE=1
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a user runs these tests by running this file")
def test_all_of_this_holds_for_a_user_as_well(tmp_path: Path) -> None:
    """Runs this file as a user, for whom the folders of root that hold Python are opened in a namespace."""
    needed = [Path(sys.executable).resolve(), Path(sys.prefix), REPO]
    parents = {parent for path in needed for parent in path.parents}
    closed = [str(parent) for parent in sorted(parents) if not parent.stat().st_mode & stat.S_IXOTH]
    with tempfile.TemporaryDirectory(prefix="as-user-", dir="/mnt") as folder:
        pytest_line = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
        script = ["sh", "-c", AS_USER, "as-user", folder, " ".join(closed), "4242", *pytest_line]
        command = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            *script,
            "--basetemp",
            f"{folder}/t",
        ]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
