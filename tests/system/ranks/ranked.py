"""One rank: make the named updates and write their outcomes into a folder.

python -m tests.system.ranks.ranked STRATEGY FOLDER DEVICE NAME…
"""

import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from tests.system.ranks.updates import SCENARIOS, Scenario, joined, learn, new_trainer
from tests.training.updates import recipe_of
from turnwise.system.ranks import group
from turnwise.system.ranks.ranks import Ranks
from turnwise.training.sharding.shards import Shard
from turnwise.training.sharding.strategies import STRATEGIES


def outcome(scenario: Scenario, strategy: str, ranks: Ranks, device: str) -> dict[str, Any]:
    try:
        recipe_of(scenario.settings, hardware={"strategy": strategy})
    except ValueError as error:
        return {"refused": str(error).splitlines()[1].strip()}
    trainer = new_trainer(scenario, ranks, STRATEGIES[strategy], device)
    result = learn(scenario, trainer)
    own = trainer.tensors()
    found = ranks.exchange(own) if ranks.count > 1 else [own]
    with trainer.policy.gathered():
        weights = {name: weight.clone() for name, weight in trainer.policy.weights().items()}
    return {
        "tensors": joined(found),
        "weights": weights,
        "metrics": result.metrics,
        "skipped": result.skipped,
        "num_parts": sum(isinstance(tensor, Shard) for tensor in own.values()),
        "num_held": {
            name: (tensor.tensor if isinstance(tensor, Shard) else tensor).numel()
            for name, tensor in own.items()
        },
    }


def main() -> None:
    strategy, folder, device, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
    torch.set_num_threads(1)
    with group.joined(device, is_sharded=STRATEGIES[strategy] is not None) as ranks:
        found = {}
        for name in names:
            try:
                found[name] = outcome(SCENARIOS[name], strategy, ranks, device)
            except Exception:
                print(f"rank {ranks.number}, {name}:\n{traceback.format_exc()}", flush=True)
                raise
        torch.save(found, folder / f"{strategy}-{ranks.number}.pt")


if __name__ == "__main__":
    main()
