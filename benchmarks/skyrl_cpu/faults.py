"""Kill players, a server, a node and the engine while SkyRL trains, and compare with a run without faults.

    .tools/skyrl/bin/python -m benchmarks.skyrl_cpu.faults --out /tmp/skyrl-faults

Two Ray nodes on this machine; players are on both. After step 1 a player is killed, after step 2 an MCP
server, after step 3 the second node, after step 4 the engine, which is started again without weights. The
first three must not end the run. The lost engine ends it, and the same command resumes it from its last
checkpoint. Rewards must equal those of the run without faults: seeds depend on the step, the task and the
member, so an episode that is played again has the same tokens.
"""

import argparse
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

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
NODES = {"head": 2, "second": 0}
COUNTS = (
    "num_groups_resent",
    "num_groups_refilled",
    "num_groups_masked",
    "num_lost_tool_down",
    "num_lost_engine_down",
)


def players(*nodes: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The processes of the players on these nodes."""
    pids = {node.pid for node in nodes}
    found = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "".join(process.info["cmdline"] or ()).startswith("ray::Player")
    ]
    return [process for process in found if pids & {parent.pid for parent in process.parents()}]


def command(recipe: Path, out: Path) -> list[str]:
    settings = SETTINGS | {"run.folder": str(out / "runs"), "run.name": "run"}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [*TURNWISE, "train", "--engine", "skyrl", str(recipe), *sets]


def train(recipe: Path, out: Path, faults: Mapping[int, Callable[[], None]]) -> int:
    """Train, and call a fault when its step is logged; the exit code."""
    log = out / "train.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command(recipe, out), env=environment(), stdout=output, stderr=output)
    waiting = dict(faults)
    while process.poll() is None:
        logged = {int(step) for step in re.findall(r"Step (\d+):", log.read_text(errors="replace"))}
        for step in sorted(logged & set(waiting)):
            time.sleep(1.0)  # the next step is being played
            waiting.pop(step)()
        time.sleep(0.2)
    return process.returncode


def with_faults(recipe: Path, out: Path, port: int) -> None:
    with cluster(out, recipe, port=port, nodes=NODES) as processes:

        def kill_player() -> None:
            victim = players(processes["head"])[0]
            print(f"after step 1: player {victim.pid} killed", flush=True)
            victim.kill()

        def kill_server() -> None:
            everyone = players(processes["head"], processes["second"])
            servers = [child for player in everyone for child in player.children(recursive=True)]
            print(
                f"after step 2: server {servers[0].pid} killed: {' '.join(servers[0].cmdline()[1:])}",
                flush=True,
            )
            servers[0].kill()

        def kill_node() -> None:
            theirs = players(processes["second"])
            started = [child for player in theirs for child in player.children(recursive=True)]
            print(
                f"after step 3: node killed, with {len(theirs)} players and {len(started)} servers",
                flush=True,
            )
            stop(processes["second"], signal.SIGKILL)
            _, left = psutil.wait_procs([*theirs, *started], timeout=30)
            print(f"  processes left: {len(left)}", flush=True)

        def kill_engine() -> None:
            print("after step 4: engine killed, and started again without weights", flush=True)
            stop(processes["engine"], signal.SIGKILL)
            processes["engine"] = engine(recipe, port, out / "engine.log")

        code = train(recipe, out, {1: kill_player, 2: kill_server, 3: kill_node, 4: kill_engine})
        print(f"exit code {code}; the same command again:", flush=True)
        print(f"exit code {train(recipe, out, {})}", flush=True)


def without_faults(recipe: Path, out: Path, port: int) -> None:
    with cluster(out, recipe, port=port, nodes=NODES):
        print(f"without faults: exit code {train(recipe, out, {})}", flush=True)


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
    print("step  reward with faults  without  " + "  ".join(COUNTS))
    for step in sorted(set(figures["faults"]) - {0}):
        row = figures["faults"][step]
        other = figures["none"].get(step, {}).get("reward/avg_raw_reward", float("nan"))
        counts = "".join(f"{row.get(f'turnwise/{name}', 0):{len(name) + 2}.0f}" for name in COUNTS)
        print(f"{step:4}{row.get('reward/avg_raw_reward', float('nan')):20.4f}{other:9.4f}{counts}")


if __name__ == "__main__":
    main()
