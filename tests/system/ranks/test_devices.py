"""Every process takes its own GPU before anything else uses one."""

import os

import pytest
import torch

from turnwise.system.ranks.group import take_device

LAUNCHED = {"RANK": "5", "WORLD_SIZE": "6", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the second process; torch is patched to find two GPUs."""
    for name, value in {**LAUNCHED, "LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "4,7"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TURNWISE_DEVICE_TAKEN", "")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


def seen() -> tuple[str, str]:
    return os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("LOCAL_RANK", "")


def test_a_process_sees_only_its_own_gpu_and_takes_it_once(launched: pytest.MonkeyPatch) -> None:
    take_device()
    take_device()
    assert seen() == ("7", "0")


def test_without_visible_devices_the_rank_is_the_gpu(launched: pytest.MonkeyPatch) -> None:
    launched.delenv("CUDA_VISIBLE_DEVICES")
    take_device()
    assert seen() == ("1", "0")


def test_more_processes_than_gpus_are_rejected(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match="process 2 has no GPU: this machine has 2"):
        take_device()


@pytest.mark.parametrize("missing", [*LAUNCHED, "GPUs"])
def test_without_a_launcher_or_gpus_nothing_changes(missing: str, launched: pytest.MonkeyPatch) -> None:
    if missing == "GPUs":
        launched.setattr(torch.cuda, "device_count", lambda: 0)
    else:
        launched.delenv(missing)
    take_device()
    assert seen() == ("4,7", "1")
