"""report.json: what it holds, and how it is read back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.explore import explored
from turnwise.explore.exploration import Exploration
from turnwise.explore.report.findings import figures_of
from turnwise.explore.report.report_json import as_json, exploration_summary
from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.regular_files import Damaged


@pytest.mark.parametrize("made", [explored.shop, explored.empty, explored.hostile])
def test_the_figures_are_read_back_from_the_file(tmp_path: Path, made: Callable[[], Exploration]) -> None:
    exploration = made()
    write_json(tmp_path / "report.json", as_json(exploration))
    assert exploration_summary(tmp_path / "report.json") == figures_of(exploration)


def test_tasks_are_listed_without_their_demonstrations() -> None:
    found = as_json(explored.shop())
    assert found["tasks"][1] == {
        "id": "chain-0",
        "question": "Take the newest order of customer 0. What is its total? Answer with a number.",
        "answer": "12.5",
        "family": "chain",
        "difficulty": "medium",
        "split": "train",
        "tools": ["shop_list_orders", "shop_get_order"],
    }
    assert "demonstration" not in json.dumps(found)
    [pay] = [tool for tool in found["servers"][0]["tools"] if tool["server_tool"] == "pay"]
    assert (pay["reach"], pay["reason"]) == ("not reached", "needs a key")


def test_a_missing_report_is_none_and_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert exploration_summary(path) is None
    for content in ("[]", "{}", '{"figures": {"num_tasks": "many"}}', "not JSON", "[" * 100_000):
        path.write_text(content)
        with pytest.raises(Damaged):
            exploration_summary(path)
