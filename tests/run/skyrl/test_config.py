"""SkyRL's `validate_cfg` accepts translated recipes, and SkyRL runs the experiment."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

import ray
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.utils.trainer_utils import build_dataloader

from tests.run.skyrl.stage import ModelClient
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.run.skyrl.experiment import TurnwiseExp, checked_config, num_gpus
from turnwise.run.skyrl.generator import TurnwiseGenerator, task_in
from turnwise.run.skyrl.launch import launch, preview
from turnwise.run.skyrl.translation import translate

RECIPES = Path(__file__).parents[3] / "recipes"
CISPO = ("algorithm.loss=cispo", "algorithm.correction=bypass")
EMBEDDED = ("model.path=embedded", "model.dtype=float32")


def recipe_with(*overrides: str) -> Recipe:
    return read_recipe(RECIPES / "cluster_skyrl.toml", parse_settings(overrides))


def config_of(*overrides: str) -> Any:
    return checked_config(translate(recipe_with(*overrides), Path("/runs/one")))


def test_the_included_recipe_is_accepted_with_its_values() -> None:
    config = config_of()
    trainer, generator = config.trainer, config.generator
    sizes = (trainer.train_batch_size, generator.n_samples_per_prompt, trainer.max_training_steps)
    assert sizes == (64, 8, 100)
    assert trainer.policy.model.lora.rank == 16
    assert trainer.algorithm.grpo_norm_by_std is False
    assert (trainer.algorithm.eps_clip_low, trainer.algorithm.eps_clip_high) == (0.2, 0.28)
    assert trainer.algorithm.use_kl_loss is False
    assert trainer.algorithm.off_policy_correction.tis_ratio_type == "token"
    assert generator.sampling_params.max_generate_length == 512
    assert generator.eval_sampling_params.temperature == 1.0
    assert generator.inference_engine.engine_init_kwargs == {"max_model_len": 4096}
    assert trainer.ckpt_path == "/runs/one/checkpoints"
    assert trainer.algorithm.temperature == 1.0
    assert num_gpus(config) == 16


@pytest.mark.parametrize(
    "overrides",
    [
        *([f"algorithm.preset={name}"] for name in ("grpo", "dr_grpo", "dapo", "gspo", "cispo", "ppo")),
        *([f"algorithm.advantage={name}"] for name in ("rloo", "maxrl", "reinforce++")),
        *([f"algorithm.correction={name}"] for name in ("sequence", "mask", "mask_sequence", "none")),
        ["algorithm.kl.placement=reward", "algorithm.kl.target=0.1", "reference.kind=frozen"],
        ["algorithm.aggregation=prompt"],
        ["algorithm.clip_dual=3"],
        ["policy.tuning=full", *EMBEDDED],
        [*CISPO, "run.mode=async", "skyrl.colocate=false", "skyrl.num_engines=4"],
        ["skyrl.gpus_per_engine=2"],
        ["evaluation.every=0", "optimizer.schedule=cosine", "optimizer.warmup_steps=2"],
    ],
    ids=" ".join,
)
def test_skyrl_accepts_the_translation(overrides: list[str]) -> None:
    assert isinstance(config_of(*overrides), SkyRLTrainConfig)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "fp32"), ("bfloat16", None)])
def test_workers_compute_in_the_dtype_of_the_recipe(dtype: str, expected: str | None) -> None:
    trainer = config_of(f"model.dtype={dtype}").trainer
    for model in (trainer.policy, trainer.ref, trainer.critic):
        precision = model.fsdp_config.mixed_precision  # None: bfloat16
        assert (precision and precision.param_dtype) == expected


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("skyrl.overrides.trainer.policy_mini_batch_size=7", "divisible"),
        ("skyrl.overrides.trainer.no_such_key=7", "no_such_key"),
        ("skyrl.overrides.trainer.algorithm.policy_loss_type=none", "policy_loss_type"),
    ],
)
def test_an_error_of_skyrl_is_reported_with_its_message(override: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"SkyRL rejects the recipe: .*{words}"):
        config_of(override)


def test_the_experiment_has_our_tasks_and_our_generator() -> None:
    apart = ("skyrl.colocate=false", "skyrl.num_engines=1")
    overrides = (*EMBEDDED, *apart, "skyrl.num_players=0", "evaluation.num_tasks=20")
    recipe = recipe_with(*overrides)
    experiment = TurnwiseExp(config_of(*overrides), recipe)
    batch = next(iter(build_dataloader(experiment.cfg, experiment.train_dataset)))
    assert len(batch) == 64
    assert len({item["uid"] for item in batch}) == 64
    assert task_in(batch[0]["env_extras"]).id == batch[0]["uid"]
    assert batch[0]["prompt"][-1]["role"] == "user"
    assert len(experiment.eval_dataset) == 20
    generator = experiment.get_generator(experiment.cfg, experiment.tokenizer, ModelClient(recipe))
    assert isinstance(generator, TurnwiseGenerator)


def test_tied_embeddings_are_rejected_for_full_tuning() -> None:
    # SkyRL trains them apart: benchmarks/skyrl_cpu showed other log-probs in its workers than in the engine
    recipe = recipe_with(*EMBEDDED, "policy.tuning=full")
    _, [problem] = preview(recipe, "run")
    assert problem.startswith("policy.tuning is 'full'")
    assert "tied embeddings" in problem
    assert preview(recipe_with(*EMBEDDED), "run")[1] == []


def test_missing_modules_are_reported_before_ray_is_started(tmp_path: Path) -> None:
    if find_spec("vllm") is not None:
        pytest.skip("vllm is installed")
    said: list[str] = []
    recipe = read_recipe(
        RECIPES / "cpu.toml", parse_settings([f"run.folder={tmp_path}", "policy.tuning=lora"])
    )
    with pytest.raises(ValueError, match=r"not installed here: vllm, .*skyrl\[fsdp\]"):
        launch(recipe, "run", say=said.append)
    assert not ray.is_initialized()
    assert not list(tmp_path.iterdir())
    lines, problems = preview(recipe, "run")
    assert any(line.startswith("not installed here: vllm") for line in lines)
    assert problems == []
