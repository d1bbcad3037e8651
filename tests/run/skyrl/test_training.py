"""`turnwise train --engine skyrl` learns on CPUs, with stand-ins for CUDA and vLLM."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

from safetensors.torch import load_file

from benchmarks.skyrl_cpu import learning
from benchmarks.skyrl_cpu.cluster import TURNWISE, cluster, environment, free_port

SETTINGS = {
    "run.num_steps": "2",
    "run.tasks_per_step": "2",
    "run.checkpoint_every": "1",
    "rollout.group_size": "4",
    "evaluation.every": "0",
    "skyrl.num_players": "1",
}


def train(recipe: Path, folder: Path) -> str:
    settings = SETTINGS | {"run.folder": str(folder), "run.name": "run"}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [*TURNWISE, "train", "--engine", "skyrl", str(recipe), *sets]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_weights_are_learned_published_saved_and_exported(tmp_path: Path) -> None:
    port = free_port()
    recipe = learning.write_recipe(tmp_path, port)
    with cluster(tmp_path, recipe, port=port, nodes={"head": 2}):
        log = tmp_path / "train.log"
        log.write_text(train(recipe, tmp_path / "runs"))
    figures = learning.skyrl_figures(log)
    assert {1, 2} <= set(figures)
    # workers and engine have the same weights, also after the first update was published
    for step in (1, 2):
        assert figures[step]["policy/rollout_train_logprobs_abs_diff_mean"] < 1e-3
        assert figures[step]["turnwise/num_groups_masked"] == 0
    run = tmp_path / "runs" / "run"
    assert (run / "checkpoints" / "latest_ckpt_global_step.txt").read_text() == "2"
    [exported] = (run / "exports").glob("global_step_2/policy/model.safetensors")
    before, after = load_file(tmp_path / "model" / "model.safetensors"), load_file(exported)
    changes = [float((after[name] - before[name]).abs().max()) for name in before if name in after]
    assert max(changes) > 1e-5
