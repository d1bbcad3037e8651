"""One rank over NCCL: what spreads a policy over GPUs comes to the update of a policy that is whole."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.gpu.device import DEVICE

ROOT = Path(__file__).parents[2]
UPDATES = ["full", "lora", "carried", "padded", "recomputed", "frozen reference", "value", "bfloat16"]


@pytest.mark.parametrize("strategy", ["fsdp2", "zero3"])
def test_one_rank_learns_the_same_spread_and_whole(strategy: str) -> None:
    if strategy == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is missing: run `make ready`")
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributed.one_rank", strategy, DEVICE, *UPDATES],
        cwd=ROOT,
        # DeepSpeed looks for a compiler of the same CUDA; nothing is compiled here
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "DS_SKIP_CUDA_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    compared = [line for line in lines if "update" in line]
    assert len(compared) >= len(UPDATES) - 2, "the strategy refuses few of them"
    for line in compared:
        assert line["norms"][0] > 0.1, "nothing is learned"
        tolerance = 5e-2 if line["dtype"] == "bfloat16" else 1e-4
        assert max(line["gradients"], line["weights"]) <= tolerance, line["update"]
