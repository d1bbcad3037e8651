"""The doctor finds real mistakes in servers, tasks, models and disks, and says what to do."""

import io
import json
import shutil
import sys
from collections.abc import Sequence
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
from tests.setup.resolved import with_servers
from tests.shown import recipe_in, shown_task, sound_setup, write_servers
from tests.test_cli import SECRET, fresh, is_plain, no_torch, turnwise
from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.config import Recipe
from turnwise.config.optional_packages import install_command
from turnwise.run.checks import Finding, FindingLevel, examine, print_finding
from turnwise.run.checks.endpoints import check_endpoints
from turnwise.run.checks.findings import verdict
from turnwise.run.checks.machine import check_device, check_disk, check_package, check_packages
from turnwise.run.checks.model import (
    check_model,
    check_remote,
    check_rollout,
    check_tasks,
    needed_servers,
    some_task,
)
from turnwise.run.checks.servers import reach_servers
from turnwise.setup.servers import load_servers
from turnwise.tasks.load import save
from turnwise.types import Cause, DemoTurn, Task, ToolCall, ToolResult

BAD, WARNING, GOOD = FindingLevel.BAD, FindingLevel.WARNING, FindingLevel.GOOD


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_setup(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A sound setup that the test may change; the model is shared."""
    for name in ("recipe.toml", "mcp.json", "train.jsonl"):
        shutil.copy(sound / name, tmp_path)
    return tmp_path


async def examined(folder: Path, *overrides: str) -> list[Finding]:
    servers = load_servers(folder / "mcp.json", variables={})
    looking = examine(servers, recipe_in(folder, *overrides), needed_bytes=1)
    return [finding async for finding in looking]


async def of_model(folder: Path, path: object = "", shown: Task | None = None, *more: str) -> list[Finding]:
    recipe = recipe_in(folder, *([f"model.path={path}"] if path else []), *more)
    return [finding async for finding in check_model(with_servers(recipe), shown, ())]


def of(findings: Sequence[Finding], what: str) -> Finding:
    [found] = [finding for finding in findings if finding.what == what]
    return found


async def test_a_sound_setup_has_only_good_findings_and_plays_an_episode(folder: Path) -> None:
    findings = await examined(folder)
    # Only what the machine itself lacks may be other than good, and an untrained model never succeeds.
    assert {finding.what for finding in findings if finding.level is not GOOD} <= {
        "sandbox",
        "first episodes",
    }
    seen = {finding.what for finding in findings}
    assert {"Python", "torch", "peft", "renderers", "device", "disk", "sandbox"} <= seen
    assert of(findings, "server notebook").detail.startswith("5 tools")
    assert "1 in train.jsonl" in of(findings, "tasks").detail
    assert "0.0 million parameters" in of(findings, "model").detail
    assert of(findings, "sampling").detail.startswith("8 tokens sampled after a prompt of ")
    assert "played by its demonstration: 2 tool calls, answered" in of(findings, "rollout").detail
    said = verdict(findings)
    assert said.startswith("nothing is bad, but 0 of 2 episodes succeeded: ")
    assert said.endswith(" First: " + of(findings, "first episodes").advice)
    assert "turnwise " in said


def test_nothing_is_called_well_that_has_never_succeeded() -> None:
    package = Finding("torch", GOOD, "2.6")
    assert verdict([package, Finding("x", BAD, "y")]) == "1 bad"
    assert verdict([package]) == "nothing is bad; no episode was played to a success"
    assert verdict([package, Finding("first episodes", GOOD, "1 of 16 episodes succeeded")]) == "all is well"


async def test_a_server_that_cannot_start_is_bad_and_its_tasks_are_not_blamed(folder: Path) -> None:
    broken = {"command": sys.executable, "args": ["-c", "import no_such_module"], "env": {"KEY": SECRET}}
    write_servers(folder, notebook=broken)
    findings = await examined(folder)
    server = of(findings, "server notebook")
    assert (server.level, bool(server.advice)) == (BAD, True)
    assert "no_such_module" in server.detail
    assert of(findings, "tasks").level is WARNING
    assert of(findings, "rollout").detail.startswith("not tried")
    assert SECRET not in repr(findings)


async def test_a_wrong_server_is_bad_with_its_reason_but_only_a_warning_if_no_task_uses_it(
    folder: Path,
) -> None:
    servers = json.loads((folder / "mcp.json").read_text())["mcpServers"]
    servers["tickets"] = {"command": "tickets", "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}}
    servers["far"] = {"type": "sse", "url": "https://example.com/sse"}
    servers["other"] = {
        "command": sys.executable,
        "args": [SCRIBE],
        "env": {"OTHER_TOKEN": "x"},
        "turnwise": {"network": True},
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=1))
    line = (folder / "mcp.json").read_text().splitlines().index('  "tickets": {') + 1
    loaded = load_servers(folder / "mcp.json", variables={})
    for needed, level in ((None, BAD), (needed_servers(recipe_in(folder).tasks, loaded), WARNING)):
        findings = (await reach_servers(loaded, needed)).findings
        for name, reason in {
            "tickets": f"mcp.json:{line}: env.TOKEN: ${{NO_SUCH_VARIABLE}} is not set",
            "far": "'sse' is the retired HTTP+SSE transport",
            "other": "what OTHER_TOKEN gives access to",
        }.items():
            finding = of(findings, f"server {name}")
            assert finding.level is level
            assert reason in finding.detail


async def test_task_problems_name_file_row_and_field_and_beyond_five_are_counted(folder: Path) -> None:
    save(
        [shown_task(), *(task(f"t{number}", tools=("wriet",)) for number in range(9))], folder / "train.jsonl"
    )
    reached = await reach_servers(load_servers(folder / "mcp.json", variables={}))
    findings = list(check_tasks(with_servers(recipe_in(folder)), reached))
    assert (len(findings), findings[0].level) == (6, BAD)
    assert "train.jsonl: row 2: tools.0" in findings[0].detail
    assert "did you mean 'write'" in findings[0].detail
    assert findings[-1].detail == "and 4 more problems"
    [finding] = check_tasks(with_servers(Recipe()), reached)
    assert finding.level is WARNING
    assert "tasks.train" in finding.detail


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/no/such/folder", "/no/such/folder: no such folder"),
        ("runs/one/export", "runs/one/export: no such folder"),
        ("someone/a-model", "127.0.0.1 cannot be reached"),
        ("{empty}", "Error"),
    ],
)
async def test_a_model_that_cannot_be_loaded_is_bad_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, detail: str
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    (folder / "empty").mkdir()
    [finding] = await of_model(folder, path.format(empty=folder / "empty"))
    assert (finding.what, finding.level) == ("model", BAD)
    assert detail in finding.detail
    if "no such folder" in detail:
        assert "model.path" in finding.advice


async def test_weights_that_are_not_numbers_are_found_by_sampling(folder: Path) -> None:
    broken = write_model(folder / "broken")
    tensors = load_file(broken / "model.safetensors")
    nan = {name: torch.full_like(tensor, torch.nan) for name, tensor in tensors.items()}
    save_file(nan, broken / "model.safetensors", metadata={"format": "pt"})
    model, _, sampling = await of_model(folder, broken)
    assert model.level is GOOD
    assert (sampling.what, sampling.level) == ("sampling", BAD)
    assert "logits that are not numbers" in sampling.detail


async def test_a_prompt_that_leaves_no_room_is_bad(folder: Path) -> None:
    *_, finding = await of_model(folder, "", shown_task(), "rollout.tokens_per_episode=16")
    assert (finding.what, finding.level) == ("sampling", BAD)
    assert "rollout.tokens_per_episode is 16: raise it" in finding.detail


MIXTRAL = MixtralConfig(
    vocab_size=640,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=2,
)


@pytest.mark.parametrize(
    ("config", "level", "detail", "advice"),
    [
        (
            BloomConfig(vocab_size=640, hidden_size=32, n_layer=2, n_head=4),
            WARNING,
            "a BloomForCausalLM is not planned",
            "update.tokens_per_microbatch",
        ),
        (MIXTRAL, BAD, "policy.lora_targets: adapters on MixtralExperts", ""),
    ],
    ids=["its memory cannot be planned", "it cannot have adapters"],
)
async def test_a_model_of_an_unsupported_kind_is_named(
    sound: Path, folder: Path, config: PreTrainedConfig, level: FindingLevel, detail: str, advice: str
) -> None:
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / "other")
    for pattern in ("*token*", "*.jinja"):
        for file in (sound / "model").glob(pattern):
            shutil.copy(file, folder / "other")
    finding = of(await of_model(folder, folder / "other", shown_task()), "model")
    assert finding.level is level
    assert detail in finding.detail
    assert advice in finding.advice


DOWN = (ToolCall("1", "fail", {"how": "provider"}),), (ToolResult("1", "", Cause.OK, 0.0),)


@pytest.mark.parametrize(
    ("played", "override", "level", "detail", "advice"),
    [
        (shown_task("something else"), "", BAD, "without success", ""),
        (shown_task(), "rollout.tokens_per_turn=8", BAD, "truncated", "rollout.tokens_per_turn"),
        (task("down", demonstration=(DemoTurn("", *DOWN), DemoTurn("done"))), "", BAD, "503", ""),
        (task("bare"), "", WARNING, "played by the model: 0 tool calls", "turnwise sft"),
    ],
    ids=["a wrong demonstration", "one that does not fit", "a tool that is down", "no demonstration"],
)
async def test_an_episode_that_goes_wrong_is_a_finding(
    folder: Path, played: Task, override: str, level: FindingLevel, detail: str, advice: str
) -> None:
    finding = await check_rollout(with_servers(recipe_in(folder, *filter(None, [override]))), played)
    assert finding.level is level
    assert detail in finding.detail
    assert advice in finding.advice


def test_the_task_that_is_tried_is_the_first_with_a_demonstration(folder: Path) -> None:
    save([task("bare"), shown_task()], folder / "train.jsonl")
    chosen = some_task(recipe_in(folder).tasks, ())
    assert chosen is not None
    assert chosen.id == "shown"


async def test_an_engine_server_that_does_not_answer_is_bad() -> None:
    finding = await check_remote("http://127.0.0.1:9", is_lockstep=False)
    assert finding.level is BAD
    assert "http://127.0.0.1:9 is not there" in finding.detail
    assert "turnwise engine" in finding.advice


JUDGED = 'rewards=[{name="outcome"}, {name="judge", weight=0.5, options={model="m", base_url="URL"}}]'


async def endpoint_findings(recipe: Recipe) -> list[Finding]:
    found = check_endpoints(recipe.rewards, recipe.user, is_replayed=recipe.tools.is_replayed)
    return [finding async for finding in found]


@pytest.mark.parametrize(
    ("answer", "level", "detail"),
    [
        (Answer({"choices": [{"message": {"content": '{"score": 1, "reason": "kind"}'}}]}), GOOD, ""),
        (Answer({"error": {"message": "no model m"}}, 404), BAD, "404: no model m"),
        (Answer(b"", 500), BAD, "500"),
    ],
    ids=["answers", "refuses", "fails"],
)
async def test_endpoints_of_judges_and_users_are_asked_once(
    folder: Path, answer: Answer, level: FindingLevel, detail: str
) -> None:
    with LoopbackProvider() as provider:
        provider.play("chat/completions", answer)
        keys = (JUDGED.replace("URL", provider.url), "user.model=m", f"user.url={provider.url}")
        found = await endpoint_findings(recipe_in(folder, *keys))
    assert [(finding.what, finding.level) for finding in found] == [("judge", level), ("user", level)]
    assert all(detail in finding.detail for finding in found)
    assert len(provider.requests) == 2


async def test_endpoints_without_their_key_are_bad(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    far = "https://api.openai.com/v1"
    keys = (JUDGED.replace("URL", far), "user.model=m", f"user.url={far}")
    found = await endpoint_findings(recipe_in(folder, *keys))
    assert [finding.level for finding in found] == [BAD, BAD]
    assert all("OPENAI_API_KEY" in finding.detail for finding in found)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
async def test_an_engine_that_is_not_installed_is_bad_before_anything_is_loaded(folder: Path) -> None:
    finding = of(await examined(folder, "engine.kind=vllm", "rollout.lockstep=false"), "vLLM")
    assert finding.level is BAD
    assert install_command("vllm") in finding.advice


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_the_machine_lacks_is_bad() -> None:
    finding = check_device("cuda")
    assert finding.level is BAD
    assert "model.device" in finding.advice


def test_too_little_disk_is_bad_also_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    enough = check_disk(tmp_path / "runs" / "deep", 1)
    assert enough.level is GOOD
    assert str(tmp_path) in enough.detail
    short = check_disk(tmp_path / "runs", 10**18)
    assert short.level is BAD
    assert "run.folder" in short.advice


def test_a_missing_package_is_bad_with_what_to_install() -> None:
    finding = check_package("no-such-package", BAD, "train")
    assert (finding.level, finding.advice) == (BAD, install_command("train"))
    assert {finding.what for finding in check_packages(needs_models=True)} >= {"torch", "peft", "mcp"}


def test_foreign_text_in_a_finding_cannot_control_the_terminal() -> None:
    out = io.StringIO()
    hostile = Finding("server \x1b[31m", BAD, "[bold]red[/] \x1b]0;title\x07 \u202e", "[link]x[/]")
    print_finding(hostile, Console(file=out, force_terminal=False))
    assert is_plain(out.getvalue())
    assert "\u202e" not in out.getvalue()
    assert "[bold]red[/]" in out.getvalue()


def test_the_command_exits_with_1_if_something_is_bad_and_can_print_json(folder: Path) -> None:
    ran = turnwise("doctor", "recipe.toml", "--json", "--disk", "1e9", cwd=folder, python=fresh)
    assert ran.code == 1, ran
    bad = [finding["what"] for finding in json.loads(ran.out) if finding["level"] == "bad"]
    assert [what for what in bad if what != "sandbox"] == ["disk"]
    ran = turnwise("doctor", "mcp.json", cwd=folder)
    assert "server notebook: 5 tools" in ran.out
    assert "rollout" not in ran.out
    assert is_plain(ran.out)


def test_wrong_arguments_are_one_line_before_torch_is_loaded(folder: Path) -> None:
    env = no_torch(folder)
    for args in (["gone.toml"], ["gone.json"], ["recipe.toml", "--set", "model.pth=x"]):
        ran = turnwise("doctor", *args, cwd=folder, env=env, python=warm.light)
        assert ran.code == 2
        assert ran.err.startswith("turnwise: ")
        assert ran.err.count("\n") == 1
