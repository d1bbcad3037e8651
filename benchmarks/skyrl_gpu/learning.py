"""Train one recipe with SkyRL's trainer on one GPU, and evaluate the model before and after.

    python -m benchmarks.skyrl_gpu.learning --out /tmp/skyrl-gpu

SkyRL and the command `turnwise train --engine skyrl` are unchanged: trainer, FSDP2 workers on CUDA with NCCL,
vLLM's servers and router on the same GPU, and weights over CUDA IPC. Only flash-attn is a stand-in: SkyRL
imports it always and does not call it here.

With `--engine own`, turnwise's engine stands in for vLLM on the same GPU, and weights are broadcast over
gloo. With `--engine cpu`, the workers are on the CPU too: a rehearsal of the same settings.
"""

import argparse
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.skyrl_cpu.cluster import STAND_INS, cluster, free_port
from benchmarks.skyrl_cpu.learning import skyrl_figures, success, train, write_model, write_tasks

HERE = Path(__file__).parent
FIGURES = {
    "reward": "reward/avg_raw_reward",
    "validation": "eval/all/avg_score",
    "seconds": "timing/step",
    "rollout": "timing/generate",
    "difference": "policy/rollout_train_logprobs_abs_diff_mean",
    "masked": "turnwise/num_groups_masked",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """Which parts stand in for SkyRL's, and what the recipe needs for that."""

    stand_ins: tuple[str, ...]
    num_gpus: int
    dtype: str


SETUPS = {
    "vllm": Setup(("attention",), 1, "bfloat16"),
    # Ray counts two GPUs, one for the workers and one for the engine
    "own": Setup(("attention", "engine"), 2, "float32"),
    "cpu": Setup(STAND_INS, 2, "float32"),
}


def write_recipe(out: Path, dtype: str) -> Path:
    """Write the model, the tasks and the recipe to `out`."""
    write_model(out / "model")
    write_tasks(out)
    path = out / "recipe.toml"
    path.write_text((HERE / "recipe.toml").read_text().replace("DTYPE", dtype))
    return path


def engine_settings(port: int) -> tuple[str, ...]:
    """Settings with which SkyRL samples from the engine at `port` instead of its own vLLM."""
    url = f"http://127.0.0.1:{port}"
    engine = "skyrl.overrides.generator.inference_engine"
    return (
        "skyrl.colocate=false",
        f"{engine}.external_proxy_url={url}",
        f'{engine}.external_server_urls=["{url}"]',
    )


def table(figures: Mapping[int, Mapping[str, float]]) -> str:
    """The figures of each step as lines."""
    lines = ["step" + "".join(f"{title:>12}" for title in FIGURES)]
    for step, row in sorted(figures.items()):
        cells = (f"{row[name]:12.4g}" if name in row else " " * 12 for name in FIGURES.values())
        lines.append(f"{step:4}" + "".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", choices=SETUPS, default="vllm")
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe: KEY=VALUE")
    args = parser.parse_args()
    out: Path = args.out.resolve()
    out.mkdir(parents=True)
    setup = SETUPS[args.engine]
    recipe = write_recipe(out, setup.dtype)
    port = free_port()
    settings = [*(() if args.engine == "vllm" else engine_settings(port)), *args.set]
    started = time.monotonic()
    chosen = [part for setting in settings for part in ("--set", setting)]
    try:
        with cluster(out, recipe, port=port, nodes={"head": setup.num_gpus}, stand_ins=setup.stand_ins):
            train(recipe, out, "skyrl", "--engine", "skyrl", *chosen, stand_ins=setup.stand_ins)
    finally:  # what a run that was stopped has done is shown too
        print(table(skyrl_figures(out / "skyrl.log")), flush=True)
    print(f"trained in {time.monotonic() - started:.0f} s, with the start of all processes", flush=True)
    [export] = (out / "runs" / "skyrl" / "exports").glob("global_step_*/policy")
    with ThreadPoolExecutor() as pool:
        before = pool.submit(success, recipe, out / "before.json", None, setup.stand_ins)
        after = pool.submit(success, recipe, out / "after.json", export, setup.stand_ins)
    print(f"held-out success by `turnwise eval`: {before.result():.3f} before, {after.result():.3f} after")
    print(f"{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    main()
