"""The recipe sections for training: tuned parameters, algorithm, optimizer and updates."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from turnwise.config.episodes import SECTION_CONFIG


class PolicyConfig(BaseModel):
    """Which parameters are trained."""

    model_config = SECTION_CONFIG

    tuning: Literal["lora", "full"] = "lora"
    """lora: low-rank adapters on a frozen base; full: every parameter."""
    lora_rank: int = Field(default=16, ge=1)
    """Rank r of every adapter."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """The adapter's output is scaled by alpha / rank."""
    lora_targets: str | tuple[str, ...] = "all-linear"
    """Module names, or `all-linear` for every linear layer but the head."""
    lora_tokens: tuple[int, ...] | None = None
    """Ids of tokens whose rows in the embeddings and the head are trained with the adapters. Unset: the
    tokens that open and close a tool call, if the model has hardly been trained on them."""
    gradient_checkpointing: bool | Annotated[int, Field(ge=0)] | None = None
    """Recompute activations in the backward pass: far less memory for a third more time. true: of all layers;
    a number N: of the first N layers. Unset: none if the memory plan has room for one episode without, else
    the fewest with which it has room for 8,192 tokens."""


class KLConfig(BaseModel):
    """The KL penalty that keeps the policy near its reference."""

    model_config = SECTION_CONFIG

    placement: Literal["off", "reward", "loss_k2", "loss_k3"] = "off"
    """reward: −coefficient·k1 is added to the reward of a token; loss_k2, loss_k3: a term of the loss, for k3
    times the ratio."""
    coefficient: float = Field(default=1e-3, ge=0)
    """Weight of the penalty, if placement is not off."""
    target: float | None = Field(default=None, gt=0)
    """Target of an adaptive coefficient, in nats per token; unset: the coefficient is fixed."""
    hard_cap: float = Field(default=3.0, gt=0)
    """Nats per token above which the update is skipped and counted; the loss is never clamped."""


CLIP_BOUNDS: Mapping[str, tuple[float, float]] = {
    "clip": (0.2, 0.28),
    # a mean over a sequence changes far less than a token: the values of the paper
    "gspo": (3e-4, 4e-4),
    # only large weights are cut: a weight in [0, 5]
    "cispo": (1.0, 4.0),
    "reinforce": (0.2, 0.28),
}
"""Defaults of `clip_low` and `clip_high`, by loss."""


class AlgorithmConfig(BaseModel):
    """The algorithm: from a batch to its loss; see docs/design/algorithms.md."""

    model_config = SECTION_CONFIG

    preset: Literal["", "grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "ppo"] = ""
    """A published algorithm by name; other keys of the recipe override it."""
    advantage: Literal["mean", "grpo", "rloo", "maxrl", "reinforce++", "batch_std", "turn", "gae"] = "mean"
    """Advantage estimator; gae also trains a value head."""
    loss: Literal["clip", "gspo", "cispo", "reinforce"] = "clip"
    """Policy loss per token."""
    aggregation: Literal["token", "sequence", "constant", "prompt"] = "token"
    """How token losses are averaged, always over the whole batch; constant: sums of sequences divided by
    rollout.tokens_per_turn (Dr. GRPO)."""
    clip_low: float | None = Field(default=None, ge=0, le=1)
    """The ratio is clipped at 1 − this; unset: the default of the loss (0.2 for clip)."""
    clip_high: float | None = Field(default=None, ge=0)
    """The ratio is clipped at 1 + this; unset: the default of the loss (0.28 for clip)."""
    clip_dual: float | None = Field(default=None, gt=1)
    """Maximum ratio for a negative advantage (dual clip); unset: off."""
    min_ratio: float | None = Field(default=None, ge=0, le=1)
    """Tokens with a ratio below this are dropped from numerator and denominator; unset: off (0.25 if on)."""
    max_ratio: float | None = Field(default=None, ge=1)
    """Tokens with a ratio above this are dropped; unset: off (4.0 if on)."""
    correction: Literal["decoupled", "bypass", "sequence", "mask", "mask_sequence", "none"] = "decoupled"
    """Correction for the difference between the log-probs of sampler and trainer."""
    correction_cap: float = Field(default=2.0, ge=1)
    """Largest weight C of `decoupled` and `sequence`; `mask` and `mask_sequence` keep ratios in [1/C, C]."""
    entropy_bonus: float = Field(default=0.0, ge=0)
    """Weight of the entropy that is subtracted from the loss; a higher value keeps the policy more random."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount of `turn` and `gae`; 1, as 0.99 per token leaves 0.0066 of an outcome 500 tokens later."""
    gamma_unit: Literal["token", "turn"] = "token"
    """Unit of the discount of gae; `turn` always discounts per turn."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """λ of GAE: 1 uses outcomes only, a lower value relies more on the value head."""
    kl: KLConfig = KLConfig()

    @model_validator(mode="after")
    def _loss_fits_the_advantage(self) -> "AlgorithmConfig":
        if self.loss == "gspo" and self.advantage in ("gae", "turn"):
            raise ValueError(
                f"loss 'gspo' has one ratio per sequence, advantage {self.advantage!r} one value per token"
            )
        return self


class ReferenceConfig(BaseModel):
    """The reference policy that KL is measured against."""

    model_config = SECTION_CONFIG

    kind: Literal["none", "frozen", "hard", "ema"] = "none"
    """frozen: the initial policy; hard: a copy every `every` steps; ema: a moving average."""
    every: int = Field(default=1, ge=1)
    """Steps between updates of hard and ema."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """ema: share of the old reference kept per update; 0.99 halves its weight in 69 updates."""


class ValueConfig(BaseModel):
    """The value head of advantage gae."""

    model_config = SECTION_CONFIG

    trunk: Literal["detached", "adapter"] = "detached"
    """detached: a head on the policy's features, without gradient to them; adapter: a separate LoRA."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Learning rate of the head; higher than the policy's, because the head is untrained."""
    max_change: float | None = Field(default=None, gt=0)
    """Maximum change of a value (value clipping of PPO); unset: off."""


class OptimizerConfig(BaseModel):
    """AdamW and its schedule."""

    model_config = SECTION_CONFIG

    learning_rate: float = Field(default=2e-5, ge=0)
    """Peak learning rate; 0 plays and measures without training."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay, on matrices only."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the first and second moment."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the square root of the second moment."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Decay of the learning rate over run.num_steps."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    """Larger gradients are scaled down to this norm."""
    offload: bool | None = None
    """Keep AdamW's moments and float32 copies in host memory and stream them through the GPU at each step:
    the same step with 8 to 12 bytes less per trained parameter, and slower. Unset: true if full tuning does
    not fit the GPU otherwise, or would recompute so many tokens that this is faster; found from the memory
    plan."""


class UpdateConfig(BaseModel):
    """How a batch becomes optimizer steps."""

    model_config = SECTION_CONFIG

    num_epochs: int = Field(default=1, ge=1)
    """Passes over a batch."""
    num_minibatches: int = Field(default=1, ge=1)
    """Optimizer steps per pass; groups are never split."""
    tokens_per_microbatch: int | None = Field(default=None, ge=1)
    """Tokens per forward and backward pass, including a shared prefix. Unset: found from the memory plan."""
    shared_prefix: bool = True
    """Compute a prompt that samples share only once; false: padded rows without sharing."""


class ImitationConfig(BaseModel):
    """Cross-entropy on demonstrations or rescues, added to the policy gradient with a decaying weight."""

    model_config = SECTION_CONFIG

    weight: float = Field(default=0.0, ge=0)
    """Weight at step 0; 0: off."""
    num_steps: int = Field(default=50, ge=1)
    """Steps over which the weight falls linearly to 0."""
    lessons: Literal["demonstrations", "rescues"] = "demonstrations"
    """demonstrations: those of tasks.train; rescues: the step's own episodes in groups whose members all
    failed, from where the task's plan takes over, see sft.rescue_rounds."""


class SftConfig(BaseModel):
    """`turnwise sft`: supervised fine-tuning on verified demonstrations, or on the successes of a run.

    Weight decay, gradient clipping and the size of micro-batches are those of [optimizer] and [update].
    """

    model_config = SECTION_CONFIG

    num_tasks: int | None = Field(default=None, ge=1)
    """Number of tasks whose demonstrations are learned, drawn evenly across families; unset: all. Leave most
    tasks to RL: those that the model knows by heart teach it nothing more."""
    num_epochs: int = Field(default=3, ge=1)
    """Passes over all demonstrations or successes; the most of them with `until_taught`."""
    until_taught: bool = True
    """Whether learning ends as soon as probe episodes show that the form is taught and that more would only
    cost variety. Not with --from and --no-verify, which play nothing."""
    samples_per_step: int = Field(default=32, ge=1)
    """Demonstrations or successes per optimizer step."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Peak learning rate; decays by a cosine to a tenth."""
    rescue_rounds: int = Field(default=0, ge=0)
    """Rounds of rescues after the demonstrations: the model plays, and where it goes wrong the task's plan
    goes on from there; what the plan does is learned, with the whole plans of these tasks. 0: none, as with
    --from and --no-verify, which play nothing."""
    rescue_tasks: int = Field(default=256, ge=1)
    """Tasks per round, evenly across families: first those whose demonstrations were not learned."""
