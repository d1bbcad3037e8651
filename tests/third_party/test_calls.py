"""Calls to third-party servers: results of every kind, errors, time-outs, cancellation."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

from tests.mcp.leases import ask, leased, spec_of
from tests.third_party.installed import block, spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Cause, Fault, ToolCall

LONG = ("trigger-long-running-operation", {"duration": 60, "steps": 60})


def tapped(tap: Path, **options: Any) -> ServerSpec:
    """The everything server, with a copy of every byte we send it written to `tap`."""
    plain = block("everything", data="real", **options)  # the copy is read from outside
    server = shlex.join([plain["command"], *plain["args"]])
    args = ["-c", f"tee {shlex.quote(str(tap))} | {server}"]
    return spec_of("everything", {**plain, "command": "sh", "args": args}, tap.parent)


def sent(tap: Path, method: str) -> list[dict[str, Any]]:
    """The requests and notifications of this method that were sent."""
    messages = [json.loads(line) for line in tap.read_text().splitlines()]
    return [message for message in messages if message["method"] == method]


async def test_text_images_resources_links_and_structured_content_become_one_text() -> None:
    calls = [
        ("echo", {"message": "héllo ☃"}, r"Echo: héllo ☃"),
        ("get-tiny-image", {}, r".*\n\[image image/png, [\d,]+ bytes, not shown\]\n.*"),
        (
            "get-resource-reference",
            {"resourceType": "Text", "resourceId": 1},
            r".*\n\[resource demo://resource/dynamic/text/1\]\nResource 1: .*",
        ),
        (
            "get-resource-reference",
            {"resourceType": "Blob", "resourceId": 1},
            r".*\[resource demo://resource/dynamic/blob/1, [^]]+ bytes, not shown\].*",
        ),
        ("get-resource-links", {"count": 2}, r"[^[]*\[resource link [^[]*\[resource link [^[]*"),
        (
            "get-annotated-message",
            {"messageType": "success", "includeImage": True},
            r"Operation completed successfully\n\[image .*",
        ),
        ("get-structured-content", {"location": "Chicago"}, r'\{"temperature":[^{]*\}'),
        # From now on it sends log messages and resource updates between its answers.
        ("toggle-simulated-logging", {}, ".*"),
        ("toggle-subscriber-updates", {}, ".*"),
        *[("echo", {"message": "quiet"}, "Echo: quiet")] * 10,
    ]
    async with leased(spec("everything")) as toolbox:
        for tool, arguments, pattern in calls:
            result = await ask(toolbox, tool, **arguments)
            assert result.cause is Cause.OK
            assert re.fullmatch(f"(?s){pattern}", result.content), result.content


async def test_an_error_of_a_tool_is_an_observation_of_the_model() -> None:
    async with leased(spec("filesystem")) as toolbox:
        for path, words in (("nothing-here.txt", "ENOENT"), ("/etc/passwd", "Access denied")):
            result = await ask(toolbox, "read_text_file", path=path)
            assert (result.cause, result.fault) == (Cause.TOOL_ERROR, Fault.MODEL)
            assert words in result.content


async def test_wrong_calls_are_not_sent_and_late_calls_are_cancelled(tmp_path: Path) -> None:
    tap = tmp_path / "sent.jsonl"
    async with leased(tapped(tap, timeout_seconds=3)) as toolbox:
        for tool, arguments, cause, words in (
            ("get-sum", {"a": 1, "b": "two"}, Cause.BAD_ARGUMENTS, "'two'"),
            ("get-structured-content", {"location": "Atlantis"}, Cause.BAD_ARGUMENTS, "'Atlantis'"),
            ("ecko", {"message": "hi"}, Cause.UNKNOWN_TOOL, "did you mean 'echo'"),
            ("get-sum", {"a": 1, "b": 2}, Cause.OK, "The sum of 1 and 2 is 3."),
        ):
            result = await ask(toolbox, tool, **arguments)
            assert result.cause is cause
            assert words in result.content
        [call] = sent(tap, "tools/call")
        assert (call["params"]["name"], call["params"]["arguments"]) == ("get-sum", {"a": 1, "b": 2})
        late = await ask(toolbox, LONG[0], **LONG[1])
        assert (late.cause, late.fault, late.num_retries) == (Cause.TIMEOUT, Fault.INFRA, 0)
        assert (await ask(toolbox, "echo", message="still here")).content == "Echo: still here"
    [late_id] = [call["id"] for call in sent(tap, "tools/call") if call["params"]["name"] == LONG[0]]
    # a ping after the time-out may be cancelled too, on a machine that is slow to answer it
    assert late_id in [message["params"]["requestId"] for message in sent(tap, "notifications/cancelled")]


async def test_a_cancelled_episode_cancels_its_call_and_the_next_one_is_served(tmp_path: Path) -> None:
    tap = tmp_path / "sent.jsonl"
    async with Pool([tapped(tap, isolation="shared")]) as pool:

        async def cancelled() -> None:
            async with pool.lease(["everything"], "cancelled") as toolbox:
                await toolbox.call([ToolCall("1", *LONG)])

        async with asyncio.TaskGroup() as group:
            task = group.create_task(cancelled())
            while not (tap.exists() and LONG[0] in tap.read_text()):
                await asyncio.sleep(0.02)
            task.cancel()
        async with pool.lease(["everything"], "next") as toolbox:
            assert (await ask(toolbox, "echo", message="next")).content == "Echo: next"
            assert list(toolbox.losses) == []
    assert len(sent(tap, "notifications/cancelled")) == 1
