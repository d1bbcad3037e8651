"""Files of the older system, from their own layout to a run: converted, checked, trained on."""

import json
from pathlib import Path

import pytest

from tests.tasks.legacy_rows import CHANNELS, QUOTE, inputs_row
from tests.test_cli import turnwise
from turnwise.rollout.store import read_episodes
from turnwise.servers.embedded.world import open_world

COMPANY = open_world(0).market.companies()[0].symbol

RECIPE = """
model.path = "embedded"
tasks.train = "train.jsonl"
run = {num_steps = 3, tasks_per_step = 2, folder = "runs", name = "run"}
rollout = {group_size = 3, tokens_per_turn = 48, lockstep = true}
policy.tuning = "full"
[[rewards]]
name = "outcome"
[[rewards]]
name = "milestones"
weight = 0.5
"""


@pytest.mark.slow
def test_a_converted_file_passes_every_check_and_trains(tmp_path: Path) -> None:
    rows = [inputs_row(f"a{number}", (QUOTE, CHANNELS)) for number in range(4)]
    text = json.dumps(rows).replace("KALDJ", COMPANY)
    (tmp_path / "train.json").write_text(text)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    converted = turnwise("tasks", "convert", "train.json", "train.jsonl", cwd=tmp_path)
    assert "4 tasks, 4 with a demonstration" in converted.out, converted
    for command in (
        ["tasks", "check", "train.jsonl", "--recipe", "recipe.toml"],
        ["train", "--dry-run", "recipe.toml"],
        ["train", "recipe.toml"],
    ):
        ran = turnwise(*command, cwd=tmp_path)
        assert ran.code == 0, ran
    played = [
        episode
        for file in sorted(tmp_path.glob("runs/run/trajectories/*"))
        for episode in read_episodes(file)
    ]
    assert {episode.step for episode in played} == {0, 1, 2}
    assert len(played) >= 3 * 2 * 3
    assert {"outcome", "milestones"} == set(played[0].reward.parts)
