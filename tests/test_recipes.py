"""Every recipe that ships loads, names files that are there, plans, and dry-runs with its own tools."""

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.models.chat.tokenizers import qwen3 as tokenizer
from tests.setup.memory.figures import PAGE
from tests.setup.memory.shaped import QWEN3_06B, shallow
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.mcp.listing import ToolListing, list_tools
from turnwise.mcp.spec import load as load_servers
from turnwise.models.places import smollm2_file
from turnwise.run.checks.dry import dry_run, to_check
from turnwise.setup.memory import check_device_limits, check_sft_limits, plan_memory
from turnwise.tasks.load import load
from turnwise.worlds.market.services import DEFAULT_FILE

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
GPU = ("gpu_lora", "gpu_vllm", "gpu_qlora")
MULTI_GPU = ("multi_gpu_fsdp", "multi_gpu_zero3")
HARDWARE = {
    "model.device",
    "model.dtype",
    "model.quantisation",
    "policy.gradient_checkpointing",
    "optimizer.offload",
    "update.tokens_per_microbatch",
}
"""With all of [engine] the keys that say what a run is made on, and change nothing of what is learned."""


def by_name(name: str) -> Path:
    return next(file for file in RECIPES if file.stem == name)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the hub has of Qwen3-0.6B but its weights, with four of its layers."""
    folder = tmp_path_factory.mktemp("hub")
    shallow(QWEN3_06B).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def offline(file: Path, hub: Path, *more: str) -> Recipe:
    is_remote = read_recipe(file).model.path.startswith("Qwen/")
    return read_recipe(file, parse_settings([f"model.path={hub}", *more] if is_remote else more))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_loads_and_all_it_names_is_there(file: Path) -> None:
    recipe = read_recipe(file)
    servers = {spec.name for spec in load_servers(recipe.tools.mcp or DEFAULT_FILE)}
    ids: dict[str, str] = {}
    for name in ("train", "validation", "test"):
        tasks = load(getattr(recipe.tasks, name))
        assert tasks
        for task in tasks:
            assert set(task.servers) <= servers
            assert ids.setdefault(task.id, name) == name, "no task of training is one of the held-out"
    assert len(load(recipe.tasks.train)) >= recipe.run.tasks_per_step


def test_there_are_recipes() -> None:
    assert {"cpu", "smollm2", "mps", "classic", *GPU, *MULTI_GPU} <= {file.stem for file in RECIPES}


@pytest.fixture(scope="session")
def listing() -> ToolListing:
    """What the built-in servers offer."""
    return asyncio.run(list_tools(warm.built_in({})))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
async def test_a_recipe_plans_and_dry_runs_without_a_problem_but_what_this_machine_lacks(
    file: Path, hub: Path, listing: ToolListing
) -> None:
    if file.stem == "smollm2" and smollm2_file() is None:
        pytest.skip("its weights are not installed")
    recipe = offline(file, hub)
    found = await dry_run(to_check(recipe), None if recipe.tools.mcp else listing)
    lacking = (
        "torch finds none",
        "vLLM is not installed",
        "DeepSpeed is not installed",
        "see `turnwise doctor --plan`",
    )
    assert [problem for problem in found.problems if not any(word in problem for word in lacking)] == []
    assert len(found.lines) == 5 + (file.stem in MULTI_GPU) + recipe.run.warm_start
    assert "million parameters" in found.lines[0]
    assert "5 servers with" in found.lines[1]


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_only_the_hardware_differs_between_the_gpu_recipes() -> None:
    first, *others = (flat(tomllib.loads(by_name(name).read_text())) for name in GPU)
    for other in others:
        changed = {key for key in first.keys() | other.keys() if first.get(key) != other.get(key)}
        assert changed
        assert {key for key in changed if not key.startswith("engine.")} <= HARDWARE


def planned_gigabytes() -> dict[str, str]:
    """The memory of every recipe, from the table that test_figures.py compares with plans."""
    rows = re.findall(r"\| `(\w+)\.toml` \|.*\| ([\d.]+) GB on", PAGE.read_text())
    return dict(reversed(rows))  # the first row of a recipe is of its own model


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("gpu_lora", 24), ("gpu_vllm", 24), ("gpu_qlora", 12), ("multi_gpu_fsdp", 24)]
)
def test_the_gpu_recipes_fit_the_gpus_that_they_are_meant_for(name: str, gigabytes: int) -> None:
    assert float(planned_gigabytes()[name]) < gigabytes


def test_only_the_strategy_differs_between_the_recipes_for_several_gpus() -> None:
    first, second = (flat(tomllib.loads(by_name(name).read_text())) for name in MULTI_GPU)
    changed = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    assert changed == {"hardware.strategy"}


@pytest.mark.parametrize("name", MULTI_GPU)
async def test_each_process_of_several_holds_its_share_and_says_so(
    name: str, hub: Path, listing: ToolListing
) -> None:
    spread = plan_memory(offline(by_name(name), hub), "cuda")
    whole = plan_memory(
        offline(by_name(name), hub, "hardware.strategy=data_parallel", "hardware.num_processes=1"), "cuda"
    )
    before, after = ({part.name: part.num_bytes for part in plan.parts} for plan in (whole, spread))
    for part in ("policy: weights", "gradients", "optimizer"):
        assert after[part] == pytest.approx(before[part] / 4, rel=1e-6)
    assert after["engine: weights"] == before["engine: weights"], "every process samples from all of them"
    assert spread.num_bytes < whole.num_bytes
    shares = (await dry_run(to_check(offline(by_name(name), hub)), listing)).lines[3]
    assert "processes: 4" in shares
    assert "plays 8 of 32 groups" in shares


def test_the_recipe_for_a_mac_stays_below_what_metal_can_hold(tmp_path: Path) -> None:
    QWEN3_06B.save_pretrained(tmp_path)  # the cache of all layers is one tensor
    check_device_limits(offline(by_name("mps"), tmp_path), "mps")
    with pytest.raises(ValueError, match="use the CPU"):
        check_device_limits(offline(by_name("mps"), tmp_path, "engine.cache_tokens=32768"), "mps")


def test_so_does_its_warm_start(hub: Path) -> None:
    check_sft_limits(offline(by_name("mps"), hub, "engine.cache_tokens=32768"), "mps")  # it samples nothing
    with pytest.raises(ValueError, match=r"update\.tokens_per_microbatch.*use the CPU"):
        check_sft_limits(offline(by_name("mps"), hub, "update.tokens_per_microbatch=32768"), "mps")


def test_the_classic_recipe_has_the_older_values() -> None:
    recipe = read_recipe(by_name("classic"))
    algorithm = recipe.algorithm
    assert (algorithm.gamma, algorithm.lam, algorithm.clip_low, algorithm.clip_high) == (0.99, 0.95, 0.2, 0.2)
    # half of the squared log-ratio as a loss, steered to 0.4, skipped above 3
    assert (algorithm.kl.placement, algorithm.kl.coefficient) == ("loss_k2", 0.2)
    assert (algorithm.kl.target, algorithm.kl.hard_cap) == (0.4, 3.0)
    assert (algorithm.min_ratio, algorithm.max_ratio) == (0.25, 4.0)
    assert (recipe.reference.kind, recipe.reference.every, recipe.reference.decay) == ("ema", 20, 0.99)
    assert (recipe.optimizer.learning_rate, recipe.optimizer.warmup_steps) == (5e-5, 100)


def test_the_recipe_of_smollm2_needs_the_memory_that_it_says() -> None:
    [said] = re.findall(r"needs ([\d.]+) GB", by_name("smollm2").read_text())
    assert planned_gigabytes()["smollm2"] == said
    assert float(said) < 8
