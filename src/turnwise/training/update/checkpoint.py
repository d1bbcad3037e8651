"""Checkpoints on disk: complete or absent, verified when read.

    checkpoints/
      step-000020/            tensors.safetensors  facts.json  manifest.json (the others' digests)
      step-000030/            beside these, of several ranks: parts-00000.safetensors  parts-00001.safetensors
      .step-000040.part       being written, or left by a crash: never read, swept away by the next save

A checkpoint gets its name by one rename, after all of it is on the disk; it leaves by losing that name first.
Where weights are spread over ranks each writes its parts, with their places in the whole; whoever reads them
gets whole tensors, however many ranks there are now.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from turnwise.distributed import ALONE, RankFailed, Ranks, first_rank_value, is_first
from turnwise.runtime.regular_files import MAX_FILE_BYTES, Damaged, names_in, open_to_read, read_table
from turnwise.training.sharding.shards import Shard

logger = logging.getLogger(__name__)

FORMAT = 1
_NAME = re.compile(r"step-(\d{6,})(?:-(\d+))?")
"""A step that is saved once more gets a number after it: the first is not touched until the second stands."""
_TENSORS, _FACTS, _MANIFEST = "tensors.safetensors", "facts.json", "manifest.json"
_PARTS = "parts-{:05d}.safetensors"
_PART_NAME = re.compile(r"parts-\d{5,}\.safetensors")


class Unreadable(Exception):
    """A checkpoint that is not as it was written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was saved, as it was saved."""

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
    """Write a checkpoint; once this returns it survives a crash, and until then the ones before do.

    One run at a time may save to a folder; of several ranks all save, each its parts, and the first what is
    whole. Checkpoints of later steps go: they are of a past that was gone back on.
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
    """No rank goes on before all are done; where one could not, none does."""
    failure: OSError | None = None
    try:
        yield
    except OSError as error:  # a disk that is full or gone
        failure = error
    told = ranks.exchange(str(failure) if failure is not None else "")
    if failure is not None:
        raise failure
    for number, message in enumerate(told):
        if message:
            raise RankFailed(f"process {number} could not save: {message}")


def _write(
    part: Path, tensors: Mapping[str, Tensor | Shard], facts: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """This rank's files, onto the disk; gives what the manifest says of them."""
    names = []
    shards = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Shard)}
    if shards:
        places = {name: json.dumps([shard.start, shard.shape]) for name, shard in shards.items()}
        parts = {name: shard.tensor.reshape(-1) for name, shard in shards.items()}
        names.append(_PARTS.format(number))
        save_file(_storable(parts), part / names[-1], metadata=places)
    if not number:
        whole = {name: tensor for name, tensor in tensors.items() if not isinstance(tensor, Shard)}
        save_file(_storable(whole), part / _TENSORS)
        (part / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        names += [_TENSORS, _FACTS]
    for name in names:
        _sync(part / name)
    return {name: _entry(part / name) for name in names}


def _merged(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    return (item for file in files for item in file.items())


def load(path: Path, *, is_checked: bool = True) -> Checkpoint:
    """A checkpoint whose every file is as its manifest says; Unreadable says what is not.

    is_checked: false where another rank has found that it is.
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
    """Whole tensors of the parts that ranks wrote, each put together when it is asked for."""

    def __init__(self, whole: Mapping[str, Tensor], files: Sequence[Path]) -> None:
        self._whole = whole
        self._files: list[Any] = [safe_open(file, "pt") for file in files]
        self._places: list[dict[str, Any]] = [
            {name: json.loads(place) for name, place in file.metadata().items()} for file in self._files
        ]
        names = {name for places in self._places for name in places}
        for name in names:
            self._check(name)
        self._names = sorted(names)

    def _check(self, name: str) -> None:
        """Every number of the whole is there once; ValueError if not."""
        end = 0
        for file, places in zip(self._files, self._places, strict=True):
            start, shape = places[name]
            if start != end and start < prod(shape):
                raise ValueError(f"{name}: its parts do not make a whole")
            end += file.get_slice(name).get_shape()[0]
        if end != prod(shape):
            raise ValueError(f"{name}: {end} of {prod(shape)} numbers are there")

    def __getitem__(self, name: str) -> Tensor:
        if name in self._whole:
            return self._whole[name]
        if name not in self._places[0]:
            raise KeyError(name)
        parts = [file.get_tensor(name) for file in self._files]
        return torch.cat(parts).view(self._places[0][name][1])

    def __iter__(self) -> Iterator[str]:
        return iter([*self._whole, *self._names])

    def __len__(self) -> int:
        return len(self._whole) + len(self._names)


class Chosen(Mapping[str, Tensor]):
    """Tensors whose names begin so, each read only when it is asked for. is_short: by what follows that."""

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
    """The last readable checkpoint, with a warning for each that is not; None if none was ever saved.

    Unreadable if there are some and all are damaged: starting from nothing would be no resume.
    """
    found = next(readable(folder), None)
    if found is None and _paths(folder):
        raise Unreadable(f"{folder}: none of its {len(_paths(folder))} checkpoints can be read")
    return found


def latest_of_all(folder: Path, ranks: Ranks) -> Checkpoint | None:
    """The first rank's `latest`, read by all of them."""
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


def _is_as_written(file: Path, entry: Mapping[str, Any]) -> bool:
    with open_to_read(file) as content:  # its size first: a digest of gigabytes takes long
        if os.fstat(content.fileno()).st_size != entry["num_bytes"]:
            return False
    return entry == _entry(file)


def _entry(file: Path) -> dict[str, Any]:
    with open_to_read(file) as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return {"sha256": digest, "num_bytes": os.fstat(content.fileno()).st_size}


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
