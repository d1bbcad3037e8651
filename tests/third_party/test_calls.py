"""What calls to third-party servers give: results of every kind, errors, time-outs, cancellation."""

import asyncio
import json
import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

from tests.third_party.installed import block, spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Cause, Fault, ServerLoss, ToolCall, ToolResult

LONG = ("trigger-long-running-operation", {"duration": 60, "steps": 60})


def play(server: ServerSpec, *turns: list[tuple[str, dict[str, Any]]]) -> list[list[ToolResult]]:
    """One episode on one server: each turn's calls go out together."""

    async def episode() -> list[list[ToolResult]]:
        async with Pool([server]) as pool, pool.lease([server.name], "episode") as toolbox:
            return [
                await toolbox.call([ToolCall(str(index), *call) for index, call in enumerate(turn)])
                for turn in turns
            ]

    return asyncio.run(episode())


def tapped(tap: Path, **options: Any) -> ServerSpec:
    """The everything server, with a copy of every byte we send it written to `tap`."""
    plain = block("everything", data="real", **options)  # the copy is read from outside
    server = shlex.join([plain["command"], *plain["args"]])
    command = {"command": "sh", "args": ["-c", f"tee {shlex.quote(str(tap))} | {server}"]}
    [wrapped] = parse({"everything": {**plain, **command}}, {}, directory=tap.parent)
    return wrapped


def sent(tap: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tap.read_text().splitlines()]


def test_text_images_resources_and_links_become_one_text() -> None:
    [results] = play(
        spec("everything"),
        [
            ("echo", {"message": "héllo ☃"}),
            ("get-tiny-image", {}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
            ("get-resource-links", {"count": 2}),
            ("get-annotated-message", {"messageType": "success", "includeImage": True}),
        ],
    )
    assert [result.cause for result in results] == [Cause.OK] * 6
    echo, image, text_resource, blob_resource, links, annotated = (result.content for result in results)
    assert echo == "Echo: héllo ☃"
    assert re.search(r"\n\[image image/png, [\d,]+ bytes, not shown\]\n", image)
    assert "\n[resource demo://resource/dynamic/text/1]\nResource 1: " in text_resource
    assert re.search(r"\[resource demo://resource/dynamic/blob/1, [^]]+ bytes, not shown\]", blob_resource)
    assert links.count("[resource link ") == 2
    assert re.search(r"^Operation completed successfully\n\[image ", annotated)


def test_structured_content_is_given_once() -> None:
    [[result]] = play(spec("everything"), [("get-structured-content", {"location": "Chicago"})])
    assert result.cause is Cause.OK
    assert set(json.loads(result.content)) == {"temperature", "conditions", "humidity"}


def test_a_tools_own_error_is_the_models_and_its_text_is_the_observation() -> None:
    [results] = play(
        spec("filesystem"),
        [("read_text_file", {"path": "nothing-here.txt"}), ("read_text_file", {"path": "/etc/passwd"})],
    )
    assert [(result.cause, result.fault) for result in results] == [(Cause.TOOL_ERROR, Fault.MODEL)] * 2
    assert "ENOENT" in results[0].content
    assert "Access denied" in results[1].content


def test_bad_arguments_and_unknown_tools_never_reach_the_server(tmp_path: Path) -> None:
    tap = tmp_path / "sent.jsonl"
    [results] = play(
        tapped(tap),
        [
            ("get-sum", {"a": 1, "b": "two"}),
            ("get-structured-content", {"location": "Atlantis"}),
            ("ecko", {"message": "hi"}),
            ("get-sum", {"a": 1, "b": 2}),
        ],
    )
    causes = [result.cause for result in results]
    assert causes == [Cause.BAD_ARGUMENTS, Cause.BAD_ARGUMENTS, Cause.UNKNOWN_TOOL, Cause.OK]
    assert "did you mean 'echo'" in results[2].content
    assert results[3].content == "The sum of 1 and 2 is 3."
    calls = [message["params"] for message in sent(tap) if message["method"] == "tools/call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [("get-sum", {"a": 1, "b": 2})]


def test_calls_that_change_something_keep_their_order_within_a_turn() -> None:
    turn: list[tuple[str, dict[str, Any]]] = []
    for number in range(5):
        turn.append(("write_file", {"path": "n.txt", "content": f"{number}"}))
        turn.append(("read_text_file", {"path": "n.txt"}))
    [results] = play(spec("filesystem"), turn)
    assert [result.content for result in results[1::2]] == ["0", "1", "2", "3", "4"]


async def test_calls_that_only_read_run_together() -> None:
    slow = ("trigger-long-running-operation", {"duration": 0.5, "steps": 1})

    async def episode() -> tuple[list[ToolResult], float]:
        async with Pool([spec("everything")]) as pool, pool.lease(["everything"], "e") as toolbox:
            started = time.perf_counter()
            results = await toolbox.call([ToolCall(str(index), *slow) for index in range(8)])
            return results, time.perf_counter() - started

    results, seconds = await episode()
    assert all("completed. Duration: 0.5" in result.content for result in results)
    assert seconds < 8 * 0.5, "one after the other"


def test_a_call_that_takes_too_long_is_cancelled_and_the_server_goes_on(tmp_path: Path) -> None:
    tap = tmp_path / "sent.jsonl"
    started = time.perf_counter()
    [[late], [echo]] = play(tapped(tap, timeout_seconds=3), [LONG], [("echo", {"message": "still here"})])
    assert time.perf_counter() - started < 30
    assert (late.cause, late.fault, late.num_retries) == (Cause.TIMEOUT, Fault.INFRA, 0)
    assert echo.content == "Echo: still here"
    [call_id] = [message["id"] for message in sent(tap) if message.get("params", {}).get("name") == LONG[0]]
    cancelled = [message for message in sent(tap) if message["method"] == "notifications/cancelled"]
    # a ping after the time-out may be cancelled too, on a machine that is slow to answer it
    assert call_id in [message["params"]["requestId"] for message in cancelled]


async def test_an_abandoned_episode_cancels_its_call_and_the_next_one_is_served(tmp_path: Path) -> None:
    tap = tmp_path / "sent.jsonl"
    server = tapped(tap, isolation="shared")

    async def episodes() -> tuple[str, list[ServerLoss]]:
        async with Pool([server]) as pool:

            async def abandoned() -> None:
                async with pool.lease(["everything"], "abandoned") as toolbox:
                    await toolbox.call([ToolCall("1", *LONG)])

            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(abandoned())
                while not (tap.exists() and LONG[0] in tap.read_text()):
                    await asyncio.sleep(0.02)
                task.cancel()
            async with pool.lease(["everything"], "next") as toolbox:
                [result] = await toolbox.call([ToolCall("1", "echo", {"message": "next"})])
                return result.content, list(toolbox.losses)

    content, losses = await episodes()
    assert content == "Echo: next"
    assert losses == []
    assert [message["method"] for message in sent(tap)].count("notifications/cancelled") == 1


def test_what_a_server_says_unasked_disturbs_nothing() -> None:
    """The everything server then sends log messages and resource updates between its answers."""
    noisy = [("toggle-simulated-logging", {}), ("toggle-subscriber-updates", {})]
    turns = play(spec("everything"), noisy, [("echo", {"message": "quiet"})] * 20)
    assert [result.cause for turn in turns for result in turn] == [Cause.OK] * 22


def test_a_server_gets_nothing_of_our_environment_but_what_finds_programs() -> None:
    os.environ["TURNWISE_TEST_SECRET"] = "do-not-leak-me"
    try:
        [[result]] = play(spec("everything"), [("get-env", {})])
    finally:
        del os.environ["TURNWISE_TEST_SECRET"]
    assert set(json.loads(result.content)) <= {"PATH", "HOME", "PWD"}


def test_a_secret_of_the_env_block_reaches_its_server_and_never_a_result() -> None:
    described = block("everything")
    described["env"] = {"EVERYTHING_API_KEY": "sk-123456-very-secret", "EVERYTHING_MODE": "demo"}
    [server] = parse({"everything": described}, {}, directory=Path.cwd())
    [[result]] = play(server, [("get-env", {})])
    seen = json.loads(result.content)
    assert seen["EVERYTHING_API_KEY"] == "[redacted]"
    assert seen["EVERYTHING_MODE"] == "demo"
