"""A checkpoint is whole or not there, at whatever instant its writer dies; a damaged one is never loaded."""

import json
import logging
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import warm
from tests.training.saving import LARGE, facts_of, tensors_of
from turnwise.training.update import checkpoint
from turnwise.training.update.checkpoint import Unreadable, latest, load, prune, save

SAVING = Path(__file__).with_name("saving.py")
DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    bits = [folder.contiguous().reshape(-1).view(torch.uint8) for folder in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bits)


def steps_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, *steps: int) -> Path:
    for step in steps:
        path = save(folder, step, tensors_of(step, 10), facts_of(step))
    return path


def check_whole(found: checkpoint.Checkpoint | None, size: int) -> int:
    assert found is not None
    assert found.facts == facts_of(found.step)
    expected = tensors_of(found.step, size)
    assert found.tensors.keys() == expected.keys()
    assert all(same_bits(found.tensors[name], tensor) for name, tensor in expected.items())
    return found.step


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_come_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    noise = torch.randint(0, 2 if dtype is torch.bool else 256, (6, 4 * dtype.itemsize), dtype=torch.uint8)
    tensor = noise.view(dtype)  # NaNs of every kind among them
    tensors = {
        "whole": tensor,
        "turned": tensor.t(),
        "part": tensor[1:3],
        "scalar": tensor[0, 0],
        "none": tensor[:0],
    }
    found = load(save(tmp_path, 7, tensors, {}))
    assert found.tensors.keys() == tensors.keys()
    assert all(same_bits(found.tensors[name], tensor) for name, tensor in tensors.items())


def test_tied_tensors_and_parameters_may_be_saved(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(3, 3))
    found = load(save(tmp_path, 1, {"a": parameter, "b": parameter, "view": parameter[0]}, {}))
    assert torch.equal(found.tensors["a"], parameter)
    assert torch.equal(found.tensors["b"], parameter)
    assert torch.equal(found.tensors["view"], parameter[0])
    assert not found.tensors["a"].requires_grad


def test_a_random_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    source = torch.Generator().manual_seed(3)
    torch.rand(5, generator=source)
    save(tmp_path, 1, {"random": source.get_state()}, {})
    expected = torch.rand(5, generator=source)
    found = latest(tmp_path)
    assert found is not None
    source.set_state(found.tensors["random"])
    assert torch.equal(torch.rand(5, generator=source), expected)


def test_facts_come_back_exactly(tmp_path: Path) -> None:
    facts = {"third": 1 / 3, "tiny": 5e-324, "large": 2**63, "nested": {"list": [True, None, "ü\n"]}}
    assert load(save(tmp_path, 1, {}, facts)).facts == facts


def test_the_latest_is_the_one_of_the_highest_step(tmp_path: Path) -> None:
    assert latest(tmp_path / "nothing") is None
    assert latest(tmp_path) is None
    saved(tmp_path, 9, 10, 1_000_000)
    assert check_whole(latest(tmp_path), 10) == 1_000_000


@pytest.mark.parametrize("file", ["tensors.safetensors", "facts.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut short", "empty", "missing", "longer"])
def test_a_damaged_one_is_passed_over_with_a_warning(
    tmp_path: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved(tmp_path, 1, 2) / file
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    harm = {"a flipped bit": flipped, "cut short": content[:middle], "empty": b"", "longer": content + b"}"}
    path.unlink() if damage == "missing" else path.write_bytes(harm[damage])
    with pytest.raises(Unreadable):
        load(path.parent)
    with caplog.at_level(logging.WARNING):
        assert check_whole(latest(tmp_path), 10) == 1
    assert "step-000002" in caplog.text


def test_nothing_but_damaged_ones_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    (saved(tmp_path, 1) / "facts.json").write_text("{}")
    with pytest.raises(Unreadable, match="none of its 1 checkpoints can be read"):
        latest(tmp_path)


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path, 1) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(Unreadable, match="format 99"):
        load(path.parent)


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, 10, 20, 30, 40, 50)
    prune(tmp_path, 2, 20)
    assert steps_in(tmp_path) == ["step-000020", "step-000040", "step-000050"]
    prune(tmp_path, 2, None)
    assert steps_in(tmp_path) == ["step-000040", "step-000050"]
    with pytest.raises(ValueError, match="keep"):
        prune(tmp_path, 0, None)


def test_saving_removes_what_a_run_gone_back_on_had_left(tmp_path: Path) -> None:
    """After step 30 was found damaged, the run goes on from 20: 30 must not count among the last ones."""
    (saved(tmp_path, 20, 30) / "facts.json").unlink()
    (tmp_path / ".step-000040.part").mkdir()
    saved(tmp_path, 25)
    assert steps_in(tmp_path) == ["step-000020", "step-000025"]
    prune(tmp_path, 1, None)
    assert check_whole(latest(tmp_path), 10) == 25


def test_a_step_saved_again_never_leaves_it_without_one(tmp_path: Path) -> None:
    first, second = saved(tmp_path, 5), saved(tmp_path, 5)
    assert first != second
    assert steps_in(tmp_path) == [second.name]
    assert checkpoint.at_step(tmp_path, 5) == second
    assert check_whole(latest(tmp_path), 10) == 5


def test_everything_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def noted_sync(handle: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        sync(handle)

    def noted_rename(self: Path, target: Any) -> Path:
        events.append(f"rename {self.name} {Path(target).name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    saved(tmp_path, 3)
    at = events.index("rename .step-000003.part step-000003")
    files = {"tensors.safetensors", "facts.json", "manifest.json", ".step-000003.part"}
    assert {f"sync {name}" for name in files} == set(events[:at])
    assert f"sync {tmp_path.name}" in events[at:]


def test_killed_at_any_line_of_a_save_or_a_prune_a_whole_one_is_left(tmp_path: Path) -> None:
    """One process after the other goes on in the same folder, each killed one line later than the last."""
    asked = subprocess.run(
        [warm.heavy(), SAVING, "lines", tmp_path], capture_output=True, text=True, timeout=120, check=False
    )
    assert asked.returncode == 0, asked.stderr
    rows = [line.split() for line in asked.stdout.splitlines()]
    assert len(rows) > 100
    outcomes = {int(found) - int(safe) for _, safe, found, _ in rows}
    assert outcomes == {0, 1}, "the one before, or the new one; both happen"
    *killed, over = rows
    assert any(".part" in left for *_, left in killed), "no kill fell into the writing"
    assert over[3] == f"step-{int(over[2]):06d}", "what the dead had left was not swept away"


def test_killed_at_random_moments_a_whole_one_is_left(tmp_path: Path) -> None:
    luck = random.Random(0)
    step = 0
    for _ in range(4):
        command = [warm.heavy(), SAVING, "on", str(tmp_path), str(step)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(luck.uniform(0, 0.3))
        child.kill()
        said = child.communicate()[0].split()
        found = check_whole(latest(tmp_path), LARGE)
        assert found >= max([step, *map(int, said)])
        step = found + 1
