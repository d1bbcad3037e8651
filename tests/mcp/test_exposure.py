"""What an episode could change outside of itself, and when a run is refused for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.mcp.notes import http_spec, notes_over_http
from tests.mcp.test_http_faults import http_server, remote
from turnwise.assembly.workbench import require_harmless, used_servers
from turnwise.cli import app
from turnwise.mcp.exposure import Exposure, exposure, refusal
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Message, Task, Truth


def spec(**block: Any) -> ServerSpec:
    [parsed] = parse({"s": {"command": "server", **block}}, {}, directory=Path("/"))
    return parsed


def found(block: dict[str, Any], writers: tuple[str, ...] = ("write",), **more: Any) -> Exposure:
    return exposure(spec(**block), writers, **{"is_own": False, **more})


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"env": {"GITHUB_TOKEN": "x"}}, "GITHUB_TOKEN gives access to"),
        ({"env": {"DATABASE_URL": "postgres://db.example.com/shop"}}, "the service at db.example.com"),
        ({"args": ["--api", "https://jira.example.com/rest"]}, "the service at jira.example.com"),
    ],
)
def test_a_server_with_an_account_or_a_service_behind_it_is_refused_until_it_is_allowed(
    block: dict[str, Any], words: str
) -> None:
    assert words in str(found(block))
    assert found(block).is_refused
    assert not found({**block, "turnwise": {"data": "real"}}).is_refused
    assert not found(block, writers=()).is_refused


def test_a_folder_that_cannot_be_private_is_refused_with_the_reason() -> None:
    exposed = found({}, not_private="/data: 900 MB are too many to copy for every episode")
    assert exposed.is_refused
    words = refusal(exposed)
    assert "900 MB are too many" in words
    assert '"turnwise": {"data": "real"}' in words
    assert '"turnwise": {"deny": ["write"]}' in words


def test_a_server_over_private_copies_or_without_anything_outside_is_not_refused() -> None:
    assert not found({}, private=["/data"]).is_refused
    assert not found({}).is_refused


@pytest.mark.parametrize(
    "args",
    [
        ["run", "-i", "-v", "/home/ada/data:/data", "image"],
        ["run", "-i", "--mount", "type=bind,source=/home/ada/data,target=/data", "image"],
    ],
)
def test_a_folder_that_a_container_gets_is_real_and_refused(args: list[str]) -> None:
    exposed = found({"command": "/usr/bin/docker", "args": args})
    assert exposed.is_refused
    assert "the real files under /home/ada/data, which /usr/bin/docker mounts" in str(exposed)
    assert not found({"command": "docker", "args": ["run", "-i", "--rm", "image"]}).is_refused


def test_what_a_server_can_change_is_said_in_words() -> None:
    assert str(found({}, private=["/data"], is_enclosed=True)) == (
        "episodes change private copies of /data; all other folders are private or read-only"
    )
    assert str(found({}, is_enclosed=True)).startswith("episodes change none of your files; ")
    assert "writes to other folders are not contained: no unshare" in str(found({}, leak="no unshare"))


def test_our_own_servers_keep_episodes_apart_whatever_their_env_holds() -> None:
    assert not found({"env": {"FMP_API_KEY": "x"}}, is_own=True).is_refused


async def test_a_remote_server_that_may_write_is_refused_unless_it_keeps_episodes_apart() -> None:
    async def check(*specs: ServerSpec) -> None:
        async with Pool(specs) as pool:
            await pool.connect()
            require_harmless(pool, [spec.name for spec in specs])

    with notes_over_http() as keyed, http_server() as url:
        await check(http_spec(keyed))
        with pytest.raises(ValueError, match=r"what the server at 127\.0\.0\.1 keeps") as caught:
            await check(*remote(url))
        assert '"data": "real"' in str(caught.value)
        await check(*remote(url, data="real"))
        await check(*remote(url, deny=["do"]))


def test_a_server_that_no_task_uses_is_not_asked_about() -> None:
    def task(*servers: str) -> Task:
        return Task("t", (Message("user", "?"),), servers, Truth())

    assert used_servers([task("a"), task("a", "b")], ["a", "b", "c"]) == {"a", "b"}
    assert used_servers([task("a"), task()], ["a", "b"]) == {"a", "b"}
    assert used_servers([], ["a"]) == {"a"}


def test_recorded_calls_are_not_made_again_where_they_could_change_what_is_real(tmp_path: Path) -> None:
    said = '<tool_call>{"name": "do", "arguments": {}}</tool_call>'
    row = {
        "prompt": [
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": said},
            {"role": "tool", "content": "fine"},
            {"role": "assistant", "content": "Done."},
        ],
        "reward_spec": {"ground_truth": {"expected_tools": ["do"]}},
        "extra_info": {"task_id": "a1", "tools_available": ["do"]},
    }
    (tmp_path / "old.json").write_text(json.dumps([row]))
    with http_server() as url:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"remote": {"url": url}}}))
        command = [
            str(tmp_path / "old.json"),
            str(tmp_path / "new.jsonl"),
            "--mcp",
            str(tmp_path / "mcp.json"),
        ]
        refused = CliRunner().invoke(app, ["tasks", "convert", *command])
        assert refused.exit_code == 2
        assert '"data": "real"' in refused.output
        assert not (tmp_path / "new.jsonl").exists()
        assert CliRunner().invoke(app, ["tasks", "convert", *command, "--no-demonstrations"]).exit_code == 0
