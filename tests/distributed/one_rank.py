"""Compare the updates of an unsharded policy with those of a policy sharded over one rank.

This exercises the code of a strategy, and NCCL, on a single GPU.

    python -m tests.distributed.one_rank fsdp2|zero3 [DEVICE [UPDATE|MODEL…]]

Prints one JSON object per update, then one over all updates: the differences of gradients and weights.
UPDATE selects updates by name. MODEL (`embedded`, `smollm2`, a folder) adds an update of that model in
bfloat16.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.distributed.ranked import outcome
from tests.distributed.updates import SCENARIOS, Scenario, joined, learn, new_trainer
from tests.training.updates import some_samples
from turnwise.assembly.workbench import load_model
from turnwise.config import ModelConfig
from turnwise.distributed import Ranks, group


def of_model(path: str) -> Scenario:
    """An update of this model, with its own log-probs in the samples, as in a run."""
    model = load_model(ModelConfig(path=path))
    samples = some_samples(model=model, prefix=80)
    loaded = partial(load_model, ModelConfig(path=path))
    return Scenario(samples=lambda: samples, dtype=torch.bfloat16, model=loaded)


def apart(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], kind: str) -> float:
    """The maximum over tensors of that kind of the largest difference, relative to the largest entry."""
    assert found.keys() == expected.keys()
    most = 0.0
    for name in (name for name in expected if name.startswith(kind) or name.endswith(kind)):
        ours, theirs = found[name].double(), expected[name].double()
        most = max(most, float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-3)))
    return most


def compared(scenario: Scenario, strategy: str, device: str, ranks: Ranks) -> dict[str, Any]:
    """The differences of one update; empty if the strategy does not support it."""
    found = outcome(scenario, strategy, ranks, device)
    if "refused" in found:
        return {}
    trainer = new_trainer(scenario, device=device)
    result = learn(scenario, trainer)
    expected = joined([trainer.tensors()])
    assert found["num_parts"], "nothing was sharded"
    assert found["skipped"] == result.skipped
    return {
        "gradients": apart(found["tensors"], expected, "/exp_avg"),
        "weights": apart(found["tensors"], expected, "policy/"),
        "norms": [metrics["gradient/norm"] for metrics in (found["metrics"], result.metrics)],
    }


def main() -> None:
    strategy, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    named = [name for name in sys.argv[3:] if name in SCENARIOS] or [*SCENARIOS]
    models = [name for name in sys.argv[3:] if name not in SCENARIOS]
    scenarios = {name: SCENARIOS[name] for name in named} | {path: of_model(path) for path in models}
    worst: dict[str, dict[str, float]] = {}
    failed = []
    with group.joined(device, is_sharded=True) as ranks:
        for name, scenario in scenarios.items():
            try:
                found = compared(scenario, strategy, device, ranks)
            except Exception:  # noqa: BLE001 (the other updates are still reported)
                traceback.print_exc()
                failed.append(name)
                continue
            if not found:
                continue
            dtype = str(scenario.dtype).removeprefix("torch.")
            print(json.dumps({"update": name, "dtype": dtype, **found}), flush=True)
            of_type = worst.setdefault(dtype, {"updates": 0, "gradients": 0.0, "weights": 0.0})
            of_type["updates"] += 1
            for kind in ("gradients", "weights"):
                of_type[kind] = max(of_type[kind], found[kind])
    print(json.dumps({"strategy": strategy, "device": device, "furthest apart": worst, "failed": failed}))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
