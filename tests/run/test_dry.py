"""A dry run: what it says, what it finds, and that it plays and writes nothing."""

import asyncio
from pathlib import Path

import pytest
from transformers import BloomConfig

from tests.chat.tokenizers import qwen3
from tests.run.stage import recipe, write_recipe
from tests.test_cli import is_plain, turnwise
from turnwise.config import Recipe, override_recipe
from turnwise.run.dry import DryRun, dry_run

ROOT = Path(__file__).parents[2]
ENVIRON = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
"""For a reward that is among the tests."""


def tried(settings: Recipe, *overrides: str) -> DryRun:
    return asyncio.run(dry_run(override_recipe(settings, overrides)))


def test_it_says_what_a_run_would_do_and_leaves_no_trace(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, model={"path": str(tmp_path / "model"), "device": "cpu"})
    before = sorted(tmp_path.rglob("*"))
    ran = turnwise("train", "--dry-run", str(path), cwd=tmp_path, env=ENVIRON)
    assert ran.code == 0, ran
    model, tasks, run, memory, folder = ran.out.splitlines()
    assert model.endswith("0.0 million parameters, float32 on cpu; lora learns, transformers samples")
    assert tasks == "tasks: 6 train, 2 validation, 2 test; 1 servers with 5 tools"
    assert run == "run: 3 steps of 2 tasks × 3 episodes, sync; mean, loss clip, rate 0.01"
    assert memory.startswith("memory: ")
    assert "nothing was played or written" in folder
    assert is_plain(ran.out)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_would_fail_later_is_found_now(tmp_path: Path) -> None:
    settings = recipe(tmp_path, model={"path": str(tmp_path / "model"), "device": "cpu"})
    assert not tried(settings).problems
    [long] = tried(settings, "rollout.tokens_per_episode=5000").problems
    assert "tokens_per_episode is 5000, and the model's context 4096" in long
    tasks = (tmp_path / "train.jsonl").read_text()
    (tmp_path / "train.jsonl").write_text(tasks.replace('"notebook"', '"notebok"'))
    assert all("notebok" in problem for problem in tried(settings).problems[:5])
    assert len(tried(settings).problems) == 6, "five and a count of the rest"
    (tmp_path / "train.jsonl").write_text(tasks)
    [huge] = tried(
        settings, "rollout.num_parallel_episodes=1000000", "engine.cache_tokens=100000000000"
    ).problems
    assert "turnwise doctor --plan" in huge


def test_a_model_whose_memory_cannot_be_planned_keeps_no_one_from_a_run(tmp_path: Path) -> None:
    settings = recipe(tmp_path)
    BloomConfig(vocab_size=640, hidden_size=32, n_layer=2, n_head=4).save_pretrained(tmp_path / "bloom")
    qwen3().save_pretrained(tmp_path / "bloom")
    found = tried(settings, f"model.path={tmp_path / 'bloom'}")
    assert not found.problems
    [memory] = [line for line in found.lines if line.startswith("memory: ")]
    assert "a BloomForCausalLM is not planned" in memory


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        (["rollout.temperature=0"], "rollout.temperature"),
        (["model.path=/no/such/model"], "model.path"),
    ],
)
def test_what_leaves_nothing_to_say_is_one_line(tmp_path: Path, overrides: list[str], word: str) -> None:
    settings = recipe(tmp_path)
    with pytest.raises(ValueError, match=word):
        tried(settings, *overrides)


def test_a_reward_that_is_not_there_is_found(tmp_path: Path) -> None:
    settings = recipe(tmp_path)
    parts = [part.model_copy(update={"name": "tests.run.own_rewards:odd_ids"}) for part in settings.rewards]
    with pytest.raises(ValueError, match="odd_ids"):
        tried(settings.model_copy(update={"rewards": tuple(parts)}))
