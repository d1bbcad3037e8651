"""Write the memory figures of docs/guides/hardware.md from computed plans; a test compares the two.

python -m tests.planning.figures
"""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console

from tests.planning.shaped import QWEN3_06B, SEVEN_B
from turnwise.config import load_recipe
from turnwise.doctor.plan import print_plan
from turnwise.planning import MemoryPlan, plan_memory
from turnwise.runtime.devices import Memory

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "hardware.md"
GB = 10**9
ROWS = {
    "cpu": ("cpu", "the embedded model, 2.6 million", QWEN3_06B),
    "smollm2": ("cpu", "SmolLM2, 135 million", QWEN3_06B),
    "mps": ("mps", "Qwen3-0.6B", QWEN3_06B),
    "gpu_lora": ("cuda", "Qwen3-0.6B", QWEN3_06B),
    "gpu_vllm": ("cuda", "Qwen3-0.6B", QWEN3_06B),
    "gpu_qlora": ("cuda", "Qwen3-0.6B", QWEN3_06B),
    "gpu_qlora of 7B": ("cuda", "a model of 7.6 billion weights instead", SEVEN_B),
    "multi_gpu_fsdp": ("cuda", "Qwen3-0.6B, full tuning, per GPU of four", QWEN3_06B),
}
"""By recipe: device, description of the model, and the shape used in place of a model from the hub."""


def rendered(folder: Path) -> dict[str, str]:
    """Every generated block of the page, by its name."""
    return {"recipes": _recipes(folder), "example": _example(folder)}


def replaced(page: str, blocks: dict[str, str]) -> str:
    """The page with these blocks between their markers."""
    for name, text in blocks.items():
        pattern = rf"(<!-- plan: {name} -->\n).*?(\n<!-- end -->)"
        page, count = re.subn(pattern, lambda match, text=text: match[1] + text + match[2], page, flags=re.S)
        assert count == 1, f"docs/guides/hardware.md has no block {name!r}"
    return page


def _plan(name: str, folder: Path, *overrides: str) -> MemoryPlan:
    device, _, shape = ROWS[name]
    file = ROOT / "recipes" / f"{name.split(maxsplit=1)[0]}.toml"
    if load_recipe(file).model.path.startswith("Qwen/"):
        place = folder / str(shape.hidden_size)
        shape.save_pretrained(place)
        overrides = (f"model.path={place}", *overrides)
    # vLLM takes a share of the GPU's total memory: 24 GB
    return plan_memory(load_recipe(file, overrides), device, Memory(24 * GB, 24 * GB))


def _recipes(folder: Path) -> str:
    lines = ["| recipe | model | memory planned |", "|---|---|---|"]
    for name, (device, model, _) in ROWS.items():
        gigabytes = f"{_plan(name, folder).num_bytes / GB:.1f} GB"
        lines.append(f"| `{name.split(maxsplit=1)[0]}.toml` | {model} | {gigabytes} on {device} |")
    return "\n".join(lines)


def _example(folder: Path) -> str:
    plan = _plan("gpu_lora", folder, "update.tokens_per_microbatch=16384")
    out = io.StringIO()
    print_plan(plan, Console(file=out, width=100, emoji=False, highlight=False))
    return f"```\n{out.getvalue()}```"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        PAGE.write_text(replaced(PAGE.read_text(), rendered(Path(temporary))))
