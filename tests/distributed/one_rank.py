"""Makes each named update by a policy that is whole and by one that is spread over one rank, and says how far
apart their gradients and weights are.

What several GPUs need is tried on one this way: the machinery of a strategy, and NCCL.

    python -m tests.distributed.one_rank fsdp2|zero3 [DEVICE [UPDATE|MODEL…]]

A JSON object a line, the last of all updates. UPDATE: only those that are named. MODEL (`embedded`,
`smollm2`, a folder): an update of it in bfloat16 too.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.distributed.ranked import outcome
from tests.distributed.updates import SCENARIOS, Scenario, joined, learn, new_trainer
from tests.training.updates import some_samples
from turnwise.config import ModelConfig
from turnwise.distributed import group
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


def compared(scenarios: Mapping[str, Scenario], strategy: str, device: str) -> Iterator[dict[str, Any]]:
    with group.joined(device, is_sharded=True) as ranks:
        for name, scenario in scenarios.items():
            found = outcome(scenario, strategy, ranks, device)
            if "refused" in found:
                continue
            trainer = new_trainer(scenario, device=device)
            result = learn(scenario, trainer)
            expected = joined([trainer.tensors()])
            yield {
                "update": name,
                "dtype": str(scenario.dtype).removeprefix("torch."),
                "gradients": apart(found["tensors"], expected, "/exp_avg"),
                "weights": apart(found["tensors"], expected, "policy/"),
                "num_parts": found["num_parts"],
                "norms": [each["gradient/norm"] for each in (found["metrics"], result.metrics)],
                "is_skipped_alike": found["skipped"] == result.skipped,
            }


def main() -> None:
    strategy, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    named = [name for name in sys.argv[3:] if name in SCENARIOS] or [*SCENARIOS]
    models = [name for name in sys.argv[3:] if name not in SCENARIOS]
    scenarios = {name: SCENARIOS[name] for name in named} | {path: of_model(path) for path in models}
    worst: dict[str, dict[str, float]] = {}
    for line in compared(scenarios, strategy, device):
        print(json.dumps(line), flush=True)
        of_type = worst.setdefault(line["dtype"], {"updates": 0, "gradients": 0.0, "weights": 0.0})
        of_type["updates"] += 1
        for kind in ("gradients", "weights"):
            of_type[kind] = max(of_type[kind], line[kind])
        assert line["is_skipped_alike"], line
        assert line["num_parts"], f"nothing was spread: {line}"
    print(json.dumps({"strategy": strategy, "device": device, "furthest apart": worst}))


if __name__ == "__main__":
    main()
