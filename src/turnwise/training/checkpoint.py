"""Takes tensors and facts, gives a checkpoint on disk: whole or not there, checked when it is read.

    checkpoints/
      step-000020/            tensors.safetensors  facts.json  manifest.json (the others' digests)
      step-000030/
      .step-000040.part       being written, or left by a crash: never read, swept away by the next save

A checkpoint gets its name by one rename, after all of it is on the disk; it leaves by losing that name first.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

logger = logging.getLogger(__name__)

FORMAT = 1
_NAME = re.compile(r"step-(\d{6,})(?:-(\d+))?")
"""A step that is saved once more gets a number after it: the first is not touched until the second stands."""
_TENSORS, _FACTS, _MANIFEST = "tensors.safetensors", "facts.json", "manifest.json"


class Unreadable(Exception):
    """A checkpoint that is not as it was written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was saved, as it was saved."""

    path: Path
    step: int
    tensors: dict[str, torch.Tensor]
    facts: dict[str, Any]


def save(folder: Path, step: int, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> Path:
    """Write a checkpoint; once this returns it survives a crash, and until then the ones before do.

    One process at a time may save to a folder. Checkpoints of later steps go: they are of a past that was
    gone back on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    part = folder / f".step-{step:06d}.part"
    part.mkdir()
    save_file(_storable(tensors), part / _TENSORS)
    (part / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    files = {name: _entry(part / name) for name in (_TENSORS, _FACTS)}
    manifest = {"format": FORMAT, "step": step, "files": files}
    (part / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    for name in (_TENSORS, _FACTS, _MANIFEST):
        _sync(part / name)
    _sync(part)
    path = _free_name(folder, step)
    part.rename(path)
    _sync(folder)
    for other in _paths(folder):
        if other != path and _order(other)[0] >= step:
            _remove(other)
    return path


def load(path: Path) -> Checkpoint:
    """A checkpoint whose every file is as its manifest says; Unreadable says what is not."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text("utf-8"))
        if manifest["format"] != FORMAT:
            raise Unreadable(f"{path}: written in format {manifest['format']}, this reads {FORMAT}")
        for name in (_TENSORS, _FACTS):
            if manifest["files"][name] != _entry(path / name):
                raise Unreadable(f"{path / name}: not what was written: its digest differs")
        tensors = load_file(path / _TENSORS)
        facts = json.loads((path / _FACTS).read_text("utf-8"))
        return Checkpoint(path, manifest["step"], tensors, facts)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise Unreadable(f"{path}: {type(error).__name__}: {error}") from None


def latest(folder: Path) -> Checkpoint | None:
    """The last readable checkpoint, with a warning for each that is not; None if none was ever saved.

    Unreadable if there are some and all are damaged: starting from nothing would be no resume.
    """
    found = next(readable(folder), None)
    if found is None and _paths(folder):
        raise Unreadable(f"{folder}: none of its {len(_paths(folder))} checkpoints can be read")
    return found


def readable(folder: Path) -> Iterator[Checkpoint]:
    """Those that can be read, the last one first, with a warning for each that cannot."""
    for path in reversed(_paths(folder)):
        try:
            yield load(path)
        except Unreadable as error:
            logger.warning("%s; going back to the checkpoint before it", error)


def at_step(folder: Path, step: int) -> Path | None:
    """Where the checkpoint of that step is."""
    return next((path for path in reversed(_paths(folder)) if _order(path)[0] == step), None)


def prune(folder: Path, keep: int, best: int | None) -> None:
    """Remove all but the last `keep` and that of step `best`."""
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    for path in _paths(folder)[:-keep]:
        if _order(path)[0] != best:
            _remove(path)


def _paths(folder: Path) -> list[Path]:
    """Every checkpoint, oldest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_order)


def _order(path: Path) -> tuple[int, int]:
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1]), int(found[2] or 0)


def _free_name(folder: Path, step: int) -> Path:
    before = at_step(folder, step)
    if before is None:
        return folder / f"step-{step:06d}"
    return folder / f"step-{step:06d}-{_order(before)[1] + 1}"


def _storable(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """On the CPU, dense, and none in another's memory: the format knows of no views."""
    taken: set[int] = set()
    stored = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().cpu().contiguous()
        address = whole.untyped_storage().data_ptr()
        if address in taken or whole.untyped_storage().nbytes() != whole.nbytes:
            whole = whole.clone()
        taken.add(whole.untyped_storage().data_ptr())
        stored[name] = whole
    return stored


def _entry(file: Path) -> dict[str, Any]:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"sha256": digest, "num_bytes": file.stat().st_size}


def _sync(path: Path) -> None:
    """Onto the disk: the content of a file, the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """First the name, so that no crash leaves half a checkpoint under it."""
    gone = path.with_name(f".{path.name}-gone.part")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone)


def _sweep(folder: Path) -> None:
    for part in folder.glob(".step-*.part"):
        shutil.rmtree(part)
