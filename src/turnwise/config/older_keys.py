"""Keys that recipes no longer have: what to set instead, and how a run's stored recipe with them is read."""

import logging
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemovedKey:
    """A key without a successor."""

    default: Any
    """The value that holds for every run now."""
    advice: str
    """What to do instead."""
    is_harmless: bool = False
    """Whether a stored run can go on as well without its own value."""


RENAMED: Mapping[str, str] = {
    "model.enable_thinking": "model.thinking",
    "engine.vllm.adapters": "engine.adapters",
    "engine.remote.adapters": "engine.adapters",
    "evaluation.is_before_and_after": "evaluation.before_and_after",
}
"""Successors of keys that have another name now."""

_CORRECTION = "set algorithm.correction_cap = C, the masks keep ratios in [1/C, C]"
_OF_OPTIMIZER = "`turnwise sft` uses that of [optimizer]"
_OF_WANDB = "wandb reads the variable"


def _alarm(threshold: float, action: str = "warn") -> RemovedKey:
    advice = "its limit is fixed; name the alarm in health.halt to stop at it, or in health.ignore"
    return RemovedKey({"action": action, "threshold": threshold}, advice)


REMOVED: Mapping[str, RemovedKey] = {
    "engine.remote.wait_seconds": RemovedKey(
        120.0, "a lost server is waited for 2 minutes", is_harmless=True
    ),
    "engine.remote.silence_seconds": RemovedKey(
        30.0, "a server is lost after 30 s of silence", is_harmless=True
    ),
    "rollout.num_retries": RemovedKey(2, "a lost episode is retried twice", is_harmless=True),
    "policy.lora_dropout": RemovedKey(0.0, "there is no dropout: it would train another policy than sampled"),
    "policy.kernels": RemovedKey("fused", "kernels are fused wherever the model allows it"),
    "algorithm.correction_low": RemovedKey(0.5, _CORRECTION),
    "algorithm.correction_high": RemovedKey(2.0, _CORRECTION),
    "algorithm.constant_tokens": RemovedKey(None, "aggregation 'constant' uses rollout.tokens_per_turn"),
    "value.coefficient": RemovedKey(0.5, "it is 0.5; set value.learning_rate"),
    "imitation.samples_per_step": RemovedKey(16, "a batch has 16 demonstrations; set imitation.weight"),
    "sft.samples_per_task": RemovedKey(
        4, "`turnwise sft --from` uses 4 successes per task", is_harmless=True
    ),
    "sft.warmup_steps": RemovedKey(
        10, "the first tenth of the steps is warm-up, at most 10", is_harmless=True
    ),
    "sft.weight_decay": RemovedKey(0.0, _OF_OPTIMIZER, is_harmless=True),
    "sft.max_gradient_norm": RemovedKey(1.0, _OF_OPTIMIZER, is_harmless=True),
    "sft.tokens_per_microbatch": RemovedKey(16_384, "set update.tokens_per_microbatch", is_harmless=True),
    "run.num_token_groups": RemovedKey(8, "tokens/ has the first 8 groups of a step", is_harmless=True),
    "curriculum.window": RemovedKey(64, "the rate is over as many episodes as a step has", is_harmless=True),
    "curriculum.review": RemovedKey(0.2, "a fifth of the tasks are of difficulties already passed"),
    "health.alignment": _alarm(0.99, "halt"),
    "health.active_fraction": _alarm(0.5),
    "health.kl_reference": _alarm(0.5),
    "health.kl_sampler": _alarm(0.05),
    "health.learnable_fraction": _alarm(0.3),
    "health.truncation": _alarm(0.3),
    "health.tool_errors": _alarm(0.5),
    "health.zero_variance": _alarm(1.0),
    "health.dead_gradient": _alarm(0.0),
    "health.stuck_ratio": _alarm(0.0),
    "health.not_a_number": _alarm(0.0),
    "health.kl_cap": _alarm(9.0, "halt"),
    "health.stuck_reference": _alarm(0.0),
    "trackers.entity": RemovedKey("", "set project = 'OWNER/PROJECT'"),
    "trackers.name": RemovedKey("", "set run.name", is_harmless=True),
    "trackers.mode": RemovedKey("", f"{_OF_WANDB} WANDB_MODE, e.g. offline"),
    "trackers.tags": RemovedKey([], f"{_OF_WANDB} WANDB_TAGS, separated by commas"),
    "trackers.episodes_per_evaluation": RemovedKey(256, "it is 16 × episodes_per_step", is_harmless=True),
    "trackers.max_waiting": RemovedKey(4_096, "a slow tracker's queue is sized for it", is_harmless=True),
}


def advice_on(key: str) -> str:
    """What to do about a key that recipes no longer have; empty if they never had it."""
    if key in RENAMED:
        return f"is now {RENAMED[key]}"
    return f"is no longer a key: {REMOVED[key].advice}" if key in REMOVED else ""


def without_older_keys(stored: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A run's stored recipe with renamed keys moved and removed ones dropped.

    ValueError if dropping one would change the run.
    """
    data = deepcopy(dict(stored))
    _merge_correction_bounds(data)
    for old, new in RENAMED.items():
        *_, section, name = old.split(".")
        for holder in _holders(data, old):
            value = holder.pop(name)
            if section in ("vllm", "remote") and data["engine"].get("kind") != section:
                continue  # adapters had one key per kind of engine
            target, _, last = new.partition(".")
            data[target][last] = value
    dropped = []
    for key, removed in REMOVED.items():
        for holder in _holders(data, key):
            value = holder.pop(key.rpartition(".")[2])
            if value != removed.default and not removed.is_harmless:
                raise ValueError(
                    f"{where}: {key} is {value!r}, which this version cannot do: {removed.advice}. "
                    "Delete the key from the file to go on without it"
                )
            dropped.append(key if value == removed.default else f"{key} = {value!r}")
    if dropped:
        logger.info("%s: ignored keys that recipes no longer have: %s", where, ", ".join(dropped))
    return data


def _holders(data: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """The sections or blocks of the recipe that have this key."""
    *sections, name = key.split(".")
    found: Any = data
    for section in sections:
        found = found.get(section) if isinstance(found, dict) else None
    for holder in found if isinstance(found, list) else [found]:
        if isinstance(holder, dict) and name in holder:
            yield holder


def _merge_correction_bounds(data: dict[str, Any]) -> None:
    """Turn bounds [1/C, C] of a mask into its `correction_cap`, and drop bounds that are not used."""
    algorithm = data.get("algorithm")
    if not isinstance(algorithm, dict):
        return
    low, high = (algorithm.get(f"correction_{side}") for side in ("low", "high"))
    is_masked = algorithm.get("correction") in ("mask", "mask_sequence")
    if is_masked and isinstance(low, float) and isinstance(high, float) and abs(low * high - 1) < 1e-9:
        algorithm["correction_cap"] = high
    elif is_masked:
        return  # other bounds have no counterpart
    for side in ("low", "high"):
        algorithm.pop(f"correction_{side}", None)
