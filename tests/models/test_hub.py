"""A model that is on no disk and behind no network is refused at once."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from turnwise.models.chat import load_tokenizer
from turnwise.models.hub import ModelNotFound, require_reachable
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.setup.memory import load_config


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that refuses connections, and no proxy."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # restored after the test
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("path", ["someone/a-model", "warm"])
@pytest.mark.usefixtures("no_hub")
def test_a_model_of_an_unreachable_hub_is_refused_before_the_hub_library_retries(path: str) -> None:
    for load in (load_tokenizer, load_config):
        with pytest.raises(ModelNotFound, match=f"{path}: no such folder, and 127.0.0.1 cannot be reached"):
            load(path)


@pytest.mark.usefixtures("no_hub")
def test_folders_and_hubs_behind_a_proxy_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_reachable(str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    require_reachable("someone/a-model")


@pytest.mark.usefixtures("no_hub")
def test_without_a_hub_a_cached_model_is_read_from_the_cache_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    shutil.copytree(EMBEDDED_FOLDER, tmp_path / "models--acme--cached" / "snapshots" / ("a" * 40))
    (tmp_path / "models--acme--cached" / "refs").mkdir()
    (tmp_path / "models--acme--cached" / "refs" / "main").write_text("a" * 40)
    require_reachable("acme/cached")
    assert constants.HF_HUB_OFFLINE, "else the library retries each file"
    require_reachable("acme/cached")
    with pytest.raises(ModelNotFound, match="HF_HUB_OFFLINE is set"):
        require_reachable("acme/missing")


def test_a_path_that_is_no_hub_name_is_a_missing_folder() -> None:
    with pytest.raises(ModelNotFound, match=r"/no/such/folder: no such folder$"):
        require_reachable("/no/such/folder")
