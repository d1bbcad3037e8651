"""A short soak holds, and the audit of a soak sees what must not happen."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.benchmarks.loading import loaded
from tests.third_party.installed import NODE_MODULES, TOOLS, require

soak = loaded("soak")


@pytest.mark.slow  # half a minute to a minute
async def test_a_hundred_episodes_on_failing_servers_lose_double_and_mis_score_nothing(
    tmp_path: Path,
) -> None:
    require(TOOLS / "sqlite" / "bin" / "mcp-server-sqlite")
    require(NODE_MODULES / "@modelcontextprotocol" / "server-memory")
    turnwise = str(Path(warm.light()).with_name("turnwise"))
    done = await soak.soak(tmp_path, 100, seed=1, num_points=3, turnwise=turnwise)
    assert done.problems == ()
    assert done.audit.num_episodes == 100
    num_faults = sum(ended.total() for ended in done.audit.faults.values())
    assert num_faults >= 10, done.audit.faults
    assert done.audit.num_attempts > 100, "no fault cost an episode: the soak tries nothing"


def written(folder: Path, name: str, *lines: dict[str, Any]) -> None:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def attempt(episode: str) -> dict[str, Any]:
    return {"kind": "attempt", "episode": episode, "task": episode.partition("/")[0]}


def played(episode: str, reward: float = 1.0, stop: str = "answered") -> dict[str, Any]:
    task = {"id": episode.partition("/")[0]}
    trajectory = {"episode_id": episode, "task": task, "stop": stop}
    return {"kind": "trajectory", "trajectory": trajectory, "reward": {"total": reward}}


def call(tool: str, kind: str = "call", **more: Any) -> dict[str, Any]:
    facts = {"server": "s", "fault": "", "arguments": {}, "episode": "", "process": "s 1", "at": 1.0}
    return {"kind": kind, "tool": tool, **facts, **more}


def problems(folder: Path, num_asked: int) -> tuple[str, ...]:
    found: tuple[str, ...] = soak.audit(folder, num_asked, {"t": 1.0}, ("write",)).problems
    return found


def test_the_audit_is_content_with_a_lost_attempt_that_was_played_again(tmp_path: Path) -> None:
    written(tmp_path, "journal.jsonl", attempt("t#0/0.0"), attempt("t#0/0.1"))
    written(tmp_path, "ledger.jsonl", call("write"), call("write", process="s 2"))
    written(tmp_path, "trajectories.jsonl", played("t#0/0.1"))
    assert problems(tmp_path, 1) == ()


def test_the_audit_sees_a_lost_a_doubled_and_a_mis_scored_episode(tmp_path: Path) -> None:
    written(tmp_path, "journal.jsonl", attempt("t#0/0.0"), attempt("t#1/0.0"), attempt("t#1/0.1"))
    written(tmp_path, "ledger.jsonl")
    written(tmp_path, "trajectories.jsonl", played("t#0/0.0", 0.0), played("t#1/0.0"), played("t#1/0.1"))
    assert problems(tmp_path, 4) == (
        "t#0/0.0: scored 0.0, must be 1.0",
        "3 episodes on disk, 4 were asked for",
        "t#1/0: 2 episodes on disk",
    )


def test_the_audit_sees_a_write_that_reached_its_server_twice(tmp_path: Path) -> None:
    written(tmp_path, "journal.jsonl", attempt("t#0/0.0"))
    written(tmp_path, "ledger.jsonl", call("write"), call("write"), call("read"), call("read"))
    written(tmp_path, "trajectories.jsonl", played("t#0/0.0"))
    assert problems(tmp_path, 1) == ("s 1: write {}: reached the server 2 times",)


def test_the_audit_sees_a_fault_that_was_taken_for_the_models_error(tmp_path: Path) -> None:
    met = {"started": 0.5, "ended": 1.5, "cause": "tool_error", "fault": "model", "num_retries": 0}
    written(tmp_path, "journal.jsonl", attempt("t#0/0.0"), call("write", **{**met, "episode": "t#0/0.0"}))
    written(tmp_path, "ledger.jsonl", call("write", kind="fault", fault="disk full"))
    written(tmp_path, "trajectories.jsonl", played("t#0/0.0"))
    assert problems(tmp_path, 1) == ("disk full: 1 became an error that the model read",)
