"""`turnwise export`: write a run's model as a folder that transformers, vLLM or peft can load."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turnwise.models.chat import load_tokenizer
from turnwise.setup.trained import load_trained
from turnwise.system.files.free_path import require_free
from turnwise.training.policy.model_folder import save_adapter, save_merged


@dataclass(frozen=True, slots=True)
class Exported:
    """The folder that was written."""

    folder: Path
    step: int
    """Number of training steps of the policy."""
    num_bytes: int


def export_run(
    run: Path, out: Path, *, which: int | Literal["best"] | None = None, is_adapter: bool = False
) -> Exported:
    """Write the run's policy to `out`, which must not exist yet; ValueError for the user's mistakes."""
    require_free(out)
    trained = load_trained(run, which)
    tokenizer = load_tokenizer(trained.recipe.model.path)
    if is_adapter:
        out = save_adapter(trained.policy, tokenizer, out, base=trained.recipe.model.path)
    else:
        out = save_merged(trained.policy, tokenizer, out)
    return Exported(out, trained.step, sum(file.stat().st_size for file in out.iterdir()))
