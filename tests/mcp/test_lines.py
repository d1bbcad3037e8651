"""A server's stdout becomes messages: in any chunks, within bounds, an answer for what cannot be read."""

import json
import tracemalloc

import mcp_types as wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.launch import TOO_LARGE_CODE, UNREADABLE_CODE, _parse
from turnwise.runtime.line_splitter import BoundedLine, LineSplitter

EDGE = 256


def split(data: bytes, sizes: list[int], max_bytes: int) -> tuple[list[BoundedLine], LineSplitter]:
    """Feed the data in chunks of these sizes, over and over."""
    splitter = LineSplitter(max_bytes)
    lines: list[BoundedLine] = []
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        lines.extend(splitter.feed(data[start : start + size]))
        start += size
        turn += 1
    return lines, splitter


def whole(data: bytes) -> BoundedLine:
    return BoundedLine(data, len(data), is_cut=False)


def cut_line(head: bytes, tail: bytes, num_bytes: int = 9_000_000) -> BoundedLine:
    return BoundedLine(head + b"\n" + tail, num_bytes, is_cut=True)


# --- splitting ---------------------------------------------------------------------------------------------


LINES = st.builds(
    lambda data, times: data.replace(b"\n", b" ") * times, st.binary(max_size=60), st.integers(1, 20)
)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(LINES, max_size=8),
    LINES,
    st.lists(st.integers(1, 900), min_size=1, max_size=5),
    st.integers(EDGE, 900),
)
def test_lines_are_the_same_in_whatever_chunks_they_come(
    contents: list[bytes], unfinished: bytes, sizes: list[int], max_bytes: int
) -> None:
    data = b"".join(content + b"\n" for content in contents) + unfinished
    lines, splitter = split(data, sizes, max_bytes)
    contents = [content for content in contents if content]
    assert len(lines) == len(contents)
    for line, content in zip(lines, contents, strict=True):
        assert line.num_bytes == len(content)
        assert line.is_cut == (len(content) > max_bytes)
        if line.is_cut:
            assert line.data == content[:EDGE] + b"\n" + content[-EDGE:]
        else:
            assert line.data == content
    assert bool(splitter.num_skipped_bytes) == (len(unfinished) > max_bytes)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 4096, 1 << 16])
def test_of_a_line_over_the_limit_both_ends_are_kept_and_its_size_is_true(chunk_bytes: int) -> None:
    content = b'{"jsonrpc":"2.0","id":7,' + b"x" * 20_000 + b',"id":8}'
    lines, _ = split(content + b"\nnext\n", [chunk_bytes], 10_000)
    assert lines[0] == BoundedLine(content[:EDGE] + b"\n" + content[-EDGE:], len(content), is_cut=True)
    assert lines[1] == whole(b"next")


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert split(b"x" * 100 + b"\n", [33], 100)[0] == [whole(b"x" * 100)]
    assert split(b"x" * 101 + b"\n", [33], 100)[0][0].is_cut


def test_an_endless_line_is_counted_but_not_kept() -> None:
    splitter = LineSplitter(1_000_000)
    tracemalloc.start()
    for _ in range(1_000):
        assert splitter.feed(b"x" * (1 << 16)) == []
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert splitter.num_skipped_bytes == 1_000 * (1 << 16)
    assert held_bytes < 3_000_000


# --- parsing -----------------------------------------------------------------------------------------------


def error_of(line: BoundedLine) -> tuple[object, int]:
    message = _parse(line)
    assert isinstance(message, wire.JSONRPCError)
    return message.id, message.error.code


def test_requests_replies_errors_and_notifications_are_read() -> None:
    reply = _parse(whole(b'{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}\r'))
    assert isinstance(reply, wire.JSONRPCResponse)
    assert reply.id == 3
    assert isinstance(_parse(whole(b'{"jsonrpc":"2.0","method":"ping","id":"a"}')), wire.JSONRPCRequest)
    assert isinstance(_parse(whole(b'{"jsonrpc":"2.0","method":"n"}')), wire.JSONRPCNotification)
    failed = _parse(whole(b'{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}'))
    assert isinstance(failed, wire.JSONRPCError)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"   ",
        b"Server listening on port 3000",
        b"\x1b[32mready\x1b[0m",
        b"\xff\xfe\x00",
        b"{}",
        b"[]",
        b"null",
        b"5",
        b'{"level":"info","msg":"started","id":5}x',
        b'{"jsonrpc":"1.0","method":"x"}',
        b"{" * 100_000,
        b'{"jsonrpc":"2.0","id":9' * 3,
    ],
)
def test_junk_is_no_message_and_no_crash(junk: bytes) -> None:
    assert _parse(whole(junk)) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":12,"result":{"x": nope}}',
        b'{"jsonrpc": "2.0", "id": 12, "result": {"text": "\xff"}}',
        b' {"jsonrpc" : "2.0" , "id" : 12 , "result":',
        b'{"result":{"x": nope},"jsonrpc":"2.0","id":12}',
        b'{"result":{"x": nope},"jsonrpc":"2.0", "id" : 12 } \r',
        b'{"jsonrpc":"2.0","id":12,"result":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
def test_a_reply_that_cannot_be_read_becomes_an_error_for_the_call_it_answers(data: bytes) -> None:
    assert error_of(whole(data)) == (12, UNREADABLE_CODE)


def test_a_reply_too_large_becomes_an_error_for_its_call_wherever_the_id_stands() -> None:
    first = cut_line(b'{"jsonrpc":"2.0","id":12,"result":{"content":[{"text":"xxx', b'xxx"}]}}')
    last = cut_line(b'{"result":{"content":[{"type":"text","text":"xxx', b'xxx"}]},"jsonrpc":"2.0","id":12}')
    for line in (first, last):
        assert error_of(line) == (12, TOO_LARGE_CODE)
        message = _parse(line)
        assert isinstance(message, wire.JSONRPCError)
        assert "9,000,000 bytes" in message.error.message


def test_ids_inside_the_contents_of_a_too_large_reply_do_not_misdirect_it() -> None:
    head = b'{"jsonrpc":"2.0","id":12,"result":{"content":[{"text":"'
    tail = b'{\\"a\\":1,\\"id\\":99}"}]}}'
    assert error_of(cut_line(head, tail)) == (12, TOO_LARGE_CODE)
    ours_last = cut_line(
        b'{"result":{"structuredContent":{"x":1,"id":99,"t":"', b'"},"jsonrpc":"2.0","id":12}'
    )
    assert error_of(ours_last) == (12, TOO_LARGE_CODE)


def test_a_too_large_line_without_an_id_is_junk() -> None:
    assert _parse(cut_line(b'{"jsonrpc":"2.0","method":"notifications/message","params":{', b'"}}')) is None
    assert _parse(cut_line(b"AAAA", b"AAAA")) is None


def test_a_too_large_request_of_the_servers_own_does_not_answer_a_call_of_ours() -> None:
    head = b'{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"messages":["'
    assert _parse(cut_line(head, b'"]}}')) is None
    assert (
        _parse(cut_line(b'{"method":"sampling/createMessage","params":["', b'"],"jsonrpc":"2.0","id":3}'))
        is None
    )


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_crash_the_parser(data: bytes, is_cut: bool) -> None:
    for line in (
        BoundedLine(data, len(data), is_cut),
        BoundedLine(b'{"jsonrpc":"2.0","id":1,' + data, 99, is_cut),
    ):
        _parse(line)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**17), st.text(), st.booleans())
def test_any_text_in_a_reply_comes_back_as_it_was(number: int, text: str, is_ascii: bool) -> None:
    body = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
    data = json.dumps(body, ensure_ascii=is_ascii).encode()
    assert b"\n" not in data
    message = _parse(whole(data))
    assert isinstance(message, wire.JSONRPCResponse)
    assert message.result["content"][0]["text"] == text
