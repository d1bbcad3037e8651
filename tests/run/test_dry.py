"""A dry run: what it prints, what it finds, and that it plays and writes nothing."""

from pathlib import Path

import pytest
from transformers import BloomConfig

from tests.models.chat.tokenizers import qwen3
from tests.run.stage import recipe, write_recipe
from tests.run.test_signals import train
from tests.test_cli import is_plain
from turnwise.config import Recipe, override_recipe, parse_settings
from turnwise.run.checks.dry import DryRun, dry_run, to_check


async def tried(settings: Recipe, *overrides: str) -> DryRun:
    return await dry_run(to_check(override_recipe(settings, parse_settings(overrides))))


def test_it_says_what_a_run_would_do_and_leaves_no_trace(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, model={"path": str(tmp_path / "model"), "device": "cpu"})
    before = sorted(tmp_path.rglob("*"))
    ran = train("--dry-run", str(path))
    assert ran.code == 0, ran
    model, tasks, run, memory, folder = ran.out.splitlines()
    assert model.endswith("0.0 million parameters, float32 on cpu; lora learns, transformers samples")
    assert tasks == "tasks: 6 train, 2 validation, 2 test; 1 server with 5 tools"
    assert run == "run: 3 steps of 2 tasks × 3 episodes, sync; mean, loss clip, rate 0.01"
    assert memory.startswith("memory: ")
    assert "nothing was played or written" in folder
    assert is_plain(ran.out)
    assert sorted(tmp_path.rglob("*")) == before


async def test_what_would_fail_later_is_found_now(tmp_path: Path) -> None:
    settings = recipe(tmp_path, model={"path": str(tmp_path / "model"), "device": "cpu"})
    [long] = (await tried(settings, "rollout.tokens_per_episode=5000")).problems
    assert "tokens_per_episode is 5000, and the model's context 4096" in long
    cache = ("rollout.num_parallel_episodes=1000000", "engine.cache_tokens=100000000000")
    [huge] = (await tried(settings, *cache)).problems
    assert "turnwise doctor --plan" in huge
    tasks = (tmp_path / "train.jsonl").read_text()
    (tmp_path / "train.jsonl").write_text(tasks.replace('"notebook"', '"notebok"'))
    problems = (await tried(settings)).problems
    assert all("notebok" in problem for problem in problems[:5])
    assert len(problems) == 6, "five and a count of the rest"


async def test_a_model_whose_memory_cannot_be_planned_can_still_be_trained(tmp_path: Path) -> None:
    settings = recipe(tmp_path)
    BloomConfig(vocab_size=640, hidden_size=32, n_layer=2, n_head=4).save_pretrained(tmp_path / "bloom")
    qwen3().save_pretrained(tmp_path / "bloom")
    found = await tried(settings, f"model.path={tmp_path / 'bloom'}")
    assert not found.problems
    [memory] = [line for line in found.lines if line.startswith("memory: ")]
    assert "a BloomForCausalLM is not planned" in memory


async def test_a_model_that_is_not_there_hides_no_other_problem(tmp_path: Path) -> None:
    settings = recipe(tmp_path)
    tasks = (tmp_path / "train.jsonl").read_text()
    (tmp_path / "train.jsonl").write_text(tasks.replace('"notebook"', '"notebok"', 1))
    found = await tried(settings, "model.path=/no/such/model")
    missing, misspelt = found.problems
    assert missing == "model.path: /no/such/model: no such folder"
    assert "notebok" in misspelt
    assert "tasks: 6 train, 2 validation, 2 test; 1 server with 5 tools" in found.lines
    assert found.unchecked == (
        "the length of prompts, which needs the model's tokenizer",
        "the memory, which depends on the model",
    )


def test_what_could_not_be_checked_is_said_last(tmp_path: Path) -> None:
    ran = train("--dry-run", str(write_recipe(tmp_path, model={"path": "/no/such/model", "device": "cpu"})))
    *_, bad, last = ran.out.splitlines()
    assert (ran.code, bad) == (1, "bad  model.path: /no/such/model: no such folder")
    assert last.startswith("not checked: the length of prompts")


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("rollout.temperature=0", r"rollout\.temperature"),
        ('rewards=[{name="tests.run.own_rewards:odd_ids"}]', "odd_ids"),
    ],
)
async def test_a_recipe_that_cannot_be_opened_is_a_value_error(
    tmp_path: Path, override: str, word: str
) -> None:
    settings = recipe(tmp_path)
    with pytest.raises(ValueError, match=word):
        await tried(settings, override)
