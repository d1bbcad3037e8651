"""Explore the embedded servers, told nothing of them, and compare with the families of tasks written by hand.

    python -m benchmarks.explore_families --out explored/embedded --minutes 10

Every family gets one task from `turnwise tasks make`. Its shape is the order of its calls, repeated calls of
one tool counted once, and what is asked for: a number, a text or a change. Calls that only compute are left
out, because explored questions ask for the arithmetic itself. A family is found if an explored
task has the same shape, and nearly found if one has the same tools in another order or asks for another kind
of answer. A folder that was explored before is not explored again.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.tasks.load import load
from turnwise.tasks.selection import SPLITS
from turnwise.types import Task
from turnwise.worlds.market.services import DEFAULT_FILE

COMPUTES = "execute_python"
TURNWISE = Path(sys.executable).with_name("turnwise")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a task takes: its calls in order, and the kind of its answer."""

    tools: tuple[str, ...]
    asked: str

    def __str__(self) -> str:
        return f"{' → '.join(self.tools)}, {self.asked}"


def shape_of(task: Task) -> Shape:
    """Return the shape of a task's reference plan."""
    names = [call.name for turn in task.demonstration for call in turn.calls if call.name != COMPUTES]
    truth = task.truth
    if truth.probes or truth.writes:
        asked = "a change"
    else:
        is_number = truth.answer is not None and isinstance(truth.answer.value, int | float)
        asked = "a number" if is_number else "a text"
    return Shape(tuple(name for name, _ in itertools.groupby(names)), asked)


def tasks_in(folder: Path) -> list[Task]:
    files = [folder / f"{split}.jsonl" for split in SPLITS]
    return [task for file in files if file.exists() for task in load(file)]


def written_by_hand() -> dict[str, Task]:
    """Return one task of every family."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = ["--train", "1", "--validation", "1", "--test", "1"]
        subprocess.run([TURNWISE, "tasks", "make", folder, *numbers], check=True, stdout=subprocess.DEVNULL)
        return {task.family: task for task in reversed(tasks_in(Path(folder)))}


def comparison(families: dict[str, Task], explored: Sequence[Task]) -> str:
    """Return a Markdown table: every family, and how many explored tasks have its shape."""
    shapes = Counter(map(shape_of, explored))
    tools = Counter(frozenset(shape_of(task).tools) for task in explored)
    lines = ["| family | calls and answer | same shape | same tools |", "|---|---|---:|---:|"]
    num_found = num_near = 0
    for name, task in families.items():
        shape = shape_of(task)
        same, near = shapes[shape], tools[frozenset(shape.tools)]
        num_found += same > 0
        num_near += same == 0 and near > 0
        lines.append(f"| {name} | {shape} | {same} | {near} |")
    summary = f"{num_found} of {len(families)} families found, {num_near} more nearly"
    return "\n".join([f"{summary}; {len(explored)} explored tasks", "", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("explored/embedded"))
    parser.add_argument("--minutes", default="10", help="time limit of the exploration")
    parser.add_argument("--tasks", default="600", help="tasks to look for")
    given = parser.parse_args()
    if not (given.out / "report.json").exists():
        limits = ["--minutes", given.minutes, "--tasks", given.tasks]
        subprocess.run([TURNWISE, "explore", DEFAULT_FILE, "--out", given.out, *limits], check=True)
    print(comparison(written_by_hand(), tasks_in(given.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
