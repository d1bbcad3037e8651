"""docs/coming-from-multi-mcp-rl.md: every name of the older system is there, and so is what replaces it."""

import re
from pathlib import Path

import pytest
import typer

from turnwise.cli import app
from turnwise.config import Recipe

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coming-from-multi-mcp-rl.md").read_text()
OLDER = [
    "ENABLE_VLLM",
    "VLLM_MAX_MODEL_LEN",
    "VLLM_GPU_MEMORY_UTILIZATION",
    "FORCE_RATE",
    "ASSIST_WARMUP",
    "RL_DISABLE_FORCED",
    "PPO_RECORD_AT_SAMPLE",
    "STRICT_TRAJ_KEYS",
    "DEVICE_TYPE",
    "DISABLE_BITSANDBYTES",
    "launch_real_env_gpu_vllm.sh",
    "launch_real_env_training.sh",
    "launch_real_env_cpu.sh",
    "launch_qwen3_training.sh",
    "launch_distributed.sh",
    "validate_setup.py",
    "smoke_test.py",
    "memory_profile.py",
    "test_mcp_integration.py",
    "monitor_gpu.sh",
    "grpo.gamma",
    "lambda",
    "clip_ratio",
    "kl_coef",
    "value_loss_coef",
    "ref_policy_update_frequency",
    "ref_policy_ema_alpha",
    "kl_hard_cap",
    "kl_target",
    "min_ratio_per_token",
    "max_ratio_per_token",
]


@pytest.mark.parametrize("name", OLDER)
def test_an_older_name_has_a_row(name: str) -> None:
    firsts = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|")]
    assert any(f"`{name}`" in first for first in firsts)


def keys(section: type, prefix: str = "") -> set[str]:
    found = set()
    for name, field in section.model_fields.items():  # type: ignore[attr-defined]
        found.add(prefix + name)
        if hasattr(field.annotation, "model_fields"):
            found |= keys(field.annotation, f"{prefix}{name}.")
    return found


def test_every_key_of_a_recipe_that_it_names_is_one() -> None:
    sections = {
        name for name, field in Recipe.model_fields.items() if hasattr(field.annotation, "model_fields")
    }
    named = {
        match.group(1)
        for match in re.finditer(r"[` ]((?:[a-z_]+\.)+[a-z_]+)", PAGE)
        if match.group(1).split(".")[0] in sections
    }
    assert len(named) > 20
    assert named <= keys(Recipe)


def test_every_recipe_and_page_that_it_names_is_there() -> None:
    for name in re.findall(r"recipes/\w+\.toml|docs/[\w-]+\.md", PAGE):
        assert (ROOT / name).is_file(), name


def test_every_command_that_it_names_is_one() -> None:
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`turnwise (\w+)", PAGE)) <= known
