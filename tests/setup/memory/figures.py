"""Write the memory figures of docs/guides/hardware.md from computed plans; a test compares the two.

python -m tests.setup.memory.figures
"""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console
from transformers import Qwen3Config

from tests.setup.memory.shaped import QWEN3, QWEN3_06B, SEVEN_B
from turnwise.config import parse_settings, read_recipe
from turnwise.models.device_memory import Memory
from turnwise.run.checks.memory_table import print_plan
from turnwise.setup.memory import MemoryPlan, plan_for_recipe

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guides" / "hardware.md"
GB = 10**9
ROWS = {
    "cpu": ("cpu", 24, "the embedded model, 2.6 million", QWEN3_06B),
    "smollm2": ("cpu", 24, "SmolLM2, 135 million", QWEN3_06B),
    "mps": ("mps", 16, "Qwen3-0.6B", QWEN3_06B),
    "gpu_lora": ("cuda", 24, "Qwen3-0.6B", QWEN3_06B),
    "gpu_vllm": ("cuda", 24, "Qwen3-0.6B", QWEN3_06B),
    "gpu_qlora": ("cuda", 12, "Qwen3-0.6B", QWEN3_06B),
    "gpu_qlora of 7B": ("cuda", 16, "a model of 7.6 billion weights instead", SEVEN_B),
    "multi_gpu_fsdp": ("cuda", 24, "Qwen3-0.6B, full tuning, per GPU of four", QWEN3_06B),
}
"""By recipe: device, its memory in GB, description of the model, and the shape used in place of a model from
the hub."""
GPU_GIGABYTES = (24, 48, 80, 140)


def rendered(folder: Path) -> dict[str, str]:
    """The generated blocks of the page that are planned in seconds, by their names."""
    plans = {name: _plan(name, folder) for name in ROWS}
    return {"recipes": _recipes(plans), "example": _example(plans["gpu_lora"])}


def rendered_gpus(folder: Path) -> dict[str, str]:
    """The blocks with all models on all GPUs."""
    return {"gpus": _gpus(folder)}


def replaced(page: str, blocks: dict[str, str]) -> str:
    """The page with these blocks between their markers."""
    for name, text in blocks.items():
        pattern = rf"(<!-- plan: {name} -->\n).*?(<!-- end -->)"
        page, count = re.subn(
            pattern, lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page, flags=re.S
        )
        assert count == 1, f"docs/guides/hardware.md has no block {name!r}"
    return page


def _plan(name: str, folder: Path) -> MemoryPlan:
    device, gigabytes, _, shape = ROWS[name]
    file = ROOT / "recipes" / f"{name.split(maxsplit=1)[0]}.toml"
    overrides = [f"model.device={device}"]
    if read_recipe(file).model.path.startswith("Qwen/"):
        overrides.append(f"model.path={_saved(shape, folder)}")
    return plan_for_recipe(
        read_recipe(file, parse_settings(overrides)), Memory(gigabytes * GB, gigabytes * GB)
    )


def _saved(shape: Qwen3Config, folder: Path) -> Path:
    place = folder / str(shape.hidden_size)
    shape.save_pretrained(place)
    return place


def _recipes(plans: dict[str, MemoryPlan]) -> str:
    lines = ["| recipe | model | memory | found | planned |", "|---|---|---|---|---|"]
    for name, (device, gigabytes, model, _) in ROWS.items():
        plan = plans[name]
        planned = f"{plan.num_bytes / GB:.1f} GB on {device}"
        lines.append(
            f"| `{name.split(maxsplit=1)[0]}.toml` | {model} | {gigabytes} GB | {_sizes(plan)} | {planned} |"
        )
    return "\n".join(lines)


def _sizes(plan: MemoryPlan) -> str:
    sizes = plan.sizes
    setting = sizes.gradient_checkpointing
    number = "" if isinstance(setting, bool) else f"{setting} of {plan.num_layers} layers "
    recomputed = f", {number}recomputed" if setting else ""
    host = f"; {plan.host_bytes / GB:.0f} GB in host memory" if plan.host_bytes else ""
    return f"{sizes.tokens_per_microbatch:,} tokens{recomputed}; {sizes.num_parallel_episodes} episodes{host}"


def _gpus(folder: Path) -> str:
    lines = [
        f"| `gpu_lora.toml` with | {' | '.join(f'{size} GB' for size in GPU_GIGABYTES)} |",
        "|---" * (1 + len(GPU_GIGABYTES)) + "|",
    ]
    for name, shape in QWEN3.items():
        overrides = ["model.device=cuda", f"model.path={_saved(shape, folder)}"]
        recipe = read_recipe(ROOT / "recipes" / "gpu_lora.toml", parse_settings(overrides))
        plans = [plan_for_recipe(recipe, Memory(size * GB, size * GB)) for size in GPU_GIGABYTES]
        cells = [_sizes(plan) if plan.fits else "does not fit" for plan in plans]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _example(plan: MemoryPlan) -> str:
    out = io.StringIO()
    print_plan(plan, Console(file=out, width=100, emoji=False, highlight=False))
    return f"```\n{out.getvalue()}```"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        PAGE.write_text(replaced(PAGE.read_text(), rendered(place) | rendered_gpus(place)))
