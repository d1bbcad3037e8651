"""Train one recipe with SkyRL's trainer and with turnwise's own loop, on CPUs, and compare their curves.

    .tools/skyrl/bin/python -m benchmarks.skyrl_cpu.learning --out /tmp/skyrl-cpu

SkyRL is the installed release, unchanged, and so is the command `turnwise train --engine skyrl`: its trainer,
dispatch, FSDP2 workers, loss, checkpoints and export. Three things stand in for what needs a GPU: the CPU and
gloo for CUDA and NCCL (stand_ins/cuda), a broadcast over gloo for vLLM's weight transfer
(stand_ins/engine), and turnwise's own engine for vLLM's servers (engine_server.py).
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM

from benchmarks.skyrl_cpu.cluster import HERE, ROOT, STAND_INS, TURNWISE, cluster, environment, free_port
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.tasks.load import load, save

_FIGURE = re.compile(r"'([\w/@-]+)': '?(-?[\d.]+(?:e-?\d+)?)'?")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Curve:
    """The figures of a run by step; validation has fewer steps."""

    rewards: Mapping[int, float]
    validation: Mapping[int, float]
    seconds: Mapping[int, float]
    rollout_seconds: Mapping[int, float]


def write_tasks(out: Path) -> None:
    """Tasks with one server and two tools: their prompts are short enough for training on a CPU."""
    for split, source in {"train": "train", "validation": "validation", "test": "test"}.items():
        tasks = [
            replace(task, servers=("fmp",), tools=("fmp_get_quote", "fmp_search_ticker"))
            for task in load(ROOT / "recipes" / "cpu" / f"{source}.jsonl")
            if task.family == "quote_figure"
        ]
        save(tasks, out / f"{split}.jsonl")


def write_recipe(out: Path, port: int) -> Path:
    """Write the model, the tasks and the recipe to `out`; the recipe has the engine's port."""
    untie(EMBEDDED_FOLDER, out / "model")
    write_tasks(out)
    path = out / "recipe.toml"
    path.write_text((HERE / "recipe.toml").read_text().replace("PORT", str(port)))
    return path


def untie(model_folder: Path, folder: Path) -> None:
    """Save the model with an output embedding of its own: SkyRL's FSDP separates tied embeddings."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.model.embed_tokens.weight.detach().clone())
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(model_folder / name, folder)


def skyrl_figures(log: Path) -> dict[int, dict[str, float]]:
    """The figures that SkyRL printed, by step."""
    steps: dict[int, dict[str, float]] = {}
    step = 0
    for line in _ANSI.sub("", log.read_text(errors="replace")).splitlines():
        if ", ip=" in line:  # a second node on this machine reads the same folder of logs
            continue
        if found := re.search(r"tracking:log:\d+ - Step (\d+):", line):
            step = int(found[1])
        for name, value in _FIGURE.findall(line):
            steps.setdefault(step, {})[name] = float(value)
    return steps


def skyrl_curve(log: Path) -> Curve:
    """The curve of SkyRL's run."""
    return _curve(
        skyrl_figures(log), ("reward/avg_raw_reward", "eval/all/avg_score", "timing/step", "timing/generate")
    )


def own_curve(folder: Path) -> Curve:
    """The figures of turnwise's own run."""
    steps: dict[int, dict[str, float]] = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        figures = row.get("metrics", row)
        known = {name: value for name, value in figures.items() if isinstance(value, int | float)}
        steps.setdefault(int(row["step"]) + 1, {}).update(known)  # SkyRL counts from 1
    for row in steps.values():
        if "time/update_seconds" in row:
            row["seconds"] = row["time/rollout_seconds"] + row["time/update_seconds"]
    return _curve(steps, ("reward/mean", "validation/success", "seconds", "time/rollout_seconds"))


def _curve(steps: Mapping[int, Mapping[str, float]], names: Sequence[str]) -> Curve:
    return Curve(*({step: row[name] for step, row in steps.items() if name in row} for name in names))


def success(
    recipe: Path, out: Path, model: Path | None = None, stand_ins: Sequence[str] = STAND_INS
) -> float:
    """Success on the held-out tasks by `turnwise eval` of a recipe or a run's folder."""
    for file in (out, out.with_suffix(".trajectories.jsonl")):
        file.unlink(missing_ok=True)
    command = [*TURNWISE, "eval", str(recipe), "-k", "4", "--out", str(out)]
    if model is not None:
        command += ["--set", f"model.path={model}"]
    subprocess.run(command, env=environment(stand_ins), check=True, stdout=subprocess.DEVNULL)
    episodes = json.loads(out.read_text())["report"]["episodes"]
    return fmean(episode["is_success"] for episode in episodes)


def train(recipe: Path, out: Path, name: str, *arguments: str, stand_ins: Sequence[str] = STAND_INS) -> Path:
    """Run `turnwise train`; its output is in the returned file."""
    log = out / f"{name}.log"
    command = ["nice", *TURNWISE, "train", *arguments, str(recipe)]
    command += ["--set", f"run.folder={out / 'runs'}", "--set", f"run.name={name}"]
    with log.open("ab") as output:
        code = subprocess.run(
            command, env=environment(stand_ins), stdout=output, stderr=output, check=False
        ).returncode
    if code:
        sys.exit(f"{name}: exit code {code}; see {log}")
    return log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    out: Path = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    port = free_port()
    recipe = write_recipe(out, port)
    steps = ("--set", f"run.num_steps={args.steps}")
    with cluster(out, recipe, port=port, nodes={"head": 2}):
        theirs = skyrl_curve(train(recipe, out, "skyrl", "--engine", "skyrl", *steps))
    train(recipe, out, "own", *steps)
    own = own_curve(out / "runs" / "own")
    titles = ("  reward", "   validation", "   seconds", "   rollout")
    print("step" + "".join(f"{title}: SkyRL    own" for title in titles))
    for step in sorted({*theirs.rewards, *theirs.validation}):
        print(f"{step:4}" + "".join(_cells(step, theirs, own)))
    export = next((out / "runs" / "skyrl" / "exports").glob("global_step_*/policy"))
    results = {
        "initial": success(recipe, out / "initial.json"),
        "SkyRL": success(recipe, out / "skyrl.json", export),
        "own": success(out / "runs" / "own", out / "own.json"),
    }
    print("held-out success by `turnwise eval`: " + ", ".join(f"{k} {v:.3f}" for k, v in results.items()))


def _cells(step: int, theirs: Curve, own: Curve) -> list[str]:
    pairs = [
        (theirs.rewards, own.rewards, 15, 3),
        (theirs.validation, own.validation, 20, 3),
        (theirs.seconds, own.seconds, 17, 1),
        (theirs.rollout_seconds, own.rollout_seconds, 17, 1),
    ]
    cells: list[str] = []
    for left, right, width, digits in pairs:
        for figures, cell_width in ((left, width), (right, 7)):
            cells.append(f"{figures[step]:{cell_width}.{digits}f}" if step in figures else " " * cell_width)
    return cells


if __name__ == "__main__":
    main()
