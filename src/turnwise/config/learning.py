"""The sections of a recipe that say how the policy learns: what is tuned, which algorithm, which steps."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from turnwise.config.playing import STRICT


class PolicyConfig(BaseModel):
    """Which parameters learn."""

    model_config = STRICT

    tuning: Literal["lora", "full"] = "lora"
    """lora: low-rank adapters on a frozen base; full: every parameter."""
    lora_rank: int = Field(default=16, ge=1)
    """r of every adapter."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """The adapter's output is scaled by alpha / rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """0: with dropout the trainer's policy is not the one that sampled."""
    lora_targets: str | tuple[str, ...] = "all-linear"
    """Module names, or `all-linear` for every linear layer but the head."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: a third more time for far less memory."""
    kernels: Literal["plain", "fused"] = "fused"
    """fused: fewer for norms and adapters, the same up to rounding; plain: those of transformers and peft."""


class KLConfig(BaseModel):
    """How the policy is held near its reference."""

    model_config = STRICT

    placement: Literal["off", "reward", "loss_k2", "loss_k3"] = "off"
    """reward: each token is paid −coefficient·k1; loss_k2, loss_k3: a loss of its own, k3 times the ratio."""
    coefficient: float = Field(default=1e-3, ge=0)
    """Where the placement is not off."""
    target: float | None = Field(default=None, gt=0)
    """Nats a token that an adaptive coefficient steers to; none: the coefficient is fixed."""
    hard_cap: float = Field(default=3.0, gt=0)
    """Nats a token above which the update is skipped and counted; the loss is never clamped."""


CLIP_BOUNDS: Mapping[str, tuple[float, float]] = {
    "clip": (0.2, 0.28),
    # a mean over a sequence moves far less than a token does: the paper's own values
    "gspo": (3e-4, 4e-4),
    # only large weights are cut: a weight in [0, 5]
    "cispo": (1.0, 4.0),
    "reinforce": (0.2, 0.28),
}
"""By loss, where `clip_low` and `clip_high` are left open."""


class AlgorithmConfig(BaseModel):
    """What is computed from a batch; see docs/algorithms.md."""

    model_config = STRICT

    preset: Literal["", "grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "ppo"] = ""
    """A published recipe by name; keys given beside it win."""
    advantage: Literal["mean", "grpo", "rloo", "maxrl", "reinforce++", "batch_std", "turn", "gae"] = "mean"
    """From rewards to advantages; gae needs the value head, which it switches on."""
    loss: Literal["clip", "gspo", "cispo", "reinforce"] = "clip"
    """From ratio and advantage to the loss of a token."""
    aggregation: Literal["token", "sequence", "constant", "prompt"] = "token"
    """How the losses of tokens become one: over the whole batch, never as a mean of means."""
    clip_low: float | None = Field(default=None, ge=0, le=1)
    """The ratio counts down to 1 − this; none: the loss's own default (0.2 for clip)."""
    clip_high: float | None = Field(default=None, ge=0)
    """The ratio counts up to 1 + this; none: the loss's own default (0.28 for clip)."""
    clip_dual: float | None = Field(default=None, gt=1)
    """With a negative advantage a larger ratio counts as this; none: off."""
    min_ratio: float | None = Field(default=None, ge=0, le=1)
    """Tokens whose ratio is below this are dropped from numerator and denominator; none: off (0.25 if on)."""
    max_ratio: float | None = Field(default=None, ge=1)
    """Tokens whose ratio is above this are dropped; none: off (4.0 if on)."""
    correction: Literal["decoupled", "bypass", "sequence", "mask", "mask_sequence", "none"] = "decoupled"
    """What is done about the sampler's log-probs differing from the trainer's."""
    correction_cap: float = Field(default=2.0, gt=0)
    """Largest weight of `decoupled` and `sequence`."""
    correction_low: float = Field(default=0.5, ge=0, le=1)
    """`mask` keeps ratios from here."""
    correction_high: float = Field(default=2.0, ge=1)
    """`mask` keeps ratios up to here."""
    entropy_bonus: float = Field(default=0.0, ge=0)
    """Times the mean entropy, subtracted from the loss: higher keeps the policy more random."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount of `turn` and `gae`; 1: per token, 0.99 would leave 0.0066 of an outcome 500 tokens on."""
    gamma_unit: Literal["token", "turn"] = "token"
    """What gae's gamma discounts by; `turn` always discounts by turn."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's λ: 1 trusts outcomes alone, lower trusts the value head more."""
    constant_tokens: int | None = Field(default=None, ge=1)
    """`constant`: the length that sequences are divided by; none: rollout.tokens_per_turn."""
    kl: KLConfig = KLConfig()

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> "AlgorithmConfig":
        if self.loss == "gspo" and self.advantage in ("gae", "turn"):
            raise ValueError(f"loss gspo has one ratio a sequence, advantage {self.advantage!r} one a token")
        return self


class ReferenceConfig(BaseModel):
    """What KL is measured to."""

    model_config = STRICT

    kind: Literal["none", "frozen", "hard", "ema"] = "none"
    """frozen: the start; hard: a copy taken every so often; ema: a moving average."""
    every: int = Field(default=1, ge=1)
    """Steps between updates of hard and ema."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """ema: share of the old kept at each update; 0.99 forgets half in 69 updates."""


class ValueConfig(BaseModel):
    """The value head, used by advantage gae."""

    model_config = STRICT

    trunk: Literal["detached", "adapter"] = "detached"
    """detached: a head on the policy's own features, which it never changes; adapter: a LoRA of its own."""
    coefficient: float = Field(default=0.5, ge=0)
    """Of the value loss."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Of the head; it starts from nothing, so it learns faster than the policy."""
    max_change: float | None = Field(default=None, gt=0)
    """PPO's value clipping; none: off."""


class OptimizerConfig(BaseModel):
    """AdamW and its schedule."""

    model_config = STRICT

    learning_rate: float = Field(default=2e-5, ge=0)
    """Peak; 0 plays and measures without learning."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled, on matrices only."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Of the moments."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the root of the second moment."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate falls over run.num_steps."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which it rises from 0."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    """Larger gradients are scaled down to it."""


class UpdateConfig(BaseModel):
    """How a batch becomes optimizer steps."""

    model_config = STRICT

    num_epochs: int = Field(default=1, ge=1)
    """Passes over each batch."""
    num_minibatches: int = Field(default=1, ge=1)
    """Optimizer steps a pass; groups stay whole."""
    tokens_per_microbatch: int = Field(default=16_384, ge=1)
    """Tokens in memory at a time, a prefix common to all counted in; lower it when memory runs out."""
    shared_prefix: bool = True
    """Compute prompts that samples share once; false: the plain padded way."""


class ImitationConfig(BaseModel):
    """Cross-entropy on demonstrations beside the policy gradient, fading out."""

    model_config = STRICT

    weight: float = Field(default=0.0, ge=0)
    """At step 0; 0: off."""
    num_steps: int = Field(default=50, ge=1)
    """Steps over which it falls to 0 in a straight line."""
    samples_per_step: int = Field(default=16, ge=1)
    """Demonstrations beside each batch, taken from tasks.train."""


class SftConfig(BaseModel):
    """`turnwise sft`: supervised learning on verified demonstrations, or on a run's own successes."""

    model_config = STRICT

    num_epochs: int = Field(default=3, ge=1)
    """Passes over all that is learned from."""
    samples_per_step: int = Field(default=32, ge=1)
    """Demonstrations or successes an optimizer step."""
    samples_per_task: int = Field(default=4, ge=1)
    """`sft --from`: most successes of one task, the latest; so that easy tasks do not outweigh the others."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Peak; falls by a cosine to a tenth."""
    warmup_steps: int = Field(default=10, ge=0)
    """Steps over which it rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled, on matrices only."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    """Larger gradients are scaled down to it."""
    tokens_per_microbatch: int = Field(default=16_384, ge=1)
    """Tokens in memory at a time, a prefix common to all counted in."""
