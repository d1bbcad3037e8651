"""What an episode could change outside of itself, and when a run is refused for it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.mcp.faulty_http import http_server, remote
from tests.mcp.leases import spec_of
from tests.mcp.notes import http_spec, notes_over_http
from tests.rollout.stage import task
from turnwise.cli import app
from turnwise.mcp.pool import Pool
from turnwise.mcp.processes.exposure import Exposure, exposure, refusal
from turnwise.mcp.spec import ServerSpec
from turnwise.setup.bench import require_harmless, used_servers


def found(block: dict[str, Any], writers: tuple[str, ...] = ("write",), **more: Any) -> Exposure:
    """The exposure of a server, outside of walls unless `is_enclosed`."""
    spec = spec_of("s", {"command": "server", **block}, Path("/"))
    return exposure(spec, writers, **{"is_own": False, **more})


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"env": {"GITHUB_TOKEN": "x"}}, "GITHUB_TOKEN gives access to"),
        ({"env": {"DATABASE_URL": "postgres://db.example.com/shop"}}, "the service at db.example.com"),
        ({"args": ["--api", "https://jira.example.com/rest"]}, "the service at jira.example.com"),
    ],
)
def test_a_server_with_an_account_or_a_service_is_refused(block: dict[str, Any], words: str) -> None:
    assert words in str(found(block))
    assert found(block).is_refused
    assert not found({**block, "turnwise": {"data": "real"}}).is_refused
    assert not found({**block, "turnwise": {"network": "real"}}, is_enclosed=True, network="real").is_refused
    assert not found(block, is_enclosed=True).is_refused, "without network it reaches nothing"
    assert not found(block, writers=()).is_refused
    assert not found(block, is_own=True).is_refused, "our own servers isolate episodes"


def test_a_server_that_cannot_be_walled_in_is_refused_with_the_reason() -> None:
    exposed = found({"turnwise": {"network": "real"}}, not_private="/data: 900 MB are too many to copy")
    assert exposed.is_refused, "a yes to the network is none to the files"
    for words in ("900 MB are too many", '"turnwise": {"data": "real"}', '"turnwise": {"deny": ["write"]}'):
        assert words in refusal(exposed)


def test_a_server_with_private_copies_or_nothing_outside_is_not_refused() -> None:
    assert not found({}, private=["/data"], is_enclosed=True).is_refused
    assert not found({}).is_refused


VOLUMES = [["-v", "/home/ada/data:/data"], ["--mount", "type=bind,source=/home/ada/data,target=/data"]]


@pytest.mark.parametrize("volume", VOLUMES, ids=["-v", "--mount"])
def test_a_folder_that_a_container_mounts_is_real_and_refused(volume: list[str]) -> None:
    exposed = found({"command": "/usr/bin/docker", "args": ["run", "-i", *volume, "image"]})
    assert exposed.is_refused
    assert "the real files under /home/ada/data, which /usr/bin/docker mounts" in str(exposed)


def test_a_container_with_network_is_refused_and_one_without_is_not() -> None:
    def container(*args: str, **options: Any) -> Exposure:
        return found({"command": "docker", "args": ["run", "-i", *args, "image"], "turnwise": options})

    assert "whatever it reaches over the network" in str(container())
    assert container().is_refused
    assert not container(network="real").is_refused
    assert not container("--network", "none").is_refused
    assert not container("--net=none").is_refused


def test_an_exposure_is_described_in_words() -> None:
    assert str(found({}, private=["/data"], is_enclosed=True)) == (
        "episodes change private copies of /data; all other folders are private or read-only; no network"
    )
    assert str(found({}, is_enclosed=True)).startswith("episodes change none of your files; ")
    assert str(found({}, writers=(), is_enclosed=True, network=True)) == "its tools only read; open network"


def test_a_server_without_walls_is_described_as_such() -> None:
    real = str(found({"turnwise": {"data": "real"}}))
    assert real == "episodes could change the real files and services that it reaches, as you allow; no walls"
    assert str(found({"turnwise": {"data": "real"}}, writers=())) == "its tools only read; no walls"
    container = found({"command": "docker", "args": ["run", "-i", "--network", "none", "image"]})
    assert str(container).endswith("; no walls but its container; no network")
    assert "no walls" not in str(found({}, is_enclosed=True)) + str(found({}, is_own=True))


async def test_a_remote_server_that_may_write_is_refused_unless_it_isolates_episodes() -> None:
    async def check(spec: ServerSpec) -> None:
        async with Pool([spec]) as pool:
            await pool.connect()
            require_harmless(pool, [spec.name])

    with notes_over_http() as keyed, http_server() as url:
        await check(http_spec(keyed))
        with pytest.raises(ValueError, match=r'(?s)the server at 127\.0\.0\.1 keeps.*"data": "real"'):
            await check(remote(url))
        await check(remote(url, data="real"))
        await check(remote(url, deny=["do"]))


def test_a_server_that_no_task_uses_is_not_checked() -> None:
    a, a_and_b, unspecified = (replace(task(), servers=names) for names in (("a",), ("a", "b"), ()))
    assert used_servers([a, a_and_b], ["a", "b", "c"]) == {"a", "b"}
    assert used_servers([a, unspecified], ["a", "b"]) == {"a", "b"}
    assert used_servers([], ["a"]) == {"a"}


def test_recorded_calls_that_could_change_real_data_are_not_repeated(tmp_path: Path) -> None:
    prompt = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": '<tool_call>{"name": "do", "arguments": {}}</tool_call>'},
        {"role": "tool", "content": "fine"},
        {"role": "assistant", "content": "Done."},
    ]
    row = {
        "prompt": prompt,
        "reward_spec": {"ground_truth": {"expected_tools": ["do"]}},
        "extra_info": {"task_id": "a1", "tools_available": ["do"]},
    }
    old, new, mcp = (str(tmp_path / name) for name in ("old.json", "new.jsonl", "mcp.json"))
    Path(old).write_text(json.dumps([row]))
    with http_server() as url:
        Path(mcp).write_text(json.dumps({"mcpServers": {"remote": {"url": url}}}))
        convert = ["tasks", "convert", old, new, "--mcp", mcp]
        refused = CliRunner().invoke(app, convert)
        assert refused.exit_code == 2
        assert '"data": "real"' in refused.output
        assert not Path(new).exists()
        assert CliRunner().invoke(app, [*convert, "--no-demonstrations"]).exit_code == 0
