"""Kills one training run 50 times, resumes it each time, and compares its end with an unbroken run's.

    python benchmarks/kills.py [--kills 50] [--steps 16] [--seed 0] [--keep FOLDER]

The run trains the embedded model on real calls to two servers, in lockstep on the CPU. Every life is the
command a user would type, ended by SIGKILL at a random moment: the trainer alone, whose servers must then end
by themselves, or all of its processes at once. Exit code 1 if anything but the times differs, or if a process
or a scratch folder is left over.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ("quote_figure", "figure_by_name", "price_difference")
SERVERS = ("fmp", "python")
MEASURED = ("time/", "memory/", "tools/seconds", "rollout/tokens_per_second")
"""Figures that a clock or the machine measures."""
PHASES = {
    "": "starting",
    "trajectories": "playing",
    "metrics.jsonl": "learning",
    "tokens": "learning",
    "checkpoints": "after a checkpoint",
}
"""By what the run wrote last."""


@dataclass(frozen=True, slots=True)
class Kill:
    """How one life ended."""

    is_alone: bool
    phase: str
    next_step: int
    """The step that the run was resumed at afterwards."""
    num_servers: int
    """Processes below the trainer when it was killed."""
    seconds_to_end: float
    """Until the last of them was gone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--keep", type=Path, help="leave both runs in this folder, which must not exist")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=options.keep is None)
        recipe = write_recipe(folder, options.steps)
        unbroken, killed = folder / "runs" / "unbroken", folder / "runs" / "killed"
        first_save = run_whole(folder, unbroken, ["train", str(recipe), "--set", "run.name=unbroken"])
        print(f"unbroken run done; its first checkpoint came after {first_save:.1f} s", flush=True)
        kills = kill_and_resume(folder, recipe, options.kills, random.Random(options.seed), first_save)
        problems = [
            *(f"processes left over: {kill}" for kill in kills if kill.seconds_to_end < 0),
            *differences(unbroken, killed),
            *(f"left over: {path}" for path in left_folders(folder)),
        ]
    report(kills, problems)
    sys.exit(bool(problems))


def write_recipe(folder: Path, num_steps: int) -> Path:
    """The demo's, with fewer steps, tasks and servers."""
    (folder / "tmp").mkdir()
    lines = (ROOT / "recipes" / "cpu" / "train.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["family"] in FAMILIES]
    tasks = [json.dumps({**row, "servers": list(SERVERS)}) for row in rows]
    (folder / "train.jsonl").write_text("\n".join(tasks) + "\n")
    blocks = {name: {"command": "turnwise", "args": ["serve", name]} for name in SERVERS}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": blocks}))
    text = (ROOT / "recipes" / "cpu.toml").read_text()
    changed = {
        'train = "cpu/train.jsonl"': 'train = "train.jsonl"',
        'validation = "cpu/validation.jsonl"\n': "",
        'test = "cpu/test.jsonl"\n': "",
        "group_size = 8": "group_size = 4",
        "num_steps = 40": f"num_steps = {num_steps}",
        "tasks_per_step = 8": "tasks_per_step = 2",
        "checkpoint_every = 20": "checkpoint_every = 1",
        "[tools]": '[tools]\nmcp = "mcp.json"',
        "num_samples = 2": "is_before_and_after = false",
    }
    for before, after in changed.items():
        assert before in text, before
        text = text.replace(before, after)
    recipe = folder / "recipe.toml"
    recipe.write_text(text)
    return recipe


def started(folder: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    """`turnwise …`, in a session of its own, its output kept."""
    command = [str(Path(sys.executable).with_name("turnwise")), *arguments]
    own = {**os.environ, "TMPDIR": str(folder / "tmp")}
    with (folder / "output.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=own, stdout=log, stderr=log, start_new_session=True)


def run_whole(folder: Path, run: Path, arguments: list[str]) -> float:
    """Let a command end by itself; gives the seconds to its first new checkpoint."""
    began, clock, first = time.time(), time.monotonic(), 0.0
    process = started(folder, arguments)
    while process.poll() is None:
        if not first and has_saved(run, began):
            first = time.monotonic() - clock
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"turnwise {' '.join(arguments)}: exit code {process.returncode}, see output.log")
    return first


def checkpoints(run: Path) -> list[Path]:
    return list(run.glob("checkpoints/step-*/manifest.json"))


def has_saved(run: Path, began: float) -> bool:
    """Whether the run has a checkpoint that is newer than this moment."""
    return any(path.stat().st_mtime > began for path in checkpoints(run))


def kill_and_resume(
    folder: Path, recipe: Path, num_kills: int, luck: random.Random, seconds: float
) -> list[Kill]:
    """`seconds`: what a life takes to its first checkpoint; learned again from the lives that get there."""
    run = folder / "runs" / "killed"
    num_steps = json.loads((folder / "runs" / "unbroken" / "recipe.json").read_text())["run"]["num_steps"]
    kills: list[Kill] = []
    while len(kills) < num_kills:
        has_begun = (run / "recipe.json").exists()
        if not has_begun and run.exists():
            shutil.rmtree(run)  # killed before it was a run: there is nothing to resume
        arguments = ["--resume", str(run)] if has_begun else [str(recipe), "--set", "run.name=killed"]
        # near its end a life is kept short, so that the run does not end before the last kill
        most = seconds * (1.4 if num_steps - next_step(run) > 2 else 0.9)
        moment, is_alone = luck.uniform(0, most), luck.random() < 0.5
        kill, first_save = live_and_die(folder, arguments, moment, is_alone=is_alone)
        if first_save:
            seconds = 0.7 * seconds + 0.3 * first_save
        kills.append(kill)
        print(f"kill {len(kills):>3}/{num_kills}: {kill}", flush=True)
    run_whole(folder, run, ["train", "--resume", str(run)])
    return kills


def next_step(run: Path) -> int:
    """The step that a resumed run begins with: its checkpoints are numbered by steps done."""
    names = [path.parent.name for path in checkpoints(run)]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def live_and_die(folder: Path, arguments: list[str], seconds: float, *, is_alone: bool) -> tuple[Kill, float]:
    """Start the command and kill it after so many seconds; also gives when it made its first checkpoint."""
    run, began, clock = folder / "runs" / "killed", time.time(), time.monotonic()
    process = started(folder, ["train", *arguments])
    first = 0.0
    while time.monotonic() < clock + seconds:
        if process.poll() is not None:
            raise SystemExit(f"it ended by itself with exit code {process.returncode}, see output.log")
        if not first and has_saved(run, began):
            first = time.monotonic() - clock
        time.sleep(0.02)
    below = descendants(process.pid)
    for pid in [process.pid] if is_alone else [process.pid, *below]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    phase = PHASES[last_written(run, began)]
    return Kill(is_alone, phase, next_step(run), len(below), seconds_until_gone(below)), first


def last_written(run: Path, began: float) -> str:
    """The part of the run's folder that this life changed last; empty if it changed none."""
    newest, part = began, ""
    for path in run.rglob("*"):
        with contextlib.suppress(OSError):
            first = path.relative_to(run).parts[0]
            if first in PHASES and path.is_file() and path.stat().st_mtime > newest:
                newest, part = path.stat().st_mtime, first
    return part


def descendants(pid: int) -> dict[int, str]:
    """All processes below this one, with the time each was started: numbers are used again."""
    children: dict[int, list[int]] = {}
    born: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
                born[int(entry.name)] = fields[19]
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found[child] = born[child]
            waiting.append(child)
    return found


def seconds_until_gone(processes: dict[int, str]) -> float:
    """-1 if one of them is still there after a minute."""
    clock = time.monotonic()
    while time.monotonic() < clock + 60:
        if not any(is_alive(pid, born) for pid, born in processes.items()):
            return time.monotonic() - clock
        time.sleep(0.02)
    return -1.0


def is_alive(pid: int, born: str) -> bool:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] == born and fields[0] != "Z"
    return False


def left_folders(folder: Path) -> list[Path]:
    """Scratch folders of killed trainers that the resumed ones did not clear away."""
    return list((folder / "tmp").glob("turnwise-[0-9]*"))


def differences(unbroken: Path, killed: Path) -> Iterator[str]:
    """What differs between two runs' last checkpoints, episodes, tokens and figures."""
    for kind in ("checkpoints", "tokens"):
        left, right = digests(unbroken / kind), digests(killed / kind)
        names = sorted(left.keys() | right.keys())
        yield from (f"{kind}/{name} differs" for name in names if left.get(name) != right.get(name))
    folders = (unbroken / "trajectories", killed / "trajectories")
    for name in sorted({path.name for folder in folders for path in folder.iterdir()}):
        left_episodes, right_episodes = (episodes(folder / name) for folder in folders)
        if left_episodes != right_episodes:
            yield f"trajectories/{name} differs"
    if figures(unbroken) != figures(killed):
        yield "metrics.jsonl differs"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def episodes(path: Path) -> list[Any]:
    """Every line of a trajectory file but what a clock measured, sorted: members finish in any order."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return sorted(json.dumps(timeless(json.loads(line)), sort_keys=True) for line in lines)


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if not key.endswith("seconds")}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def figures(run: Path) -> list[Any]:
    found = []
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        kept = {name: value for name, value in line["metrics"].items() if not name.startswith(MEASURED)}
        found.append({**line, "time": None, "metrics": kept})
    return found


def report(kills: list[Kill], problems: list[str]) -> None:
    counts = Counter((kill.phase, kill.is_alone) for kill in kills)
    print(f"{'killed while':<20} {'trainer alone':>14} {'all processes':>14}")
    for phase in dict.fromkeys(PHASES.values()):
        print(f"{phase:<20} {counts[phase, True]:>14} {counts[phase, False]:>14}")
    slowest = max((kill.seconds_to_end for kill in kills), default=0.0)
    num_servers = sum(kill.num_servers for kill in kills)
    print(f"{num_servers} server processes were left behind; all were gone within {slowest:.2f} s")
    for problem in problems[:40]:
        print(f"BAD {problem}")
    print(
        f"{len(problems)} differences" if problems else "bit for bit what the unbroken run made, times aside"
    )


if __name__ == "__main__":
    main()
