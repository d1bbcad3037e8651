"""Rows of multi-mcp-rl with a truth of the embedded world: honest solutions earn it, cheats do not."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.earlier.recording import Recording
from turnwise.tasks.load import PlacedTask
from turnwise.tasks.proof.follow import asked
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import DemoTurn, ProbeResult, Task, ToolCall
from turnwise.worlds.market import earlier_rows
from turnwise.worlds.market.services import SERVERS

KNOWN: dict[str, Any] = json.loads((Path(__file__).parent / "earlier_rows.json").read_text())
"""What an honest solution says and posts, computed from the market itself and not with its tools."""
ABOUT_AAPL = {"symbol": "AAPL", "tickers": "AAPL", "ticker": "AAPL", "query": "x", "code": "print(1)"}
ABOUT_AAPL |= {"start_date": "2026-06-01", "end_date": "2026-06-30", "channel": "general", "message": "x"}


async def wins(task: Task, turns: Sequence[DemoTurn], pool: Pool, name: str) -> bool:
    async with pool.lease(task.servers, f"{name}/{task.id}") as toolbox:
        results = [tuple(await toolbox.call(turn.calls)) if turn.calls else () for turn in turns]
        played = [replace(turn, results=own) for turn, own in zip(turns, results, strict=True)]
        probes = task.truth.probes
        shown = zip(probes, await asked(probes, toolbox) if probes else (), strict=True)
        states = tuple(ProbeResult(probe, answer.content, answer.is_error) for probe, answer in shown)
        return is_success(replace(episode_of(task, played, toolbox.tools, is_done=True), probes=states))


def honest(task: Task, known: dict[str, Any]) -> list[DemoTurn]:
    """The plan's reads, a post in other words, and the answer as the world has it."""
    answer, own = known["answer"], ("execute_python", "send_slack_message")
    said = f"```json\n{json.dumps(answer, indent=2)}\n```" if isinstance(answer, dict) else str(answer)
    post = {name: known[name] for name in ("channel", "message") if name in known}
    posts = [DemoTurn("", (ToolCall("post", own[1], post),))] if post else []
    return [
        *(turn for turn in task.demonstration[:-1] if turn.calls[0].name not in own),
        *posts,
        DemoTurn(said),
    ]


def given_up(pool: Pool) -> list[DemoTurn]:
    """The same call of every tool, whatever the question."""
    calls = [
        ToolCall(
            tool.name,
            tool.name,
            {key: ABOUT_AAPL[key] for key in tool.input_schema["properties"] if key in ABOUT_AAPL},
        )
        for tool in pool.tools
    ]
    return [*(DemoTurn("", (call,)) for call in calls), DemoTurn("I give up.")]


async def test_honest_solutions_earn_every_row_and_cheats_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {
        name: {**row, "question": hashlib.sha256(f"Question {name}".encode()).hexdigest()[:16]}
        for name, row in earlier_rows._rows().items()
    }
    monkeypatch.setattr(earlier_rows, "_rows", lambda: plans)
    tasks = [Task(name, f"Question {name}") for name in KNOWN] + [Task("train-a01", "Another question")]
    placed = [PlacedTask("f", number, task, Recording((), "")) for number, task in enumerate(tasks)]
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        await pool.connect()
        *proven, other = await earlier_rows.with_truths(placed, pool.tools, SERVERS, pool.lease, is_success)
        assert other is placed[-1]
        assert plans.keys() == KNOWN.keys()
        for task in (item.task for item in proven):
            solution = honest(task, KNOWN[task.id])
            assert await wins(task, solution, pool, "honest"), task.id
            for number, cheat in enumerate((given_up(pool), solution[-1:], [*solution[:-1], DemoTurn("x")])):
                assert not await wins(task, cheat, pool, f"cheat {number}"), task.id
