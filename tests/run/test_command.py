"""`turnwise train`: how the threads of an update and of the episodes share the interpreter."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.run.stage import recipe
from turnwise.run import command
from turnwise.setup.request import RunRequest


@pytest.fixture
def _same_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_same_interval")
@pytest.mark.parametrize(
    ("mode", "has_gpu", "seconds"), [("sync", True, 5e-3), ("async", False, 1e-3), ("async", True, 1e-5)]
)
async def test_an_update_and_concurrent_episodes_switch_threads_quickly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, has_gpu: bool, seconds: float
) -> None:
    monkeypatch.setattr(command, "open_run", None)  # as far as the run gets
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**34, 2**34))
    monkeypatch.delenv("DEVICE_TYPE", raising=False)
    sys.setswitchinterval(5e-3)
    settings = recipe(tmp_path, run={"mode": mode}, rollout={"lockstep": False})
    with pytest.raises(TypeError):
        await command.train_run(RunRequest(settings), settings)
    assert sys.getswitchinterval() == pytest.approx(seconds)
