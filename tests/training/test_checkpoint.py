"""A checkpoint is complete or absent, whenever its writer dies; a damaged one is never loaded."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.saving import facts_of, tensors_of
from turnwise.training.update import checkpoint
from turnwise.training.update.checkpoint import Unreadable, latest, load, prune, save

SAVING = Path(__file__).with_name("saving.py")
DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bits)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, *steps: int) -> Path:
    for step in steps:
        path = save(folder, step, tensors_of(step), facts_of(step))
    return path


def latest_step(folder: Path) -> int:
    """The step of the latest checkpoint, whose content is checked."""
    found = latest(folder)
    assert found is not None
    assert found.facts == facts_of(found.step)
    expected = tensors_of(found.step)
    assert found.tensors.keys() == expected.keys()
    assert all(same_bits(found.tensors[name], tensor) for name, tensor in expected.items())
    return found.step


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_are_restored_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    noise = torch.randint(0, 2 if dtype is torch.bool else 256, (6, 4 * dtype.itemsize), dtype=torch.uint8)
    tensor = noise.view(dtype)  # with NaNs of every kind
    tensors = {
        "whole": tensor,
        "transposed": tensor.t(),
        "part": tensor[1:3],
        "scalar": tensor[0, 0],
        "empty": tensor[:0],
    }
    found = load(save(tmp_path, 7, tensors, {}))
    assert found.tensors.keys() == tensors.keys()
    assert all(same_bits(found.tensors[name], tensor) for name, tensor in tensors.items())


def test_tied_parameters_and_facts_are_restored_exactly(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(3, 3))
    facts = {"third": 1 / 3, "tiny": 5e-324, "large": 2**63, "nested": {"list": [True, None, "ü\n"]}}
    found = load(save(tmp_path, 1, {"a": parameter, "b": parameter, "view": parameter[0]}, facts))
    assert torch.equal(found.tensors["a"], parameter)
    assert torch.equal(found.tensors["b"], parameter)
    assert torch.equal(found.tensors["view"], parameter[0])
    assert not found.tensors["a"].requires_grad
    assert found.facts == facts


def test_the_latest_checkpoint_has_the_highest_step(tmp_path: Path) -> None:
    assert latest(tmp_path / "nothing") is None
    assert latest(tmp_path) is None
    saved(tmp_path, 9, 10, 1_000_000)
    assert latest_step(tmp_path) == 1_000_000


@pytest.mark.parametrize("file", ["tensors.safetensors", "facts.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["a flipped bit", "truncated", "empty", "missing", "longer"])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(
    tmp_path: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved(tmp_path, 1, 2) / file
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    harm = {"a flipped bit": flipped, "truncated": content[:middle], "empty": b"", "longer": content + b"}"}
    path.unlink() if damage == "missing" else path.write_bytes(harm[damage])
    with pytest.raises(Unreadable):
        load(path.parent)
    with caplog.at_level(logging.WARNING):
        assert latest_step(tmp_path) == 1
    assert "step-000002" in caplog.text


def test_a_folder_with_only_damaged_checkpoints_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    (saved(tmp_path, 1) / "facts.json").write_text("{}")
    with pytest.raises(Unreadable, match="none of its 1 checkpoints can be read"):
        latest(tmp_path)


def test_another_format_is_rejected_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path, 1) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(Unreadable, match="format 99"):
        load(path.parent)


def test_the_last_checkpoints_and_the_best_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, 10, 20, 30, 40, 50)
    prune(tmp_path, 2, 20)
    assert names_in(tmp_path) == ["step-000020", "step-000040", "step-000050"]
    prune(tmp_path, 2, None)
    assert names_in(tmp_path) == ["step-000040", "step-000050"]
    with pytest.raises(ValueError, match="keep"):
        prune(tmp_path, 0, None)


def test_saving_removes_later_steps_and_unfinished_folders(tmp_path: Path) -> None:
    """After step 30 was found damaged, the run resumes from 20: 30 must not count as one of the last."""
    (saved(tmp_path, 20, 30) / "facts.json").unlink()
    (tmp_path / ".step-000040.part").mkdir()
    saved(tmp_path, 25)
    assert names_in(tmp_path) == ["step-000020", "step-000025"]
    prune(tmp_path, 1, None)
    assert latest_step(tmp_path) == 25


def test_a_step_saved_again_replaces_the_first_only_when_it_is_complete(tmp_path: Path) -> None:
    first, second = saved(tmp_path, 5), saved(tmp_path, 5)
    assert first != second
    assert names_in(tmp_path) == [second.name]
    assert checkpoint.at_step(tmp_path, 5) == second
    assert latest_step(tmp_path) == 5


def test_everything_is_synced_before_the_folder_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def logged_sync(handle: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        sync(handle)

    def logged_rename(self: Path, target: Any) -> Path:
        events.append(f"rename {self.name} {Path(target).name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", logged_sync)
    monkeypatch.setattr(Path, "rename", logged_rename)
    saved(tmp_path, 3)
    at = events.index("rename .step-000003.part step-000003")
    files = {"tensors.safetensors", "facts.json", "manifest.json", ".step-000003.part"}
    assert {f"sync {name}" for name in files} == set(events[:at])
    assert f"sync {tmp_path.name}" in events[at:]


def test_a_writer_killed_at_any_line_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    """Child processes continue in the same folder, every one killed one line later than the previous."""
    command = [sys.executable, SAVING, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 100
    outcomes = {int(found) - int(safe) for _, safe, found, _ in rows}
    assert outcomes == {0, 1}, "the previous checkpoint or the new one; both occur"
    *killed, last = rows
    assert any(".part" in left for *_, left in killed), "some kills interrupt the writing"
    assert last[3] == f"step-{int(last[2]):06d}", "leftovers are removed"
