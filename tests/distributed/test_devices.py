"""Of several GPUs each process takes its own, before anything else looks for one."""

import os

import pytest
import torch

from turnwise.distributed.group import take_device

LAUNCHED = {"RANK": "5", "WORLD_SIZE": "6", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As the second process on this machine; there are no GPUs to try it on, so torch is made to find two."""
    for name, value in {**LAUNCHED, "LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "4,7"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TURNWISE_DEVICE_TAKEN", "")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


def seen() -> tuple[str, str]:
    return os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("LOCAL_RANK", "")


def test_its_own_is_the_only_one_that_it_sees_and_is_taken_once(launched: pytest.MonkeyPatch) -> None:
    take_device()
    assert seen() == ("7", "0")
    take_device()
    assert seen() == ("7", "0")


def test_without_a_list_it_goes_by_number(launched: pytest.MonkeyPatch) -> None:
    launched.delenv("CUDA_VISIBLE_DEVICES")
    take_device()
    assert seen() == ("1", "0")


def test_one_too_many_is_refused(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match="process 2 has no GPU: 2 are there"):
        take_device()


@pytest.mark.parametrize("missing", LAUNCHED)
def test_what_no_launcher_started_keeps_all(missing: str, launched: pytest.MonkeyPatch) -> None:
    launched.delenv(missing)
    take_device()
    assert seen() == ("4,7", "1")


def test_a_machine_without_any_is_left_as_it_is(launched: pytest.MonkeyPatch) -> None:
    launched.setattr(torch.cuda, "device_count", lambda: 0)
    take_device()
    assert seen() == ("4,7", "1")
