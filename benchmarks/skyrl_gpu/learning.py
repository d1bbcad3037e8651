"""Train one recipe with SkyRL's trainer on one GPU, and evaluate the model before and after.

    python -m benchmarks.skyrl_gpu.learning --out /tmp/skyrl-gpu

SkyRL and the command `turnwise train --engine skyrl` are unchanged: trainer, FSDP2 workers on CUDA with NCCL,
vLLM's servers and router on the same GPU, and weights over CUDA IPC. Only flash-attn is a stand-in: SkyRL
imports it always and does not call it here.

With `--device cpu`, the workers are on the CPU, and turnwise's engine stands in for vLLM: a rehearsal.
"""

import argparse
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

from benchmarks.skyrl_cpu.cluster import ROOT, STAND_INS, TURNWISE, cluster, environment, free_port
from benchmarks.skyrl_cpu.learning import skyrl_figures, success, train, untie, write_tasks
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.tasks.load import load, save

HERE = Path(__file__).parent
FIGURES = {
    "reward": "reward/avg_raw_reward",
    "validation": "eval/all/avg_score",
    "seconds": "timing/step",
    "rollout": "timing/generate",
    "difference": "policy/rollout_train_logprobs_abs_diff_mean",
    "masked": "turnwise/num_groups_masked",
}
FAMILIES = ("figure_by_name", "previous_bar", "price_difference")
"""The tasks for SmolLM2: those on which it is far from perfect after demonstrations."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the recipe says of a model's run."""

    tokens_per_episode: int
    learning_rate: float
    num_steps: int
    tasks_per_step: int
    evaluate_every: int


SIZES = {"embedded": Sizes(1024, 2e-4, 10, 8, 5), "smollm2": Sizes(3072, 2e-5, 14, 16, 7)}


def write_inputs(out: Path, model: str, device: str) -> Path:
    """Write the tasks, the recipe and the model to `out`; SmolLM2 learns from demonstrations first."""
    values = asdict(SIZES[model]) | {"dtype": "float32" if device == "cpu" else "bfloat16"}
    recipe = out / "recipe.toml"
    recipe.write_text(Template((HERE / "recipe.toml").read_text()).substitute(values))
    if model == "embedded":
        write_tasks(out)
        untie(EMBEDDED_FOLDER, out / "model")
        return recipe
    for split in ("train", "validation", "test"):
        tasks = load(ROOT / "recipes" / "cpu" / f"{split}.jsonl")
        save([task for task in tasks if task.family in FAMILIES], out / f"{split}.jsonl")
    settings = {
        "model.path": "smollm2",
        "policy.tuning": "lora",
        "sft.num_epochs": 3,
        "sft.learning_rate": 5e-4,
    }
    command = [*TURNWISE, "sft", str(recipe), "--no-verify", "--out", str(out / "warm")]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with (out / "sft.log").open("wb") as log:
        subprocess.run(command, env=environment(()), stdout=log, stderr=log, check=True)
    untie(out / "warm", out / "model")
    return recipe


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
    parser.add_argument("--model", choices=SIZES, default="embedded")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe: KEY=VALUE")
    args = parser.parse_args()
    out: Path = args.out.resolve()
    out.mkdir(parents=True)
    is_cpu = args.device == "cpu"
    stand_ins = STAND_INS if is_cpu else ("attention",)
    started = time.monotonic()
    recipe = write_inputs(out, args.model, args.device)
    print(f"the inputs are written after {time.monotonic() - started:.0f} s", flush=True)
    port = free_port()
    settings = [*(engine_settings(port) if is_cpu else ()), *args.set]
    chosen = [part for setting in settings for part in ("--set", setting)]
    try:
        # on a CPU, Ray counts one GPU for the workers and one for the engine
        with cluster(out, recipe, port=port, nodes={"head": 2 if is_cpu else 1}, stand_ins=stand_ins):
            train(recipe, out, "skyrl", "--engine", "skyrl", *chosen, stand_ins=stand_ins)
    finally:  # what a run that was stopped has done is shown too
        print(table(skyrl_figures(out / "skyrl.log")), flush=True)
    print(f"trained after {time.monotonic() - started:.0f} s, with the start of all processes", flush=True)
    [export] = (out / "runs" / "skyrl" / "exports").glob("global_step_*/policy")
    with ThreadPoolExecutor() as pool:
        before = pool.submit(success, recipe, out / "before.json", None, stand_ins)
        after = pool.submit(success, recipe, out / "after.json", export, stand_ins)
    print(f"held-out success by `turnwise eval`: {before.result():.3f} before, {after.result():.3f} after")
    print(f"{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    main()
