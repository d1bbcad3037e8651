"""The recipe or `mcp.json` makes a server live, and a key is passed only to the server that needs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.worlds.market.live import test_slack as slack
from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.setup.servers import PROVIDER_VARIABLES, ReadyServers, load_servers
from turnwise.types import Fault, ToolCall
from turnwise.worlds.market.contract import WRITES, contract
from turnwise.worlds.market.live.providers import ACCESS
from turnwise.worlds.market.services import DEFAULT_FILE

VARIABLES = {name: f"value-of-{name}" for name in PROVIDER_VARIABLES}


def built_in(**chosen: Any) -> ReadyServers:
    return load_servers(DEFAULT_FILE, variables=VARIABLES, **chosen)


def of_block(folder: Path, block: dict[str, Any], **chosen: Any) -> ReadyServers:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"ours": block}}))
    return load_servers(file, variables=VARIABLES, **chosen)


def test_set_keys_change_nothing_and_reach_no_server() -> None:
    servers = built_in()
    assert servers.live == ()
    for spec in (*servers.specs, *load(DEFAULT_FILE, VARIABLES)):
        assert "--backend" not in spec.args
        assert not PROVIDER_VARIABLES & spec.env.keys()
    assert list(servers.unused_keys) == ["fmp", "polygon", "tavily", "slack"]
    assert load_servers(DEFAULT_FILE, variables={}).notes == ()


def test_a_live_server_gets_only_its_own_key() -> None:
    servers = built_in(live=["fmp", "slack"], live_writes=["slack"])
    by_name = {spec.name: spec for spec in servers.specs}
    assert by_name["fmp"].args == ("serve", "fmp", "--backend", "live")
    assert by_name["slack"].args == ("serve", "slack", "--backend", "live", "--allow-writes")
    given = {name: PROVIDER_VARIABLES & spec.env.keys() for name, spec in by_name.items()}
    assert given == {
        "fmp": {"FMP_API_KEY", "FMP_BASE_URL"},
        "slack": {"SLACK_BOT_TOKEN", "SLACK_BASE_URL"},
        "polygon": set(),
        "tavily": set(),
        "python": set(),
    }
    assert list(servers.unused_keys) == ["polygon", "tavily"]


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("turnwise", ["serve", "slack"]),
        ("/opt/venv/bin/turnwise", ["serve", "--http", "slack"]),
        ("python", ["-m", "turnwise", "serve", "slack"]),
        ("uvx", ["turnwise", "serve", "slack"]),
    ],
)
def test_every_way_to_start_a_built_in_server_is_recognised(
    tmp_path: Path, command: str, args: list[str]
) -> None:
    block = {"command": command, "args": args, "env": {"SLACK_BOT_TOKEN": "x", "OTHER": "y"}}
    [spec] = of_block(tmp_path, block).specs
    assert spec.env == {"OTHER": "y"}
    servers = of_block(tmp_path, block, live=["ours"])
    assert servers.live[0].withheld == ("send_slack_message",)
    assert servers.specs[0].options.deny == ("send_slack_message",)
    assert servers.specs[0].env["SLACK_BOT_TOKEN"] == "x", "its own block wins over the environment"


def test_mcp_json_can_make_a_server_live_and_allow_writes(tmp_path: Path) -> None:
    block = {"command": "turnwise", "args": ["serve", "slack", "--backend=live", "--allow-writes"]}
    servers = of_block(tmp_path, block)
    assert servers.live[0].may_write
    assert servers.specs[0].args == tuple(block["args"])
    assert servers.specs[0].env["SLACK_BOT_TOKEN"] == VARIABLES["SLACK_BOT_TOKEN"]


def test_a_server_that_is_not_ours_keeps_the_variables_of_its_block(tmp_path: Path) -> None:
    block = {"command": "npx", "args": ["slack-mcp"], "env": {"SLACK_BOT_TOKEN": "${SLACK_BOT_TOKEN}"}}
    servers = of_block(tmp_path, block)
    assert servers.specs[0].env == {"SLACK_BOT_TOKEN": VARIABLES["SLACK_BOT_TOKEN"]}
    assert servers.notes == ()


@pytest.mark.parametrize(
    ("args", "chosen", "words"),
    [
        (["serve", "fmp", "--backend", "auto"], {}, "--backend: expected embedded or live, got 'auto'"),
        (["serve", "fmp", "--backend", "embedded"], {"live": ["ours"]}, "with --backend embedded"),
        (["serve", "python"], {"live": ["ours"]}, "python has no live provider"),
        (["serve", "fmp"], {"live": ["fmp"]}, "those that do are ours"),
        (["serve", "fmp"], {"live": ["ours"], "live_writes": ["ours"]}, "has no tool that writes"),
        (["serve", "slack"], {"live_writes": ["ours"]}, "'ours' is not live"),
    ],
)
def test_mistakes_name_the_server_and_the_value(
    tmp_path: Path, args: list[str], chosen: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        of_block(tmp_path, {"command": "turnwise", "args": args}, **chosen)


def test_every_provider_has_a_trial_that_reads_and_says_what_its_writing_tools_do() -> None:
    for name, access in ACCESS.items():
        tools = {tool["name"] for tool in contract()["servers"][name]["tools"]}
        assert access.trial.tool in tools - WRITES
        assert set(access.effects) == tools & WRITES


async def test_the_server_itself_refuses_to_write_to_the_live_service() -> None:
    """Even for a client that offers every tool that is listed."""

    async def post(*more: str) -> Any:
        [spec] = [spec for spec in warm.built_in({}) if spec.name == "slack"]
        env = {"SLACK_BOT_TOKEN": "xoxb-1234567890", "SLACK_BASE_URL": provider.url}
        args = (*spec.args, "--backend", "live", *more)
        async with Pool([spec.model_copy(update={"args": args, "env": env})]) as pool:
            async with pool.lease(["slack"], "e") as toolbox:
                [result] = await toolbox.call([ToolCall("1", "send_slack_message", slack.HELLO)])
                return result

    with LoopbackProvider() as provider:
        result = await post()
        assert result.fault is Fault.MODEL
        assert "send_slack_message is switched off: this server only reads" in result.content
        assert provider.requests == []
        provider.play("chat.postMessage", Answer(slack.POSTED))
        assert (await post("--allow-writes")).fault is Fault.NONE
        assert len(provider.requests) == 1
