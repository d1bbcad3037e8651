"""Servers on another host, shared by workers, over a slow line that loses packets and is cut."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mcp.leases import ask, leased, spec_of
from tests.rollout.line import Host, Line, why_none
from tests.rollout.stage import task
from tests.run.stage import write_model
from tests.shown import write_servers
from turnwise.rewards import is_success
from turnwise.rollout.store import StoredEpisode, read_episodes
from turnwise.tasks.load import save
from turnwise.types import Cause, DemoTurn, Task, ToolCall, ToolResult

ROOT = Path(__file__).parents[2]
ENVIRON = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
NUM_WORKERS, NUM_TASKS, GROUP_SIZE = 3, 6, 4
MAX_CONCURRENCY = 7
"""Two calls for every one of three workers, and one that must stay unused."""
HEADERS = {"Authorization": "Bearer far-away"}
SERVING = """
import asyncio, sys
from tests.mcp.servers.notebook import TOOLS, drop
from turnwise.mcp.serve import ServedTool, Service, serve_http
tools = [
    ServedTool(name, name, {"type": "object"}, handler, is_read_only=name != "write", is_idempotent=False)
    for name, handler in TOOLS.items()
]
asyncio.run(serve_http(Service("notebook", tools, drop=drop), host=sys.argv[1], port=8000, token="far-away"))
"""

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none())


@contextlib.contextmanager
def started(host: Host, *command: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        host.inside(sys.executable, *command), env=ENVIRON, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def notebook(host: Host) -> Iterator[str]:
    with started(host, "-c", SERVING, host.address) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split(" at ")[1].strip()


def noted(name: str) -> Task:
    """A task that writes a note and reads it back: only this note, if episodes are isolated."""
    calls = ToolCall("1", "write", {"text": name, "seconds": 0.3}), ToolCall("2", "read", {})
    results = ToolResult("1", "written", Cause.OK, 0.0), ToolResult("2", f'["{name}"]', Cause.OK, 0.0)
    return task(name, demonstration=(DemoTurn("", calls, results), DemoTurn("done")))


def write_recipe(folder: Path, url: str) -> Path:
    options = {"max_concurrency": MAX_CONCURRENCY, "timeout_seconds": 2, "breaker_seconds": 0.5}
    write_servers(folder, notebook={"url": url, "headers": HEADERS, "turnwise": options})
    save([noted(f"note{number}") for number in range(NUM_TASKS)], folder / "train.jsonl")
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f'model.path = "{write_model(folder / "model")}"\ntools.mcp = "mcp.json"\n'
        'tasks.train = "train.jsonl"\n'
        f"rollout = {{group_size = {GROUP_SIZE}, num_parallel_episodes = 8}}\n"
    )
    return recipe


def in_flight(events: Sequence[str]) -> int:
    """The maximum number of concurrent calls on the server."""
    most = now = 0
    for event in events:
        now += 1 if event.endswith("starts") else -1
        most = max(most, now)
    return most


def server_log(url: str, host: Host) -> list[str]:
    """The log of the server, requested on its own host, without the line."""
    asking = (
        "import asyncio, sys\n"
        "from tests.rollout.test_far_servers import ask_log\n"
        "print(asyncio.run(ask_log(sys.argv[1])))"
    )
    done = subprocess.run(
        host.inside(sys.executable, "-c", asking, url), env=ENVIRON, stdout=subprocess.PIPE, check=True
    )
    events: list[str] = json.loads(done.stdout)
    return events


async def ask_log(url: str) -> str:
    async with leased(spec_of("notebook", {"url": url, "headers": HEADERS})) as toolbox:
        return (await ask(toolbox, "log")).content


@pytest.mark.slow
def test_rollouts_of_several_workers_survive_lost_packets_and_a_cut_line(tmp_path: Path) -> None:
    with Line(delay_seconds=0.03, loss=0.03) as line, notebook(line.far) as url:
        recipe = write_recipe(tmp_path, url)
        outs = [tmp_path / f"worker{number}.jsonl" for number in range(NUM_WORKERS)]
        with contextlib.ExitStack() as workers:
            playing = [
                workers.enter_context(
                    started(line.near, "-m", "tests.rollout.worker", str(recipe), str(NUM_WORKERS), str(out))
                )
                for out in outs
            ]
            deadline = time.monotonic() + 120
            while not all(out.exists() and out.stat().st_size for out in outs):
                assert time.monotonic() < deadline, "the workers do not play"
                time.sleep(0.05)
            with line.cut():
                time.sleep(4.0)  # twice as long as a call may take
            reports = [json.loads(process.communicate(timeout=240)[0]) for process in playing]
        assert line.num_lost > 100, "the line lost no packets"
        assert sum(sum(report["lost"].values()) for report in reports) > 0, "the cut lost no episodes"
        for out, report in zip(outs, reports, strict=True):
            check_complete(list(read_episodes(out)), report["num_groups"])
        events = server_log(url, line.far)
    assert in_flight([event for event in events if not event.startswith("read")]) <= MAX_CONCURRENCY - 1


def check_complete(played: list[StoredEpisode], num_groups: int) -> None:
    """Check that all groups are complete and that every episode has only its own note."""
    assert num_groups == NUM_TASKS
    assert len(played) == NUM_TASKS * GROUP_SIZE
    for episode in played:
        assert is_success(episode.trajectory)
        [turn, _] = episode.trajectory.turns
        assert [result.content for result in turn.results] == ["written", f'["{episode.trajectory.task.id}"]']
