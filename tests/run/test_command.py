"""`turnwise train`: what it says when its infrastructure is down, and how its threads take turns."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.run.stage import recipe, write_recipe
from tests.run.test_signals import training
from turnwise.run import command
from turnwise.tracking.folder import RunFolder


def test_a_run_that_cannot_collect_says_why_and_how_to_go_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, evaluation={"before_and_after": False})
    recipe.write_text(recipe.read_text().replace("even_ids", "unreachable"))
    with training(str(recipe)) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(timeout=60) == 2, said
    assert "groups were lost to infrastructure; the last one: " in said
    assert "the provider does not answer" in said
    assert f"resume with: turnwise train --resume {tmp_path / 'runs' / 'run'}" in said
    assert "warning: the provider said \ufffd[31mno" in said, "shown while the folder's log is open, and tame"
    assert "\x1b" not in said
    assert "Traceback" not in said


class Opened(Exception):
    """As far as a run is to get."""


@pytest.fixture
def _same_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_same_turns")
@pytest.mark.parametrize(
    ("mode", "has_gpu", "seconds"), [("sync", True, 5e-3), ("async", False, 1e-3), ("async", True, 1e-5)]
)
async def test_an_update_and_episodes_beside_it_take_turns_quickly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, has_gpu: bool, seconds: float
) -> None:
    def opened(*arguments: Any) -> Any:
        raise Opened

    monkeypatch.setattr(command, "open_run", opened)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.delenv("DEVICE_TYPE", raising=False)
    sys.setswitchinterval(5e-3)
    settings = recipe(tmp_path, run={"mode": mode}, rollout={"lockstep": False})
    with RunFolder.create(settings.run.folder, "run", settings, is_dated=False) as folder:
        with pytest.raises(Opened):
            await command.train_in(folder)
    assert sys.getswitchinterval() == pytest.approx(seconds)
