"""Takes a recipe, gives SkyRL's config as dotted keys, and names everything that has no counterpart there.

Nothing of SkyRL is imported here: what this comes to is held against SkyRL's own `validate_cfg` elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from turnwise.config import CurriculumConfig, HardwareConfig, HealthConfig, Recipe, SftConfig
from turnwise.integrations.skyrl.counterparts import PARTS, Overrides, differences, places

KEPT = (
    "model.system_prompt",
    "model.enable_thinking",
    "tools.mcp",
    "tools.live",
    "tools.live_writes",
    "tools.max_result_tokens",
    "tools.mend_arguments",
    "tools.cassette",
    "tools.cassette_mode",
    "tasks.train",
    "tasks.validation",
    "rewards",
    "rollout.num_parallel_episodes",
    "rollout.num_retries",
    "rollout.tokens_per_turn",
    "rollout.seconds",
    "evaluation.num_tasks",
    "skyrl.num_players",
    "algorithm.preset",
)
"""Read by the episodes themselves, which are the same everywhere; a preset has had its say already."""

LEFT: Mapping[str, str] = {
    "model.device": "SkyRL learns on CUDA alone",
    "engine.kind": "SkyRL samples with vLLM servers of its own",
    "engine.cache_tokens": "vLLM has its share of the GPU instead",
    "engine.vllm.adapters": "SkyRL publishes adapters where the policy is one",
    "engine.vllm.cache_gib": "SkyRL leaves it to the engine's share of the memory",
    "engine.vllm.sleep": "skyrl.colocate decides it",
    "engine.remote.url": "SkyRL starts its engines itself",
    "engine.remote.adapters": "SkyRL starts its engines itself",
    "engine.remote.wait_seconds": "SkyRL starts its engines itself",
    "engine.remote.silence_seconds": "SkyRL starts its engines itself",
    "tasks.test": "measure the exported model with `turnwise eval`",
    "rollout.final_temperature": "SkyRL samples a whole run at one temperature",
    "rollout.max_draws": "SkyRL draws until a batch is full, 30 batches at most, and then ends the run",
    "rollout.lockstep": "vLLM's numbers depend on what it samples beside",
    "policy.kernels": "SkyRL has kernels of its own",
    "algorithm.min_ratio": "SkyRL drops no token by the ratio to π_old",
    "algorithm.max_ratio": "SkyRL drops no token by the ratio to π_old",
    "algorithm.kl.hard_cap": "SkyRL skips no update",
    "reference.every": "SkyRL's reference stays at the start",
    "reference.decay": "SkyRL's reference stays at the start",
    "value.trunk": "SkyRL's critic is a model of its own",
    "value.coefficient": "SkyRL's critic is a model of its own",
    "optimizer.epsilon": "SkyRL leaves it at AdamW's own 1e-8",
    "update.shared_prefix": "SkyRL computes every prompt by itself",
    "imitation.weight": "SkyRL learns from episodes alone: use `turnwise sft` before",
    "imitation.num_steps": "as imitation.weight",
    "imitation.samples_per_step": "as imitation.weight",
    "run.num_token_groups": "SkyRL keeps no figures by token",
    **{f"hardware.{key}": "SkyRL starts its processes by [skyrl]" for key in HardwareConfig.model_fields},
    **{f"sft.{key}": "`turnwise sft` reads it" for key in SftConfig.model_fields},
    **{f"curriculum.{key}": "SkyRL draws its tasks evenly" for key in CurriculumConfig.model_fields},
    **{f"health.{key}": "SkyRL has no alarms" for key in HealthConfig.model_fields},
}
"""By key, why."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A recipe in SkyRL's words."""

    overrides: Overrides
    """SkyRL's dotted keys."""
    changed: tuple[str, ...]
    """Sentences on what SkyRL does in its own way."""
    left: Mapping[str, str]
    """Keys that say something and have no counterpart, with the reason."""
    left_at_default: tuple[str, ...]
    """Those that say nothing of their own."""

    def lines(self) -> list[str]:
        """All that is not carried over, for people."""
        lines = [f"in SkyRL's own way: {sentence}" for sentence in self.changed]
        lines += [f"no counterpart in SkyRL: {key}: {reason}" for key, reason in self.left.items()]
        if self.left_at_default:
            lines.append(f"no counterpart either, at their defaults: {', '.join(self.left_at_default)}")
        return lines


def translate(recipe: Recipe, folder: Path) -> Translation:
    """ValueError where the recipe asks for another algorithm than SkyRL has; `folder` is the run's."""
    overrides: Overrides = {}
    for part in PARTS:
        overrides |= part(recipe)
    overrides |= places(recipe, folder) | dict(flattened(recipe.skyrl.overrides))
    default = dict(leaves(Recipe()))
    said = {key for key, value in leaves(recipe) if value != default[key]}
    return Translation(
        overrides,
        tuple(differences(recipe)),
        {key: reason for key, reason in LEFT.items() if key in said},
        tuple(key for key in LEFT if key not in said),
    )


def leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a recipe, dotted, with its value; a rule of [health] is one."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel) and prefix != "health.":
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def flattened(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"trainer": {"seed": 1}}`, as --set makes it, is `trainer.seed`."""
    for key, value in overrides.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
