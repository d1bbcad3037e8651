"""Makes each named update by a policy that is whole and by one that is spread over one rank, and says how far
apart their gradients and weights are.

What several GPUs need is tried on one this way: the machinery of a strategy, and NCCL.

    python -m tests.distributed.one_rank fsdp2|zero3 [DEVICE [UPDATE|MODEL…]]

A JSON object a line, the last of all updates. UPDATE: only those that are named. MODEL (`embedded`,
`smollm2`, a folder): an update of it in bfloat16 too.
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
from turnwise.config import ModelConfig
from turnwise.distributed import Ranks, group
from turnwise.workbench import load_model


def of_model(path: str) -> Scenario:
    """Its own log-probs are in the samples, as a run's would be."""
    model = load_model(ModelConfig(path=path))
    samples = some_samples(model=model, prefix=80)
    loaded = partial(load_model, ModelConfig(path=path))
    return Scenario(samples=lambda: samples, dtype=torch.bfloat16, model=loaded)


def apart(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], kind: str) -> float:
    """The largest difference by the largest entry of its tensor, over all tensors of that kind."""
    assert found.keys() == expected.keys()
    most = 0.0
    for name in (name for name in expected if name.startswith(kind) or name.endswith(kind)):
        ours, theirs = found[name].double(), expected[name].double()
        most = max(most, float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-3)))
    return most


def compared(scenario: Scenario, strategy: str, device: str, ranks: Ranks) -> dict[str, Any]:
    """Empty where the strategy refuses such an update."""
    found = outcome(scenario, strategy, ranks, device)
    if "refused" in found:
        return {}
    trainer = new_trainer(scenario, device=device)
    result = learn(scenario, trainer)
    expected = joined([trainer.tensors()])
    assert found["num_parts"], "nothing was spread"
    assert found["skipped"] == result.skipped
    return {
        "gradients": apart(found["tensors"], expected, "/exp_avg"),
        "weights": apart(found["tensors"], expected, "policy/"),
        "norms": [each["gradient/norm"] for each in (found["metrics"], result.metrics)],
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
            except Exception:  # noqa: BLE001 (whatever it is, the others are to be seen all the same)
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
