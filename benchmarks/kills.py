"""Kill a training run 50 times, resume it each time, and compare its result with an uninterrupted run.

    python benchmarks/kills.py [--kills 50] [--steps 32] [--seed 0] [--keep FOLDER]

The run trains the embedded model on real calls to two servers, in lockstep on the CPU. Every life is the
command that a user would type, killed with SIGKILL at a random moment: either only the trainer, whose servers
must then end by themselves, or all of its processes at once. Exit code 1 if anything but times differs, or if
a process or a scratch folder is left.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import turnwise.cli

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ("quote_figure", "figure_by_name", "price_difference")
SERVERS = ("fmp", "python")
IMPORTED = (
    "peft",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.auto.modeling_auto",
    "turnwise.run.start_up",
    "turnwise.run.loop",
)
"""Modules of a training run, imported once before the forks."""
MEASURED = ("time/", "memory/", "tools/seconds", "rollout/tokens_per_second")
"""Figures that depend on time or on the machine."""
PHASES = {
    "": "starting, or playing its first group",
    "trajectories": "playing",
    "metrics.jsonl": "learning",
    "tokens": "learning",
    "checkpoints": "saving, or playing the next step's first group",
}
"""Phase of a life, by what it wrote last."""


@dataclass(frozen=True, slots=True)
class Kill:
    """How one life ended."""

    is_alone: bool
    phase: str
    next_step: int
    """The step at which the run was resumed."""
    num_servers: int
    """Processes below the trainer when it was killed."""
    seconds_to_end: float
    """Seconds until the last of them had ended."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument("--keep", type=Path, help="keep both runs in this folder, which must not exist")
    options = parser.parse_args()
    for module in IMPORTED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="kills-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=options.keep is None)
        recipe = write_recipe(folder, options.steps)
        unbroken, killed = folder / "runs" / "unbroken", folder / "runs" / "killed"
        run_whole(folder, ["train", str(recipe), "--set", "run.name=unbroken"])
        seconds = step_seconds_of(unbroken)
        print(f"the uninterrupted run is done; a step took {seconds:.1f} s", flush=True)
        kills = kill_and_resume(folder, recipe, options.kills, random.Random(options.seed), seconds)
        problems = [
            *(f"processes left over: {kill}" for kill in kills if kill.seconds_to_end < 0),
            *differences(unbroken, killed),
            *(f"left over: {path}" for path in left_folders(folder)),
        ]
    report(kills, problems)
    sys.exit(bool(problems))


def write_recipe(folder: Path, num_steps: int) -> Path:
    """The demo's recipe, with fewer steps, tasks and servers."""
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
        "num_samples = 2": "before_and_after = false",
    }
    for before, after in changed.items():
        assert before in text, before
        text = text.replace(before, after)
    recipe = folder / "recipe.toml"
    recipe.write_text(text)
    return recipe


class Life:
    """A process that runs `turnwise …` in its own session; its output is kept.

    Most are forks of this process, which has already imported everything: imports are most of the start-up
    time, and nothing of a run exists before them.
    """

    def __init__(self, folder: Path, arguments: list[str], *, is_forked: bool) -> None:
        command = [str(Path(sys.executable).with_name("turnwise")), *arguments]
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setsid()
            os.chdir(folder)
            os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
            log = os.open(folder / "output.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if is_forked:
                sys.argv = command
                turnwise.cli.main()
            else:
                os.execv(command[0], command)
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else bool(end.code))
        except BaseException:  # noqa: BLE001 (never back into the benchmark's own code)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def kill(self, others: Iterable[int]) -> None:
        for pid in (self.pid, *others):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def run_whole(folder: Path, arguments: list[str]) -> None:
    """Run a command to its end, started as a user would start it."""
    life = Life(folder, arguments, is_forked=False)
    while (code := life.exit_code()) is None:
        time.sleep(0.1)
    if code:
        raise SystemExit(f"turnwise {' '.join(arguments)}: exit code {code}, see output.log")


def checkpoints(run: Path) -> list[Path]:
    return list(run.glob("checkpoints/step-*/manifest.json"))


def kill_and_resume(
    folder: Path, recipe: Path, num_kills: int, luck: random.Random, step_seconds: float
) -> list[Kill]:
    """Ctrl-C ends the killing early; the run is still finished and compared."""
    run = folder / "runs" / "killed"
    kills: list[Kill] = []
    with contextlib.suppress(KeyboardInterrupt):
        while len(kills) < num_kills:
            has_begun = (run / "recipe.json").exists()
            if not has_begun and run.exists():
                shutil.rmtree(run)  # killed before the run folder existed: nothing to resume
            source = ["--resume", str(run)] if has_begun else [str(recipe), "--set", "run.name=killed"]
            life = Life(folder, ["train", *source], is_forked=len(kills) % 10 != 0)
            kills.append(live_and_die(folder, life, luck, step_seconds))
            print(f"kill {len(kills):>3}/{num_kills}: {kills[-1]}", flush=True)
    run_whole(folder, ["train", "--resume", str(run)])
    return kills


def next_step(run: Path) -> int:
    """The step at which a resumed run begins: checkpoints are numbered by steps done."""
    names = [path.parent.name for path in checkpoints(run)]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def live_and_die(folder: Path, life: Life, luck: random.Random, step_seconds: float) -> Kill:
    """Kill at a random moment: in a quarter of the lives while it starts, else around its first steps."""
    run, began = folder / "runs" / "killed", time.time()
    is_alone, is_early = luck.random() < 0.5, luck.random() < 0.25
    if not is_early:
        wait(life, lambda: bool(last_written(run, began)))
    # the run must not finish before the last kill, so near its end a life is killed in its first group
    is_near_end = next_step(run) >= num_steps_of(run) - 2
    until = time.time() + luck.uniform(0, 1.5 * step_seconds)
    wait(life, lambda: time.time() >= until or (is_near_end and bool(last_written(run, began))))
    below = descendants(life.pid)
    life.kill(() if is_alone else below)
    phase = PHASES[last_written(run, began)]
    return Kill(is_alone, phase, next_step(run), len(below), seconds_until_gone(below))


def wait(life: Life, is_over: Callable[[], bool]) -> None:
    while not is_over():
        if (code := life.exit_code()) is not None:
            raise SystemExit(f"it ended by itself with exit code {code}, see output.log: give more --steps")
        time.sleep(0.01)


def num_steps_of(run: Path) -> int:
    recipe = run / "recipe.json"
    return int(json.loads(recipe.read_text())["run"]["num_steps"]) if recipe.exists() else sys.maxsize


def step_seconds_of(run: Path) -> float:
    """Seconds of a step, from the times in its figures."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    times = [line["time"] for line in lines if line["kind"] == "update"]
    return float((times[-1] - times[0]) / max(1, len(times) - 1))


def last_written(run: Path, began: float) -> str:
    """The part of the run folder that this life wrote last; empty before its first group."""
    written: dict[str, float] = {}
    for path in run.rglob("*"):
        with contextlib.suppress(OSError):
            part, changed = path.relative_to(run).parts[0], path.stat().st_mtime
            if part in PHASES and path.is_file() and changed > began:
                written[part] = max(changed, written.get(part, 0.0))
    return max(written, key=lambda part: written[part]) if "trajectories" in written else ""


def descendants(pid: int) -> dict[int, str]:
    """All descendants with their start times, because process ids are reused."""
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
    """Seconds until all have ended; -1 if one is still there after a minute."""
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
    """Scratch folders of killed trainers that the resumed ones did not remove."""
    return list((folder / "tmp").glob("turnwise-[0-9]*"))


def differences(unbroken: Path, killed: Path) -> Iterator[str]:
    """Differences between two runs' last checkpoints, episodes, tokens and figures."""
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
    """The lines of a trajectory file without times, sorted, because members finish in any order."""
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
    print(f"{'killed while':<50} {'trainer alone':>14} {'all processes':>14}")
    for phase in dict.fromkeys(PHASES.values()):
        print(f"{phase:<50} {counts[phase, True]:>14} {counts[phase, False]:>14}")
    slowest = max((kill.seconds_to_end for kill in kills), default=0.0)
    num_servers = sum(kill.num_servers for kill in kills)
    print(f"{num_servers} server processes were left; all ended within {slowest:.2f} s")
    for problem in problems[:40]:
        print(f"BAD {problem}")
    print(
        f"{len(problems)} differences" if problems else "bit for bit what the unbroken run made, times aside"
    )


if __name__ == "__main__":
    main()
