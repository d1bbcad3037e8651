"""Presets: the settings of published algorithms by name; keys of the recipe override them."""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # DeepSeekMath: group std, a mean per sequence, a KL loss against the initial policy
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
    # Dr. GRPO: no division by the std of the group or by the length of the sequence
    "dr_grpo": {
        "algorithm": {"advantage": "mean", "clip_low": 0.2, "clip_high": 0.2, "aggregation": "constant"}
    },
    # DAPO: clip higher, a token mean, groups without signal are redrawn
    "dapo": {
        "algorithm": {"advantage": "grpo", "clip_low": 0.2, "clip_high": 0.28, "aggregation": "token"},
        "rollout": {"dynamic_sampling": True},
    },
    # GSPO: one ratio per sequence
    "gspo": {"algorithm": {"advantage": "grpo", "loss": "gspo", "aggregation": "sequence"}},
    # CISPO (MiniMax-M1): clipped weights, every token keeps its gradient
    "cispo": {"algorithm": {"advantage": "grpo", "loss": "cispo", "aggregation": "token"}},
    # RLOO: leave-one-out baseline, plain REINFORCE on whole sequences
    "rloo": {"algorithm": {"advantage": "rloo", "loss": "reinforce", "aggregation": "constant"}},
    # PPO: a learned value function, several optimizer steps per batch
    "ppo": {
        "algorithm": {"advantage": "gae", "clip_low": 0.2, "clip_high": 0.2, "lam": 0.95},
        "update": {"num_minibatches": 2},
        "rollout": {"dynamic_sampling": False},
    },
}
