"""The doctor finds what is really wrong: broken servers, tasks, models, disks, and says what to do."""

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from rich.console import Console
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BloomConfig, MixtralConfig, PreTrainedConfig

from tests import warm
from tests.mcp.test_enclosure import SCRIBE
from tests.rollout.stage import task
from tests.run.stage import write_model
from tests.shown import recipe_in, shown_task, sound_setup, write_servers
from tests.test_cli import SECRET, fresh, is_plain, no_torch, turnwise
from turnwise.config import Recipe
from turnwise.doctor import Finding, FindingLevel, examine, print_finding
from turnwise.doctor.machine import check_device, check_disk, check_package, check_packages
from turnwise.doctor.recipe import (
    check_model,
    check_remote,
    check_rollout,
    check_tasks,
    needed_servers,
    reach_servers,
    some_task,
)
from turnwise.servers.backends import load_servers
from turnwise.tasks.load import save
from turnwise.types import Cause, DemoTurn, ToolCall, ToolResult


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sound_setup(tmp_path)


def found(folder: Path, *overrides: str, environ: dict[str, str] | None = None) -> list[Finding]:
    servers = load_servers(folder / "mcp.json", variables={})

    async def collect() -> list[Finding]:
        looking = examine(servers, environ or {}, recipe_in(folder, *overrides), needed_bytes=1)
        return [finding async for finding in looking]

    return asyncio.run(collect())


def of(findings: list[Finding], what: str) -> list[Finding]:
    return [finding for finding in findings if finding.what == what]


def listed(findings: AsyncIterator[Finding]) -> list[Finding]:
    async def collect() -> list[Finding]:
        return [finding async for finding in findings]

    return asyncio.run(collect())


def test_a_sound_setup_is_found_sound_after_a_real_episode(folder: Path) -> None:
    findings = found(folder)
    # Only what the machine itself lacks may be other than good.
    assert {finding.what for finding in findings if finding.level is not FindingLevel.GOOD} <= {"sandbox"}
    seen = {finding.what for finding in findings}
    assert {"Python", "torch", "peft", "renderers", "device", "disk", "sandbox"} <= seen
    assert of(findings, "server notebook")[0].detail.startswith("5 tools")
    assert "1 in train.jsonl" in of(findings, "tasks")[0].detail
    assert "0.0 million parameters" in of(findings, "model")[0].detail
    assert of(findings, "sampling")[0].detail.startswith("8 tokens sampled after a prompt of ")
    assert "played by its demonstration: 2 tool calls, answered" in of(findings, "rollout")[0].detail


def test_a_server_that_cannot_start_is_bad_and_nothing_is_blamed_on_its_tasks(folder: Path) -> None:
    broken = {"command": sys.executable, "args": ["-c", "import no_such_module"], "env": {"KEY": SECRET}}
    write_servers(folder, notebook=broken)
    findings = found(folder)
    [server] = of(findings, "server notebook")
    assert server.level is FindingLevel.BAD
    assert "no_such_module" in server.detail
    assert server.advice
    assert [finding.level for finding in of(findings, "tasks")] == [FindingLevel.WARNING]
    assert of(findings, "rollout")[0].detail.startswith("not tried")
    assert SECRET not in repr(findings)


async def test_a_bad_entry_of_mcp_json_is_a_finding_with_its_line_and_bad_only_if_a_task_uses_it(
    folder: Path,
) -> None:
    servers = json.loads((folder / "mcp.json").read_text())["mcpServers"]
    servers["tickets"] = {"command": "tickets", "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}}
    servers["far"] = {"type": "sse", "url": "https://example.com/sse"}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=1))
    loaded = load_servers(folder / "mcp.json", variables={})
    used = needed_servers(recipe_in(folder), loaded)
    for needed, level in ((None, FindingLevel.BAD), (used, FindingLevel.WARNING)):
        findings = (await reach_servers(loaded, needed)).findings
        [tickets], [far] = of([*findings], "server tickets"), of([*findings], "server far")
        assert (tickets.level, far.level) == (level, level)
        line = (folder / "mcp.json").read_text().splitlines().index('  "tickets": {') + 1
        assert f"mcp.json:{line}: env.TOKEN: ${{NO_SUCH_VARIABLE}} is not set" in tickets.detail
        assert "'sse' is the retired HTTP+SSE transport" in far.detail


async def test_a_server_that_is_refused_and_that_no_task_uses_only_warns(folder: Path) -> None:
    servers = json.loads((folder / "mcp.json").read_text())["mcpServers"]
    other = {"command": sys.executable, "args": [SCRIBE], "env": {"OTHER_TOKEN": "x"}}
    write_servers(folder, **servers, other=other)
    loaded = load_servers(folder / "mcp.json", variables={})
    for needed, level in (
        (None, FindingLevel.BAD),
        (needed_servers(recipe_in(folder), loaded), FindingLevel.WARNING),
    ):
        findings = (await reach_servers(loaded, needed)).findings
        [other] = of([*findings], "server other")
        assert other.level is level
        assert "what OTHER_TOKEN gives access to" in other.detail


async def test_a_task_that_names_a_missing_tool_is_bad_with_its_file_row_and_field(folder: Path) -> None:
    save([shown_task(), task("t2", tools=("wriet",))], folder / "train.jsonl")
    reached = await reach_servers(load_servers(folder / "mcp.json", variables={}))
    [finding] = check_tasks(recipe_in(folder), reached)
    assert finding.level is FindingLevel.BAD
    assert "train.jsonl: row 2: tools.0" in finding.detail
    assert "did you mean 'write'" in finding.detail


async def test_many_task_problems_are_counted_and_a_recipe_without_tasks_is_told_so(folder: Path) -> None:
    save([task(f"t{number}", tools=("no",)) for number in range(9)], folder / "train.jsonl")
    reached = await reach_servers(load_servers(folder / "mcp.json", variables={}))
    findings = list(check_tasks(recipe_in(folder), reached))
    assert len(findings) == 6
    assert findings[-1].detail == "and 4 more problems"
    [finding] = check_tasks(Recipe(), reached)
    assert finding.level is FindingLevel.WARNING
    assert "tasks.train" in finding.detail


@pytest.mark.parametrize("name", ["/no/such/folder", "./runs/gone", "runs/one/export"])
def test_a_model_folder_that_does_not_exist_is_bad_at_once(folder: Path, name: str) -> None:
    [finding] = listed(check_model(recipe_in(folder, f"model.path={name}"), None, ()))
    assert (finding.what, finding.level) == ("model", FindingLevel.BAD)
    assert f"{name}: no such folder" in finding.detail
    assert "model.path" in finding.advice


def test_a_name_on_a_hub_that_cannot_be_reached_is_not_tried_for_minutes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    [finding] = listed(check_model(recipe_in(folder, "model.path=someone/a-model"), None, ()))
    assert finding.level is FindingLevel.BAD
    assert "127.0.0.1 cannot be reached" in finding.detail


def test_a_folder_without_weights_is_bad_with_what_loading_said(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    [finding] = listed(check_model(recipe_in(folder, f"model.path={tmp_path}/empty"), None, ()))
    assert (finding.what, finding.level) == ("model", FindingLevel.BAD)
    assert "Error" in finding.detail


def test_weights_that_are_not_numbers_are_found_by_sampling(tmp_path: Path, folder: Path) -> None:
    broken = write_model(tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    save_file(
        {name: torch.full_like(tensor, torch.nan) for name, tensor in tensors.items()},
        broken / "model.safetensors",
        metadata={"format": "pt"},
    )
    findings = listed(check_model(recipe_in(folder, f"model.path={broken}"), None, ()))
    assert [finding.level for finding in findings] == [FindingLevel.GOOD, FindingLevel.BAD]
    assert findings[-1].what == "sampling"
    assert "logits that are not numbers" in findings[-1].detail


def test_a_prompt_that_leaves_no_room_is_bad(folder: Path) -> None:
    recipe = recipe_in(folder, "rollout.tokens_per_episode=16")
    *_, finding = listed(check_model(recipe, shown_task(), ()))
    assert (finding.what, finding.level) == ("sampling", FindingLevel.BAD)
    assert "rollout.tokens_per_episode is 16: raise it" in finding.detail


async def test_a_demonstration_that_no_longer_earns_its_outcome_is_bad(folder: Path) -> None:
    finding = await check_rollout(recipe_in(folder), shown_task("something else"))
    assert finding.level is FindingLevel.BAD
    assert "without success" in finding.detail


async def test_a_demonstration_that_does_not_fit_the_limits_is_bad_and_names_them(folder: Path) -> None:
    finding = await check_rollout(recipe_in(folder, "rollout.tokens_per_turn=8"), shown_task())
    assert finding.level is FindingLevel.BAD
    assert "truncated" in finding.detail
    assert "rollout.tokens_per_turn" in finding.advice


def of_another_kind(folder: Path, config: PreTrainedConfig) -> Path:
    """A model at random with the tokenizer of the sound one."""
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / "other")
    for file in (folder / "model").glob("*token*"):
        (folder / "other" / file.name).write_bytes(file.read_bytes())
    for file in (folder / "model").glob("*.jinja"):
        (folder / "other" / file.name).write_bytes(file.read_bytes())
    return folder / "other"


def test_a_model_whose_memory_cannot_be_planned_is_a_warning_that_names_it(folder: Path) -> None:
    path = of_another_kind(folder, BloomConfig(vocab_size=640, hidden_size=32, n_layer=2, n_head=4))
    findings = listed(check_model(recipe_in(folder, f"model.path={path}"), shown_task(), ()))
    [finding] = of(findings, "model")
    assert finding.level is FindingLevel.WARNING
    assert "a BloomForCausalLM is not planned" in finding.detail
    assert "update.tokens_per_microbatch" in finding.advice


def test_adapters_that_a_model_cannot_have_are_bad(folder: Path) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = MixtralConfig(vocab_size=640, num_key_value_heads=2, num_local_experts=2, **sizes)
    path = of_another_kind(folder, config)
    findings = listed(check_model(recipe_in(folder, f"model.path={path}"), shown_task(), ()))
    [finding] = of(findings, "model")
    assert finding.level is FindingLevel.BAD
    assert "policy.lora_targets: adapters on MixtralExperts" in finding.detail


async def test_without_a_demonstration_the_model_itself_plays_and_its_silence_is_a_warning(
    folder: Path,
) -> None:
    finding = await check_rollout(recipe_in(folder), task("bare"))
    assert finding.level is FindingLevel.WARNING
    assert "played by the model: 0 tool calls" in finding.detail
    assert "turnwise sft" in finding.advice


async def test_a_tool_that_is_down_during_the_episode_is_bad(folder: Path) -> None:
    down = ToolCall("1", "fail", {"how": "provider"})
    result = ToolResult("1", "", Cause.OK, 0.0)
    broken = task("down", demonstration=(DemoTurn("", (down,), (result,)), DemoTurn("done")))
    finding = await check_rollout(recipe_in(folder), broken)
    assert finding.level is FindingLevel.BAD
    assert "503" in finding.detail


def test_the_task_tried_is_the_first_with_a_demonstration(folder: Path) -> None:
    save([task("bare"), shown_task()], folder / "train.jsonl")
    chosen = some_task(recipe_in(folder), ())
    assert chosen is not None
    assert chosen.id == "shown"


def test_too_little_disk_is_bad_and_a_folder_that_is_not_there_yet_is_looked_for_above(
    tmp_path: Path,
) -> None:
    enough = check_disk(tmp_path / "runs" / "deep", 1)
    assert enough.level is FindingLevel.GOOD
    assert str(tmp_path) in enough.detail
    short = check_disk(tmp_path / "runs", 10**18)
    assert short.level is FindingLevel.BAD
    assert "run.folder" in short.advice


def test_a_missing_package_is_told_with_what_to_install() -> None:
    finding = check_package("no-such-package", FindingLevel.BAD, "turnwise[models]")
    assert (finding.level, finding.advice) == (FindingLevel.BAD, "pip install 'turnwise[models]'")
    assert {finding.what for finding in check_packages(needs_models=True)} >= {"torch", "peft", "mcp"}


@pytest.mark.skipif(find_spec("vllm") is not None, reason="it is installed")
def test_an_engine_that_is_not_installed_is_bad_before_anything_is_loaded(folder: Path) -> None:
    [finding] = of(found(folder, "engine.kind=vllm", "rollout.lockstep=false"), "vLLM")
    assert finding.level is FindingLevel.BAD
    assert "turnwise[vllm]" in finding.advice


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_bad() -> None:
    finding = check_device("cuda")
    assert finding.level is FindingLevel.BAD
    assert "model.device" in finding.advice


def test_what_others_wrote_into_a_finding_stays_text() -> None:
    out = io.StringIO()
    hostile = Finding(
        "server \x1b[31m", FindingLevel.BAD, "[bold]red[/] \x1b]0;title\x07 \u202e", "[link]x[/]"
    )
    print_finding(hostile, Console(file=out, force_terminal=False))
    assert is_plain(out.getvalue())
    assert "\u202e" not in out.getvalue()
    assert "[bold]red[/]" in out.getvalue()


def test_the_command_exits_1_when_something_is_bad_and_speaks_json(folder: Path) -> None:
    ran = turnwise("doctor", "recipe.toml", "--json", "--disk", "1e9", cwd=folder, python=fresh)
    assert ran.code == 1, ran
    bad = [finding["what"] for finding in json.loads(ran.out) if finding["level"] == "bad"]
    assert [what for what in bad if what != "sandbox"] == ["disk"]
    ran = turnwise("doctor", "mcp.json", cwd=folder)
    assert "server notebook: 5 tools" in ran.out
    assert "rollout" not in ran.out
    assert is_plain(ran.out)


@pytest.mark.parametrize("args", [["gone.toml"], ["gone.json"], ["recipe.toml", "--set", "model.pth=x"]])
def test_wrong_usage_of_the_doctor_is_one_line(folder: Path, args: list[str]) -> None:
    ran = turnwise("doctor", *args, cwd=folder, env=no_torch(folder), python=warm.light)
    assert ran.code == 2
    assert ran.err.startswith("turnwise: ")
    assert ran.err.count("\n") == 1


async def test_an_engine_elsewhere_that_does_not_answer_is_found_at_once(folder: Path) -> None:
    recipe = recipe_in(folder, "engine.kind=remote", "engine.remote.url=http://127.0.0.1:9")
    finding = await check_remote(recipe)
    assert finding.level is FindingLevel.BAD
    assert "http://127.0.0.1:9 is not there" in finding.detail
    assert "turnwise engine" in finding.advice
