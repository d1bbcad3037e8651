"""Explore third-party servers one after another and print what was found as a table.

    bash benchmarks/explore_servers/install.sh servers
    python -m benchmarks.explore servers --out explored --audit

Every folder of `servers` that holds an mcp.json is explored, with its `values.json` if it has one. A folder
that was explored before is not explored again: delete it to measure anew.
"""

import argparse
import contextlib
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SITE_PORT = 8765
"""The port of the local web site; `explore_servers/mcp_files.py` writes it into the values of `fetch`."""
NUM_QUESTIONS = 30
DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True, slots=True)
class Explored:
    """One server's exploration as its report states it."""

    name: str
    figures: dict[str, Any]
    tasks: list[dict[str, Any]]
    rejections: dict[str, int]
    missed: dict[str, str]
    """Tools in no task, with the reason."""

    @property
    def by_difficulty(self) -> Counter[str]:
        return Counter(task["difficulty"] for task in self.tasks)


def explore(mcp: Path, out: Path, minutes: float, seed: int) -> None:
    """Run `turnwise explore` in a process of its own; its output is kept in `log.txt`."""
    out.mkdir(parents=True, exist_ok=True)
    turnwise = Path(sys.executable).with_name("turnwise")
    command = [turnwise, "explore", mcp, "--out", out, "--minutes", str(minutes), "--seed", str(seed)]
    values = mcp.with_name("values.json")
    if values.exists():
        command += ["--values", values]
    with (out / "log.txt").open("w") as log:
        subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT)


def read(name: str, folder: Path) -> Explored | None:
    """Return an exploration's report; None if it wrote none."""
    if not (folder / "report.json").exists():
        return None
    report = json.loads((folder / "report.json").read_text())
    missed = {
        tool["name"]: f"{tool['reach']}: {tool['reason']}"
        for server in report["servers"]
        for tool in server["tools"]
        if not tool["num_tasks"]
    }
    return Explored(name, report["figures"], report["tasks"], report["rejections"], missed)


def table(found: Sequence[Explored]) -> str:
    """Return the Markdown table of all servers."""
    columns = (
        "server",
        "tools",
        "reached",
        "in tasks",
        "calls",
        "tasks",
        *DIFFICULTIES,
        "rejected",
        "minutes",
    )
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for one in found:
        figures = one.figures
        cells = [
            one.name,
            figures["num_tools"],
            figures["num_reached"],
            figures["num_tools_in_tasks"],
            figures["num_calls"],
            figures["num_tasks"],
            *(one.by_difficulty[difficulty] for difficulty in DIFFICULTIES),
            figures["num_rejected"],
            f"{figures['seconds'] / 60:.1f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def rejected(found: Sequence[Explored]) -> str:
    """Return the rejected drafts by reason, over all servers."""
    counts = sum((Counter(one.rejections) for one in found), Counter[str]())
    return "\n".join(f"{count:6}  {reason}" for reason, count in counts.most_common())


def missed(found: Sequence[Explored]) -> str:
    """Return every tool that no task uses, with the reason."""
    return "\n".join(f"{one.name}  {tool}: {why}" for one in found for tool, why in one.missed.items())


def questions(found: Sequence[Explored], seed: int) -> str:
    """Return questions drawn over all servers, unedited."""
    tasks = [(one.name, task) for one in found for task in one.tasks]
    drawn = random.Random(seed).sample(tasks, min(NUM_QUESTIONS, len(tasks)))
    return "\n".join(
        f"{number}. [{name}, {task['difficulty']}] {task['question']}\n   → {task['answer']}"
        for number, (name, task) in enumerate(drawn, start=1)
    )


def audit(folder: Path, mcp: Path, num_tasks: int) -> bool:
    """Audit the written tasks in another process; return whether it found no violation."""
    arguments = [str(folder), "--mcp", str(mcp), "--num-tasks", str(num_tasks)]
    command = [sys.executable, "-m", "benchmarks.explore_audit", *arguments]
    return subprocess.run(command, check=False).returncode == 0


@contextlib.contextmanager
def web_site(folder: Path) -> Iterator[None]:
    """Serve the folder as long as the block lasts, unless something answers at the port already."""
    with socket.socket() as probe:
        is_served = probe.connect_ex(("127.0.0.1", SITE_PORT)) == 0
    if is_served or not folder.is_dir():
        yield
        return
    command = [
        sys.executable,
        "-m",
        "http.server",
        str(SITE_PORT),
        "--bind",
        "127.0.0.1",
        "--directory",
        folder,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as site:
        try:
            yield
        finally:
            site.terminate()


def options() -> argparse.Namespace:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("servers", type=Path, help="the folder that install.sh filled")
    parser.add_argument(
        "--out", type=Path, default=Path("explored"), help="a folder for every server's tasks"
    )
    parser.add_argument("--only", nargs="*", help="names of servers; all by default")
    parser.add_argument("--minutes", type=float, default=5.0, help="time limit of an exploration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--audit", action="store_true", help="audit what was written")
    parser.add_argument("--audit-tasks", type=int, default=0, help="tasks audited of every server; 0: all")
    return parser.parse_args()


def main() -> int:
    given = options()
    files = sorted(given.servers.glob("*/mcp.json"))
    chosen = [file for file in files if not given.only or file.parent.name in given.only]
    if not chosen:
        print(f"{given.servers}: no */mcp.json to explore", file=sys.stderr)
        return 2
    is_sound = True
    found = []
    with web_site(given.servers / "data" / "site"):
        for file in chosen:
            name, out = file.parent.name, given.out / file.parent.name
            started = time.perf_counter()
            if not (out / "report.json").exists():
                explore(file, out, given.minutes, given.seed)
            report = read(name, out)
            if report is None:
                print(f"{name}: no report; see {out / 'log.txt'}", file=sys.stderr)
                is_sound = False
                continue
            found.append(report)
            print(f"{name}: {len(report.tasks)} tasks, {time.perf_counter() - started:.0f} s", flush=True)
            if given.audit and report.tasks:
                is_sound &= audit(out, file, given.audit_tasks)
    for title, text in (
        ("Servers", table(found)),
        ("Rejected drafts by reason", rejected(found)),
        ("Tools in no task", missed(found)),
        (f"{NUM_QUESTIONS} questions drawn at random", questions(found, given.seed)),
    ):
        print(f"\n## {title}\n\n{text}")
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
