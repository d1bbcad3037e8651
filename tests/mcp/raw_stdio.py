"""JSON-RPC with a stdio server, without any SDK."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any


def talk(command: Sequence[str], messages: Sequence[Any], **options: Any) -> tuple[dict[Any, Any], int]:
    """Send messages, read the reply of every request, and close stdin: the replies by id, the exit code."""
    replies: dict[Any, Any] = {}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes, **options) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
            process.stdin.write(text + "\n")
            process.stdin.flush()
            # The end of its input would cancel a call that is still running.
            while isinstance(message, dict) and message.get("id") not in {None, *replies}:
                reply = json.loads(process.stdout.readline())
                assert reply["jsonrpc"] == "2.0"
                replies[reply.get("id")] = reply
        process.stdin.close()
        assert process.stdout.read() == ""
        return replies, process.wait(60)
