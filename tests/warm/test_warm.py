"""A warm `python` is one as far as a program and whoever starts it can see, but for what is imported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm

WAITING = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def is_gone(number: int, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while Path(f"/proc/{number}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return not Path(f"/proc/{number}").exists()


@pytest.mark.parametrize("python", [warm.light, lambda: sys.executable], ids=["warm", "cold"])
def test_a_program_has_its_own_arguments_folder_environment_and_files(python: object, tmp_path: Path) -> None:
    assert callable(python)
    program = (
        "import json, os, sys\n"
        "os.write(int(sys.argv[2]), b'beside')\n"
        "said = [sys.argv[1], os.getcwd(), os.environ['OWN'], 'HOME' in os.environ, sys.stdin.read()]\n"
        "print(json.dumps([*said, sys.executable]))\n"
        "print('é', file=sys.stderr)\n"
        "sys.exit(7)"
    )
    read, write = os.pipe()
    done = subprocess.run(
        [python(), "-c", program, "one", str(write)],
        cwd=tmp_path,
        env={"OWN": "x", "PYTHONUTF8": "1"},
        input=b"in",
        capture_output=True,
        pass_fds=(write,),
        check=False,
    )
    os.close(write)
    with os.fdopen(read, "rb") as beside:
        assert beside.read() == b"beside"
    assert (done.returncode, done.stderr.decode()) == (7, "é\n")
    assert json.loads(done.stdout) == ["one", str(tmp_path), "x", False, "in", python()]


@pytest.mark.parametrize(
    ("program", "status", "word"),
    [
        ("import sys; sys.exit('a word')", 1, "a word"),
        ("raise ValueError('a fault')", 1, "ValueError: a fault"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import atexit; atexit.register(print, 'at the end')", 0, "at the end"),
        ("import threading; threading.Timer(0.1, print, ['from a thread']).start()", 0, "from a thread"),
    ],
)
def test_it_ends_as_the_program_ends(program: str, status: int, word: str) -> None:
    done = subprocess.run([warm.light(), "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert word in done.stdout + done.stderr


def test_signals_reach_the_program_and_its_fork_dies_with_it() -> None:
    for number, status in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = subprocess.Popen(
            [warm.light(), "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        assert fork != process.pid
        process.send_signal(number)
        assert process.wait(timeout=60) == status
        assert is_gone(fork)
        process.stdout.close()


def test_whoever_leads_a_group_ends_with_all_of_it() -> None:
    program = (
        "import subprocess, sys\n"
        f"inner = subprocess.Popen([sys.executable, '-c', {WAITING!r}], stdout=subprocess.PIPE)\n"
        "print(inner.stdout.readline().decode(), flush=True)\n"
        "inner.wait()"
    )
    with subprocess.Popen(
        [warm.light(), "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        inner = int(process.stdout.readline())
        os.killpg(process.pid, signal.SIGKILL)
    assert is_gone(inner)


def test_what_one_changes_another_does_not_see() -> None:
    for _ in range(2):
        program = "import json; assert not hasattr(json, 'mine'); json.mine = 1"
        subprocess.run([warm.light(), "-c", program], check=True)


def test_torch_is_in_the_heavy_one_alone() -> None:
    for python, is_there in ((warm.light, False), (warm.heavy, True)):
        program = f"import sys; assert ('torch' in sys.modules) is {is_there}"
        subprocess.run([python(), "-c", program], check=True)
