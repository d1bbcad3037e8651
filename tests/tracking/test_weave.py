"""Weave with the real library: it has no offline mode, so it is given a server on this machine to send to."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.tracking.played import begin, play
from tests.tracking.weave_server import Sent, weave_server

pytestmark = pytest.mark.skipif(
    find_spec("weave") is None, reason="needs weave: pip install 'turnwise[weave]'"
)
WEAVE = {"kind": "weave", "close_seconds": 120}
SECRET = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sent]:
    with weave_server() as sent:
        monkeypatch.setenv("WF_TRACE_SERVER_URL", sent.url)
        monkeypatch.setenv("WANDB_BASE_URL", sent.url)
        monkeypatch.setenv("WANDB_API_KEY", SECRET)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("WEAVE_PROJECT", "team/ours")
        yield sent


def test_episodes_are_traces_and_evaluations_are_evaluations(tmp_path: Path, server: Sent) -> None:
    with begin(tmp_path, WEAVE) as folder:
        play(folder, 0, 1)
    assert "lost" not in (folder.path / "training.log").read_text()
    episodes = server.calls("episode")
    assert [call["attributes"]["step"] for call in episodes] == [0, 0, 1, 1]
    assert {call["project_id"] for call in episodes} == {"team/ours"}
    assert {call["attributes"]["run"] for call in episodes} == {"run"}
    assert episodes[0]["inputs"]["task"] == "t1"
    assert episodes[0]["output"]["answer"] == "It is 12."
    assert [call["output"]["success"] for call in episodes] == [True, False] * 2
    assert "characters left out" in episodes[1]["inputs"]["question"]

    [tool] = [call for call in server.calls("tool_call") if call["parent_id"] == episodes[0]["id"]]
    assert tool["inputs"] == {"tool": "get_quote", "arguments": '{"symbol": "ACME"}'}
    assert tool["output"]["content"] == "12 dollars"
    turns = [call for call in server.calls("model_turn") if call["parent_id"] == episodes[0]["id"]]
    assert [call["output"]["content"] for call in turns] == ["", "It is 12."]
    assert turns[0]["inputs"]["messages"] == [{"role": "user", "content": "What is it?"}]

    [evaluation] = server.calls("Evaluation.evaluate")
    assert evaluation["display_name"] == "run after"
    assert evaluation["output"]["output"] == {"success": 0.5, "success/lookups": 1.0}
    assert evaluation["output"]["success"]["true_fraction"] == 0.5
    assert len(server.calls("Evaluation.predict_and_score")) == 2


def test_no_key_is_written_to_the_folder(tmp_path: Path, server: Sent) -> None:
    with begin(tmp_path / "runs", WEAVE) as folder:
        play(folder, 0)
    assert server.requests
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_what_could_not_be_sent_is_said(tmp_path: Path, server: Sent) -> None:
    server.is_down = True
    with begin(tmp_path, WEAVE) as folder:
        play(folder, 0)
    said = (folder.path / "training.log").read_text()
    assert "could not be sent" in said
    assert "tracker weave" in said


def test_without_a_network_it_says_so_and_the_run_goes_on(
    tmp_path: Path, server: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WF_TRACE_SERVER_URL", "http://127.0.0.1:9")  # nobody is there
    with begin(tmp_path, WEAVE) as folder:
        play(folder, 0)
    said = (folder.path / "training.log").read_text()
    assert "tracker weave has ended, the run goes on without it: " in said
    assert "4 of 4 records lost" in said
