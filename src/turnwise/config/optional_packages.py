"""The optional packages by import name, and the extra of turnwise that installs them."""

from collections.abc import Mapping

EXTRA_OF: Mapping[str, str] = {
    **dict.fromkeys(
        ("httpx", "numpy", "pandas", "peft", "renderers", "safetensors", "tokenizers", "torch"), "train"
    ),
    "transformers": "train",
    "gguf": "smollm2",
    "bitsandbytes": "qlora",
    "deepspeed": "deepspeed",
    "vllm": "vllm",
    "ray": "skyrl",
    "skyrl": "skyrl",
    "skyrl_gym": "skyrl",
    "pyarrow": "parquet",
    "wandb": "wandb",
    "weave": "weave",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
}
"""Modules that the base install does not have."""


def install_command(extra: str) -> str:
    return f"pip install 'turnwise[{extra}]'"


def missing_package(error: ModuleNotFoundError) -> str | None:
    """What to install if an optional package is missing; None for any other failed import, which is a bug.

    A missing submodule of an installed package is such a bug: its name has a dot.
    """
    extra = EXTRA_OF.get(error.name or "")
    return None if extra is None else f"{error.name} is not installed: {install_command(extra)}"
