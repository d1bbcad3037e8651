"""Measure the dashboard on a long run: indexing, queries and the first paint."""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from turnwise.dashboard.guard import RequestGuard
from turnwise.dashboard.index import search_index
from turnwise.dashboard.runs import ListedRun, Runs
from turnwise.dashboard.server import application
from turnwise.dashboard.views import conversation, episode_list, listing, series
from turnwise.dashboard.views.listing import Filter
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.dashboard.views.traffic import traffic
from turnwise.dashboard.watch import Watch
from turnwise.records.run_facts import ShownRecipe

FILTER_GOAL_MS, PAINT_GOAL_MS = 300.0, 1000.0
FAMILIES = ("quotes", "sums", "searches", "messages")
TOOLS = ("get_quote", "search", "execute_python", "send_message")
NAMES = [
    f"{room}/{number}" for room in ("success", "reward", "kl", "loss", "time", "ratio") for number in range(8)
]
SHOWN = ["success/rate", "reward/mean", "kl/sampler", "entropy/mean", "loss/policy", "gradient/norm", *NAMES]


def write_run(folder: Path, num_steps: int, num_episodes: int, num_tokens: int) -> int:
    """Write a run of the given length; return its size in bytes."""
    (folder / "trajectories").mkdir(parents=True)
    (folder / "tokens").mkdir()
    (folder / "recipe.json").write_text(
        json.dumps({"run": {"num_steps": num_steps}, "model": {"path": "none"}})
    )
    counts = [0] * 43
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(num_steps):
            metrics = {name: (step * 7919 + place) % 1000 / 1000 for place, name in enumerate(SHOWN)}
            counts[step % 43] += 1
            histograms = {"ratio": {"edges": [0.1 * edge + 0.1 for edge in range(42)], "counts": counts}}
            line = {"step": step, "kind": "update", "time": 0.0, "metrics": metrics, "histograms": histograms}
            file.write(json.dumps(line) + "\n")
    each = max(1, num_episodes // num_steps)
    for number in range(0, num_episodes, each):
        step = number // each
        lines = [_line(step, number + member, num_tokens) for member in range(each)]
        (folder / "trajectories" / f"step-{step:06d}.jsonl").write_text("\n".join([_tools(), *lines]) + "\n")
        traced = [_traced(step, number + member) for member in range(each)]
        (folder / "tokens" / f"step-{step:06d}.jsonl").write_text("\n".join(traced) + "\n")
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def _tools() -> str:
    tools = [
        {"name": name, "description": "", "input_schema": {}, "server": name, "server_tool": name}
        for name in TOOLS
    ]
    return json.dumps({"kind": "tools", "digest": "d", "tools": tools})


def _line(step: int, number: int, num_tokens: int) -> str:
    name, is_good = TOOLS[number % 4], number % 3 == 0
    result = {"call_id": "0", "content": _result(number), "cause": "ok" if is_good else "tool_error"}
    turn = {
        "new_ids": list(range(num_tokens)),
        "completion": {
            "token_ids": list(range(20)),
            "logprobs": [-0.125] * 20,
            "finish": "stop",
            "policy_version": 0,
        },
        "parsed": {
            "text": "",
            "reasoning": "",
            "calls": [{"id": "0", "name": name, "arguments": {}}],
            "error": None,
        },
        "results": [
            {**result, "seconds": number % 97 / 100, "num_retries": 0, "repairs": [], "is_replayed": False}
        ],
        "engine_seconds": 0.5,
        "tool_seconds": 0.25,
    }
    task = {
        "id": f"task-{number % 997:04d}",
        "servers": ["market"],
        "prompt": [{"role": "user", "content": f"What do {number} shares of {name} cost? " + "word " * 30}],
        "truth": {"answer": {"value": number, "matcher": "numeric"}, "required_tools": [name]},
        "family": FAMILIES[number % 4],
        "difficulty": "easy",
    }
    trajectory = {
        "task": task,
        "episode_id": str(number),
        "seed": 1,
        "turns": [
            turn,
            {**turn, "parsed": {**turn["parsed"], "text": f"It is {number}.", "calls": []}, "results": []},
        ],
        "stop": "answered",
    }
    more = {"tools": [], "probes": [], "losses": [], "seconds": 1.5, "queue_seconds": 0.0}
    reward = {"total": float(is_good), "parts": {"outcome": float(is_good)}}
    record = {
        "kind": "trajectory",
        "step": step,
        "reward": reward,
        "tools": "d",
        "trajectory": {**trajectory, **more},
    }
    return json.dumps(record, separators=(",", ":"))


def _result(number: int) -> str:
    """About 600 characters of a tool's reply: 40 of 5,003 words, and numbers of this episode alone."""
    rows = [
        {"order_id": number * 7 + place, "item": f"item{(number * 31 + place * 97) % 5003}"}
        for place in range(12)
    ]
    return json.dumps({"state": "shipped late", "orders": rows})


def _traced(step: int, number: int) -> str:
    """Per-token figures of an episode's 40 tokens; values within a column are distinct."""
    logprobs = [-0.0125 * token for token in range(40)]
    ratios = [round(0.8 + 0.01 * token, 4) for token in range(40)]
    head = {"kind": "tokens", "step": step, "episode": str(number), "num_tokens": 40}
    columns = {"old": logprobs, "new": logprobs, "ratio": ratios, "advantage": 0.5, "clip": "." * 40}
    return json.dumps({**head, **columns}, separators=(",", ":"))


def show(name: str, take: Callable[[], Any], num_times: int = 7) -> float:
    """Return the median in milliseconds; print CPU time too, which other work does not change."""
    took, worked = [], []
    for _ in range(num_times):
        started, work = time.perf_counter(), time.process_time()
        take()
        took.append(1000 * (time.perf_counter() - started))
        worked.append(1000 * (time.process_time() - work))
    middle, own = statistics.median(took), statistics.median(worked)
    times = f"median {middle:7.1f} ms   worst {max(took):7.1f} ms   of a core {own:7.1f} ms"
    print(f"{name:36} {times}   n={num_times}", flush=True)
    return middle


def answers(run: ListedRun, num_steps: int) -> float:
    """Return the median of the slowest filter."""
    filters = {
        "no filter": Filter(),
        "family": Filter(family="sums"),
        "tool": Filter(tool="search"),
        "fault and family": Filter(fault="model", family="quotes"),
        "part of a task's id": Filter(task="sk-012"),
        "steps": Filter(first=num_steps // 2, last=num_steps // 2 + 50),
        "reward, nothing fits": Filter(low=0.4, high=0.6),
        "tool and class of error": Filter(tool="search", error="tool_error"),
        "any error of a tool": Filter(error="any"),
        "failed check": Filter(check="tools"),
        "search: in all episodes": Filter(search="shipped"),
        "search: a phrase in all": Filter(search='"shipped late" order_id'),
        "search: one in a hundred": Filter(search="item4007"),
        "search: one number": Filter(search="It is 4242"),
        "search: with a filter": Filter(search="shares of get_quote", family="quotes", is_success=False),
    }
    slowest = 0.0
    for name, wanted in filters.items():
        slowest = max(
            slowest, show(f"filter: {name}", lambda wanted=wanted: episode_list.page(run.index, wanted))
        )
    show(
        "filter: by reward, page 100",
        lambda: episode_list.page(run.index, Filter(), sort="-reward", offset=5_000),
    )
    for sort in episode_list.SORTS:
        slowest = max(
            slowest,
            show(f"order: {sort}", lambda sort=sort: episode_list.page(run.index, Filter(), sort=sort), 3),
        )
    show("choices", lambda: listing.choices(run.index), 3)
    show(f"{len(SHOWN)} series of {num_steps:,} steps", lambda: series.series(run.index, SHOWN))
    show("ratio histogram", lambda: series.histogram(run.index, "ratio"), 3)
    show("tools", lambda: traffic(run.index), 3)
    newest = episode_list.page(run.index, Filter())["rows"][0]["id"]
    show("an episode", lambda: conversation.conversation(run.index, newest, Pieces(run.folder, "none")))
    show(
        "its tokens",
        lambda: conversation.tokens(run.index, newest, ShownRecipe(), Pieces(run.folder, "none")),
    )
    show("nothing new", run.index.refresh)
    return slowest


def first_paint(runs: Runs) -> float | None:
    """Milliseconds until the first paint and until all charts are drawn, in a real browser."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("first paint: needs chromium and playwright")
        return None
    app = application(
        runs, Watch(runs), RequestGuard("127.0.0.1", 0, ""), is_ending=lambda: server.should_exit
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with sync_playwright() as library:
        browser = library.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector(".chart svg")
        whole = page.evaluate("performance.now()")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"first paint {paint:.0f} ms, all charts of the overview drawn after {whole:.0f} ms")
        browser.close()
    server.should_exit = True
    thread.join()
    return float(paint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument(
        "--tokens", type=int, default=200, help="prompt tokens per turn; determines the length of the lines"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "runs" / "long"
        num_bytes = write_run(folder, asked.steps, asked.trajectories, asked.tokens)
        runs = Runs([folder], Path(root) / "cache")
        [run] = runs
        started, worked = time.perf_counter(), time.process_time()
        run.index.refresh()
        seconds, own = time.perf_counter() - started, time.process_time() - worked
        size = run.index.path.stat().st_size
        print(
            f"{asked.steps:,} steps, {asked.trajectories:,} trajectories, {num_bytes / 1e6:,.0f} MB of lines"
        )
        print(f"read once in {seconds:.1f} s ({own:.1f} s of one core); the index takes {size / 1e6:,.0f} MB")
        worked = time.process_time()
        search_index.fill(run.index, run.pieces, seconds=float("inf"))
        own, grown = time.process_time() - worked, run.index.path.stat().st_size - size
        each = 1000 * grown / 1e6 / asked.trajectories
        print(f"made searchable in {own:.1f} s of one core; that takes {each:.2f} MB per 1,000 episodes")
        slowest = answers(run, asked.steps)
        paint = first_paint(runs)
    print(f"goals: filter under {FILTER_GOAL_MS:g} ms, first paint under {PAINT_GOAL_MS:g} ms")
    sys.exit(slowest > FILTER_GOAL_MS or (paint or 0.0) > PAINT_GOAL_MS)


if __name__ == "__main__":
    main()
