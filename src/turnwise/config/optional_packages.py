"""The optional packages by import name, and the command that installs them as turnwise was installed."""

import json
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any
from urllib.parse import unquote, urlsplit

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


def install_command(extra: str = "") -> str:
    """Install an extra from where turnwise itself was installed: an index may not have it, or another one."""
    return install_command_from(_origin(), extra)


def install_command_from(origin: Mapping[str, Any] | None, extra: str = "") -> str:
    """`origin`: the content of an installation's direct_url.json (PEP 610); None if it came from an index."""
    extras = f"[{extra}]" if extra else ""
    if origin is None:
        return f"pip install {shlex.quote(f'turnwise{extras}')}"
    url = origin["url"]
    if "vcs_info" in origin:
        vcs, commit = origin["vcs_info"]["vcs"], origin["vcs_info"]["commit_id"]
        return f"pip install {shlex.quote(f'turnwise{extras} @ {vcs}+{url}@{commit}')}"
    if not url.startswith("file:"):
        return f"pip install {shlex.quote(f'turnwise{extras} @ {url}')}"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(unquote(urlsplit(url).path) + extras)}"


def _origin() -> Mapping[str, Any] | None:
    try:
        text = distribution("turnwise").read_text("direct_url.json")
    except PackageNotFoundError:  # run from its sources, without an installation
        return None
    return None if text is None else json.loads(text)


def missing_package(error: ModuleNotFoundError) -> str | None:
    """What to install if an optional package is missing; None for any other failed import, which is a bug.

    A missing submodule of an installed package is such a bug: its name has a dot.
    """
    extra = EXTRA_OF.get(error.name or "")
    return None if extra is None else f"{error.name} is not installed: {install_command(extra)}"
