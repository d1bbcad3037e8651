"""Looks at the machine itself: Python, packages, device, disk, sandbox."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from turnwise.config import Recipe
from turnwise.config.optional_packages import install_command
from turnwise.config.requirements import is_installed, requirements
from turnwise.models.device_memory import memory_of
from turnwise.models.devices import VARIABLE, choose_device
from turnwise.run.checks.findings import Finding, FindingLevel
from turnwise.system.sandbox import Kind, isolation

PACKAGES = ("mcp", "pydantic", "httpx2")
"""Packages that every command needs."""
MODEL_PACKAGES = ("torch", "transformers", "peft", "renderers", "safetensors")
"""Packages needed to play or train: the extra `train`."""
DATA_PACKAGES = ("numpy", "pandas")
"""Packages that sandboxed code may import besides the standard library, also in the extra `train`."""


def check_python() -> Finding:
    return Finding("Python", FindingLevel.GOOD, f"{platform.python_version()} at {sys.executable}")


def check_packages(*, needs_models: bool) -> Iterator[Finding]:
    """Report each package's version; a missing model package is bad only if a model is needed."""
    for name in PACKAGES:
        yield check_package(name, FindingLevel.BAD)
    for name in MODEL_PACKAGES:
        yield check_package(name, FindingLevel.BAD if needs_models else FindingLevel.WARNING, "train")
    for name in DATA_PACKAGES:
        yield check_package(name, FindingLevel.WARNING, "train")


def check_package(name: str, if_missing: FindingLevel, extra: str = "") -> Finding:
    try:
        return Finding(name, FindingLevel.GOOD, version(name))
    except PackageNotFoundError:
        return Finding(name, if_missing, "not installed", install_command(extra))


def check_requirements(recipe: Recipe) -> Iterator[Finding]:
    """Report the optional packages that the recipe uses; a missing one warns if a run works without it."""
    for requirement in requirements(recipe):
        version = requirement.version
        if version is not None:
            yield Finding(requirement.title, FindingLevel.GOOD, f"{version} ({requirement.why})")
            continue
        level = FindingLevel.BAD if requirement.is_needed else FindingLevel.WARNING
        detail = f"{requirement.why}, and it is not installed"
        yield Finding(requirement.title, level, detail, requirement.advice)
    if recipe.model.quantisation != "none" and is_installed("bitsandbytes"):
        from turnwise.models.quantised import why_not

        if reason := why_not():
            advice = "a run uses LoRA on a bfloat16 base instead, which needs more memory"
            yield Finding("quantisation", FindingLevel.WARNING, reason, advice)


def without_quantisation(recipe: Recipe) -> Recipe:
    """Return the recipe as a run would resolve it: a base that cannot be quantised here is bfloat16."""
    if recipe.model.quantisation == "none" or not has_model_packages():
        return recipe
    from turnwise.models.quantised import unquantised, why_not

    return recipe.model_copy(update={"model": unquantised(recipe.model)}) if why_not() else recipe


def has_model_packages() -> bool:
    return all(find_spec(name) is not None for name in MODEL_PACKAGES)


def check_device(wanted: str) -> Finding:
    """Report the device that a model would run on and its free memory; `wanted` is model.device."""
    try:
        chosen = choose_device(wanted)
    except ValueError as error:
        advice = f"set model.device (or {VARIABLE}) to auto, or install a torch that knows this device"
        return Finding("device", FindingLevel.BAD, str(error), advice)
    memory = memory_of(chosen)
    if chosen == "cuda":
        import torch

        detail = (
            f"{torch.cuda.get_device_name()} with {gigabytes(memory.free)} of {gigabytes(memory.total)} free"
        )
        return Finding("device", FindingLevel.GOOD, f"cuda: {detail}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding(
        "device", FindingLevel.GOOD, f"{chosen}: {cores} cores, {gigabytes(memory.free)} of memory free"
    )


def check_disk(folder: Path, needed_bytes: int) -> Finding:
    """Report the free space where run folders are made; the folder itself need not exist yet."""
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free_bytes = shutil.disk_usage(place).free
    detail = f"{gigabytes(free_bytes)} free under {place}"
    if not os.access(place, os.W_OK):
        return Finding(
            "disk", FindingLevel.BAD, f"{place} cannot be written to", "set run.folder to one that can"
        )
    if free_bytes >= needed_bytes:
        return Finding("disk", FindingLevel.GOOD, detail)
    advice = (
        f"checkpoints and trajectories want {gigabytes(needed_bytes)}: make room, or set run.folder elsewhere"
    )
    return Finding("disk", FindingLevel.BAD, detail, advice)


def check_sandbox() -> Finding:
    found = isolation()
    levels = {
        Kind.BUBBLEWRAP: FindingLevel.GOOD,
        Kind.LANDLOCK: FindingLevel.WARNING,
        Kind.NONE: FindingLevel.BAD,
    }
    advice = "" if found.kind is Kind.BUBBLEWRAP else "see docs/design/sandbox.md"
    return Finding("sandbox", levels[found.kind], found.detail, advice)


def gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
