"""A short soak passes, and the audit of a soak finds what must not happen."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.benchmarks.loading import loaded
from tests.third_party.installed import NODE_MODULES, TOOLS, require

soak = loaded("soak")


@pytest.mark.slow  # half a minute to a minute
async def test_a_hundred_episodes_on_failing_servers_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    require(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite")
    require(NODE_MODULES / "@modelcontextprotocol" / "server-memory")
    turnwise = str(Path(warm.light()).with_name("turnwise"))
    done = await soak.soak(tmp_path, 100, seed=1, num_points=3, turnwise=turnwise)
    assert done.problems == ()
    assert done.audit.num_episodes == 100
    num_faults = sum(ended.total() for ended in done.audit.faults.values())
    assert num_faults >= 10, done.audit.faults
    assert done.audit.num_attempts > 100, "no fault cost an episode: the soak tries nothing"


def attempt(episode: str) -> dict[str, Any]:
    return {"kind": "attempt", "episode": episode, "task": episode.partition("/")[0]}


def played(episode: str, reward: float = 1.0, stop: str = "answered") -> dict[str, Any]:
    task = {"id": episode.partition("/")[0]}
    trajectory = {"episode_id": episode, "task": task, "stop": stop}
    return {"kind": "trajectory", "trajectory": trajectory, "reward": {"total": reward}}


def call(tool: str, kind: str = "call", **more: Any) -> dict[str, Any]:
    facts = {"server": "s", "fault": "", "arguments": {}, "episode": "", "process": "s 1", "at": 1.0}
    return {"kind": kind, "tool": tool, **facts, **more}


MET = {"started": 0.5, "ended": 1.5, "cause": "tool_error", "fault": "model", "num_retries": 0}
AUDITED: dict[str, tuple[list[Any], list[Any], list[Any], int, tuple[str, ...]]] = {
    "a lost attempt that was played again": (
        [attempt("t#0/0.0"), attempt("t#0/0.1")],
        [call("write"), call("write", process="s 2")],
        [played("t#0/0.1")],
        1,
        (),
    ),
    "a lost, a doubled and a mis-scored episode": (
        [attempt("t#0/0.0"), attempt("t#1/0.0"), attempt("t#1/0.1")],
        [],
        [played("t#0/0.0", 0.0), played("t#1/0.0"), played("t#1/0.1")],
        4,
        (
            "t#0/0.0: scored 0.0, must be 1.0",
            "3 episodes on disk, 4 were asked for",
            "t#1/0: 2 episodes on disk",
        ),
    ),
    "a write that reached its server twice": (
        [attempt("t#0/0.0")],
        [call("write"), call("write"), call("read"), call("read")],
        [played("t#0/0.0")],
        1,
        ("s 1: write {}: reached the server 2 times",),
    ),
    "a fault that was taken for the model's error": (
        [attempt("t#0/0.0"), call("write", **{**MET, "episode": "t#0/0.0"})],
        [call("write", kind="fault", fault="disk full")],
        [played("t#0/0.0")],
        1,
        ("disk full: 1 became an error that the model read",),
    ),
}
"""Journal, ledger, trajectories, episodes asked for, and the problems that the audit must report."""


@pytest.mark.parametrize("what", AUDITED)
def test_the_audit_reports(what: str, tmp_path: Path) -> None:
    journal, ledger, trajectories, num_asked, problems = AUDITED[what]
    for name, lines in (("journal", journal), ("ledger", ledger), ("trajectories", trajectories)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert soak.audit(tmp_path, num_asked, {"t": 1.0}, ("write",)).problems == problems
