"""Weave with the real library; it has no offline mode, so it sends to a server on this machine."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.records.sample_run import SECRET, files_with, log_of, tracked
from tests.records.weave_server import WeaveServer

pytestmark = pytest.mark.skipif(
    find_spec("weave") is None, reason="needs weave: pip install 'turnwise[weave]'"
)
WEAVE = {"kind": "weave", "close_seconds": 120}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WeaveServer]:
    with WeaveServer() as sent:
        monkeypatch.setenv("WF_TRACE_SERVER_URL", sent.url)
        monkeypatch.setenv("WANDB_BASE_URL", sent.url)
        monkeypatch.setenv("WANDB_API_KEY", SECRET)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("WEAVE_PROJECT", "team/ours")
        yield sent


def test_episodes_are_traces_evaluations_are_evaluations_and_no_key_is_kept(
    tmp_path: Path, server: WeaveServer
) -> None:
    folder = tracked(tmp_path, WEAVE, 0, 1)
    assert "lost" not in log_of(folder)
    assert not files_with(folder, SECRET)
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


@pytest.mark.parametrize(
    ("is_there", "messages"),
    [
        (True, ["could not be sent", "tracker weave"]),
        (False, ["tracker weave has ended; the run continues without it: ", "4 of 4 records lost"]),
    ],
    ids=["refuses", "unreachable"],
)
def test_what_a_server_does_not_accept_is_logged_as_lost(
    tmp_path: Path, server: WeaveServer, monkeypatch: pytest.MonkeyPatch, is_there: bool, messages: list[str]
) -> None:
    server.is_down = True
    if not is_there:
        monkeypatch.setenv("WF_TRACE_SERVER_URL", "http://127.0.0.1:9")
    log = log_of(tracked(tmp_path, WEAVE, 0))
    assert all(message in log for message in messages), log
