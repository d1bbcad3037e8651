"""Recording and replaying: the same call in the same state gets the same answer, and no other call does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnwise.mcp.calls.cassette import CallKey, Cassette, History, Mode, NotRecorded, Recorded, canonical
from turnwise.types import Cause, Tool

READ = Tool("read", "", {"type": "object"}, "srv", "read", is_read_only=True)
WRITE = Tool("write", "", {"type": "object"}, "srv", "write")
OTHER_WRITE = Tool("put", "", {"type": "object"}, "other", "put")

# Records answers as fast as it can, after a line on its stdin, until it is done or killed.
WRITER = """
import sys
from pathlib import Path
from turnwise.mcp.calls.cassette import Cassette, CallKey, Mode, Recorded
from turnwise.types import Cause
path, name, num_calls, num_repeats = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cassette = Cassette(path, Mode.RECORD)
print("ready", flush=True)
sys.stdin.readline()
for index in range(num_calls):
    key = CallKey(name, "srv", "read", "{}", str(index))
    cassette.record(key, index, Recorded(name * num_repeats, Cause.OK, 0.5))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "c.jsonl"


def ok(content: str) -> Recorded:
    return Recorded(content, Cause.OK, 0.25)


def key_of(history: History, tool: Tool, **arguments: Any) -> CallKey:
    return history.place(tool, arguments)[0]


def first(episode: str, **arguments: Any) -> CallKey:
    """The key of a read that is the first call of its episode."""
    return key_of(History(episode), READ, **arguments)


def record(path: Path, *answers: tuple[CallKey, Recorded]) -> None:
    cassette = Cassette(path, Mode.RECORD)
    for index, (key, answer) in enumerate(answers):
        cassette.record(key, index, answer)
    cassette.close()


def replay(path: Path, mode: Mode = Mode.REPLAY) -> Cassette:
    return Cassette(path, mode)


def writers(
    path: Path, names: Sequence[str], num_calls: int, num_repeats: int
) -> "list[subprocess.Popen[str]]":
    """Processes that all record to one file and start together."""
    processes = []
    for name in names:
        argv = [sys.executable, "-c", WRITER, str(path), name, str(num_calls), str(num_repeats)]
        processes.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


# --- canonical arguments -----------------------------------------------------------------------------------

PAIRS = [(1, True), (0, False), (0, None), ("5", 5), ("", None), ([1, 2], [2, 1]), (5, 5.5), ([], {})]


@pytest.mark.parametrize(("one", "two"), [*PAIRS, ("e\u0301", "é")])
def test_values_that_a_server_could_distinguish_stay_distinct(one: Any, two: Any) -> None:
    assert canonical({"a": one}) != canonical({"a": two})


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_the_canonical_text_is_stable_json_of_the_same_arguments(arguments: dict[str, Any]) -> None:
    text = canonical(arguments)
    assert json.loads(text) == arguments
    assert canonical(json.loads(text)) == text
    assert canonical(dict(reversed(arguments.items()))) == text


def test_key_order_spaces_and_whole_floats_do_not_matter() -> None:
    assert canonical({"b": 5.0, "a": {"d": [1.0, 2.5], "c": "é"}}) == '{"a":{"c":"é","d":[1,2.5]},"b":5}'


# --- finding -----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
@example('é "quoted"\n\ttab \u2028 \U0001f600 \\ end', "a\nb")
def test_what_was_recorded_is_replayed_exactly(
    tmp_path_factory: pytest.TempPathFactory, content: str, argument: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "c.jsonl"
    answer = Recorded(content, Cause.TOOL_ERROR, 1.5)
    record(path, (first(argument, q=argument), answer))
    cassette = replay(path)
    assert cassette.find(first(argument, q=argument)) == answer
    assert (cassette.num_replayed, cassette.num_torn) == (1, 0)


def test_tools_are_replayed_without_their_server_and_the_newest_listing_counts(path: Path) -> None:
    cassette = Cassette(path, Mode.RECORD)
    for tools in ((READ,), (READ,), (READ, WRITE)):
        cassette.record_tools("srv", tools)
    cassette.close()
    assert len(path.read_text().splitlines()) == 2, "the same listing is not written twice"
    assert replay(path).tools == {"srv": (READ, WRITE)}


def test_a_repeated_call_gets_its_answers_in_order_within_every_episode(path: Path) -> None:
    recorded = History("e")
    record(path, *((key_of(recorded, READ), ok(time)) for time in ("9:00", "9:01", "9:02")))
    cassette, one, two = replay(path), History("e"), History("two")
    found = [cassette.find(key_of(history, READ)).content for history in (one, two, one, two)]
    assert found == ["9:00", "9:00", "9:01", "9:01"]
    assert [cassette.find(key_of(one, READ)).content for _ in range(3)] == ["9:02"] * 3, "then the last one"


def test_a_second_recording_of_an_episode_replaces_the_first(path: Path) -> None:
    for day in ("monday", "tuesday"):
        record(path, (first("e"), ok(day)))
    assert replay(path).find(first("e")).content == "tuesday"


def test_the_recording_of_the_same_episode_is_preferred(path: Path) -> None:
    record(path, (first("one"), ok("of one")), (first("two"), ok("of two")))
    for episode, content in (("two", "of two"), ("one", "of one"), ("three", "of two")):
        assert replay(path).find(first(episode)).content == content


def test_only_the_same_steps_lead_to_the_same_state() -> None:
    def state(*steps: tuple[Tool, dict[str, Any]]) -> str:
        history = History("any")
        for tool, arguments in steps:
            history.place(tool, arguments)
        return key_of(history, READ).state

    a, b = (WRITE, {"text": "a"}), (WRITE, {"text": "b"})
    assert state(a, b) == state(a, (READ, {}), b), "reading changes nothing"
    assert state(a, b) == state(a, (OTHER_WRITE, {}), b), "every server has its own state"
    states = [state(), state(a), state(b), state(a, b), state(b, a), state(a, a), state(a, b, a)]
    assert len(set(states)) == len(states)


def test_an_answer_is_found_by_another_episode_with_the_same_history_only(path: Path) -> None:
    history, other = History("recorded"), History("another")
    before = key_of(history, READ)
    wrote = key_of(history, WRITE, text="a", size=5)
    record(path, (before, ok("nothing")), (wrote, ok("done")), (key_of(history, READ), ok("a")))
    cassette = replay(path)
    assert cassette.find(key_of(other, WRITE, size=5.0, text="a")).content == "done"
    assert cassette.find(key_of(other, READ)).content == "a"
    key_of(other, WRITE, text="more")
    with pytest.raises(NotRecorded):
        cassette.find(key_of(other, READ))
    assert [history.place(tool, {})[1] for tool in (READ, OTHER_WRITE, WRITE)] == [3, 4, 5], "numbered"


def test_a_miss_names_the_call_the_episode_and_the_file(path: Path) -> None:
    record(path, (first("e", q=1), ok("x")))
    with pytest.raises(NotRecorded) as caught:
        replay(path).find(first("e2", q=2))
    assert str(caught.value) == f"srv/read({{\"q\":2}}) (episode 'e2') is not in {path}"


def test_replay_or_call_does_not_replay_infrastructure_faults(path: Path) -> None:
    key = first("e")
    record(path, (key, Recorded("down", Cause.TIMEOUT, 30.0)))
    assert replay(path).find(key).cause is Cause.TIMEOUT, "a plain replay repeats what happened"
    cassette = replay(path, Mode.REPLAY_OR_CALL)
    with pytest.raises(NotRecorded):
        cassette.find(key)
    cassette.record(key, 1, Recorded("the model's", Cause.TOOL_ERROR, 0.1))
    assert cassette.find(key).cause is Cause.TOOL_ERROR
    cassette.close()


# --- the file ----------------------------------------------------------------------------------------------


def test_replaying_neither_writes_nor_creates_the_file(path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        replay(path)
    assert not path.exists()
    record(path, (first("e"), ok("x")))
    assert path.stat().st_mode & 0o777 == 0o600, "others can read it"
    path.write_bytes(path.read_bytes() + b'{"v":1,"kin')
    before = path.read_bytes()
    replay(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":2,"kind":"call"}',
        b'{"kind":"call"}',
        b"[1,2]",
        b'"text"',
        b'{"v":1}',
        b'{"v":1,"kind":"video"}',
        b'{"v":1,"kind":"call","server":"s"}',
        b'{"v":1,"kind":"tools","server":"s","tools":[{"nom":"x"}]}',
        b'{"v":1,"kind":"call","index":0,"episode":"e","server":"s","tool":"t","arguments":"{}","state":"",'
        b'"content":"c","cause":"unheard_of","seconds":1}',
        b"[" * 5_000,
    ],
)
def test_a_line_of_another_format_is_an_error_that_names_it(path: Path, line: bytes) -> None:
    record(path, (first("e"), ok("x")))
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(ValueError, match=r"c\.jsonl:2: (not a cassette of format 1|nested too deeply)"):
        replay(path)


@pytest.mark.parametrize("num_bytes_lost", [1, 2, 10, 60])
def test_a_torn_last_line_is_skipped_and_logged_and_the_next_writer_starts_a_new_line(
    path: Path, num_bytes_lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    keys = [first(f"e{number}", n=number) for number in range(3)]
    record(path, (keys[0], ok("zero")), (keys[1], ok("one é")))
    path.write_bytes(b"\n" + path.read_bytes()[:-num_bytes_lost])  # a blank line is not a torn one
    is_torn = num_bytes_lost > 1  # only the newline lost: the line is complete
    cassette = replay(path)
    assert cassette.num_torn == is_torn
    assert ("skipped 1 torn line" in caplog.text) == is_torn
    assert cassette.find(keys[0]).content == "zero"
    record(path, (keys[2], ok("two")))
    cassette = replay(path)
    assert cassette.num_torn == is_torn
    assert cassette.find(keys[2]).content == "two"
    if not is_torn:
        assert cassette.find(keys[1]).content == "one é"


def test_a_writer_that_is_killed_loses_at_most_its_last_line(path: Path) -> None:
    for num_kills in (1, 2):
        [process] = writers(path, ["e"], 10**9, 500_000)
        with process:
            while path.stat().st_size < num_kills * 5_000_000:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        cassette = replay(path)
        assert cassette.num_torn <= num_kills
        assert cassette.find(CallKey("e", "srv", "read", "{}", "0")).content == "e" * 500_000
    record(path, (first("after"), ok("clean")))
    assert replay(path).find(first("after")).content == "clean"


def test_concurrent_writers_never_mix_their_lines(path: Path) -> None:
    names = ["ping", "pong", "pang"]
    for process in writers(path, names, 300, 2_000):
        with process:
            assert process.wait() == 0
    lines = [json.loads(line)["episode"] for line in path.read_bytes().splitlines()]
    assert lines != sorted(lines), "they did not write at the same time"
    cassette = replay(path)
    assert cassette.num_torn == 0
    for name in names:
        for index in range(300):
            assert cassette.find(CallKey(name, "srv", "read", "{}", str(index))).content == name * 2_000


@pytest.mark.parametrize("mode", Mode)
def test_a_fifo_is_refused_and_a_link_is_followed(tmp_path: Path, mode: Mode) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(ValueError, match="is a FIFO, not a file"):
        Cassette(tmp_path / "fifo.jsonl", mode)
    (tmp_path / "real.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    Cassette(tmp_path / "link.jsonl", mode).close()
