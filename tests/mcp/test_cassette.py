"""Recording and replaying: the same call in the same state gets the same answer, and nothing else does."""

import asyncio
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
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcp.notes import notes_spec
from turnwise.mcp.cassette import CallKey, Cassette, History, Mode, NotRecorded, Recorded, canonical
from turnwise.mcp.pool import Pool
from turnwise.types import Cause, Fault, Tool, ToolCall, ToolResult

READ = Tool("read", "", {"type": "object"}, "srv", "read", is_read_only=True)
WRITE = Tool("write", "", {"type": "object"}, "srv", "write")
OTHER_WRITE = Tool("put", "", {"type": "object"}, "other", "put")
SECRET = "sk-TOPSECRET/0123+45"

# Records answers as fast as it can, from the moment it is told to until it is done or killed.
WRITER = """
import sys
from pathlib import Path
from turnwise.mcp.cassette import Cassette, CallKey, Mode, Recorded
from turnwise.types import Cause
path, name, num_calls, num_repeats = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cassette = Cassette(path, Mode.RECORD)
print("ready", flush=True)
sys.stdin.readline()
for index in range(num_calls):
    key = CallKey(name, "srv", "read", "{}", str(index))
    cassette.record(key, index, Recorded(name * num_repeats, Cause.OK, 0.5))
"""


def ok(content: str) -> Recorded:
    return Recorded(content, Cause.OK, 0.25)


def key_of(history: History, tool: Tool, **arguments: Any) -> CallKey:
    return history.place(tool, arguments)[0]


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
    """Processes that all record to one file, let go together once all are ready."""
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


def test_key_order_spaces_and_whole_floats_do_not_matter() -> None:
    assert canonical({"b": 5.0, "a": {"d": [1.0, 2.5], "c": None}}) == canonical(
        {"a": {"c": None, "d": [1, 2.5]}, "b": 5}
    )
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, True),
        (0, False),
        (0, None),
        ("5", 5),
        ("", None),
        ([1, 2], [2, 1]),
        (5, 5.5),
        ("e\u0301", "é"),
        ([], {}),
    ],
)
def test_what_a_server_could_tell_apart_stays_apart(one: Any, two: Any) -> None:
    assert canonical({"a": one}) != canonical({"a": two})


@settings(deadline=None, max_examples=200)
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
def test_canonical_text_is_json_for_equal_arguments_and_settled_at_once(arguments: dict[str, Any]) -> None:
    text = canonical(arguments)
    assert json.loads(text) == arguments
    assert canonical(json.loads(text)) == text
    assert canonical(dict(reversed(arguments.items()))) == text


# --- finding -----------------------------------------------------------------------------------------------


def test_what_was_recorded_is_replayed_exactly(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.jsonl"
    text = 'é "quoted"\n\ttab \u2028 \U0001f600 \\ end'
    key = key_of(History("e"), READ, q="a\nb")
    record(path, (key, Recorded(text, Cause.TOOL_ERROR, 1.5)))
    cassette = replay(path)
    assert cassette.find(key_of(History("e"), READ, q="a\nb")) == Recorded(text, Cause.TOOL_ERROR, 1.5)
    assert (cassette.num_replayed, cassette.num_torn) == (1, 0)


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_any_text_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, content: str, argument: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "c.jsonl"
    key = key_of(History(argument), READ, q=argument)
    record(path, (key, ok(content)))
    assert replay(path).find(key) == ok(content)


def test_tools_are_replayed_without_their_server_and_the_newest_listing_counts(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "c.jsonl", Mode.RECORD)
    for tools in ((READ,), (READ,), (READ, WRITE)):
        cassette.record_tools("srv", tools)
    cassette.close()
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == 2, "the same listing is not written twice"
    assert replay(tmp_path / "c.jsonl").tools == {"srv": (READ, WRITE)}


def test_the_nth_asking_gets_the_nth_answer_and_past_the_last_the_last(tmp_path: Path) -> None:
    history, again = History("e"), History("e")
    record(tmp_path / "c", *((key_of(history, READ), ok(time)) for time in ("9:00", "9:01", "9:02")))
    cassette = replay(tmp_path / "c")
    found = [cassette.find(key_of(again, READ)).content for _ in range(5)]
    assert found == ["9:00", "9:01", "9:02", "9:02", "9:02"]


def test_each_episode_counts_its_own_askings(tmp_path: Path) -> None:
    history = History("e")
    record(tmp_path / "c", (key_of(history, READ), ok("first")), (key_of(history, READ), ok("second")))
    cassette = replay(tmp_path / "c")
    one, two = History("one"), History("two")
    found = [cassette.find(key_of(asking, READ)).content for asking in (one, two, one, two)]
    assert found == ["first", "first", "second", "second"]


def test_an_episode_recorded_again_replaces_what_it_recorded_before(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        record(tmp_path / "c", (key_of(History("e"), READ), ok(day)))
    assert replay(tmp_path / "c").find(key_of(History("e"), READ)).content == "tuesday"


def test_an_episodes_own_recording_is_preferred_to_another_ones(tmp_path: Path) -> None:
    one, two = key_of(History("one"), READ), key_of(History("two"), READ)
    record(tmp_path / "c", (one, ok("of one")), (two, ok("of two")))
    assert replay(tmp_path / "c").find(two).content == "of two"
    assert replay(tmp_path / "c").find(one).content == "of one"
    assert replay(tmp_path / "c").find(key_of(History("three"), READ)).content == "of two"


def test_a_read_after_a_write_is_not_answered_by_a_read_before_it(tmp_path: Path) -> None:
    history = History("e")
    before = key_of(history, READ)
    wrote = key_of(history, WRITE, text="a")
    after = key_of(history, READ)
    assert before != after
    record(tmp_path / "c", (before, ok("nothing")), (wrote, ok("done")))
    with pytest.raises(NotRecorded):
        replay(tmp_path / "c").find(after)


def test_only_the_same_steps_lead_to_the_same_state() -> None:
    def state(*steps: tuple[Tool, dict[str, Any]]) -> str:
        history = History("any")
        for tool, arguments in steps:
            history.place(tool, arguments)
        return key_of(history, READ).state

    a, b = (WRITE, {"text": "a"}), (WRITE, {"text": "b"})
    assert state(a, b) == state(a, (READ, {}), b), "reading changes nothing"
    assert state(a, b) == state((WRITE, {"text": "a"}), (OTHER_WRITE, {}), b), "each server has its own state"
    states = [state(), state(a), state(b), state(a, b), state(b, a), state(a, a), state(a, b, a)]
    assert len(set(states)) == len(states)


def test_another_episode_with_the_same_history_is_served(tmp_path: Path) -> None:
    history = History("recorded")
    wrote = key_of(history, WRITE, text="a", size=5)
    read = key_of(history, READ)
    record(tmp_path / "c", (wrote, ok("done")), (read, ok("a")))
    other = History("another")
    cassette = replay(tmp_path / "c")
    assert cassette.find(key_of(other, WRITE, size=5.0, text="a")).content == "done"
    assert cassette.find(key_of(other, READ)).content == "a"


def test_calls_are_numbered_within_their_episode() -> None:
    history = History("e")
    assert [history.place(tool, {})[1] for tool in (READ, OTHER_WRITE, READ, WRITE)] == [0, 1, 2, 3]


def test_a_miss_names_the_call_the_episode_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    record(path, (key_of(History("e"), READ, q=1), ok("x")))
    with pytest.raises(NotRecorded) as caught:
        replay(path).find(key_of(History("e2"), READ, q=2))
    assert str(caught.value) == f"srv/read({{\"q\":2}}) (episode 'e2') is not in {path}"


def test_replay_or_call_does_not_replay_faults_of_infrastructure(tmp_path: Path) -> None:
    path = tmp_path / "c"
    key = key_of(History("e"), READ)
    record(path, (key, Recorded("down", Cause.TIMEOUT, 30.0)))
    assert replay(path).find(key).cause is Cause.TIMEOUT, "a plain replay shows that day as it was"
    cassette = replay(path, Mode.REPLAY_OR_CALL)
    with pytest.raises(NotRecorded):
        cassette.find(key)
    cassette.record(key, 1, Recorded("the model's", Cause.TOOL_ERROR, 0.1))
    assert cassette.find(key).cause is Cause.TOOL_ERROR
    cassette.close()


# --- the file ----------------------------------------------------------------------------------------------


def test_the_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    record(tmp_path / "c", (key_of(History("e"), READ), ok("x")))
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


def test_replaying_neither_writes_nor_creates_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with pytest.raises(ValueError, match="no such file"):
        replay(path)
    assert not path.exists()
    record(path, (key_of(History("e"), READ), ok("x")))
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
    ],
)
def test_a_file_that_is_no_cassette_of_this_format_is_an_error_that_names_the_line(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "c.jsonl"
    record(path, (key_of(History("e"), READ), ok("x")))
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(ValueError, match=r"c\.jsonl:2: not a cassette of format 1"):
        replay(path)


@pytest.mark.parametrize("num_bytes_lost", [1, 2, 10, 60])
def test_a_torn_last_line_is_skipped_and_reported_and_the_next_writer_starts_on_its_own(
    tmp_path: Path, num_bytes_lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.jsonl"
    keys = [key_of(History(f"e{number}"), READ, n=number) for number in range(3)]
    record(path, (keys[0], ok("zero")), (keys[1], ok("one é")))
    os.truncate(path, path.stat().st_size - num_bytes_lost)
    is_torn = num_bytes_lost > 1  # only the newline lost: the line is whole
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


def test_a_writer_killed_at_any_moment_costs_at_most_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    for round_number in range(4):
        [process] = writers(path, ["e"], 10**9, 500_000)
        with process:
            time.sleep(0.02 + 0.01 * round_number)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        cassette = replay(path)
        assert cassette.num_torn <= round_number + 1
        whole = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
        assert len(whole) > round_number
        assert cassette.find(CallKey("e", "srv", "read", "{}", "0")).content == "e" * 500_000
    record(path, (key_of(History("after"), READ), ok("clean")))
    assert replay(path).find(key_of(History("after"), READ)).content == "clean"


def test_writers_at_once_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    names = ["ping", "pong", "pang"]
    for process in writers(path, names, 300, 2_000):
        with process:
            assert process.wait() == 0
    lines = [json.loads(line)["episode"] for line in path.read_bytes().splitlines()]
    assert lines != sorted(lines), "they did write at the same time"
    cassette = replay(path)
    assert cassette.num_torn == 0
    for name in names:
        for index in range(300):
            assert cassette.find(CallKey(name, "srv", "read", "{}", str(index))).content == name * 2_000


def test_a_line_nested_too_deeply_is_a_mistake_that_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("[" * 5_000 + "\n")
    with pytest.raises(ValueError, match=r"c\.jsonl:1: nested too deeply"):
        replay(path)


def test_blank_lines_are_not_counted_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    record(path, (key_of(History("e"), READ), ok("x")))
    path.write_bytes(b"\n" + path.read_bytes() + b"\n\n")
    assert replay(path).num_torn == 0


# --- through a pool ----------------------------------------------------------------------------------------


async def play(pool: Pool, episode: str, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult]:
    async with pool.lease(["notes"], episode) as toolbox:
        return [(await toolbox.call([ToolCall("1", name, arguments)]))[0] for name, arguments in calls]


def session(
    path: Path, mode: Mode, *calls: tuple[str, dict[str, Any]], episode: str = "e"
) -> list[ToolResult]:
    """Play one episode in a pool of its own, with this cassette in."""

    async def main() -> list[ToolResult]:
        cassette = Cassette(path, mode)
        try:
            async with Pool([notes_spec(env={"NOTES_API_KEY": SECRET})], cassette=cassette) as pool:
                return await play(pool, episode, *calls)
        finally:
            cassette.close()

    return asyncio.run(main())


STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_notes", {}),
    ("add_note", {"text": "a"}),
    ("list_notes", {}),
    ("wrong", {}),
    ("unavailable", {}),
)


def test_an_episode_replays_without_its_server(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    recorded = session(path, Mode.RECORD, *STORY)
    assert [result.cause for result in recorded] == [
        Cause.OK,
        Cause.OK,
        Cause.OK,
        Cause.TOOL_ERROR,
        Cause.UPSTREAM,
    ]
    before = path.read_bytes()

    async def main() -> list[ToolResult]:
        async with Pool([], cassette=Cassette(path, Mode.REPLAY)) as pool:
            return await play(pool, "e", *STORY)

    replayed = asyncio.run(main())
    assert [(result.content, result.cause) for result in replayed] == [
        (result.content, result.cause) for result in recorded
    ]
    assert all(result.is_replayed for result in replayed)
    assert not any(result.is_replayed for result in recorded)
    assert path.read_bytes() == before


def test_a_replay_miss_through_a_lease_is_infrastructure_and_names_the_call(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    session(path, Mode.RECORD, ("list_notes", {}))
    [miss, stale] = session(path, Mode.REPLAY, ("add_note", {"text": "new"}), ("list_notes", {}))
    assert (miss.cause, miss.fault) == (Cause.NOT_RECORDED, Fault.INFRA)
    assert 'notes/add_note({"text":"new"})' in miss.content
    assert stale.cause is Cause.NOT_RECORDED, "the recorded reading was made before any note"


def test_replay_or_call_calls_what_is_missing_in_the_state_the_replayed_calls_left(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    session(path, Mode.RECORD, ("add_note", {"text": "a"}), ("unavailable", {}))
    calls = (("add_note", {"text": "a"}), ("list_notes", {}), ("unavailable", {}))
    [replayed, called, retried] = session(path, Mode.REPLAY_OR_CALL, *calls, episode="later")
    assert replayed.is_replayed
    assert not called.is_replayed
    assert json.loads(called.content)["notes"] == ["a"], "the server was brought to the replayed state first"
    assert not retried.is_replayed
    assert [result.is_replayed for result in session(path, Mode.REPLAY, *calls, episode="later")] == [
        True
    ] * 3


def test_no_secret_of_an_env_block_is_ever_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    [shown, echoed] = session(path, Mode.RECORD, ("environment", {}), ("say", {"text": f"key is {SECRET}!"}))
    assert "NOTES_API_KEY" in shown.content
    assert SECRET not in shown.content
    assert "[redacted]" in echoed.content
    answers = [line for line in path.read_text().splitlines() if '"kind":"call"' in line]
    assert len(answers) == 2
    for spelling in (SECRET, json.dumps(SECRET), SECRET.replace("/", "%2F")):
        assert spelling not in answers[0]
        assert spelling not in answers[1].partition('"content"')[2]


def test_no_secret_in_a_tools_description_is_recorded(tmp_path: Path) -> None:
    session(tmp_path / "c.jsonl", Mode.RECORD, ("say", {"text": "x"}))
    assert SECRET not in (tmp_path / "c.jsonl").read_text()
