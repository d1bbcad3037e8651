"""Checkpoints of several processes: complete when read; after a kill the previous one remains."""

import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch

from tests.system.ranks.launched import by_two
from tests.system.ranks.saving import whole
from turnwise.training.update import checkpoint


def saved(folder: Path, *more: str, python: str = "") -> int:
    return by_two("tests.system.ranks.saving", str(folder), *more, python=python).returncode


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    assert saved(folder) == 0
    return folder


def test_one_process_reads_the_parts_of_two_as_whole_tensors(checkpoints: Path) -> None:
    found = checkpoint.latest(checkpoints)
    assert found is not None
    assert found.step == 2
    assert set(found.tensors) == {"policy/spread", "policy/same"}
    assert torch.equal(found.tensors["policy/spread"], whole(2))
    assert found.tensors["policy/same"].tolist() == [2.0]
    with pytest.raises(KeyError):
        found.tensors["policy/other"]


def test_a_rank_killed_while_it_writes_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    # not a fork: the launcher would notice its end later than the other rank, which fails because of it
    assert saved(tmp_path, "KILLED", python=sys.executable) == 128 + signal.SIGKILL
    found = checkpoint.latest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert torch.equal(found.tensors["policy/spread"], whole(1))
    checkpoint.save(tmp_path, 2, {"policy/spread": whole(2)}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000001", "step-000002"]


@pytest.mark.parametrize("part", ["parts-00000.safetensors", "parts-00001.safetensors"])
@pytest.mark.parametrize("damage", ["a flipped bit", "missing"])
def test_a_damaged_or_missing_part_makes_the_checkpoint_unreadable(
    part: str, damage: str, checkpoints: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoints, tmp_path / "copy")
    file = folder / "step-000002" / part
    content = file.read_bytes()
    file.unlink()
    if damage == "a flipped bit":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(checkpoint.Unreadable, match=part):
        checkpoint.load(folder / "step-000002")
    found = checkpoint.latest(folder)
    assert found is not None
    assert found.step == 1
