"""No command calls a real provider because a key is in `.env`: real commands, loopback providers."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.test_cli import Ran, one_line, turnwise
from tests.worlds.market.live.calls import play_replies
from tests.worlds.market.provider import Answer as Reply
from tests.worlds.market.provider import LoopbackProvider
from turnwise.tasks.load import load, save
from turnwise.types import Answer, Cause, DemoTurn, Matcher, Message, Task, ToolCall, ToolResult, Truth

KEY = "sk-TOPSECRET-0123456789"
KEYS = {
    "FMP": "FMP_API_KEY",
    "POLYGON": "POLYGON_API_KEY",
    "TAVILY": "TAVILY_API_KEY",
    "SLACK": "SLACK_BOT_TOKEN",
    "OPENAI": "OPENAI_API_KEY",
}
DEMO = Path(__file__).parents[3] / "recipes" / "cpu"
SMALL = (
    *("--set", "run.num_steps=1", "--set", "run.tasks_per_step=1", "--set", "rollout.group_size=2"),
    *("--set", "evaluation.num_tasks=1", "--set", "evaluation.num_samples=1"),
)
Providers = Mapping[str, LoopbackProvider]


@pytest.fixture
def providers() -> Iterator[Providers]:
    """A loopback server for every service that a key gives access to."""
    with ExitStack() as exits:
        found = {name: exits.enter_context(LoopbackProvider()) for name in KEYS}
        play_replies(found["FMP"], "fmp")
        play_replies(found["SLACK"], "slack")
        yield found


@pytest.fixture
def folder(tmp_path: Path, providers: Providers) -> Path:
    """A small demo with a task that reads and one that posts, and every key in `.env`."""
    warm.share_world(tmp_path)
    lines = [f"{key}={KEY}\n{name}_BASE_URL={providers[name].url}\n" for name, key in KEYS.items()]
    (tmp_path / ".env").write_text("".join(lines))
    chosen = ("quote_figure-train-0001", "post_figure-train-0001")
    tasks = [task for task in load(DEMO / "train.jsonl") if task.id in chosen]
    assert len(tasks) == 2
    save(tasks, tmp_path / "train.jsonl")
    shutil.copy(DEMO / "test.jsonl", tmp_path / "test.jsonl")
    shutil.copy(Path(warm.light()).with_name("mcp.json"), tmp_path)
    write_recipe(tmp_path)
    return tmp_path


def write_recipe(folder: Path, tools: str = "", tasks: str = 'test = "test.jsonl"') -> None:
    (folder / "recipe.toml").write_text(
        f'tools.mcp = "mcp.json"\n{tools}\n'
        f'[tasks]\ntrain = "train.jsonl"\n{tasks}\n'
        "[rollout]\ntokens_per_turn = 96\ntokens_per_episode = 2048\nlockstep = true\n"
        '[policy]\ntuning = "full"\n[sft]\nnum_epochs = 1\n'
        f'[run]\nfolder = "{folder}/runs"\ntasks_per_step = 1\n'
    )


def requests_to(providers: Providers) -> dict[str, list[str]]:
    """The method and path of every request, by provider."""
    return {
        name: [f"{seen.method} {seen.path.removeprefix('/api/')}" for seen in provider.requests]
        for name, provider in providers.items()
        if provider.requests
    }


def live_task(name: str, server: str, *calls: tuple[str, Mapping[str, Any]], world: str = "") -> Task:
    """A task whose demonstration makes these calls and then says done."""
    made = tuple(ToolCall(str(place), tool, given) for place, (tool, given) in enumerate(calls))
    results = tuple(ToolResult(call.id, "", Cause.OK, 0.0) for call in made)
    return Task(
        name,
        (Message("user", f"Do {name}, then say done."),),
        (server,),
        Truth(answer=Answer("done", Matcher.NORMALISED)),
        demonstration=(DemoTurn("", made, results), DemoTurn("done")),
        world=world,
    )


PRICE = ("fmp_get_previous_close", {"symbol": "AAPL"})
CHANNELS: tuple[str, dict[str, str]] = ("list_slack_channels", {})
POST = ("send_slack_message", {"channel": "general", "message": "hello"})


def ok(ran: Ran) -> Ran:
    assert ran.code == 0, ran
    assert KEY not in ran.out + ran.err
    return ran


def test_a_key_alone_makes_no_command_call_its_provider(folder: Path, providers: Providers) -> None:
    doctor = turnwise("doctor", "recipe.toml", cwd=folder)  # its exit code depends on the machine's sandbox
    assert requests_to(providers) == {}
    commands = [
        ["sft", "recipe.toml", "--out", "warm"],
        ["train", "recipe.toml", *SMALL],
        ["tools"],
        ["call", "send_slack_message", '{"channel": "general", "message": "hello"}'],
        ["tasks", "check", "train.jsonl"],
    ]
    ran = [ok(turnwise(*command, cwd=folder)) for command in commands]
    assert requests_to(providers) == {}
    assert "played by its demonstration" in doctor.out
    assert "learned from 2 demonstrations, 0 dropped" in ran[0].out
    notice = "SLACK_BOT_TOKEN is set but not used: slack answers from the embedded world; "
    notice += 'tools.live = ["slack"] uses the real service'
    assert all(notice in done.out + done.err for done in (doctor, *ran[:3]))
    assert "the embedded world; --live slack calls the real service" in ran[3].err


def test_only_the_server_that_the_recipe_names_is_live(folder: Path, providers: Providers) -> None:
    save([live_task("price", "fmp", PRICE)], folder / "train.jsonl")
    write_recipe(folder, 'tools.live = ["fmp"]', tasks="")
    ran = ok(turnwise("rollout", "recipe.toml", "--script", *SMALL, cwd=folder))
    assert "fmp is live: its 9 tools only read from FMP" in ran.err
    assert requests_to(providers) == {"FMP": ["GET quote"] * 2}
    assert providers["FMP"].requests[0].headers["apikey"] == KEY
    doctor = turnwise("doctor", "recipe.toml", cwd=folder)
    assert "fmp key: FMP_API_KEY is valid: FMP answered fmp_get_previous_close" in doctor.out
    assert set(requests_to(providers)) == {"FMP"}


def test_a_live_server_writes_only_if_live_writes_allows_it(folder: Path, providers: Providers) -> None:
    save([live_task("look", "slack", CHANNELS)], folder / "train.jsonl")
    write_recipe(folder, 'tools.live = ["slack"]', tasks="")
    ran = ok(turnwise("rollout", "recipe.toml", "--script", *SMALL, cwd=folder))
    reads = "list_slack_channels, get_slack_channel_history only read"
    assert f"slack is live: {reads} from Slack; send_slack_message is withheld" in ran.err
    assert set(requests_to(providers)["SLACK"]) == {"GET conversations.list"}
    save([live_task("post", "slack", CHANNELS, POST)], folder / "train.jsonl")
    ran = turnwise("sft", "recipe.toml", "--out", "warm", cwd=folder)
    assert ran.code == 2, ran
    assert "task 'post' needs send_slack_message, which is withheld" in ran.err
    doctor = turnwise("doctor", "recipe.toml", cwd=folder)
    assert doctor.code == 1
    assert "SLACK_BOT_TOKEN is valid" in doctor.out
    assert f"slack is live: {reads} from Slack" in doctor.out
    assert set(requests_to(providers)["SLACK"]) == {"GET conversations.list"}
    write_recipe(folder, 'tools.live = ["slack"]\ntools.live_writes = ["slack"]', tasks="")
    ran = ok(turnwise("rollout", "recipe.toml", "--script", *SMALL, cwd=folder))
    assert "slack is live and may write to Slack: send_slack_message posts to channels" in ran.err
    assert requests_to(providers)["SLACK"].count("POST chat.postMessage") == 2
    assert set(requests_to(providers)) == {"SLACK"}


def test_the_call_command_uses_the_embedded_world_without_live(folder: Path, providers: Providers) -> None:
    post = ["call", POST[0], json.dumps(POST[1])]
    assert "ok" in ok(turnwise(*post, cwd=folder)).out
    ran = turnwise(*post, "--live", "slack", cwd=folder)
    assert ran.code == 2, ran
    assert "send_slack_message is withheld" in one_line(ran.err)
    assert requests_to(providers) == {}
    ok(turnwise(*post, "--live", "slack", "--allow-writes", cwd=folder))
    assert requests_to(providers) == {"SLACK": ["GET conversations.list", "POST chat.postMessage"]}


def test_a_task_of_the_embedded_world_is_refused_on_a_live_server(folder: Path, providers: Providers) -> None:
    save([live_task("price", "fmp", PRICE, world="embedded")], folder / "train.jsonl")
    served = {"command": str(Path(warm.light()).with_name("turnwise"))}
    served |= {"args": ["serve", "fmp", "--backend", "live"]}
    (folder / "live.json").write_text(json.dumps({"mcpServers": {"fmp": served}}))
    write_recipe(folder, tasks="")
    for command, code in (
        (["tasks", "check", "train.jsonl", "--mcp", "live.json"], 1),
        (["train", "recipe.toml", "--dry-run", "--set", "tools.mcp=live.json"], 1),
        (["train", "recipe.toml", "--set", "tools.mcp=live.json"], 2),
        (["rollout", "recipe.toml", "--script", "--set", "tools.live=['fmp']"], 2),
        (["sft", "recipe.toml", "--out", "warm", "--set", "tools.live=['fmp']"], 2),
    ):
        ran = turnwise(*command, cwd=folder)
        assert ran.code == code, (command, ran)
        assert "task 'price' is of the embedded world, and server 'fmp' is live (FMP)" in ran.out + ran.err
    assert requests_to(providers) == {}
    doctor = turnwise("doctor", "recipe.toml", "--set", "tools.live=['fmp']", cwd=folder)
    assert "embedded world, and server 'fmp' is live (FMP)" in doctor.out
    assert requests_to(providers) == {"FMP": ["GET quote"]}, "the key is tried, and no episode is played"


def test_the_doctor_distinguishes_a_refused_key_from_an_unreachable_provider(
    folder: Path, providers: Providers
) -> None:
    write_recipe(folder, 'tools.live = ["fmp", "polygon"]', tasks="")
    save([live_task("price", "fmp", PRICE)], folder / "train.jsonl")
    providers["FMP"].play("quote", Reply({"Error Message": f"Invalid API KEY {KEY}"}, 401))
    with (folder / ".env").open("a") as file:
        file.write("POLYGON_BASE_URL=http://127.0.0.1:9\n")
    ran = turnwise("doctor", "recipe.toml", cwd=folder)
    assert ran.code == 1
    assert "fmp key: FMP_API_KEY is refused: FMP refused the key in FMP_API_KEY (401): Invalid API" in ran.out
    assert "polygon key: Polygon is unreachable: Polygon could not be reached" in ran.out
    assert KEY not in ran.out + ran.err


def test_a_mistake_about_live_servers_is_one_line_before_anything_is_created(folder: Path) -> None:
    (folder / ".env").unlink()
    for command, tools, words in (
        ("train", 'tools.live = ["fmp"]', ["'fmp' is live and needs FMP_API_KEY"]),
        ("rollout", 'tools.live = ["fpm"]', ["tools.live", "'fpm'", "fmp, polygon, tavily, slack"]),
    ):
        write_recipe(folder, tools)
        ran = turnwise(command, "recipe.toml", cwd=folder)
        assert ran.code == 2, ran
        assert all(word in one_line(ran.err) for word in words), ran.err
    assert not (folder / "runs").exists()
