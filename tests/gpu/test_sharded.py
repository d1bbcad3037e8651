"""One rank over NCCL: the updates of a sharded policy equal those of an unsharded one."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.gpu.device import DEVICE
from tests.system.ranks.updates import SCENARIOS, check_same_update

ROOT = Path(__file__).parents[2]
UPDATES = ["full", "lora", "carried", "padded", "recomputed", "frozen reference", "value", "bfloat16"]


@pytest.mark.parametrize("strategy", ["fsdp2", "zero3"])
def test_one_rank_learns_the_same_sharded_and_unsharded(strategy: str, tmp_path: Path) -> None:
    if strategy == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is missing: run `make ready`")
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.ranks.ranked", strategy, str(tmp_path), DEVICE, *UPDATES],
        cwd=ROOT,
        # DeepSpeed checks for a compiler of the same CUDA version; nothing is compiled here
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "DS_SKIP_CUDA_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    found = torch.load(tmp_path / f"{strategy}-0.pt", weights_only=False, map_location="cpu")
    supported = {name: outcome for name, outcome in found.items() if "refused" not in outcome}
    assert len(supported) >= len(UPDATES) - 2, "the strategy supports most updates"
    for name, outcome in supported.items():
        assert outcome["num_parts"], "nothing was sharded"
        tolerance = 5e-2 if SCENARIOS[name].dtype is torch.bfloat16 else 1e-4
        check_same_update(outcome, name, tolerance, DEVICE)
