"""A Ray cluster on this machine with the stand-ins on its path, and the engine that SkyRL samples from."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TURNWISE = (sys.executable, "-m", "turnwise")
"""The command; a module also runs where its script is not installed."""
RAY = (sys.executable, "-m", "ray.scripts.scripts")
STAND_INS = ("attention", "engine", "cuda")
"""The folders of stand_ins that a machine without a GPU needs."""
_WAIT_SECONDS = 120.0


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


RAY_PORT = free_port()
"""Where this process starts its cluster."""


def environment(stand_ins: Sequence[str] = STAND_INS) -> dict[str, str]:
    """Variables for Ray, the engine and the command: the stand-ins are found first, and one core is used."""
    folders = [*(HERE / "stand_ins" / name for name in stand_ins), ROOT / "src", ROOT]
    inherited = [path for path in [os.environ.get("PYTHONPATH", "")] if path]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, folders), *inherited]),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "5",  # 15 otherwise
        "RAY_DEDUP_LOGS": "0",  # it reorders lines
        "RAY_ADDRESS": f"127.0.0.1:{RAY_PORT}",
    }


def start(command: Sequence[str], log: Path, variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a process in its own group, with its output in `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command), env=variables, stdout=output, stderr=output, start_new_session=True
        )


def stop(process: "subprocess.Popen[bytes]", sign: signal.Signals = signal.SIGTERM) -> None:
    """End a process with its whole group."""
    for each in (sign, signal.SIGKILL):
        try:
            os.killpg(process.pid, each)
            process.wait(20)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def ray_node(
    folder: Path, log: Path, *, is_head: bool, num_gpus: int, stand_ins: Sequence[str]
) -> "subprocess.Popen[bytes]":
    """Start a Ray node; its GPUs are only a number to Ray."""
    num_cpus = max(4, os.cpu_count() or 1)
    variables = environment(stand_ins)
    if "cuda" not in stand_ins:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join("0" * num_gpus)  # all that Ray counts are the first GPU
    # another address for the second node: the command joins a node that has its own, which is then the head
    joining = (f"--address=127.0.0.1:{RAY_PORT}", "--node-ip-address=127.0.0.2")
    where = ("--head", f"--port={RAY_PORT}") if is_head else joining
    sizes = (f"--num-cpus={num_cpus}", f"--num-gpus={num_gpus}", "--object-store-memory=200000000")
    extra = ("--include-dashboard=false", f"--temp-dir={folder}") if is_head else ()
    command = [*RAY, "start", *where, *sizes, *extra, "--disable-usage-stats", "--block"]
    return start(command, log, variables)


def engine(
    recipe: Path, port: int, log: Path, *, is_exact: bool = False, stand_ins: Sequence[str] = STAND_INS
) -> "subprocess.Popen[bytes]":
    """Start the engine and wait until it answers."""
    command = [sys.executable, "-m", "benchmarks.skyrl_cpu.engine_server", str(recipe), f"--port={port}"]
    process = start([*command, "--exact"] if is_exact else command, log, environment(stand_ins))
    _wait_until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/get_world_size").close())
    return process


@contextmanager
def cluster(
    out: Path,
    recipe: Path,
    *,
    port: int,
    nodes: Mapping[str, int],
    is_exact: bool = False,
    stand_ins: Sequence[str] = STAND_INS,
) -> Iterator[dict[str, Any]]:
    """Ray nodes with these numbers of GPUs, and an engine where it stands in for vLLM; all end with it."""
    temporary = Path("/tmp") / f"tw-ray-{os.getpid()}"  # Ray's socket paths must be short
    temporary.mkdir()
    processes: dict[str, Any] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left
    try:
        for name, num_gpus in nodes.items():
            processes[name] = ray_node(
                temporary / "ray",
                out / f"ray-{name}.log",
                is_head=name == "head",
                num_gpus=num_gpus,
                stand_ins=stand_ins,
            )
            _wait_until(lambda: socket.create_connection(("127.0.0.1", RAY_PORT)).close())
        if "engine" in stand_ins:
            log = out / "engine.log"
            processes["engine"] = engine(recipe, port, log, is_exact=is_exact, stand_ins=stand_ins)
        yield processes
    finally:
        for process in reversed(list(processes.values())):
            stop(process)
        shutil.rmtree(temporary, ignore_errors=True)


def _wait_until(attempt: Callable[[], None]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            attempt()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return
