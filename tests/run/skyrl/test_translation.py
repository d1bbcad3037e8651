"""Every key of a recipe is translated to SkyRL, read by the episodes, or reported."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.config import Recipe, override_recipe, parse_settings, read_recipe
from turnwise.run.skyrl.launch import NOT_INSTALLED, preview
from turnwise.run.skyrl.translation import READ_BY_EPISODES, WITHOUT_COUNTERPART, leaves, translate

RECIPES = Path(__file__).parents[3] / "recipes"
FOLDER = Path("/runs/one")

CISPO = ("algorithm.loss=cispo", "algorithm.correction=bypass")
ASYNC = ("rollout.lockstep=false", "skyrl.colocate=false", *CISPO, "run.mode=async")
ALONE = """
seed=7 model.path=Qwen/Qwen3-4B model.dtype=bfloat16 engine.max_batch=7
engine.vllm.gpu_memory_utilization=0.7 engine.vllm.eager=true rollout.group_size=3
rollout.tokens_per_episode=999 rollout.temperature=0.7 rollout.dynamic_sampling=false policy.tuning=full
policy.lora_rank=3 policy.lora_alpha=3 policy.gradient_checkpointing=12
algorithm.advantage=rloo algorithm.loss=gspo algorithm.aggregation=prompt algorithm.clip_low=0.3
algorithm.clip_high=0.3 algorithm.clip_dual=3 algorithm.correction=none algorithm.correction_cap=3
algorithm.entropy_bonus=0.1 algorithm.gamma=0.9 algorithm.lam=0.9 algorithm.kl.coefficient=0.5
optimizer.learning_rate=1 optimizer.weight_decay=1 optimizer.schedule=cosine optimizer.warmup_steps=3
optimizer.max_gradient_norm=3 update.num_epochs=3 update.num_minibatches=2
update.tokens_per_microbatch=77 run.num_steps=7 run.tasks_per_step=7 run.checkpoint_every=3
run.keep_checkpoints=3 evaluation.every=3 evaluation.num_samples=3 evaluation.temperature=0.3
skyrl.num_nodes=2 skyrl.gpus_per_node=2 skyrl.colocate=false
"""
"""Overrides that change the translation by themselves."""

OTHER: dict[str, tuple[str, ...]] = {
    **{override.partition("=")[0]: (override,) for override in ALONE.split()},
    "policy.lora_targets": ('policy.lora_targets=["q_proj"]',),
    "algorithm.kl.placement": ("reference.kind=frozen", "algorithm.kl.placement=reward"),
    "algorithm.kl.target": (
        "algorithm.kl.placement=reward",
        "reference.kind=frozen",
        "algorithm.kl.target=0.2",
    ),
    "value.learning_rate": ("algorithm.advantage=gae", "value.learning_rate=0.5"),
    "value.max_change": ("algorithm.advantage=gae", "value.max_change=0.5"),
    "optimizer.betas": ("optimizer.betas=[0.1, 0.2]",),
    "run.mode": ASYNC,
    "run.max_staleness": (*ASYNC, "run.max_staleness=3"),
    "evaluation.before_and_after": ("evaluation.every=3", "evaluation.before_and_after=false"),
    "trackers": ('trackers=["tensorboard"]',),
    "skyrl.num_engines": ("skyrl.colocate=false", "skyrl.num_engines=3"),
    "skyrl.gpus_per_engine": ("skyrl.gpus_per_node=2", "skyrl.gpus_per_engine=2"),
    "skyrl.overrides": ("skyrl.overrides.trainer.flash_attn=false",),
}
"""By key, overrides that change it: the last one sets the key, the others give it an effect."""

ELSEWHERE = {"run.folder", "run.name"}
"""Keys that `translate` gets from its folder."""

REFUSED = {
    "model.quantisation": ("model.quantisation=nf4",),
    "policy.lora_tokens": ("policy.lora_tokens=[5]",),
    "algorithm.gamma_unit": ("algorithm.advantage=gae", "algorithm.gamma_unit=turn"),
    "reference.kind": ("algorithm.kl.placement=loss_k3", "reference.kind=ema"),
    "run.num_epochs": ("curriculum.kind=uniform", "run.num_epochs=2"),
}
"""Keys whose other values SkyRL does not support."""


def changed(*overrides: str) -> Recipe:
    recipe = read_recipe(RECIPES / "cpu.toml", {"policy.tuning": "lora", "model.path": "a"})
    return override_recipe(recipe, parse_settings(overrides))


def test_every_key_of_a_recipe_is_handled() -> None:
    keys = {key for key, _ in leaves(Recipe())}
    decided = [*READ_BY_EPISODES, *WITHOUT_COUNTERPART, *OTHER, *ELSEWHERE, *REFUSED]
    assert sorted(decided) == sorted(keys)


@pytest.mark.parametrize("key", OTHER)
def test_every_translated_key_changes_the_translation(key: str) -> None:
    *context, last = OTHER[key]
    before = translate(changed(*context), FOLDER).overrides
    assert translate(changed(*context, last), FOLDER).overrides != before


@pytest.mark.parametrize("key", REFUSED)
def test_an_unsupported_value_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        translate(changed(*REFUSED[key]), FOLDER)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["algorithm.advantage=turn"], "algorithm.advantage"),
        (["algorithm.advantage=batch_std"], "algorithm.advantage"),
        (["algorithm.loss=reinforce"], "algorithm.loss"),
        (["algorithm.correction=bypass"], "algorithm.correction"),
        (["model.dtype=float16"], "model.dtype"),
        (["update.num_minibatches=3"], "update.num_minibatches"),
        (["rollout.lockstep=false", *CISPO, "run.mode=async"], "run.mode"),
        (["rollout.lockstep=false", "skyrl.colocate=false", "run.mode=async"], "run.mode"),
        ([*ASYNC, "update.num_minibatches=2"], "update.num_minibatches"),
        (["run.num_steps=0"], "run.num_steps"),
        (["skyrl.num_engines=3"], "skyrl.num_engines"),
        (["rollout.temperature=0"], "rollout.temperature"),
        (["policy.lora_alpha=1.5"], "policy.lora_alpha"),
    ],
)
def test_an_error_names_the_key(overrides: list[str], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        translate(changed(*overrides), FOLDER)


def test_all_keys_without_a_counterpart_are_reported() -> None:
    recipe = changed("curriculum.kind=success", "algorithm.kl.hard_cap=1.0")
    translation = translate(recipe, FOLDER)
    assert set(translation.without_counterpart) | set(translation.unset_without_counterpart) == set(
        WITHOUT_COUNTERPART
    )
    lines = "\n".join(translation.lines())
    assert all(key in lines for key in WITHOUT_COUNTERPART)
    assert "no counterpart in SkyRL: curriculum.kind: SkyRL draws tasks uniformly" in lines
    assert "no counterpart in SkyRL: rollout.lockstep" in lines, "cpu.toml sets it"
    assert "no counterpart in SkyRL: health" not in lines


@pytest.mark.parametrize(
    "override", ['skyrl.overrides={"trainer.seed" = 5}', "skyrl.overrides.trainer.seed=5"]
)
def test_dotted_and_nested_overrides_win(override: str) -> None:
    assert translate(changed(override), FOLDER).overrides["trainer.seed"] == 5


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["train", *arguments])


@pytest.mark.skipif(find_spec("skyrl") is not None, reason="SkyRL is installed")
def test_without_skyrl_the_command_reports_it_in_one_line(tmp_path: Path) -> None:
    result = run("--engine", "skyrl", str(RECIPES / "cluster_skyrl.toml"), "--set", f"run.folder={tmp_path}")
    assert result.exit_code == 2
    assert result.output == f"turnwise: {NOT_INSTALLED}\n"
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_the_keys_of_skyrl_and_starts_nothing(tmp_path: Path) -> None:
    recipe = str(RECIPES / "cluster_skyrl.toml")
    result = run("--engine", "skyrl", "--dry-run", recipe, "--set", f"run.folder={tmp_path}")
    lines = result.stdout.splitlines()  # SkyRL prints to stderr
    assert lines[0].startswith("tasks: "), "the same lines as any dry run"
    assert '  trainer.algorithm.advantage_estimator = "grpo"' in lines
    assert f'  trainer.ckpt_path = "{tmp_path / "cluster_skyrl" / "checkpoints"}"' in lines
    assert any(line.startswith("no counterpart in SkyRL: ") for line in lines)
    assert not list(tmp_path.iterdir())
    if find_spec("skyrl") is None:
        assert (result.exit_code, lines[-2]) == (1, f"bad  {NOT_INSTALLED}")
        assert lines[-1].startswith("not checked: the length of prompts")
    else:
        assert result.exit_code == 0, result.output
        assert "SkyRL accepts it, and will need 16 GPUs of Ray's cluster" in lines


def test_a_dry_run_reports_servers_with_too_few_calls_for_the_players(tmp_path: Path) -> None:
    server = {"url": "http://127.0.0.1:9/mcp", "turnwise": {"max_concurrency": 2}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"far": server}}))
    lines, problems = preview(changed(f"tools.mcp={tmp_path}/mcp.json", "skyrl.num_players=3"), "run")
    [problem] = problems
    assert "server 'far': turnwise.max_concurrency is 2, and 3 workers share it" in problem
    assert lines[-1].endswith("nothing was started or written")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "verl", "r.toml"], "only skyrl is known"),
        (["--engine", "skyrl", "--resume", "runs/x"], "give the recipe again"),
        (["--engine", "skyrl", "--json", "r.toml"], "--json"),
        (["--engine", "skyrl", "nowhere.toml"], "no such file"),
        (["--engine", "skyrl", str(RECIPES / "cpu.toml"), "--set", "model.dtype=float16"], "model.dtype"),
    ],
)
def test_mistakes_on_the_command_line_are_reported_in_one_line(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    [line] = result.output.splitlines()
    assert words in line
