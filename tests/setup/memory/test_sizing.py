"""The sizes of a run are found from its memory plan, and a key that the recipe sets is kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import BloomConfig
from typer.testing import CliRunner

from tests.setup.memory.shaped import QWEN3, QWEN3_06B, shallow
from turnwise.cli import app
from turnwise.config import DEFAULT_SIZES, Recipe, Sizes, parse_settings, read_recipe
from turnwise.models.device_memory import Memory
from turnwise.setup.memory import MemoryPlan, UnsupportedArchitecture, find_sizes, plan_memory, sizes_line
from turnwise.setup.memory.memory import outline_models
from turnwise.setup.memory.passes import training_memory
from turnwise.setup.memory.sizing import CPU_SHARE, MARGIN
from turnwise.training.update.offload import slot_bytes

GB = 10**9
RECIPES = Path(__file__).parents[3] / "recipes"
GPU = ("model.device=cuda", "model.dtype=bfloat16", "run.tasks_per_step=16")
SMALL = shallow(QWEN3_06B, 2)
GPU_GIGABYTES = (24, 48, 80, 140)


def recipe(folder: Path, config: Any, *overrides: str) -> Recipe:
    config.save_pretrained(folder)
    return read_recipe(None, parse_settings([f"model.path={folder}", *overrides]))


def found(folder: Path, gigabytes: float, *overrides: str, config: Any = SMALL) -> MemoryPlan:
    """The plan of a GPU with this memory."""
    memory = Memory(int(gigabytes * GB), int(gigabytes * GB))
    return find_sizes(recipe(folder, config, *GPU, *overrides), memory).plan


def test_activations_of_twice_the_tokens_take_twice_the_memory(tmp_path: Path) -> None:
    settings = recipe(tmp_path, SMALL, *GPU)
    policy = outline_models(settings).policy

    def held(tokens: int) -> int:
        sizes = replace(settings.sizes, tokens_per_microbatch=tokens)
        per_step = settings.run.tasks_per_step
        return training_memory(policy, sizes, settings.rollout, per_step, "cuda").at_head_bytes

    one, four = held(8192), held(32_768)
    assert four == pytest.approx(4 * one, rel=1e-2)
    assert held(16_384) == pytest.approx(2 * one, rel=1e-2), "found between the two, without a pass"


@pytest.mark.parametrize("kind", ["transformers", "vllm"])
def test_what_is_found_fits_and_is_larger_with_more_memory(tmp_path: Path, kind: str) -> None:
    sizes_of_gpus = (6, 10, 16, 200)
    plans = [found(tmp_path, gigabytes, f"engine.kind={kind}") for gigabytes in sizes_of_gpus]
    for plan, gigabytes in zip(plans, sizes_of_gpus, strict=True):
        assert plan.fits
        assert plan.num_bytes <= (1 - MARGIN) * gigabytes * GB
    tokens = [plan.sizes.tokens_per_microbatch for plan in plans]
    assert tokens == sorted(tokens)
    assert len(set(tokens)) == 4
    assert tokens[-1] == 65_536, "a GPU is busy with that"
    assert all(count % 1024 == 0 for count in tokens)
    caches = [plan.sizes.cache_gib if kind == "vllm" else plan.sizes.cache_tokens for plan in plans]
    assert caches == sorted(caches)
    assert plans[-1].sizes.num_parallel_episodes == plans[-1].sizes.max_batch == 128, "a whole step"
    assert plans[-1].sizes.cache_tokens == 128 * 4096
    # the plan of a run with these keys set is the one that they were found by, or below it
    sized = find_sizes(recipe(tmp_path, SMALL, *GPU, f"engine.kind={kind}"), plans[0].memory).recipe
    assert not sized.lacks_sizes
    assert plan_memory(sized, "cuda", plans[0].memory).num_bytes <= plans[0].num_bytes


def test_layers_are_recomputed_only_if_one_episode_does_not_fit_without(tmp_path: Path) -> None:
    config = shallow(QWEN3_06B, 8)
    assert found(tmp_path, 8, config=config).sizes.gradient_checkpointing
    plan = found(tmp_path, 16, config=config)
    assert plan.sizes.gradient_checkpointing is False
    assert plan.sizes.tokens_per_microbatch >= 4096


def test_the_fewest_layers_are_recomputed_with_which_a_busy_micro_batch_fits(tmp_path: Path) -> None:
    plan = found(tmp_path, 8, config=shallow(QWEN3_06B, 9))
    number = plan.sizes.gradient_checkpointing
    assert number is not True
    assert 1 <= number < 9
    assert plan.num_bytes <= (1 - MARGIN) * 8 * GB
    assert f"recomputation of {number} of 9 layers" in sizes_line(plan)
    [why] = [part.why for part in plan.parts if part.name == "activations"]
    assert f"{number} of 9 layers recomputed" in why
    fewer = replace(plan.sizes, gradient_checkpointing=number - 1)
    sized = recipe(tmp_path, shallow(QWEN3_06B, 9), *GPU).with_sizes(fewer)
    assert plan_memory(sized, "cuda").num_bytes > (1 - MARGIN) * 8 * GB
    assert found(tmp_path, 6, config=shallow(QWEN3_06B, 9)).sizes.gradient_checkpointing is True


def test_more_recomputed_layers_than_the_model_has_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"policy\.gradient_checkpointing is 3, but the model has 2 layers"):
        found(tmp_path, 8, "policy.gradient_checkpointing=3")


def test_a_key_that_is_set_is_kept(tmp_path: Path) -> None:
    keys = {
        "update.tokens_per_microbatch": 5000,
        "policy.gradient_checkpointing": True,
        "engine.cache_tokens": 9000,
        "engine.max_batch": 7,
        "rollout.num_parallel_episodes": 9,
    }
    for key, value in keys.items():
        sizes = found(tmp_path, 6, f"{key}={str(value).lower()}").sizes
        assert getattr(sizes, key.rpartition(".")[2]) == value, key
    sizes = found(tmp_path, 12, "engine.kind=vllm", "engine.vllm.gpu_memory_utilization=0.4").sizes
    assert (sizes.gpu_memory_utilization, sizes.cache_gib) == (0.4, None)
    sizes = found(tmp_path, 12, "engine.kind=vllm", "engine.vllm.cache_gib=1.5").sizes
    assert sizes.cache_gib == 1.5


def test_on_a_cpu_the_defaults_are_the_most_and_the_load_of_the_machine_plays_no_part(tmp_path: Path) -> None:
    settings = recipe(tmp_path, SMALL, "model.device=cpu")
    plenty = find_sizes(settings, Memory(GB, 500 * GB)).plan
    assert plenty.sizes == DEFAULT_SIZES
    short = find_sizes(settings, Memory(GB, 16 * GB)).plan
    assert short.num_bytes <= CPU_SHARE * 16 * GB
    assert short.sizes == find_sizes(settings, Memory(15 * GB, 16 * GB)).plan.sizes
    assert short.sizes.tokens_per_microbatch < DEFAULT_SIZES.tokens_per_microbatch


def test_every_process_gets_the_sizes_of_its_share(tmp_path: Path) -> None:
    keys = ("policy.tuning=full", "hardware.num_processes=4")
    whole, sharded = (
        found(tmp_path, 8, *keys, f"hardware.strategy={strategy}") for strategy in ("data_parallel", "fsdp2")
    )
    assert sharded.fits
    assert sharded.sizes.tokens_per_microbatch > whole.sizes.tokens_per_microbatch
    assert sharded.sizes.num_parallel_episodes <= 64, "a process plays 4 of 16 groups"


def test_an_engine_alone_has_the_memory_that_training_would_need(tmp_path: Path) -> None:
    settings = recipe(tmp_path, SMALL, *GPU, "policy.tuning=full")
    memory = Memory(10 * GB, 10 * GB)
    trained = find_sizes(settings, memory).plan
    alone = find_sizes(settings, memory, is_trained=False).plan
    assert alone.sizes.cache_tokens > trained.sizes.cache_tokens
    assert alone.num_bytes <= (1 - MARGIN) * memory.free
    assert {part.name.partition(":")[0] for part in alone.parts} == {"engine", "CUDA itself"}


def test_an_unsupported_architecture_has_no_sizes_to_find(tmp_path: Path) -> None:
    bloom = BloomConfig(vocab_size=500, hidden_size=64, n_layer=2, n_head=4)
    with pytest.raises(UnsupportedArchitecture):
        find_sizes(recipe(tmp_path, bloom, "policy.tuning=full"), Memory(GB, GB))


def planned(tmp_path: Path, name: str, gigabytes: int) -> dict[str, Any]:
    """The output of `doctor --plan` for a recipe of which nothing but model.path changes."""
    QWEN3[name].save_pretrained(tmp_path / name)
    text = (RECIPES / "gpu_lora.toml").read_text()
    (tmp_path / "recipe.toml").write_text(text.replace("Qwen/Qwen3-0.6B", str(tmp_path / name)))
    command = ["doctor", "--plan", str(tmp_path / "recipe.toml"), "--memory", str(gigabytes), "--json"]
    result = CliRunner().invoke(app, command)
    plan: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (0 if plan["num_bytes"] <= gigabytes * GB else 1)
    return plan


@pytest.mark.parametrize(
    "name", [name if name == "Qwen3-0.6B" else pytest.param(name, marks=pytest.mark.slow) for name in QWEN3]
)
def test_one_recipe_fits_gpus_of_every_size(tmp_path: Path, name: str) -> None:
    for gigabytes in GPU_GIGABYTES if name != "Qwen3-0.6B" else (24,):
        plan = planned(tmp_path, name, gigabytes)
        # engine and policy hold 16.4 GB of weights each: sharing one base needs nf4
        is_too_large = (name, gigabytes) == ("Qwen3-8B", 24)
        assert (plan["num_bytes"] <= gigabytes * GB) == (not is_too_large)


def test_full_tuning_that_does_not_fit_is_refused_with_its_largest_part(tmp_path: Path) -> None:
    shallow(QWEN3["Qwen3-8B"], 4).save_pretrained(tmp_path)  # two billion weights, 16 bytes each
    command = ["doctor", "--plan", "gpu_lora", "--memory", "24", "--set", f"model.path={tmp_path}"]
    command += ["--set", "policy.tuning=full"]
    result = CliRunner().invoke(app, [*command, "--set", "optimizer.offload=false"])
    assert result.exit_code == 1
    assert "largest is optimizer: policy.tuning = 'lora'" in result.stdout
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "GiB of the optimizer in host memory" in result.stdout


def test_the_optimizer_is_in_host_memory_if_nothing_else_fits(tmp_path: Path) -> None:
    config, few = shallow(QWEN3_06B, 8), "run.tasks_per_step=1"
    plans = {
        gigabytes: found(tmp_path, gigabytes, "policy.tuning=full", few, config=config)
        for gigabytes in (8, 12)
    }
    assert all(plan.fits for plan in plans.values())
    assert plans[12].sizes.gradient_checkpointing is not False, "few tokens are recomputed in no time"
    assert (plans[12].sizes.offload, plans[12].host_bytes) == (False, 0)
    assert plans[8].sizes.offload
    assert plans[8].host_bytes == 12 * plans[8].num_parameters
    [part] = [part for part in plans[8].parts if part.name == "optimizer"]
    assert part.num_bytes == slot_bytes(plans[8].num_parameters)
    assert "3.38 GB in host memory" in part.why
    kept = found(tmp_path, 8, "policy.tuning=full", few, "optimizer.offload=false", config=config)
    assert not kept.sizes.offload
    assert not kept.fits
    sized = find_sizes(recipe(tmp_path, config, *GPU, "policy.tuning=full", few), plans[8].memory).recipe
    assert sized.optimizer.offload is True, "stored with the run"
    assert not sized.lacks_sizes


def test_the_optimizer_is_in_host_memory_if_recomputing_many_tokens_takes_longer(tmp_path: Path) -> None:
    config = shallow(QWEN3_06B, 8)
    many = recipe(tmp_path, config, *GPU, "policy.tuning=full", "run.tasks_per_step=16")
    gpu, needed = 14 * GB, 12 * outline_models(many).policy.num_parameters

    moved = find_sizes(many, Memory(gpu, gpu, host=2 * needed)).plan
    assert moved.fits
    assert (moved.sizes.offload, moved.host_bytes) == (True, needed)
    assert moved.sizes.gradient_checkpointing is False

    too_little = find_sizes(many, Memory(gpu, gpu, host=2 * needed - 2)).plan
    assert too_little.fits
    assert not too_little.sizes.offload, "half of the host's memory is left to others"
    assert too_little.sizes.gradient_checkpointing is not False

    chosen = recipe(tmp_path, config, *GPU, "policy.tuning=full", "policy.gradient_checkpointing=true")
    assert not find_sizes(chosen, Memory(gpu, gpu)).plan.sizes.offload, "it would recompute as much"


def test_the_gpu_recipes_set_no_size() -> None:
    other = Sizes(1, gradient_checkpointing=True, cache_tokens=2, max_batch=3, num_parallel_episodes=4)
    for name in ("gpu_lora", "gpu_vllm", "gpu_qlora", "multi_gpu_fsdp", "multi_gpu_zero3", "cpu"):
        assert read_recipe(RECIPES / f"{name}.toml").sizes_or(other) == other
