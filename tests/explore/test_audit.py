"""The audit of task files finds a deliberate violation of every kind, and accepts sound tasks."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.explore.exploring import SERVERS, entry_of
from turnwise.tasks.load import save
from turnwise.types import Answer, DemoTurn, Matcher, StateProbe, Task, ToolCall, Truth

ROOT = Path(__file__).parents[2]


def mcp_file(folder: Path) -> Path:
    # The shop only reads, so one process serves all episodes; a process for every episode would be slow.
    isolation = {"shop": "shared", "notes": "process"}
    servers = {
        name: {
            **entry_of(SERVERS / f"{name}.py"),
            "turnwise": {"num_warm": 0, "isolation": kind},
        }
        for name, kind in isolation.items()
    }
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def call(tool: str, **arguments: object) -> ToolCall:
    return ToolCall("", tool, arguments)


def price_task(product: str, price: float, *, says: float | None = None, truth: Truth | None = None) -> Task:
    """A sound task, unless `says` or `truth` break it."""
    return Task(
        id=f"price-{product}",
        prompt=f"What does {product} cost?",
        servers=["shop"],
        truth=truth or Truth(Answer(price, Matcher.NUMERIC, 0.001), required_tools=("get_product",)),
        family="price",
        demonstration=(
            DemoTurn("", (call("get_product", product_id=product),)),
            DemoTurn(str(price if says is None else says)),
        ),
    )


def note_task(*, probe: str = "read_note") -> Task:
    if probe == "read_note":
        shown = StateProbe(probe, {"title": "errands"}, 'Post the letter."')
    else:
        shown = StateProbe(probe, {}, "groceries")
    return Task(
        id="note",
        prompt="Keep a note 'errands': Post the letter.",
        servers=["notes"],
        truth=Truth(probes=(shown,)),
        family="change",
        demonstration=(
            DemoTurn("", (call("create_note", title="errands", text="Post the letter."),)),
            DemoTurn("Done."),
        ),
    )


def audit(folder: Path, mcp: Path) -> subprocess.CompletedProcess[str]:
    arguments = [str(folder / "tasks"), "--mcp", str(mcp), "--num-parallel", "2"]
    command = [sys.executable, "-m", "benchmarks.explore_audit", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)


SOUND = [price_task("P-11", 39.9), price_task("P-12", 89.0), note_task()]
BROKEN = {
    "reference plan": [price_task("P-11", 39.9, says=40.9)],
    "nothing": [note_task(probe="list_notes")],
    "at once": [price_task("P-11", 39.9, truth=Truth(Answer(39.9, Matcher.NUMERIC)))],
    "common answer": [
        price_task("P-11", 39.9),
        price_task(
            "P-12", 89.0, truth=Truth(Answer(89.0, Matcher.NUMERIC, 0.9), required_tools=("get_product",))
        ),
    ],
    "left out": [
        Task(
            id="two-calls",
            prompt="What does the product of order 5001 cost?",
            servers=["shop"],
            truth=Truth(Answer(39.9, Matcher.NUMERIC), required_tools=("get_product",)),
            family="chain",
            demonstration=(
                DemoTurn("", (call("get_order", order_id=5001),)),
                DemoTurn("", (call("get_product", product_id="P-11"),)),
                DemoTurn("39.9"),
            ),
        )
    ],
}


@pytest.fixture(scope="module")
def violations(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The violations that one audit of sound and broken tasks prints."""
    folder = tmp_path_factory.mktemp("audit")
    broken = [
        replace(task, id=f"{kind}/{task.id}", family=kind) for kind, tasks in BROKEN.items() for task in tasks
    ]
    save([*SOUND, *broken], folder / "tasks" / "train.jsonl")
    done = audit(folder, mcp_file(folder))
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("train ")]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_violation_of_every_kind_is_found(kind: str, violations: list[str]) -> None:
    found = [line for line in violations if line.startswith(f"train {kind}/")]
    assert any(f", {kind}" in line for line in found), violations


def test_sound_tasks_have_no_violation(violations: list[str]) -> None:
    sound = tuple(f"train {task.id} " for task in SOUND)
    assert not [line for line in violations if line.startswith(sound)]


def test_a_server_that_does_not_start_is_a_violation(tmp_path: Path) -> None:
    save([price_task("P-11", 39.9)], tmp_path / "tasks" / "train.jsonl")
    mcp = tmp_path / "mcp.json"
    broken = {"shop": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}}
    mcp.write_text(json.dumps({"mcpServers": broken}))
    done = audit(tmp_path, mcp)
    assert done.returncode == 1
    assert "not played" in done.stdout
