"""A proxy that delays the tool results of a stdio server: `delayed.py FILE COMMAND ARGS...`.

FILE contains the delay in milliseconds and is read for every result. Everything else passes at once, and
results are delayed concurrently.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

_LINE_BYTES = 1 << 24


def seconds_in(delay: Path) -> float:
    return float(delay.read_text()) / 1000


def send(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


async def main(delay: Path, command: list[str]) -> None:
    loop = asyncio.get_running_loop()
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LINE_BYTES)
    assert server.stdin is not None
    assert server.stdout is not None
    requests = asyncio.StreamReader(_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    called: set[Any] = set()

    async def forward(inbound: asyncio.StreamWriter) -> None:
        async for line in requests:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                called.add(message["id"])
            inbound.write(line)
            await inbound.drain()
        inbound.close()  # like the client

    forwarding = asyncio.create_task(forward(server.stdin))
    async for line in server.stdout:
        message = json.loads(line)
        if message.get("id") in called and "method" not in message:
            called.discard(message["id"])
            loop.call_later(seconds_in(delay), send, line)
        else:
            send(line)
    forwarding.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
