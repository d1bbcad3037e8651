"""What code gets back, limits and closing, and that a sandbox survives the death of its processes."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.sandbox.boxes import both_kinds, failure_of, sandboxed
from tests.system.sandbox.processes import descendants, is_gone, status_of, zygote_pids
from turnwise.system.sandbox import (
    ExecutionStop,
    Kind,
    NoIsolation,
    Sandbox,
    SandboxDown,
    SandboxIsolation,
    SandboxLimits,
    isolation,
)
from turnwise.system.sandbox.isolation import trial

SOURCE = str(Path(__file__).parents[3] / "src")


async def wait_until(condition: Any) -> bool:
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@both_kinds
async def test_code_gives_its_output_its_last_value_and_its_traceback(kind: Kind) -> None:
    async with sandboxed(kind) as sandbox:
        good = await sandbox.run(
            "print('a')\nimport sys\nprint('b', file=sys.stderr)\nx = 2\n{'x': [x, 1.5]}"
        )
        assert (good.stdout, good.value, good.error) == ("a\nb\n", "{'x': [2, 1.5]}", "")
        assert json.loads(good.value_json or "") == {"x": [2, 1.5]}
        assert good.stopped is ExecutionStop.NONE
        bad = await sandbox.run("print('before')\ndef f():\n    return 1 / 0\nimport statistics\nf()")
        assert bad.stdout == "before\n"
        assert 'File "<code>", line 3, in f' in bad.error
        assert "return 1 / 0" in bad.error
        assert bad.error.endswith("ZeroDivisionError: division by zero")
        library = await sandbox.run("import json\njson.loads('{')")
        assert library.error.count("File ") == 1
        assert "lib/python" not in library.error
        assert "line 1" in (await sandbox.run("x ===")).error
        assert (await sandbox.run("")).value == ""
        assert (await sandbox.run("exit()")).error == ""
        assert (await sandbox.run("raise SystemExit(3)")).error == "SystemExit: 3"


async def test_a_step_gets_the_objects_of_the_step_before() -> None:
    steps = ["[x * 2 for x in data]", "result = set(data)", "data.add(9)", "print('s')\nsorted(data)"]

    async with sandboxed() as sandbox:
        execution = await sandbox.run_steps(steps, {"data": [1, 2]})
        assert (execution.value_json, execution.stdout) == ("[2,4,9]", "s\n")
        broken = await sandbox.run_steps(["1", "data.x"], {"data": 0})
        assert 'File "<step 2>", line 1' in broken.error


async def test_executions_run_at_the_same_time() -> None:
    async with sandboxed(num_workers=2, wall_seconds=60) as sandbox:
        long = asyncio.ensure_future(sandbox.run("import time\ntime.sleep(60)"))
        await asyncio.sleep(0)  # it takes the first worker
        executions = await asyncio.gather(*(sandbox.run(f"{n}") for n in range(4)))
        assert [execution.value for execution in executions] == ["0", "1", "2", "3"]
        assert not long.done()
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long


async def test_a_second_worker_starts_only_when_the_first_is_busy() -> None:
    async with sandboxed(num_workers=2) as sandbox:
        for _ in range(3):
            await sandbox.run("1")
        assert len(zygote_pids()) == 1
        await asyncio.gather(*(sandbox.run("1") for _ in range(4)))
        assert len(zygote_pids()) == 2


async def test_the_cpu_limit_holds_where_the_wall_limit_is_far() -> None:
    async with sandboxed(cpu_seconds=1, wall_seconds=30) as sandbox:
        execution = await sandbox.run("print('x', flush=True)\nwhile True: pass")
        assert (execution.stopped, execution.stdout) == (ExecutionStop.CPU, "x\n")


def test_a_limit_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="num_files must be positive, not 0"):
        SandboxLimits(num_files=0)


@both_kinds
async def test_a_cancelled_execution_is_ended_and_the_next_one_runs(kind: Kind) -> None:
    async with sandboxed(kind) as sandbox:
        await sandbox.run("1")
        before = zygote_pids()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sandbox.run("import time\ntime.sleep(60)")
        assert await wait_until(lambda: not set(before) & descendants(os.getpid()))
        assert (await sandbox.run("6 * 7")).value == "42"


@both_kinds
async def test_a_zygote_killed_in_an_execution_is_the_sandboxs_fault_and_is_replaced(kind: Kind) -> None:
    async def sleep(sandbox: Sandbox) -> None:
        with pytest.raises(SandboxDown, match="the sandbox died"):
            await sandbox.run("import time\ntime.sleep(60)")

    async with sandboxed(kind) as sandbox:
        await sandbox.run("1")
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep(sandbox))
            await asyncio.sleep(0.3)
            for pid in zygote_pids():
                os.kill(pid, signal.SIGKILL)
        assert (await sandbox.run("6 * 7")).value == "42"


@both_kinds
async def test_a_zygote_killed_while_idle_is_replaced_unnoticed(kind: Kind) -> None:
    before = descendants(os.getpid())
    async with sandboxed(kind) as sandbox:
        await sandbox.run("1")
        family = descendants(os.getpid()) - before
        for pid in zygote_pids():
            os.kill(pid, signal.SIGKILL)
        assert await wait_until(lambda: all(is_gone(pid) for pid in family))
        assert (await sandbox.run("6 * 7")).value == "42"


@both_kinds
async def test_a_waiting_child_killed_before_it_has_code_is_replaced_unnoticed(kind: Kind) -> None:
    async with sandboxed(kind) as sandbox:
        await sandbox.run("1")
        (zygote,) = zygote_pids()
        assert await wait_until(lambda: len(descendants(zygote)) == 1)
        (child,) = descendants(zygote)
        assert await wait_until(lambda: "Seccomp:\t2" in status_of(child))
        os.kill(child, signal.SIGKILL)
        assert (await sandbox.run("6 * 7")).value == "42"


@both_kinds
async def test_closing_leaves_no_process_and_no_descriptor(kind: Kind) -> None:
    before = set(os.listdir("/proc/self/fd")), descendants(os.getpid())
    async with sandboxed(kind, num_workers=2, wall_seconds=0.5) as sandbox:
        await asyncio.gather(
            *(sandbox.run(code) for code in ("1", "1 / 0", "while True: pass", "print('x' * 10**6)"))
        )
    assert (set(os.listdir("/proc/self/fd")), descendants(os.getpid())) == before


@both_kinds
def test_everything_dies_with_a_host_that_is_killed(kind: Kind) -> None:
    if failure := failure_of(kind):
        pytest.skip(failure)
    host = textwrap.dedent(f"""
        import asyncio
        from turnwise.system.sandbox import Kind, Sandbox, SandboxIsolation
        async def main():
            walls = SandboxIsolation(Kind({str(kind)!r}), "")
            async with Sandbox(num_workers=1, packages=(), walls=walls) as sandbox:
                await sandbox.run("1")
                print("warm", flush=True)
                await sandbox.run("import time; time.sleep(60)")
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"warm\n"
        time.sleep(0.2)
        family = descendants(process.pid)
        assert len(family) >= 2
        process.kill()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in family):
        assert time.monotonic() < deadline, "something outlived its host"
        time.sleep(0.01)


async def test_bubblewrap_shares_no_namespace_with_us() -> None:
    async with sandboxed() as sandbox:
        await sandbox.run("1")
        (zygote,) = zygote_pids()
        assert await wait_until(lambda: len(descendants(zygote)) == 1)
        (child,) = descendants(zygote)

        def namespace(pid: int | str, name: str) -> str:
            return os.readlink(f"/proc/{pid}/ns/{name}")

        for name in ("pid", "net", "ipc", "uts", "mnt"):
            assert namespace(zygote, name) != namespace("self", name), name
        assert await wait_until(
            lambda: all(namespace(child, name) != namespace(zygote, name) for name in ("pid", "ipc", "mnt"))
        )
        assert await wait_until(lambda: "Seccomp:\t2" in status_of(child))
        status = status_of(child)
        assert "NoNewPrivs:\t1" in status
        for line in status.splitlines():
            if line.startswith("Cap"):
                assert int(line.split()[1], 16) == 0, line


async def test_without_isolation_nothing_runs() -> None:
    with pytest.raises(NoIsolation, match="bubblewrap"):
        async with Sandbox(walls=SandboxIsolation(Kind.NONE, "install bubblewrap")):
            pass


def test_a_missing_bubblewrap_is_named_and_the_fallback_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if trial(Kind.LANDLOCK):
        pytest.skip("no Landlock here")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = isolation.__wrapped__()
    assert found.kind is Kind.LANDLOCK
    assert "apt install bubblewrap" in found.detail


def test_a_bubblewrap_that_fails_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "No permissions" in trial(Kind.BUBBLEWRAP)


NOT_ROOT = """
import asyncio
from turnwise.system.sandbox import Kind, Sandbox, SandboxIsolation, SandboxLimits
from turnwise.system.sandbox.isolation import trial
from turnwise.system.sandbox.layout import PACKAGES
CODE = '''
import os, time
count = 0
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError as error:
    print("refused after", count)
try:
    print("ESCAPED", open("/etc/passwd").read())
except OSError:
    print("blocked")
'''
async def main():
    for kind in (Kind.BUBBLEWRAP, Kind.LANDLOCK):
        if failure := trial(kind):
            print(kind, "does not work:", failure)
            continue
        walls = SandboxIsolation(kind, "")
        async with Sandbox(SandboxLimits(num_processes=16), num_workers=1, walls=walls) as sandbox:
            print(kind, (await sandbox.run(CODE)).stdout.split(chr(10)), (await sandbox.run("6 * 7")).value)
asyncio.run(main())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become another user"
)
def test_the_walls_hold_for_a_user_without_privileges() -> None:
    python = Path("/usr/bin/python3")
    version = (
        subprocess.run([python, "--version"], check=True, capture_output=True, text=True)
        if python.exists()
        else None
    )
    if version is None or version.stdout.split()[-1].split(".") < ["3", "11"]:
        pytest.skip("needs a system Python 3.11 that everyone may run")
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(python), "-c", NOT_ROOT]
    env = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr
    bubblewrap, landlock = done.stdout.splitlines()
    if "does not work" not in bubblewrap:
        assert "refused after" in bubblewrap
        assert "'blocked'" in bubblewrap
        assert bubblewrap.endswith("42")
    assert landlock.endswith("['refused after 0', 'blocked', ''] 42")
