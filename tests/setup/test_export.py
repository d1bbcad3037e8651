"""An exported model is the trained one, and can be loaded by transformers, peft and turnwise."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.rollout.stage import task
from tests.run.stage import recipe
from tests.run.test_train import run_it
from tests.setup.resolved import agent
from tests.test_cli import fresh, one_line, turnwise
from turnwise.config import override_recipe, parse_settings
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.records.folder import RunFolder
from turnwise.rollout.measure.report import read_report
from turnwise.rollout.store import read_episodes
from turnwise.run.playing import evaluate_agent
from turnwise.run.progress import RunProgress
from turnwise.run.training_run import TrainingRun
from turnwise.setup.export import export_run
from turnwise.tasks.load import load
from turnwise.training.update import checkpoint

IDS = torch.arange(3, 120)[None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps with LoRA and three checkpoints, validated after the second step."""
    settings = recipe(
        tmp_path_factory.mktemp("lora"),
        evaluation={"every": 2, "num_samples": 2, "before_and_after": False},
        run={"checkpoint_every": 1, "keep_checkpoints": 3},
    )
    _, folder = run_it(settings)
    return folder.path


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(IDS).logits
    return found


def loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


def by_hand(run: Path, step: int) -> torch.Tensor:
    """Base weights and the checkpoint's A and B put together by the formula, without our code or peft's."""
    settings = RunFolder.read(run).recipe
    model = loaded(Path(settings.model.path))
    path = checkpoint.at_step(run / "checkpoints", step)
    assert path is not None
    tensors = load_file(path / "tensors.safetensors")
    scale = settings.policy.lora_alpha / settings.policy.lora_rank
    state = model.state_dict()
    for name, a in tensors.items():
        if name.startswith("policy/") and name.endswith("lora_A"):
            layer = name.removeprefix("policy/").removesuffix(".lora_A")
            state[f"{layer}.weight"] += scale * tensors[name.replace("lora_A", "lora_B")] @ a
    return logits(model)


def test_a_merged_export_is_the_trained_model_in_the_standard_layout(run: Path, tmp_path: Path) -> None:
    out, base = tmp_path / "out", Path(RunFolder.read(run).recipe.model.path)
    assert export_run(run, out).step == 3
    torch.testing.assert_close(logits(loaded(out)), by_hand(run, 3), rtol=0, atol=1e-5)
    assert (logits(loaded(out)) - logits(loaded(base))).abs().max() > 1e-2, "it has learned something"
    names = {file.name for file in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert "turnwise" not in (out / "config.json").read_text()
    assert json.loads((out / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    before, after = (load_file(folder / "model.safetensors") for folder in (base, out))
    shapes = [{name: tensor.shape for name, tensor in tensors.items()} for tensors in (before, after)]
    assert shapes[0] == shapes[1]
    assert not list(tmp_path.glob(".*")), "no half-written file is left"

    ours, theirs = load_tokenizer(str(base)), AutoTokenizer.from_pretrained(out)
    assert theirs.chat_template == ours.chat_template
    messages = [{"role": "user", "content": "What is 3% of 東京?"}]
    assert theirs.apply_chat_template(messages) == ours.apply_chat_template(messages)
    again = open_chat(load_tokenizer(out))
    assert again.open(task().prompt, ()) == open_chat(ours).open(task().prompt, ())
    assert again.stop_ids == open_chat(ours).stop_ids


def test_an_adapter_is_loaded_by_peft_and_is_the_trained_model_on_its_base(run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "out", is_adapter=True)
    base_path = RunFolder.read(run).recipe.model.path
    adapted = PeftModel.from_pretrained(loaded(Path(base_path)), tmp_path / "out")
    torch.testing.assert_close(logits(adapted), by_hand(run, 3), rtol=0, atol=1e-5)
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == base_path
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_any_kept_step_can_be_exported_and_the_best_is_that_of_validation(run: Path, tmp_path: Path) -> None:
    assert export_run(run, tmp_path / "one", which=1).step == 1
    torch.testing.assert_close(logits(loaded(tmp_path / "one")), by_hand(run, 1), rtol=0, atol=1e-5)
    assert (by_hand(run, 1) - by_hand(run, 3)).abs().max() > 1e-3
    assert export_run(run, tmp_path / "best", which="best").step == 3, "of equal validations the last"
    words = r"no checkpoint of step 9 is kept; there is step-000001, step-000002"
    with pytest.raises(ValueError, match=words):
        export_run(run, tmp_path / "nine", which=9)
    assert not (tmp_path / "nine").exists()


def sampled(folder: Path) -> list[tuple[int, float]]:
    """Tokens and their log-probs, to three digits."""
    played = [episode.trajectory for episode in read_episodes(folder / "trajectories.jsonl")]
    played.sort(key=lambda trajectory: trajectory.task.id)
    completions = [turn.completion for trajectory in played for turn in trajectory.turns]
    return [
        (token_id, round(logprob, 3))
        for completion in completions
        for token_id, logprob in zip(completion.token_ids, completion.logprobs, strict=True)
    ]


async def test_a_run_is_evaluated_with_its_trained_weights(run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "model")
    # The reward of the run is a module of the tests, so they must be found.
    environ = {"PYTHONPATH": str(Path(__file__).parents[2])}
    greedy = ("--temperature", "0", "-k", "1", "--set", "rollout.tokens_per_turn=12")
    ran = turnwise("eval", str(run), *greedy, "--out", "trained/eval.json", cwd=tmp_path, env=environ)
    assert ran.code == 0, ran.err
    assert read_report(tmp_path / "trained" / "eval.json").model == f"{run}, step 3"
    settings = RunFolder.read(run).recipe
    tasks = load(settings.tasks.test or Path())
    for name, path in (("exported", str(tmp_path / "model")), ("base", settings.model.path)):
        other = override_recipe(
            settings, parse_settings([f"model.path={path}", "rollout.tokens_per_turn=12"])
        )
        out = tmp_path / name / "eval.json"
        await evaluate_agent(agent(other, tasks), out=out, num_samples=1, temperature=0.0)
    assert sampled(tmp_path / "trained") == sampled(tmp_path / "exported")
    assert sampled(tmp_path / "trained") != sampled(tmp_path / "base")


def test_a_fully_tuned_run_is_exported_merged_and_has_no_adapter(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path,
        policy={"tuning": "full"},
        optimizer={"learning_rate": 1e-3},
        evaluation={"before_and_after": False},
        run={"num_steps": 1},
    )
    _, folder = run_it(settings)
    export_run(folder.path, tmp_path / "out")
    path = checkpoint.at_step(folder.checkpoints, 1)
    assert path is not None
    trained = load_file(path / "tensors.safetensors")
    for name, tensor in load_file(tmp_path / "out" / "model.safetensors").items():
        assert torch.equal(tensor, trained[f"policy/{name}"]), name
    with pytest.raises(ValueError, match="there is no adapter"):
        export_run(folder.path, tmp_path / "adapter", is_adapter=True)
    with pytest.raises(ValueError, match="there was no validation"):
        export_run(folder.path, tmp_path / "best", which="best")


def test_a_run_ends_with_its_best_weights_and_exports_them_by_default(tmp_path: Path) -> None:
    def prepare(run: TrainingRun) -> None:
        hooked: Any = run
        validated = hooked.validated

        async def best_after_one(progress: RunProgress) -> Any:
            progress, *more = await validated(progress)
            success = 0.5 if progress.next_step == 1 else 0.25
            return progress.measured(success), *more

        hooked.validated = best_after_one

    ended, folder = run_it(recipe(tmp_path, run={"num_steps": 3, "keep_checkpoints": 1}), prepare)
    assert ended.progress.best_step == 1
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-000001", "step-000003"]
    after = read_episodes(folder.evaluations / "after.trajectories.jsonl")
    assert {turn.completion.policy_version for played in after for turn in played.trajectory.turns} == {1}
    assert export_run(folder.path, tmp_path / "out").step == 1
    torch.testing.assert_close(logits(loaded(tmp_path / "out")), by_hand(folder.path, 1), rtol=0, atol=1e-5)
    assert export_run(folder.path, tmp_path / "last", which=3).step == 3


def test_the_command_exports_and_reports_mistakes_in_one_line(run: Path, tmp_path: Path) -> None:
    ran = turnwise("export", str(run), "--out", "model", "--step", "2", cwd=tmp_path, python=fresh)
    assert ran.code == 0, ran.err
    assert one_line(ran.out).startswith("model: the model after 2 steps, ")
    for args, words in [
        ([str(run), "--out", "model"], "is there already"),
        ([str(tmp_path), "--out", "other"], "not a run's folder"),
        ([str(run), "--out", "other", "--best", "--step", "1"], "--best and --step"),
    ]:
        ran = turnwise("export", *args, cwd=tmp_path)
        assert ran.code == 2
        assert words in one_line(ran.err)
