"""`turnwise init`: the files that a first run of one's own starts from."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.cli.model_choice import Choice, Machine
from turnwise.config.included_recipes import FOLDER
from turnwise.config.optional_packages import install_command
from turnwise.mcp.calls.results import DEFAULT_MAX_TOKENS
from turnwise.system.files.free_path import require_writable
from turnwise.system.terminal import printable
from turnwise.tasks.placeholders import placeholder_row
from turnwise.types import Tool

_NAMES = ("recipe.toml", "tasks.jsonl", "rewards.py")
NUM_TASKS = 3
MIN_EXPLORED_TASKS = 8
"""The fewest explored training tasks for which a recipe is written."""
_MAX_STEPS, _MAX_VISITS = 100, 20
"""Steps of a run, and how often it comes back to each of a few explored tasks: more teaches their answers."""
_MAX_TOOLS = 60
"""The most tools that the recipe's comments list."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the files are written for."""

    machine: Machine
    model: Choice | None
    """None: the embedded model."""
    mcp: Path | None
    """An mcp.json; None: the built-in servers."""
    tools: Mapping[str, Sequence[Tool]]
    """By server."""
    explored: Path | None = None
    """The folder with tasks that an exploration found; None: example tasks are written."""


def check_free(folder: Path, *, is_explored: bool = False) -> None:
    """Raise ValueError if one of the files is there already, or if they cannot be written."""
    require_writable(folder)
    names = [name for name in _NAMES if not (is_explored and name == "tasks.jsonl")]
    if in_the_way := [str(folder / name) for name in names if os.path.lexists(folder / name)]:
        raise ValueError(f"{', '.join(in_the_way)}: already there; nothing was written")


def write_starter(folder: Path, setup: Setup) -> list[Path]:
    """Write recipe, tasks and reward. ValueError, and nothing is written, if one of the files exists."""
    is_explored = setup.explored is not None
    check_free(folder, is_explored=is_explored)
    rows = [] if is_explored else task_rows(setup)
    tasks = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    files = dict(zip(_NAMES, (recipe_text(folder, setup), tasks, _REWARDS), strict=True))
    if is_explored:
        del files["tasks.jsonl"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with (folder / name).open("x") as file:
            file.write(text)
    return [folder / name for name in files]


def recipe_text(folder: Path, setup: Setup) -> str:
    is_embedded, is_cuda = setup.model is None, setup.machine.device == "cuda"
    return _RECIPE.format(
        model=json.dumps("embedded" if setup.model is None else setup.model.path),
        fits=describe_model(setup),
        vllm=install_command("vllm"),
        dtype=json.dumps("bfloat16" if is_cuda and not is_embedded else "float32"),
        tuning=json.dumps("full" if is_embedded else "lora"),
        learning_rate="2e-4" if setup.model is None else setup.model.learning_rate,
        tools="\n".join(_tool_lines(folder, setup)),
        tasks="\n".join(_task_lines(folder, setup)),
        num_steps=_num_steps(setup),
        num_tasks=_tasks_per_step(setup),
        episode_tokens=4096 if setup.explored is None else 8192,
        warm_start="" if setup.explored is None else _WARM_START,
        sft="" if setup.explored is None else _SFT.format(num_tasks=-(-_num_tasks(setup.explored) // 3)),
    )


def _tasks_per_step(setup: Setup) -> int:
    return NUM_TASKS if setup.explored is None else min(16, _num_tasks(setup.explored))


def _num_steps(setup: Setup) -> int:
    if setup.explored is None:
        return _MAX_STEPS
    return min(_MAX_STEPS, _MAX_VISITS * _num_tasks(setup.explored) // _tasks_per_step(setup))


def _num_tasks(explored: Path) -> int:
    with (explored / "train.jsonl").open("rb") as lines:
        return sum(1 for _ in lines)


def _task_lines(folder: Path, setup: Setup) -> Iterator[str]:
    if setup.explored is None:
        yield 'train = "tasks.jsonl"'
        yield '# validation = "validation.jsonl"  # chooses the best checkpoint; needs evaluation.every'
        yield '# test = "test.jsonl"              # held out: played before and after the run'
        return
    for split in ("train", "validation", "test"):
        file = setup.explored / f"{split}.jsonl"
        if file.stat().st_size:
            yield f"{split} = {json.dumps(_path_from(folder, file))}"


def describe_model(setup: Setup) -> str:
    """Why this model: what it needs, and what the machine has."""
    if setup.model is None:
        return "included, 2.6 million parameters; it knows only the built-in servers"
    needed, total = setup.model.needed_gb(setup.machine), setup.machine.total_gb
    fits = "of" if needed <= total else "and is the smallest known, for"
    return f"needs about {needed:.0f} GB {fits} this machine's {total:.0f} GB ({setup.machine.device})"


def _tool_lines(folder: Path, setup: Setup) -> Iterator[str]:
    if setup.mcp is None:
        yield '# mcp = "mcp.json"  # your own servers; without it, the five built-in ones'
    else:
        yield f"mcp = {json.dumps(_path_from(folder, setup.mcp))}"
    if setup.explored is not None:
        yield f"max_result_tokens = {DEFAULT_MAX_TOKENS}  # as much as was explored: less may hide an answer"
        cassette = json.dumps(_path_from(folder, setup.explored / "cassette.jsonl"))
        yield f"# cassette = {cassette}  # the exploration's calls and answers"
        yield '# cassette_mode = "replay_or_call"  # call a server only for what is not recorded'
    yield "# The servers and their tools:"
    num_left = _MAX_TOOLS
    for server, tools in setup.tools.items():
        for tool in tools[:num_left]:
            [summary, *_] = tool.description.strip().splitlines() or [""]
            # a control character in a comment would not be TOML
            yield printable(f"#   {server}: {tool.name}  {summary[:80]}").rstrip()
        num_left = max(0, num_left - len(tools))
    if not num_left:
        yield "#   ... `turnwise tools` lists all of them"


def _path_from(folder: Path, file: Path) -> str:
    """The file's path relative to the recipe's folder if it is inside it, else absolute."""
    absolute, place = file.resolve(), folder.resolve()
    return str(absolute.relative_to(place) if absolute.is_relative_to(place) else absolute)


def task_rows(setup: Setup) -> list[dict[str, Any]]:
    """A few tasks: real ones for the built-in servers, else examples to be replaced, one for each tool."""
    if setup.mcp is None:
        with (FOLDER / "cpu" / "train.jsonl").open() as file:
            rows = [json.loads(next(file)) for _ in range(NUM_TASKS)]
        return [{key: row[key] for key in _FIELDS if key in row} for row in rows]
    named = [(server, tool.name) for server, tools in setup.tools.items() for tool in tools]
    if not named:
        raise ValueError(f"{setup.mcp}: its servers offer no tools")
    return [
        placeholder_row(f"example-{number + 1}", server, tool)
        for number, (server, tool) in enumerate((named * NUM_TASKS)[:NUM_TASKS])
    ]


_FIELDS = ("id", "world", "difficulty", "prompt", "servers", "tools", "truth")

_REWARDS = '''"""Your own rewards, for recipe.toml: [[rewards]] with name = "rewards:concise"."""

from turnwise.types import Trajectory


def concise(trajectory: Trajectory, *, num_characters: int = 200) -> float:
    """A number from 0 to 1: here 1 for a final answer of at most this many characters."""
    return float(0 < len(trajectory.final_text) <= num_characters)
'''

_WARM_START = """\
warm_start = true  # learn from demonstrations first, then by trying
"""

_SFT = """
[sft]
num_tasks = {num_tasks}  # demonstrations for the warm start: the other tasks are left to RL
"""

_RECIPE = """\
# A run of your own. `turnwise config KEY` explains a key; keys that are not here have their defaults.
#   turnwise train --dry-run recipe.toml    check recipe, tasks, tools and memory
#   turnwise doctor recipe.toml             the same, and play a few episodes
#   turnwise train recipe.toml

[model]
path = {model}  # {fits}
# or a folder, or any name on the Hugging Face hub
dtype = {dtype}

# [engine]
# kind = "vllm"  # samples faster on a GPU; {vllm}

[tools]
{tools}

[tasks]  # one JSON object per line: prompt, servers, and the truth that an answer is compared with
{tasks}

[[rewards]]
name = "outcome"  # 1 if everything in a task's truth holds, else 0

# [[rewards]]     # your own function, in rewards.py: PYTHONPATH must have its folder
# name = "rewards:concise"
# weight = 0.1    # all other rewards together must weigh less than the outcome

[rollout]
group_size = 8             # episodes per task; the reward is compared within such a group
tokens_per_turn = 512
tokens_per_episode = {episode_tokens}  # prompt, tool results and all turns together

[policy]
tuning = {tuning}

[optimizer]
learning_rate = {learning_rate}

[run]
{warm_start}num_steps = {num_steps}
tasks_per_step = {num_tasks}  # at most the number of tasks; 16 is a good value once you have more
checkpoint_every = 20
{sft}"""
