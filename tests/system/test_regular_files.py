"""A foreign or damaged run folder can neither block a command nor make it write outside the folder."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.dashboard.recorded import evaluate, good, log_step, play_step, task
from turnwise.config import Recipe
from turnwise.records.ending import read_ending
from turnwise.records.folder import RunFolder
from turnwise.records.versions import read_versions
from turnwise.rollout.measure.report import read_report
from turnwise.rollout.store import read_valid_episodes
from turnwise.run.demonstrations.successes import successes_of
from turnwise.setup.trained import load_trained
from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.regular_files import (
    MAX_LINE_BYTES,
    Damaged,
    lines_from,
    names_in,
    open_new,
    read_table,
)
from turnwise.training.update import checkpoint


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "FIFO": (os.mkfifo, "is a FIFO, not a file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link, not a file"),
    "loop": (lambda path: path.symlink_to(path.name), "is a symbolic link, not a file"),
    "folder": (lambda path: path.mkdir(), "is a folder, not a file"),
    "8 GB": (sparse, "bytes"),
    "a list": (lambda path: path.write_text("[]\n"), "is not a JSON object but of type list"),
    "deep": (lambda path: path.write_text("[" * 100_000), "is JSON that is nested too deeply"),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff"), "is not UTF-8 text: invalid start byte at byte 0"),
}


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with RunFolder.create(tmp_path_factory.mktemp("runs"), "run", Recipe(), is_dated=False) as folder:
        log_step(folder, 0)
        play_step(folder, 0, [good(task("ace"))])
        evaluate(folder, "before", [good(task("ace"))])
        tensors = {"policy/weight": torch.ones(2)}
        checkpoint.save(folder.checkpoints, 1, tensors, {"standing": {"best_step": None}})
        folder.tokenizer.write_text("{}")
        return folder.path


READERS: dict[str, list[Callable[[Path], object]]] = {
    "recipe.json": [lambda run: RunFolder.read(run).recipe, load_trained],
    "ended.json": [lambda run: read_ending(run / "ended.json")],
    "versions.json": [lambda run: read_versions(run / "versions.json")],
    "evaluations/before.json": [lambda run: read_report(run / "evaluations" / "before.json")],
    "checkpoints/step-000001/manifest.json": [load_trained],
    "checkpoints/step-000001/facts.json": [load_trained],
    "checkpoints/step-000001/tensors.safetensors": [load_trained],
    "checkpoints": [load_trained],
    "tokenizer.json": [lambda run: successes_of(run, "{}")],
    "trajectories": [lambda run: successes_of(run, "{}")],
}
WITH_REASON = {"recipe.json", "ended.json", "versions.json", "evaluations/before.json"}


def take_away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("file", READERS)
def test_a_damaged_file_is_a_value_error_that_names_it(run: Path, file: str) -> None:
    for make, reason in DAMAGES.values():
        take_away(run / file)
        make(run / file)
        for read in READERS[file]:
            with pytest.raises(ValueError, match=re.escape(str(run))) as error:
                read(run)
            assert file not in WITH_REASON or reason in str(error.value)


@pytest.mark.parametrize("damage", ["FIFO", "device", "loop", "folder", "8 GB"])
def test_episodes_that_cannot_be_read_are_reported_and_skipped(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "step-000000.jsonl"
    DAMAGES[damage][0](path)
    reports: list[str] = []
    assert list(read_valid_episodes(path, reports.append)) == []
    [report] = reports
    assert report.startswith("step-000000.jsonl: ")


def test_lines_before_an_overlong_line_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.write(b"one\ntwo\n")
        file.truncate(MAX_LINE_BYTES + 2**21)
    lines = lines_from(path)
    assert [next(lines).content, next(lines).content] == [b"one", b"two"]
    with pytest.raises(Damaged, match="at byte 8"):
        next(lines)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file outside the run."""
    (tmp_path / "outside").mkdir()
    path = tmp_path / "outside" / "precious.txt"
    path.write_text("mine")
    return path


@pytest.mark.parametrize(
    "name",
    ["lock", "metrics.jsonl", "training.log", "ended.json", "trajectories", "wandb", "recipe.json.part"],
)
def test_resuming_never_writes_through_a_link(run: Path, precious: Path, name: str) -> None:
    take_away(run / name)
    (run / name).symlink_to(precious.parent if name in ("trajectories", "wandb") else precious)
    with pytest.raises(ValueError, match=f"{name}: is a symbolic link"):
        RunFolder.open(run)
    assert [file.read_text() for file in precious.parent.iterdir()] == ["mine"]


def test_cutting_a_run_removes_nothing_outside_it(run: Path, precious: Path) -> None:
    with RunFolder.open(run) as folder:
        take_away(run / "trajectories")
        (run / "trajectories").symlink_to(precious.parent)
        with pytest.raises(Damaged, match="trajectories: is a symbolic link, not a folder"):
            folder.cut(0)
    assert precious.exists()


def test_an_atomic_write_does_not_follow_a_link_at_its_temporary_name(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "new.json.part").symlink_to(precious)
    write_atomically(tmp_path / "new.json", b"{}")
    assert precious.read_text() == "mine"
    assert (tmp_path / "new.json").read_text() == "{}"
    with open_new(tmp_path / "shared", is_private=False):
        pass
    assert (tmp_path / "shared").stat().st_mode & 0o444 == 0o444


def test_a_missing_file_is_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        names_in(tmp_path / "none")
