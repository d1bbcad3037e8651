"""Results are written next to what is there already, never over it."""

import logging
from pathlib import Path

import pytest

from turnwise.system.files.free_path import move_to_free, require_free


def test_a_taken_path_is_refused_and_an_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "full", "link"):
        with pytest.raises(ValueError, match=f"{name}: is there already"):
            require_free(tmp_path / name)
    (tmp_path / "empty").mkdir()
    require_free(tmp_path / "empty")
    require_free(tmp_path / "new" / "deep" / "file")


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file: is a file, not a folder"):
        require_free(tmp_path / "file" / "new" / "a.json")


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_result_whose_target_appeared_is_kept_under_a_free_name(
    tmp_path: Path, is_folder: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def made(name: str, text: str) -> Path:
        path = tmp_path / name
        if is_folder:
            path.mkdir()
        (path / "x" if is_folder else path).write_text(text)
        return path

    def text_of(path: Path) -> str:
        return (path / "x" if is_folder else path).read_text()

    caplog.set_level(logging.WARNING)
    target = tmp_path / "model.json"
    assert move_to_free(made("part", "first"), target) == target
    assert caplog.records == []
    assert move_to_free(made("part", "second"), target) == tmp_path / "model-2.json"
    assert move_to_free(made("part", "third"), target) == tmp_path / "model-3.json"
    assert [text_of(path) for path in sorted(tmp_path.iterdir())] == ["second", "third", "first"]
    assert "model.json appeared meanwhile; the result is in" in caplog.text


def test_a_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "x").write_text("")
    (tmp_path / "model").mkdir()
    assert move_to_free(tmp_path / "part", tmp_path / "model") == tmp_path / "model"
    assert (tmp_path / "model" / "x").exists()
