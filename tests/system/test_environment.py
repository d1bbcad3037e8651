"""Where the user's caches and state are kept."""

from pathlib import Path

import pytest

from turnwise.system.environment import user_folder


def test_our_folder_is_in_the_xdg_folder_or_in_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for configured, expected in {
        str(tmp_path): tmp_path / "turnwise",
        "": tmp_path / "home" / ".cache" / "turnwise",
        "relative/path": tmp_path / "home" / ".cache" / "turnwise",  # invalid by the XDG specification
    }.items():
        monkeypatch.setenv("XDG_CACHE_HOME", configured)
        assert user_folder("XDG_CACHE_HOME", "~/.cache") == expected
