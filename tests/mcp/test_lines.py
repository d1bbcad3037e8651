"""The stdout of a server becomes messages, in chunks of any size and within bounds."""

import json
import tracemalloc

import mcp_types as wire
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnwise.mcp.processes.launch import TOO_LARGE_CODE, UNREADABLE_CODE, _parse
from turnwise.system.net.line_splitter import BoundedLine, LineSplitter

EDGE = 256


def split(data: bytes, sizes: list[int], max_bytes: int) -> tuple[list[BoundedLine], LineSplitter]:
    """Feed the data in chunks of these sizes, in a cycle."""
    splitter = LineSplitter(max_bytes)
    lines: list[BoundedLine] = []
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        lines.extend(splitter.feed(data[start : start + size]))
        start += size
        turn += 1
    return lines, splitter


def complete(data: bytes) -> BoundedLine:
    return BoundedLine(data, len(data), is_cut=False)


def cut_line(head: bytes, tail: bytes, num_bytes: int = 9_000_000) -> BoundedLine:
    return BoundedLine(head + b"\n" + tail, num_bytes, is_cut=True)


LINES = st.builds(
    lambda data, times: data.replace(b"\n", b" ") * times, st.binary(max_size=60), st.integers(1, 20)
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(LINES, max_size=8),
    LINES,
    st.lists(st.integers(1, 900), min_size=1, max_size=5),
    st.integers(EDGE, 900),
)
@example([b'{"jsonrpc":"2.0","id":7,' + b"x" * 20_000 + b',"id":8}', b"next"], b"", [1], 10_000)
@example([b"x" * 300, b"x" * 301], b"", [33], 300)
def test_lines_are_the_same_in_chunks_of_any_size(
    contents: list[bytes], unfinished: bytes, sizes: list[int], max_bytes: int
) -> None:
    data = b"".join(content + b"\n" for content in contents) + unfinished
    lines, splitter = split(data, sizes, max_bytes)
    assert lines == [
        complete(content)
        if len(content) <= max_bytes
        else BoundedLine(content[:EDGE] + b"\n" + content[-EDGE:], len(content), is_cut=True)
        for content in contents
        if content
    ]
    assert bool(splitter.num_skipped_bytes) == (len(unfinished) > max_bytes)


def test_an_endless_line_is_counted_but_not_kept() -> None:
    splitter = LineSplitter(1_000_000)
    tracemalloc.start()
    for _ in range(200):
        assert splitter.feed(b"x" * (1 << 16)) == []
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert splitter.num_skipped_bytes == 200 * (1 << 16)
    assert held_bytes < 3_000_000


def error_of(line: BoundedLine) -> tuple[object, int]:
    message = _parse(line)
    assert isinstance(message, wire.JSONRPCError)
    return message.id, message.error.code


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}\r', wire.JSONRPCResponse),
        (b'{"jsonrpc":"2.0","method":"ping","id":"a"}', wire.JSONRPCRequest),
        (b'{"jsonrpc":"2.0","method":"n"}', wire.JSONRPCNotification),
        (b'{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}', wire.JSONRPCError),
    ],
)
def test_requests_replies_errors_and_notifications_are_read(data: bytes, kind: type) -> None:
    assert isinstance(_parse(complete(data)), kind)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**17), st.text(), st.booleans())
def test_any_text_in_a_reply_is_read_unchanged(number: int, text: str, is_ascii: bool) -> None:
    body = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
    message = _parse(complete(json.dumps(body, ensure_ascii=is_ascii).encode()))
    assert isinstance(message, wire.JSONRPCResponse)
    assert (message.id, message.result["content"][0]["text"]) == (number, text)


JUNK = [
    b"",
    b"   ",
    b"Server listening on port 3000",
    b"\x1b[32mready\x1b[0m",
    b"\xff\xfe\x00",
    b"{}",
    b"[]",
    b"5",
]
BROKEN = [
    b'{"level":"info","msg":"started","id":5}x',
    b'{"jsonrpc":"1.0","method":"x"}',
    b"null",
    b"{" * 100_000,
    b'{"jsonrpc":"2.0","id":9' * 3,
]


@pytest.mark.parametrize("junk", [*JUNK, *BROKEN])
def test_junk_is_skipped(junk: bytes) -> None:
    assert _parse(complete(junk)) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":12,"result":{"x": nope}}',
        b' {"jsonrpc" : "2.0" , "id" : 12 , "result":',
        b'{"result":{"x": nope},"jsonrpc":"2.0","id":12}',
        b'{"result":{"x": nope},"jsonrpc":"2.0", "id" : 12 } \r',
        b'{"jsonrpc":"2.0","id":12,"result":' + b"[" * 5_000 + b"]" * 4_999 + b"}",
    ],
)
def test_an_unreadable_reply_becomes_an_error_of_its_call(data: bytes) -> None:
    assert error_of(complete(data)) == (12, UNREADABLE_CODE)


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"content":[{"text":"xxx', b'xxx"}]}}'),
        (b'{"result":{"content":[{"type":"text","text":"xxx', b'xxx"}]},"jsonrpc":"2.0","id":12}'),
        # ids inside the contents
        (b'{"jsonrpc":"2.0","id":12,"result":{"content":[{"text":"', b'{\\"a\\":1,\\"id\\":99}"}]}}'),
        (b'{"result":{"structuredContent":{"x":1,"id":99,"t":"', b'"},"jsonrpc":"2.0","id":12}'),
    ],
)
def test_a_reply_that_is_too_large_becomes_an_error_of_its_call(head: bytes, tail: bytes) -> None:
    assert error_of(cut_line(head, tail)) == (12, TOO_LARGE_CODE)
    assert "9,000,000 bytes" in str(_parse(cut_line(head, tail)))


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{', b'"}}'),
        (b"AAAA", b"AAAA"),
        # a request of the server, which has an id too
        (b'{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"messages":["', b'"]}}'),
        (b'{"method":"sampling/createMessage","params":["', b'"],"jsonrpc":"2.0","id":3}'),
    ],
)
def test_a_line_that_is_too_large_and_not_a_reply_is_skipped(head: bytes, tail: bytes) -> None:
    assert _parse(cut_line(head, tail)) is None
