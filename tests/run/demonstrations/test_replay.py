"""Recordings become demonstrations only if every call, the truth and every figure hold on real servers."""

import json
from pathlib import Path
from typing import Any

from tests import warm
from tests.tasks.legacy_rows import CHANNELS, FAILED, Call, inputs_row, processed_row
from tests.test_cli import turnwise
from turnwise.mcp.pool import Pool
from turnwise.rewards import DEFAULT, why_unscorable_by
from turnwise.run.demonstrations.replay import Demonstrated, demonstrated
from turnwise.tasks.check import check_files
from turnwise.tasks.load import PlacedTask, read, save
from turnwise.worlds.market.world import open_world

COMPANY = open_world(0).market.companies()[0].symbol
QUOTE: Call = ("fmp_get_quote", {"symbol": COMPANY}, "Price: $213.88")


async def replayed(folder: Path, *rows: dict[str, Any]) -> Demonstrated:
    """The demonstrations of these rows, replayed on our servers."""
    old, new = folder / "train.json", folder / "new.jsonl"
    old.write_text(json.dumps(rows))
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        await pool.connect()
        servers = {tool.name: tool.server for tool in pool.tools}
        placed = [item for item in read(old, tool_servers=servers) if isinstance(item, PlacedTask)]
        assert len(placed) == len(rows)
        found = await demonstrated(placed, pool)
        save(found.tasks, new)
        assert check_files([new], pool.tools, why_unscorable_by(DEFAULT)) == []
        return found


async def test_a_recording_that_still_holds_is_kept_with_the_results_of_now(tmp_path: Path) -> None:
    renamed: Call = ("fmp_get_quote", {"ticker_symbol": COMPANY}, "Price: $213.88")
    found = await replayed(
        tmp_path,
        inputs_row("a01", (QUOTE, CHANNELS)),
        inputs_row("a02", (FAILED, QUOTE, CHANNELS)),
        inputs_row("a03", (renamed, CHANNELS)),
        processed_row((QUOTE,)),
    )
    assert found.dropped == ()
    assert found.num_kept == 4
    for task in found.tasks:
        *turns, last = task.demonstration
        assert [call.name for turn in turns for call in turn.calls] == list(task.truth.milestones)
        assert turns[0].calls[0].arguments == {"symbol": COMPANY}, "under the tool's own name"
        assert "213.88" not in turns[0].results[0].content
        assert last.text
        assert not last.calls


FALSE = {
    "fails now": inputs_row("a1", (("fmp_get_quote", {"symbol": "ZZXQ"}, "$1"), CHANNELS)),
    "fmp_get_quote never succeeds": inputs_row("a2", (CHANNELS, CHANNELS)),
    "ends without an answer": inputs_row("a4", (QUOTE, CHANNELS), answer=""),
    "it takes 9 turns, the task allows 5": inputs_row("a5", (QUOTE,) * 8),
    "its answer says 213.88": inputs_row("a6", (QUOTE, CHANNELS), answer="It costs $213.88."),
    "its answer says 7.25 trillion": inputs_row("a7", (QUOTE, CHANNELS), answer="Worth 7.25 trillion."),
    "send_slack_message is given 213.88": inputs_row(
        "a8", (QUOTE, ("send_slack_message", {"channel": "general", "message": "Up to 213.88"}, "sent"))
    ),
    "its answer quotes the recording": inputs_row(
        "a9", (QUOTE, CHANNELS), answer="I saw **Available Public Channels found:** there."
    ),
}
"""By the reason why it is dropped."""


async def test_a_recording_that_would_teach_something_false_is_dropped_with_the_reason(
    tmp_path: Path,
) -> None:
    price = open_world(0).market.quote(COMPANY).price
    sound = inputs_row(calls=(QUOTE, CHANNELS), answer=f"1. The price is {price:.1f}, of 5 asked for.")
    sound["prompt"][0]["content"] += " Give at most 5."
    found = await replayed(tmp_path, *FALSE.values(), sound)
    assert found.num_kept == 1, "figures of the question and rounded results may be quoted"
    for reason, dropped in zip(FALSE, found.dropped, strict=True):
        assert reason in dropped.reason


def test_convert_says_what_it_kept_and_what_it_dropped(tmp_path: Path) -> None:
    rows = [inputs_row("a01", (QUOTE, CHANNELS)), inputs_row("a02", answer="It costs $213.88.")]
    (tmp_path / "train.json").write_text(json.dumps(rows))
    warm.share_world(tmp_path)
    ran = turnwise("tasks", "convert", "train.json", "new.jsonl", cwd=tmp_path)
    assert ran.code == 0, ran
    dropped, total = ran.out.strip().splitlines()
    assert dropped.startswith("no demonstration for train-a02: ")
    assert total == "new.jsonl: 2 tasks, 1 with a demonstration; 1 recorded conversations dropped"
    ran = turnwise("tasks", "convert", "train.json", "bare.jsonl", "--no-demonstrations", cwd=tmp_path)
    assert "2 tasks, 0 with a demonstration" in ran.out
