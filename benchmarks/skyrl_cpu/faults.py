"""Kill a player, a server, a node and the engine while SkyRL trains, and compare with a run without faults.

    .tools/skyrl/bin/python -m benchmarks.skyrl_cpu.faults --out /tmp/skyrl-faults

Two Ray nodes on this machine; the second has only players. A player is killed while step 2 is played, an MCP
server in step 3, the second node in step 4, and in step 5 the engine, which is started again without weights.
The first three must not end the run. The lost engine ends it, and the same command resumes it from its last
checkpoint. Rewards, token counts and exported weights must equal those of the run without faults: seeds
depend on the step, the task and the member, so an episode that is played again has the same tokens. The
engine is exact (see engine_server.py), so that the weights can be equal to the last digit.
"""

import argparse
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from safetensors.torch import load_file

from benchmarks.skyrl_cpu.cluster import TURNWISE, cluster, engine, environment, free_port, stop
from benchmarks.skyrl_cpu.learning import skyrl_figures, write_recipe

SETTINGS = {
    "run.num_steps": "5",
    "run.tasks_per_step": "2",
    "rollout.group_size": "4",
    "run.checkpoint_every": "1",
    "evaluation.every": "0",
    "skyrl.num_players": "2",
}
_WAIT_SECONDS = 120.0
NODES = {"head": 2, "second": 0}
COMPARED = {"reward": "reward/avg_raw_reward", "tokens": "generate/avg_num_tokens"}
COUNTS = (
    "num_groups_resent",
    "num_groups_refilled",
    "num_groups_masked",
    "num_lost_tool_down",
    "num_lost_engine_down",
)


def descendants(node: "subprocess.Popen[bytes]", title: str) -> list[psutil.Process]:
    """The processes of a node whose command line has this text."""
    found = []
    for process in psutil.Process(node.pid).children(recursive=True):
        try:
            if title in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def playing(node: "subprocess.Popen[bytes]") -> psutil.Process:
    """Wait for a player of this node that is playing."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if found := descendants(node, "ray::Player.play"):
            return found[0]
        time.sleep(0.02)
    raise RuntimeError(f"no player of node {node.pid} plays")


def command(recipe: Path, out: Path) -> list[str]:
    settings = SETTINGS | {"run.folder": str(out / "runs"), "run.name": "run"}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [*TURNWISE, "train", "--engine", "skyrl", str(recipe), *sets]


def train(recipe: Path, out: Path, faults: Mapping[int, Callable[[], None]]) -> int:
    """Train, and call a fault when the step before it is saved; the exit code."""
    saved = out / "runs" / "run" / "checkpoints" / "latest_ckpt_global_step.txt"
    with (out / "train.log").open("ab") as output:
        process = subprocess.Popen(command(recipe, out), env=environment(), stdout=output, stderr=output)
    waiting = dict(faults)
    while process.poll() is None:
        step = int(saved.read_text() or 0) + 1 if saved.exists() else 1
        if step in waiting:
            waiting.pop(step)()
        time.sleep(0.05)
    return process.returncode


def kill_player(processes: Mapping[str, Any]) -> None:
    victim = playing(processes["head"])
    print(f"step 2: player {victim.pid} killed", flush=True)
    victim.kill()


def kill_server(processes: Mapping[str, Any]) -> None:
    playing(processes["second"])
    [server, *_] = descendants(processes["second"], "serve fmp")
    print(f"step 3: server {server.pid} killed: {' '.join(server.cmdline()[2:])}", flush=True)
    server.kill()


def kill_node(processes: Mapping[str, Any]) -> None:
    node = processes["second"]
    playing(node)
    players, servers = descendants(node, "ray::Player"), descendants(node, "turnwise serve")
    others = [each for each in descendants(node, "ray::") if each not in players]
    titles = sorted(each.cmdline()[0].split()[0] for each in others)
    print(f"step 4: node killed, with {len(players)} players, {len(servers)} servers, {titles}", flush=True)
    stop(node, signal.SIGKILL)
    _, left = psutil.wait_procs([*players, *servers, *others], timeout=30)
    print(f"  processes left: {len(left)}", flush=True)


def with_faults(recipe: Path, out: Path, port: int) -> None:
    with cluster(out, recipe, port=port, nodes=NODES, is_exact=True) as processes:

        def kill_engine() -> None:
            playing(processes["head"])
            print("step 5: engine killed, and started again without weights", flush=True)
            stop(processes["engine"], signal.SIGKILL)
            processes["engine"] = engine(recipe, port, out / "engine.log", is_exact=True)

        faults = {
            2: lambda: kill_player(processes),
            3: lambda: kill_server(processes),
            4: lambda: kill_node(processes),
            5: kill_engine,
        }
        print(f"exit code {train(recipe, out, faults)}; the same command again:", flush=True)
        print(f"exit code {train(recipe, out, {})}", flush=True)


def without_faults(recipe: Path, out: Path, port: int) -> None:
    with cluster(out, recipe, port=port, nodes=NODES, is_exact=True):
        print(f"without faults: exit code {train(recipe, out, {})}", flush=True)


def largest_difference(one: Path, other: Path) -> float:
    """The largest difference of two exports' weights."""
    weights, others = (
        load_file(next(out.glob("runs/run/exports/*/policy/model.safetensors"))) for out in (one, other)
    )
    return max(float((weights[name] - others[name]).abs().max()) for name in weights | others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    figures: dict[str, Mapping[int, Mapping[str, float]]] = {}
    runs: dict[str, Callable[[Path, Path, int], None]] = {"faults": with_faults, "none": without_faults}
    for name, run in runs.items():
        out = args.out.resolve() / name
        out.mkdir(parents=True)
        port = free_port()
        run(write_recipe(out, port), out, port)
        figures[name] = skyrl_figures(out / "train.log")
    print("step  " + "  ".join(f"{title}: faults     none" for title in COMPARED) + "  " + "  ".join(COUNTS))
    for step in sorted({*figures["faults"], *figures["none"]} - {0}):
        row, other = (figures[name].get(step, {}) for name in ("faults", "none"))
        pairs = "".join(
            f"{row.get(name, float('nan')):{len(title) + 10}.4f}{other.get(name, float('nan')):9.4f}"
            for title, name in COMPARED.items()
        )
        counts = "".join(f"{row.get(f'turnwise/{name}', 0):{len(name) + 2}.0f}" for name in COUNTS)
        print(f"{step:4}{pairs}{counts}")
    difference = largest_difference(args.out.resolve() / "faults", args.out.resolve() / "none")
    print(f"largest difference of the exported weights: {difference}")


if __name__ == "__main__":
    main()
