"""Translate a recipe to SkyRL's config as dotted keys, and name the keys without a counterpart.

This module does not import SkyRL; `experiment.py` validates the result with SkyRL's `validate_cfg`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from turnwise.config import CurriculumConfig, HardwareConfig, HealthConfig, Recipe, SftConfig
from turnwise.run.skyrl.counterparts import Overrides, counterparts, differences, paths_and_logger

READ_BY_EPISODES = (
    "environment",
    "model.system_prompt",
    "model.thinking",
    "tools.mcp",
    "tools.function_timeout_seconds",
    "tools.functions",
    "tools.live",
    "tools.live_writes",
    "tools.max_result_tokens",
    "tools.mend_arguments",
    "tools.cassette",
    "tools.cassette_mode",
    "tasks.train",
    "tasks.validation",
    "rewards",
    "user.model",
    "user.url",
    "user.key_variable",
    "rollout.num_parallel_episodes",
    "rollout.tokens_per_turn",
    "rollout.seconds",
    "rollout.hints",
    "rollout.max_repeats",
    "rollout.mark_repeats",
    "evaluation.num_tasks",
    "evaluation.plain",
    "skyrl.num_players",
    "algorithm.preset",
)
"""Keys that need no translation: the episodes of turnwise read them, and a preset is already applied."""

WITHOUT_COUNTERPART: Mapping[str, str] = {
    "model.device": "SkyRL trains only on CUDA",
    "engine.kind": "SkyRL samples with its own vLLM servers",
    "engine.cache_tokens": "vLLM uses its share of the GPU memory",
    "engine.adapters": "SkyRL always publishes a LoRA policy as an adapter",
    "engine.vllm.cache_gib": "SkyRL derives it from the engine's share of the memory",
    "engine.vllm.sleep": "skyrl.colocate determines it",
    "engine.remote.url": "SkyRL starts its engines itself",
    "tasks.test": "evaluate the exported model with `turnwise eval`",
    "rollout.final_temperature": "SkyRL samples a run at one temperature",
    "rollout.temperature_by_family": "SkyRL samples a run at one temperature",
    "rollout.max_draws": "SkyRL draws at most 30 batches to fill one, and then ends the run",
    "rollout.lockstep": "log-probs of vLLM depend on its other requests",
    "algorithm.min_ratio": "SkyRL drops no token by the ratio to π_old",
    "algorithm.max_ratio": "SkyRL drops no token by the ratio to π_old",
    "algorithm.kl.hard_cap": "SkyRL skips no update",
    "reference.every": "SkyRL's reference is frozen",
    "reference.decay": "SkyRL's reference is frozen",
    "value.trunk": "SkyRL's critic is a separate model",
    "optimizer.epsilon": "SkyRL uses AdamW's default of 1e-8",
    "optimizer.offload": "SkyRL shards the optimizer over its GPUs",
    "update.shared_prefix": "SkyRL computes every prompt separately",
    "run.tags": "only `turnwise view` shows them",
    "run.warm_start": "SkyRL learns only from episodes: run `turnwise sft` first",
    "imitation.weight": "SkyRL learns only from episodes: run `turnwise sft` first",
    "imitation.num_steps": "see imitation.weight",
    "imitation.lessons": "see imitation.weight",
    **{f"hardware.{key}": "[skyrl] sets the processes of SkyRL" for key in HardwareConfig.model_fields},
    **{f"sft.{key}": "only `turnwise sft` reads it" for key in SftConfig.model_fields},
    **{f"curriculum.{key}": "SkyRL draws tasks uniformly" for key in CurriculumConfig.model_fields},
    **{f"health.{key}": "SkyRL has no alarms" for key in HealthConfig.model_fields},
}
"""Keys that SkyRL has no counterpart for, with the reason."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A recipe translated to SkyRL."""

    overrides: Overrides
    """Dotted keys of SkyRL."""
    changed: tuple[str, ...]
    """Sentences on what SkyRL does differently."""
    without_counterpart: Mapping[str, str]
    """Keys without a counterpart that differ from their default, with the reason."""
    unset_without_counterpart: tuple[str, ...]
    """Keys without a counterpart that have their default."""

    def lines(self) -> list[str]:
        """Everything that is not translated exactly, as lines to print."""
        lines = [f"different in SkyRL: {sentence}" for sentence in self.changed]
        lines += [
            f"no counterpart in SkyRL: {key}: {reason}" for key, reason in self.without_counterpart.items()
        ]
        if self.unset_without_counterpart:
            keys = ", ".join(self.unset_without_counterpart)
            lines.append(f"no counterpart in SkyRL, at their defaults: {keys}")
        return lines


def translate(recipe: Recipe, folder: Path) -> Translation:
    """Translate the recipe of a run in `folder`; ValueError for an algorithm that SkyRL does not have."""
    overrides = (
        counterparts(recipe)
        | paths_and_logger(recipe.trackers, recipe.tasks, folder)
        | dict(flattened(recipe.skyrl.overrides))
    )
    default = dict(leaves(Recipe()))
    changed_keys = {key for key, value in leaves(recipe) if value != default[key]}
    return Translation(
        overrides,
        tuple(differences(recipe)),
        {key: reason for key, reason in WITHOUT_COUNTERPART.items() if key in changed_keys},
        tuple(key for key in WITHOUT_COUNTERPART if key not in changed_keys),
    )


def leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key of a recipe with its value."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def flattened(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of nested overrides: --set gives `{"trainer": {"seed": 1}}` for `trainer.seed`."""
    for key, value in overrides.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
