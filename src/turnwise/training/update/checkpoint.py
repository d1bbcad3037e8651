"""Checkpoints on disk: complete or absent, verified when read.

    checkpoints/
      step-000020/            tensors.safetensors  facts.json  manifest.json (the others' digests)
      step-000030/            if sharded, also parts-00000.safetensors  parts-00001.safetensors
      .step-000040.part       being written, or left by a crash: never read, removed by the next save

A checkpoint gets its name by one rename, after all of it is on disk; it is renamed away before it is deleted.
If weights are sharded, each rank writes its parts and their places in the full tensors. Readers get full
tensors, whatever their number of ranks.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from turnwise.system.files.regular_files import MAX_FILE_BYTES, Damaged, names_in, open_to_read, read_table
from turnwise.system.files.tree_removal import remove_tree
from turnwise.system.ranks import ALONE, RankFailed, Ranks, first_rank_value, is_first
from turnwise.training.sharding.shards import Shard

logger = logging.getLogger(__name__)

FORMAT = 1
_NAME = re.compile(r"step-(\d{6,})(?:-(\d+))?")
_PART = re.compile(rf"\.{_NAME.pattern}(?:-gone)?\.part")
"""A step that is saved again gets a number after it: the old one stays until the new one is complete."""
_TENSORS, _FACTS, _MANIFEST = "tensors.safetensors", "facts.json", "manifest.json"
_PARTS = "parts-{:05d}.safetensors"
_PART_NAME = re.compile(r"parts-\d{5,}\.safetensors")


class Unreadable(Exception):
    """A checkpoint that is damaged, or in another format."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as read from disk."""

    path: Path
    step: int
    tensors: Mapping[str, Tensor]
    facts: dict[str, Any]


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor | Shard],
    facts: Mapping[str, Any],
    ranks: Ranks = ALONE,
) -> Path:
    """Write a checkpoint. It survives a crash once this returns; until then the previous ones are kept.

    Only one run at a time may save to a folder. All its ranks must call this: each writes its parts, and the
    first also writes what is not sharded. Other checkpoints of this step or later ones are then removed: the
    run went back to an earlier step.
    """
    part = folder / f".step-{step:06d}.part"
    with _together(ranks):
        if is_first(ranks):
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            part.mkdir()
    files: dict[str, Any] = {}
    with _together(ranks):
        files = _write(part, tensors, facts, ranks.number)
    gathered = ranks.exchange(files)
    path = first_rank_value(ranks, _free_name(folder, step))
    with _together(ranks):
        if is_first(ranks):
            manifest = {"format": FORMAT, "step": step, "files": dict(_merged(gathered))}
            (part / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
            _sync(part / _MANIFEST)
            _sync(part)
            part.rename(path)
            _sync(folder)
            for other in _paths(folder):
                if other != path and _order(other)[0] >= step:
                    _remove(other)
    return path


@contextlib.contextmanager
def _together(ranks: Ranks) -> Iterator[None]:
    """Wait until the block is done on all ranks; if it fails on one, raise on all."""
    failure: OSError | None = None
    try:
        yield
    except OSError as error:  # a disk that is full or gone
        failure = error
    messages = ranks.exchange(str(failure) if failure is not None else "")
    if failure is not None:
        raise failure
    for number, message in enumerate(messages):
        if message:
            raise RankFailed(f"process {number} could not save: {message}")


def _write(
    part: Path, tensors: Mapping[str, Tensor | Shard], facts: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """Write this rank's files to disk; return their manifest entries."""
    names = []
    shards = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Shard)}
    if shards:
        places = {name: json.dumps([shard.start, shard.shape]) for name, shard in shards.items()}
        parts = {name: shard.tensor.reshape(-1) for name, shard in shards.items()}
        names.append(_PARTS.format(number))
        _save(parts, part / names[-1], places)
    if not number:
        whole = {name: tensor for name, tensor in tensors.items() if not isinstance(tensor, Shard)}
        _save(whole, part / _TENSORS)
        (part / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        names += [_TENSORS, _FACTS]
    for name in names:
        _sync(part / name)
    return {name: _entry(part / name) for name in names}


def _save(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    try:
        save_file(_storable(tensors), path, metadata=metadata)
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{path}: {error}") from error


def _merged(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    return (item for file in files for item in file.items())


def load(path: Path, *, is_checked: bool = True) -> Checkpoint:
    """Read a checkpoint and compare every file with its manifest; raise Unreadable if one differs.

    is_checked: False to skip the comparison, which another rank has made.
    """
    try:
        manifest = read_table(path / _MANIFEST)
        if manifest["format"] != FORMAT:
            raise Unreadable(f"{path}: written in format {manifest['format']}, this reads {FORMAT}")
        parts = sorted(manifest["files"].keys() - {_TENSORS, _FACTS})
        if wrong := [name for name in parts if not _PART_NAME.fullmatch(name)]:
            raise Unreadable(f"{path}: no file of a checkpoint is called {wrong[0]!r}")
        for name in (_TENSORS, _FACTS, *parts):
            if is_checked and not _is_as_written(path / name, manifest["files"][name]):
                raise Unreadable(f"{path / name}: not what was written: its digest differs")
        whole = load_file(path / _TENSORS)
        tensors = _Joined(whole, [path / name for name in parts]) if parts else whole
        return Checkpoint(path, int(manifest["step"]), tensors, read_table(path / _FACTS, MAX_FILE_BYTES))
    except Damaged as error:
        raise Unreadable(str(error)) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise Unreadable(f"{path}: {type(error).__name__}: {error}") from None


class _Joined(Mapping[str, Tensor]):
    """Full tensors from the parts that ranks wrote; a tensor is read and joined on access."""

    def __init__(self, whole: Mapping[str, Tensor], files: Sequence[Path]) -> None:
        self._unsharded = whole
        self._files: list[Any] = [safe_open(file, "pt") for file in files]
        self._places: list[dict[str, Any]] = [
            {name: json.loads(place) for name, place in file.metadata().items()} for file in self._files
        ]
        names = {name for places in self._places for name in places}
        for name in names:
            self._check(name)
        self._names = sorted(names)

    def _check(self, name: str) -> None:
        """Raise ValueError unless the parts cover every element of the tensor once."""
        end = 0
        for file, places in zip(self._files, self._places, strict=True):
            start, shape = places[name]
            if start != end and start < prod(shape):
                raise ValueError(f"{name}: its parts do not make a whole")
            end += file.get_slice(name).get_shape()[0]
        if end != prod(shape):
            raise ValueError(f"{name}: {end} of {prod(shape)} numbers are there")

    def __getitem__(self, name: str) -> Tensor:
        if name in self._unsharded:
            return self._unsharded[name]
        if name not in self._places[0]:
            raise KeyError(name)
        parts = [file.get_tensor(name) for file in self._files]
        return torch.cat(parts).view(self._places[0][name][1])

    def __iter__(self) -> Iterator[str]:
        return iter([*self._unsharded, *self._names])

    def __len__(self) -> int:
        return len(self._unsharded) + len(self._names)


class Chosen(Mapping[str, Tensor]):
    """Tensors whose names begin with a prefix, read on access. is_short: names lack the prefix."""

    def __init__(self, tensors: Mapping[str, Tensor], *prefixes: str, is_short: bool = False) -> None:
        self._tensors = tensors
        self._names = {
            name.removeprefix(prefix) if is_short else name: name
            for prefix in prefixes
            for name in tensors
            if name.startswith(prefix)
        }

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def latest(folder: Path) -> Checkpoint | None:
    """Return the last readable checkpoint, with a warning for each later one; None if none was ever saved.

    Raises Unreadable if there are checkpoints and all are damaged: starting over would not be a resume.
    """
    found = next(readable(folder), None)
    if found is None and _paths(folder):
        raise Unreadable(f"{folder}: none of its {len(_paths(folder))} checkpoints can be read")
    return found


def latest_of_all(folder: Path, ranks: Ranks) -> Checkpoint | None:
    """Return the first rank's `latest`, read by every rank."""
    found, message = None, ""
    if is_first(ranks):
        try:
            found = latest(folder)
        except Unreadable as error:
            message = str(error)
    path, message = first_rank_value(ranks, (None if found is None else found.path, message))
    if message:
        raise Unreadable(message)
    return found if is_first(ranks) or path is None else load(path, is_checked=False)


def readable(folder: Path) -> Iterator[Checkpoint]:
    """Yield the readable checkpoints, last one first, with a warning for each that is not."""
    for path in reversed(_paths(folder)):
        try:
            yield load(path)
        except Unreadable as error:
            logger.warning("%s; going back to the checkpoint before it", error)


def last_step(folder: Path) -> int | None:
    """Return the step of the last checkpoint, which may be damaged; None if none was ever saved."""
    paths = _paths(folder)
    return _order(paths[-1])[0] if paths else None


def at_step(folder: Path, step: int) -> Path | None:
    """Return the path of that step's checkpoint; None without one."""
    return next((path for path in reversed(_paths(folder)) if _order(path)[0] == step), None)


def not_after(folder: Path, step: int) -> Path | None:
    """Return the path of the last checkpoint of at most this many steps; None without one."""
    return next((path for path in reversed(_paths(folder)) if _order(path)[0] <= step), None)


def prune(folder: Path, keep: int, best: int | None) -> None:
    """Remove all checkpoints but the last `keep` and that of step `best`."""
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    for path in _paths(folder)[:-keep]:
        if _order(path)[0] != best:
            _remove(path)


def _paths(folder: Path) -> list[Path]:
    """Return the path of every checkpoint, oldest first."""
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    except Damaged as error:
        raise Unreadable(str(error)) from None
    return sorted((folder / name for name in names if _NAME.fullmatch(name)), key=_order)


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
    """Return the tensors on the CPU, dense and without shared memory: safetensors cannot store views."""
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


def _is_as_written(file: Path, entry: Mapping[str, Any]) -> bool:
    with open_to_read(file) as content:  # compare the size first: hashing gigabytes takes long
        if os.fstat(content.fileno()).st_size != entry["num_bytes"]:
            return False
    return entry == _entry(file)


def _entry(file: Path) -> dict[str, Any]:
    with open_to_read(file) as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return {"sha256": digest, "num_bytes": os.fstat(content.fileno()).st_size}


def _sync(path: Path) -> None:
    """Flush to disk: the content of a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Rename before deleting, so that no crash leaves half a checkpoint under its name."""
    gone = path.with_name(f".{path.name}-gone.part")
    _delete(gone)
    path.rename(gone)
    _delete(gone)


def _sweep(folder: Path) -> None:
    for name in names_in(folder):
        if _PART.fullmatch(name):
            _delete(folder / name)


def _delete(path: Path) -> None:
    if reason := remove_tree(path):
        raise OSError(f"{path} cannot be removed: {reason}")
