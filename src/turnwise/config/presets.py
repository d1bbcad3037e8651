"""Published algorithms by name: what each sets, under whatever the recipe says itself."""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # DeepSeekMath: group std, a mean for each sequence, a KL loss to the start
    "grpo": {
        "algorithm": {
            "advantage": "grpo",
            "clip_low": 0.2,
            "clip_high": 0.2,
            "aggregation": "sequence",
            "kl": {"placement": "loss_k3"},
        },
        "reference": {"kind": "frozen"},
    },
    # Dr. GRPO: neither the group's std nor a sequence's own length weighs anything
    "dr_grpo": {
        "algorithm": {"advantage": "mean", "clip_low": 0.2, "clip_high": 0.2, "aggregation": "constant"}
    },
    # DAPO: clip higher, a token mean, groups that teach nothing drawn again
    "dapo": {
        "algorithm": {"advantage": "grpo", "clip_low": 0.2, "clip_high": 0.28, "aggregation": "token"},
        "rollout": {"dynamic_sampling": True},
    },
    # GSPO: one ratio a sequence
    "gspo": {"algorithm": {"advantage": "grpo", "loss": "gspo", "aggregation": "sequence"}},
    # CISPO (MiniMax-M1): clipped weights, every token keeps its gradient
    "cispo": {"algorithm": {"advantage": "grpo", "loss": "cispo", "aggregation": "token"}},
    # RLOO: leave-one-out baseline, plain REINFORCE on whole sequences
    "rloo": {"algorithm": {"advantage": "rloo", "loss": "reinforce", "aggregation": "constant"}},
    # PPO: a learned value function, several optimizer steps a batch
    "ppo": {
        "algorithm": {"advantage": "gae", "clip_low": 0.2, "clip_high": 0.2, "lam": 0.95},
        "update": {"num_minibatches": 2},
        "rollout": {"dynamic_sampling": False},
    },
}
