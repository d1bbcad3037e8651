"""Commands that read or resume a run from elsewhere are not held up, and write nowhere but in its folder."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.dashboard.recorded import evaluate, good, log_step, play_step, task
from turnwise.assembly.success_samples import successes_of
from turnwise.assembly.trained_policy import load_trained
from turnwise.config import Recipe
from turnwise.evaluate.report import read_report
from turnwise.rollout.store import read_valid_episodes
from turnwise.runtime.atomic_write import write_atomically
from turnwise.runtime.regular_files import MAX_LINE_BYTES, Damaged, lines_from, names_in, open_new, read_table
from turnwise.tracking.ending import read_ending
from turnwise.tracking.folder import RunFolder
from turnwise.tracking.versions import read_versions
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


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("file", "reads"),
    [
        ("recipe.json", lambda run: RunFolder.read(run).recipe),
        ("recipe.json", load_trained),
        ("ended.json", lambda run: read_ending(run / "ended.json")),
        ("versions.json", lambda run: read_versions(run / "versions.json")),
        ("evaluations/before.json", lambda run: read_report(run / "evaluations" / "before.json")),
        ("checkpoints/step-000001/manifest.json", load_trained),
        ("checkpoints/step-000001/facts.json", load_trained),
        ("checkpoints/step-000001/tensors.safetensors", load_trained),
        ("checkpoints", load_trained),
        ("tokenizer.json", lambda run: successes_of(run, "{}")),
        ("trajectories", lambda run: successes_of(run, "{}")),
    ],
)
def test_a_damaged_file_is_a_value_error_that_names_it(
    run: Path, file: str, reads: Callable[[Path], object], damage: str
) -> None:
    make, reason = DAMAGES[damage]
    if (run / file).is_dir():
        (run / file).rename(run.parent / "away")
    else:
        (run / file).unlink(missing_ok=True)
    make(run / file)
    with pytest.raises(ValueError, match=re.escape(str(run))) as error:
        reads(run)
    if file.endswith(".json") and "checkpoints" not in file and file != "tokenizer.json":
        assert reason in str(error.value)


@pytest.mark.parametrize("damage", ["FIFO", "device", "loop", "folder", "8 GB"])
def test_episodes_that_cannot_be_read_are_counted_and_left_out(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "step-000000.jsonl"
    DAMAGES[damage][0](path)
    bad: list[str] = []
    assert list(read_valid_episodes(path, bad.append)) == []
    assert len(bad) == 1
    assert bad[0].startswith("step-000000.jsonl: ")


def test_lines_before_one_that_is_too_long_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.write(b"one\ntwo\n")
        file.truncate(MAX_LINE_BYTES + 2**21)
    lines = lines_from(path)
    assert [next(lines).content, next(lines).content] == [b"one", b"two"]
    with pytest.raises(Damaged, match="at byte 8"):
        next(lines)


@pytest.mark.parametrize(
    "name",
    ["lock", "metrics.jsonl", "training.log", "ended.json", "trajectories", "wandb", "recipe.json.part"],
)
def test_resuming_never_writes_through_a_link(run: Path, name: str) -> None:
    outside = run.parent / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("mine")
    if (run / name).is_dir():
        (run / name).rename(run.parent / "away")
    else:
        (run / name).unlink(missing_ok=True)
    is_folder = name in ("trajectories", "wandb")
    (run / name).symlink_to(outside if is_folder else outside / "precious.txt")
    with pytest.raises(ValueError, match=f"{name}: is a symbolic link"):
        RunFolder.open(run)
    assert [file.read_text() for file in outside.iterdir()] == ["mine"]


def test_cutting_a_run_removes_nothing_outside_it(run: Path) -> None:
    outside = run.parent / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("mine")
    with RunFolder.open(run) as folder:
        (run / "trajectories").rename(run.parent / "away")
        (run / "trajectories").symlink_to(outside)
        with pytest.raises(Damaged, match="trajectories: is a symbolic link, not a folder"):
            folder.cut(0)
    assert (outside / "precious.txt").exists()


def test_a_file_that_is_written_whole_follows_no_link_of_its_part(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "new.json.part").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "new.json", b"{}")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "new.json").read_text() == "{}"
    with open_new(tmp_path / "shared", is_private=False):
        pass
    assert (tmp_path / "shared").stat().st_mode & 0o444 == 0o444


def test_a_missing_file_is_missing_and_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        names_in(tmp_path / "none")
