"""`turnwise train` in several processes, with real servers: the same episodes as one process, one folder."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import warm
from tests.mcp.leaks import descendants
from tests.run.stage import write_recipe
from tests.run.test_signals import read_until, training
from turnwise.records.ending import How, read_ending
from turnwise.rollout.measure.report import read_report
from turnwise.rollout.store import read_episodes
from turnwise.tasks.load import load, save
from turnwise.training.update import checkpoint
from turnwise.types import ModelUser

ROOT = Path(__file__).parents[3]
UNMEASURED = {"evaluation": {"before_and_after": False}}


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def train(*arguments: str, launcher: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    command = [warm.heavy(), *launcher, "-m", "turnwise", "train", *arguments]
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def trained(folder: Path, *arguments: str, **sections: Any) -> Path:
    """The folder of a completed run."""
    done = train(str(write_recipe(folder, **sections)), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / "run"


def episodes(run: Path, step: int) -> dict[tuple[str, str], tuple[int, ...]]:
    """The token ids of all episodes of a step, by task and episode."""
    return {
        (played.trajectory.task.id, played.trajectory.episode_id): tuple(played.trajectory.token_ids)
        for played in read_episodes(run / "trajectories" / f"step-{step:06d}.jsonl")
    }


def figures(run: Path) -> list[dict[str, float]]:
    """The metrics of every line, without those that depend on the machine."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    machine = ("time/", "memory/", "update/num_")
    return [
        {
            name: value
            for name, value in line["metrics"].items()
            if not name.startswith(machine) and "second" not in name
        }
        for line in lines
    ]


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = checkpoint.latest(run / "checkpoints")
    assert found is not None
    return dict(found.tensors)


def assert_near(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        torch.testing.assert_close(tensor, right[name], rtol=1e-3, atol=2e-5, msg=name)


@pytest.fixture(scope="module")
def by_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that refills groups: of three tasks per step, some have no signal."""
    return trained(tmp_path_factory.mktemp("one"), **settings())


def settings(**hardware: Any) -> dict[str, Any]:
    return {
        "run": {"num_steps": 3, "tasks_per_step": 3},
        "rollout": {"group_size": 2, "tokens_per_turn": 4, "lockstep": True},
        "policy": {"tuning": "full"},
        "optimizer": {"learning_rate": 1e-3},
        **({"hardware": hardware} if hardware else {}),
    }


def skip_without_deepspeed(strategy: str) -> None:
    if strategy == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is missing: run `make ready`")


@pytest.mark.slow
def test_two_processes_meet_the_same_users_as_one(tmp_path: Path) -> None:
    rollout = {"group_size": 2, "tokens_per_turn": 40, "lockstep": True}
    runs = []
    for num_processes in (1, 2):
        folder = tmp_path / str(num_processes)
        recipe = write_recipe(
            folder, **{**settings(), **UNMEASURED, "rollout": rollout}, user={"model": "model"}
        )
        user = ModelUser("Ann", "Have it written down.", 1)
        save([replace(task, user=user) for task in load(folder / "train.jsonl")], folder / "train.jsonl")
        done = train(str(recipe), "--processes", str(num_processes))
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(folder / "runs" / "run")
    one, two = runs
    for step in range(3):
        assert episodes(one, step) == episodes(two, step)
    said = [
        turn.user
        for step in range(3)
        for played in read_episodes(two / "trajectories" / f"step-{step:06d}.jsonl")
        for turn in played.trajectory.turns
    ]
    assert any(said), "no user said anything"
    assert list((two / "user_replies").rglob("*.txt"))


@pytest.mark.parametrize("strategy", ["data_parallel", slow("fsdp2"), slow("zero3")])
def test_two_processes_play_and_learn_the_same_as_one(strategy: str, by_one: Path, tmp_path: Path) -> None:
    skip_without_deepspeed(strategy)
    run = trained(tmp_path, "--processes", "2", **settings(strategy=strategy))
    num_played = 0
    for step in range(3):
        assert episodes(run, step) == episodes(by_one, step)
        num_played += len(episodes(run, step))
    assert num_played > 3 * 3 * 2, "a group was refilled"
    for ours, theirs in zip(figures(run), figures(by_one), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-2, abs=1e-4)
    assert_near(weights(run), weights(by_one))
    for name in ("before", "after"):
        reports = [read_report(folder / "evaluations" / f"{name}.json") for folder in (run, by_one)]
        ours, theirs = (
            [(episode.task_id, episode.is_success, episode.num_tokens) for episode in report.episodes]
            for report in reports
        )
        assert ours == theirs
        assert len(list(read_episodes(run / "evaluations" / f"{name}.trajectories.jsonl"))) == len(ours)
    assert json.loads((run / "recipe.json").read_text())["hardware"]["num_processes"] == 2
    parts = sorted(file.name for file in (run / "checkpoints" / "step-000003").glob("parts-*"))
    assert len(parts) == (0 if strategy == "data_parallel" else 2)


@pytest.mark.parametrize("strategy", ["fsdp2", slow("data_parallel"), slow("zero3")])
def test_a_run_saved_by_two_processes_is_resumed_by_one_and_by_two(
    strategy: str, by_one: Path, tmp_path: Path
) -> None:
    skip_without_deepspeed(strategy)
    run = trained(
        tmp_path, "--processes", "2", "--set", "run.num_steps=1", **settings(strategy=strategy), **UNMEASURED
    )
    for num_steps, *more in (
        ("2", "--processes", "1", "--set", "hardware.strategy=data_parallel"),
        ("3", "--processes", "2", "--set", f"hardware.strategy={strategy}"),
    ):
        done = train("--resume", str(run), "--set", f"run.num_steps={num_steps}", *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"resumed after step {int(num_steps) - 1}" in done.stdout
    for step in range(3):
        assert episodes(run, step) == episodes(by_one, step)
    assert_near(weights(run), weights(by_one))


LAUNCHERS = {
    "torchrun": ("torch.distributed.run", "--nproc-per-node=2", "--standalone"),
    # --multi_gpu makes accelerate start torchrun; for a CPU it would start one process
    "accelerate": (
        *("accelerate.commands.launch", "--mixed_precision=no", "--dynamo_backend=no", "--multi_gpu"),
        *("--num_processes=2", "--num_machines=1", "--main_process_port=0"),
    ),
}


@pytest.mark.parametrize("launcher", ["torchrun", slow("accelerate")])
def test_other_launchers_start_the_same_run(launcher: str, by_one: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **settings(), **UNMEASURED)
    done = train(str(recipe), "--set", "run.num_steps=1", launcher=("-m", *LAUNCHERS[launcher]))
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "run"
    assert json.loads((run / "recipe.json").read_text())["hardware"]["num_processes"] == 2
    assert episodes(run, 0) == episodes(by_one, 0)


# --- ending ------------------------------------------------------------------------------------------------


def gone(processes: set[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{number}").exists() for number in processes):
            return True
        time.sleep(0.1)
    return False


def endless_recipe(folder: Path, **sections: Any) -> str:
    """A run of two processes that is stopped by a test."""
    hardware = {"num_processes": 2, "strategy": "fsdp2"}
    run = {"num_steps": 500, "checkpoint_every": 1}
    return str(write_recipe(folder, **{"run": run, "hardware": hardware, **UNMEASURED, **sections}))


@pytest.mark.parametrize("target", ["launcher", slow("rank")])
def test_one_signal_ends_all_after_the_step_with_one_checkpoint(target: str, tmp_path: Path) -> None:
    python = warm.heavy()
    before = descendants()
    with training(endless_recipe(tmp_path), python=python) as process:
        read_until(process, "step    2/500")
        started = descendants() - before
        assert len(started) > 3, "two ranks with one server per rank"
        os.kill(process.pid if target == "launcher" else rank_of(started, 1), signal.SIGINT)
        rest = read_until(process, "resume with")
        assert process.wait(timeout=60) == 3
    found = checkpoint.latest(tmp_path / "runs" / "run" / "checkpoints")
    assert found is not None
    assert f"stopped after step {found.step}:" in rest
    assert rest.count("resume with") == 1
    assert gone(started)


def test_a_killed_rank_ends_all_ranks_and_servers_and_the_last_checkpoint_stays_valid(tmp_path: Path) -> None:
    python = warm.heavy()
    before = descendants()
    with training(endless_recipe(tmp_path), python=python) as process:
        read_until(process, "step    2/500")
        started = descendants() - before
        os.kill(rank_of(started, 1), signal.SIGKILL)
        assert process.wait(timeout=60) == 128 + signal.SIGKILL
    assert gone(started)
    assert checkpoint.latest(tmp_path / "runs" / "run" / "checkpoints") is not None
    assert not (tmp_path / "runs" / "run" / "lock").read_text(), "the lock is released"


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process_behind(tmp_path: Path) -> None:
    # no group is replaced, so that no rank needs the store of the launcher
    rollout = {"group_size": 3, "tokens_per_turn": 12, "dynamic_sampling": False}
    recipe = endless_recipe(tmp_path, rollout=rollout, hardware={"num_processes": 2})
    with training(recipe, python=sys.executable) as process:
        read_until(process, "step    2/500")
        started = descendants(process.pid)
        process.kill()
        process.wait(timeout=60)
        assert gone(started)


def rank_of(processes: set[int], rank: int) -> int:
    """The process of this rank, or the one that forwards signals to it, but not one of its servers."""
    for number in processes:
        entry = Path(f"/proc/{number}")
        words = (entry / "cmdline").read_bytes().split(b"\0")
        if b"train" in words and f"\0RANK={rank}\0".encode() in b"\0" + (entry / "environ").read_bytes():
            return number
    pytest.fail(f"no rank {rank} among {processes}")


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        slow("down_in_the_second", "all 3 groups were lost"),
        ("wrong_in_the_second", "reward 'tests.system.ranks.rewards:wrong_in_the_second' failed"),
    ],
)
def test_an_error_in_one_rank_ends_all_and_is_reported(reward: str, words: str, tmp_path: Path) -> None:
    """By the rank that was informed or by the failed one, whichever ended first."""
    recipe = write_recipe(tmp_path, hardware={"num_processes": 2}, **UNMEASURED)
    text = recipe.read_text().replace(
        "tests.run.own_rewards:even_ids", f"tests.system.ranks.rewards:{reward}"
    )
    recipe.write_text(text)
    done = train(str(recipe))
    assert done.returncode in (1, 2), done.stdout + done.stderr
    folder = tmp_path / "runs" / "run"
    ending = read_ending(folder / "ended.json")
    assert ending is not None
    assert ending.how is How.CRASHED
    for report in (done.stderr, (folder / "training.log").read_text(), ending.why):
        assert "process 1: " in report
        assert words in report
    is_saved = checkpoint.latest(folder / "checkpoints") is not None
    assert is_saved == (reward == "down_in_the_second"), "a run can be resumed after an outage"


@pytest.mark.slow
def test_a_remote_server_with_fewer_concurrent_calls_than_processes_is_rejected(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, hardware={"num_processes": 2}, model={"device": "cpu"}, **UNMEASURED)
    server = {"url": "http://127.0.0.1:9/mcp", "turnwise": {"max_concurrency": 1}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": server}}))
    words = "server 'notebook': turnwise.max_concurrency is 1, and 2 workers share it"
    done = train(str(recipe))
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    dry = train(str(recipe), "--dry-run")
    assert dry.returncode == 1, dry.stdout + dry.stderr
    assert words in dry.stdout
