"""Recipes: their sections as pydantic models, presets, and loading from TOML."""

from turnwise.config.episodes import (
    EngineConfig,
    ModelConfig,
    RewardConfig,
    RolloutConfig,
    TasksConfig,
    ToolsConfig,
    UserConfig,
)
from turnwise.config.hardware import HardwareConfig, SkyRLConfig
from turnwise.config.load import override_recipe, parse_settings, read_recipe, stored_recipe
from turnwise.config.presets import PRESETS
from turnwise.config.recipe import Recipe
from turnwise.config.run import CurriculumConfig, EvaluationConfig, HealthConfig, RunConfig
from turnwise.config.sizes import DEFAULT_SIZES, Sizes
from turnwise.config.trackers import TrackerConfig
from turnwise.config.training import (
    CLIP_BOUNDS,
    AlgorithmConfig,
    ImitationConfig,
    KLConfig,
    OptimizerConfig,
    PolicyConfig,
    ReferenceConfig,
    SftConfig,
    UpdateConfig,
    ValueConfig,
)

__all__ = [
    "CLIP_BOUNDS",
    "DEFAULT_SIZES",
    "PRESETS",
    "AlgorithmConfig",
    "CurriculumConfig",
    "EngineConfig",
    "EvaluationConfig",
    "HardwareConfig",
    "HealthConfig",
    "ImitationConfig",
    "KLConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PolicyConfig",
    "Recipe",
    "ReferenceConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "SftConfig",
    "Sizes",
    "SkyRLConfig",
    "TasksConfig",
    "ToolsConfig",
    "TrackerConfig",
    "UpdateConfig",
    "UserConfig",
    "ValueConfig",
    "override_recipe",
    "parse_settings",
    "read_recipe",
    "stored_recipe",
]
