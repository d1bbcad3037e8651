"""Recipes: their sections as pydantic models, presets, and loading from TOML."""

from turnwise.config.hardware import HardwareConfig, SkyRLConfig
from turnwise.config.learning import (
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
from turnwise.config.load import changed_recipe, load_recipe, stored_recipe
from turnwise.config.playing import (
    EngineConfig,
    ModelConfig,
    RewardPart,
    RolloutConfig,
    TasksConfig,
    ToolsConfig,
)
from turnwise.config.presets import PRESETS
from turnwise.config.recipe import Recipe
from turnwise.config.running import CurriculumConfig, EvaluationConfig, HealthConfig, Rule, RunConfig
from turnwise.config.trackers import TrackerConfig

__all__ = [
    "CLIP_BOUNDS",
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
    "RewardPart",
    "RolloutConfig",
    "Rule",
    "RunConfig",
    "SftConfig",
    "SkyRLConfig",
    "TasksConfig",
    "ToolsConfig",
    "TrackerConfig",
    "UpdateConfig",
    "ValueConfig",
    "changed_recipe",
    "load_recipe",
    "stored_recipe",
]
