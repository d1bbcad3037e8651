"""The recipe: all settings of a run, validated."""

from typing import TypeVar

from pydantic import BaseModel, Field, model_validator

from turnwise.config.episodes import (
    SECTION_CONFIG,
    EngineConfig,
    ModelConfig,
    RewardConfig,
    RolloutConfig,
    TasksConfig,
    ToolsConfig,
    UserConfig,
)
from turnwise.config.hardware import HardwareConfig, SkyRLConfig
from turnwise.config.run import CurriculumConfig, EvaluationConfig, HealthConfig, RunConfig
from turnwise.config.sizes import DEFAULT_SIZES, Sizes
from turnwise.config.trackers import Trackers
from turnwise.config.training import (
    AlgorithmConfig,
    ImitationConfig,
    OptimizerConfig,
    PolicyConfig,
    ReferenceConfig,
    SftConfig,
    UpdateConfig,
    ValueConfig,
)

Value = TypeVar("Value")

SHORT_TURN = 1_024
"""Tokens of a turn up to which an asynchronous run publishes merged weights: their publication waits for the
turns in progress, but vLLM samples a third faster than with an adapter. They pay with turns of 300 tokens;
longer ones have not been measured."""


class Recipe(BaseModel):
    """All settings of a run."""

    model_config = SECTION_CONFIG

    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    """Seed of every random stream; a signed 64-bit integer, as PyTorch takes it."""
    environment: str = ""
    """A class of your own as `module:Class`, in place of servers; see docs/guides/environments.md. Empty: the
    servers and functions of [tools]."""
    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    tools: ToolsConfig = ToolsConfig()
    tasks: TasksConfig = TasksConfig()
    rewards: tuple[RewardConfig, ...] = (RewardConfig(name="outcome"),)
    rollout: RolloutConfig = RolloutConfig()
    user: UserConfig = UserConfig()
    policy: PolicyConfig = PolicyConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    reference: ReferenceConfig = ReferenceConfig()
    value: ValueConfig = ValueConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    update: UpdateConfig = UpdateConfig()
    imitation: ImitationConfig = ImitationConfig()
    sft: SftConfig = SftConfig()
    run: RunConfig = RunConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    health: HealthConfig = HealthConfig()
    trackers: Trackers = ()
    hardware: HardwareConfig = HardwareConfig()
    skyrl: SkyRLConfig = SkyRLConfig()

    @model_validator(mode="after")
    def _sections_are_compatible(self) -> "Recipe":
        if self.algorithm.kl.placement != "off" and self.reference.kind == "none":
            raise ValueError(
                f"algorithm.kl.placement is {self.algorithm.kl.placement!r}, which needs a reference: "
                "set reference.kind to frozen, hard or ema"
            )
        if (
            self.value.trunk == "adapter"
            and self.algorithm.advantage == "gae"
            and self.policy.tuning != "lora"
        ):
            raise ValueError("value.trunk is 'adapter', which needs policy.tuning = 'lora'")
        if self.model.quantisation != "none" and self.policy.tuning != "lora":
            raise ValueError(
                f"model.quantisation is {self.model.quantisation!r}: a quantised base cannot be trained, "
                "set policy.tuning = 'lora'"
            )
        if self.policy.lora_tokens and not self.can_train_tokens:
            raise ValueError(
                "policy.lora_tokens: token rows are trained only with policy.tuning = 'lora', on a base "
                "without quantisation, and with hardware.strategy = 'data_parallel'"
            )
        is_other_base = self.engine.kind in ("vllm", "remote")
        if self.model.quantisation != "none" and is_other_base and self.algorithm.correction == "none":
            raise ValueError(
                f"model.quantisation is {self.model.quantisation!r} with engine.kind {self.engine.kind!r}, "
                "which needs algorithm.correction: the engine does not share the quantised base"
            )
        if self.run.mode == "async" and self.algorithm.correction == "none":
            raise ValueError(
                "run.mode is 'async', which needs algorithm.correction: stale samples are off-policy"
            )
        if self.run.mode == "async" and self.rollout.lockstep:
            raise ValueError("rollout.lockstep does not work with run.mode 'async': batches depend on timing")
        if self.run.num_epochs is not None and self.curriculum.kind in ("schedule", "success"):
            raise ValueError(
                f"run.num_epochs is {self.run.num_epochs}: curriculum.kind {self.curriculum.kind!r} does not "
                "make whole passes over the tasks: set run.num_steps, or curriculum.kind = 'uniform'"
            )
        if self.engine.kind == "vllm" and self.rollout.lockstep:
            raise ValueError(
                "rollout.lockstep does not work with engine.kind 'vllm': it forms its own batches"
            )
        return self

    @model_validator(mode="after")
    def _environment_is_alone(self) -> "Recipe":
        if not self.environment:
            return self
        name, tools = f"environment is {self.environment!r}", self.tools
        servers = {
            "mcp": tools.mcp,
            "functions": tools.functions,
            "live": tools.live,
        }
        for key, value in servers.items():
            if value:
                raise ValueError(
                    f"{name} and tools.{key} is set: an environment has its own tools, unset one"
                )
        if tools.cassette:
            raise ValueError(
                f"{name} and tools.cassette is {str(tools.cassette)!r}: what an environment replies "
                "cannot be recorded or replayed, unset tools.cassette"
            )
        for key, is_set in (
            ("engine.kind = 'scripted'", self.engine.kind == "scripted"),
            ("imitation.weight", self.imitation.weight),
            ("run.warm_start", self.run.warm_start),
        ):
            if is_set:
                raise ValueError(
                    f"{name} and {key} is set: demonstrations cannot be played in an environment"
                )
        return self

    @model_validator(mode="after")
    def _hardware_is_supported(self) -> "Recipe":
        hardware = self.hardware
        strategy, num_processes = hardware.strategy, hardware.num_processes
        if strategy == "zero3" and self.policy.tuning != "full":
            raise ValueError(
                f"hardware.strategy is 'zero3', which trains every parameter: policy.tuning is "
                f"{self.policy.tuning!r}, set it to 'full', or hardware.strategy to 'fsdp2'"
            )
        if strategy != "data_parallel" and self.model.quantisation != "none":
            raise ValueError(
                f"hardware.strategy is {strategy!r}, which cannot shard a base with "
                f"model.quantisation = {self.model.quantisation!r}: use 'data_parallel'"
            )
        if strategy != "data_parallel" and self.optimizer.offload:
            raise ValueError(
                f"optimizer.offload is true, but hardware.strategy is {strategy!r}, which shards the "
                "optimizer over GPUs: use 'data_parallel', or optimizer.offload = false"
            )
        if strategy == "zero3" and self.model.dtype == "float16":
            raise ValueError("hardware.strategy is 'zero3', which needs model.dtype bfloat16 or float32")
        if num_processes == 1:
            return self
        name = f"hardware.num_processes is {num_processes}"
        if self.run.warm_start:
            raise ValueError(
                f"{name} and run.warm_start is true: a warm start is done by one process; run `turnwise sft` "
                "first and set model.path to what it writes"
            )
        if self.engine.kind == "remote":
            raise ValueError(f"{name}, but engine.kind 'remote' is one server with weights from one process")
        if self.model.device == "mps":
            raise ValueError(f"{name}, but model.device is 'mps': a machine has one such device, use 1")
        if self.tools.cassette is not None and self.tools.cassette_mode != "replay":
            raise ValueError(
                f"{name}, but tools.cassette_mode is {self.tools.cassette_mode!r}: several processes "
                "cannot write one tools.cassette, only 'replay' it"
            )
        return self

    def with_steps(self, num_tasks: int) -> "Recipe":
        """The recipe with run.num_steps computed from run.num_epochs and the number of training tasks."""
        run = self.run.model_copy(update={"num_steps": self.run.num_steps_for(num_tasks)})
        return self.model_copy(update={"run": run})

    @property
    def played_splits(self) -> tuple[str, ...]:
        """The splits whose tasks a training run plays."""
        evaluation = self.evaluation
        is_played = {"train": True, "validation": bool(evaluation.every), "test": evaluation.before_and_after}
        return tuple(split for split, is_wanted in is_played.items() if is_wanted)

    @property
    def lacks_sizes(self) -> bool:
        """Whether a memory plan has sizes to find."""
        has_cache = {
            "transformers": self.engine.cache_tokens is not None,
            "vllm": (self.engine.vllm.cache_gib or self.engine.vllm.gpu_memory_utilization) is not None,
        }
        sizes = (
            self.update.tokens_per_microbatch,
            self.policy.gradient_checkpointing,
            self.engine.max_batch,
            self.rollout.num_parallel_episodes,
        )
        lacks_offload = self.can_offload and self.optimizer.offload is None
        return lacks_offload or None in sizes or not has_cache.get(self.engine.kind, True)

    @property
    def can_offload(self) -> bool:
        """Whether a memory plan may move the optimizer to host memory."""
        return self.policy.tuning == "full" and self.hardware.strategy == "data_parallel"

    @property
    def sizes(self) -> Sizes:
        """The sizes that are set, and the defaults of the others."""
        return self.sizes_or(DEFAULT_SIZES)

    def sizes_or(self, other: Sizes) -> Sizes:
        """The sizes that are set, and the others from `other`."""
        vllm = self.engine.vllm
        share, cache_gib = vllm.gpu_memory_utilization, vllm.cache_gib
        return Sizes(
            tokens_per_microbatch=_set_or(self.update.tokens_per_microbatch, other.tokens_per_microbatch),
            gradient_checkpointing=_set_or(self.policy.gradient_checkpointing, other.gradient_checkpointing),
            cache_tokens=_set_or(self.engine.cache_tokens, other.cache_tokens),
            max_batch=_set_or(self.engine.max_batch, other.max_batch),
            num_parallel_episodes=_set_or(self.rollout.num_parallel_episodes, other.num_parallel_episodes),
            gpu_memory_utilization=_set_or(share, other.gpu_memory_utilization),
            cache_gib=other.cache_gib if share is None and cache_gib is None else cache_gib,
            offload=_set_or(self.optimizer.offload, other.offload),
        )

    def with_sizes(self, sizes: Sizes) -> "Recipe":
        """The recipe with all of these sizes set."""
        engine: dict[str, object] = {"max_batch": sizes.max_batch, "cache_tokens": sizes.cache_tokens}
        if self.engine.kind == "vllm":
            share = None if sizes.cache_gib is not None else sizes.gpu_memory_utilization
            vllm = {"gpu_memory_utilization": share, "cache_gib": sizes.cache_gib}
            engine["vllm"] = self.engine.vllm.model_copy(update=vllm)
        policy = {"gradient_checkpointing": sizes.gradient_checkpointing}
        return self.model_copy(
            update={
                "engine": self.engine.model_copy(update=engine),
                "rollout": self.rollout.model_copy(
                    update={"num_parallel_episodes": sizes.num_parallel_episodes}
                ),
                "policy": self.policy.model_copy(update=policy),
                "optimizer": self.optimizer.model_copy(update={"offload": sizes.offload}),
                "update": self.update.model_copy(
                    update={"tokens_per_microbatch": sizes.tokens_per_microbatch}
                ),
            }
        )

    def temperature_at(self, step: int) -> float:
        """The sampling temperature of this training step, counted from 0."""
        first, last = self.rollout.temperature, self.rollout.final_temperature
        num_between = self.run.num_steps - 1
        if last is None or num_between < 1:
            return first
        return first + (last - first) * min(step / num_between, 1.0)

    @property
    def can_train_tokens(self) -> bool:
        """Whether single rows of the embeddings can be trained with the adapters."""
        is_whole = self.model.quantisation == "none" and self.hardware.strategy == "data_parallel"
        return is_whole and self.policy.tuning == "lora"

    @property
    def publishes_adapters(self) -> bool:
        """Whether weights are published to the engine as an adapter, and not merged into full weights."""
        is_quantised, chosen = self.model.quantisation != "none", self.engine.adapters
        waits_long = self.run.mode == "async" and self.rollout.tokens_per_turn > SHORT_TURN
        accepts_adapters = {
            "transformers": is_quantised,
            "vllm": is_quantised or waits_long if chosen is None else chosen,
            "remote": chosen is not False or is_quantised,
        }
        is_adapter_all = self.policy.tuning == "lora" and not self.policy.lora_tokens
        return is_adapter_all and accepts_adapters.get(self.engine.kind, False)

    def of_users(self) -> "Recipe | None":
        """Return the recipe of the engine that plays users; None if none does, or if an endpoint does."""
        if not self.user.model or self.user.url:
            return None
        kind = "vllm" if self.engine.kind == "vllm" else "transformers"
        return self.model_copy(
            update={
                "model": self.model.model_copy(update={"path": self.user.model, "quantisation": "none"}),
                "engine": self.engine.model_copy(update={"kind": kind, "adapters": False}),
            }
        )


def _set_or(value: Value | None, other: Value) -> Value:
    return other if value is None else value
