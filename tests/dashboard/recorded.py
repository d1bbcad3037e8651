"""Run folders for the page's tests, written by the run's own writers; some texts in them are hostile."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from turnwise.config import Recipe
from turnwise.models.chat import hermes
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.records.folder import RunFolder
from turnwise.rewards import succeeded
from turnwise.rollout.measure.report import EvaluationReport, write_report
from turnwise.rollout.measure.summary import record
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.run.health.health import find_alarms
from turnwise.system.files.atomic_write import write_json
from turnwise.tasks.load import save
from turnwise.training.update.tokens import TokenFigures, write_tokens
from turnwise.types import (
    Answer,
    Cause,
    Completion,
    DemoTurn,
    Difficulty,
    Finish,
    FormatError,
    FormatErrorKind,
    Message,
    Parsed,
    Reward,
    Stop,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
    Turn,
)

Row = dict[str, Any]

HOSTILE = (
    '<script>window.broken = 1</script><img src=x onerror="window.broken = 2">\'"&amp; '
    "\x1b[31mred\x1b[0m \u202egnp.exe\u202c \u2066x\u2069 \x00 \ud800 end"
)
"""Markup, escapes, direction marks, a zero byte and half a character."""

TOOLS = (
    Tool("quote", "A quote.", {"type": "object"}, "market", "quote", is_read_only=True),
    Tool("send", "A message.", {"type": "object"}, "slack", "send"),
)

EDGES = tuple(math.exp(0.1 * number - 2.05) for number in range(42))


def turn(
    number: int,
    text: str = "",
    calls: Sequence[tuple[str, Mapping[str, Any], ToolResult]] = (),
    *,
    error: FormatError | None = None,
) -> Turn:
    ids = tuple(range(10 * number + 1, 10 * number + 5))
    return Turn(
        new_ids=tuple(range(1, 6)),
        completion=Completion(ids, (-0.01, -0.5, -1.25, -4.0), Finish.STOP, 3),
        parsed=Parsed(
            text=text,
            calls=tuple(
                ToolCall(f"{number}.{place}", name, arguments)
                for place, (name, arguments, _) in enumerate(calls)
            ),
            error=error,
        ),
        results=tuple(result for _, _, result in calls),
        engine_seconds=0.5,
        tool_seconds=sum(result.seconds for _, _, result in calls),
    )


def malformed(written: str) -> Turn:
    """The turn of a completion that the parser refuses, with its tokens."""
    ids = tuple(Tokenizer.from_file(str(EMBEDDED_FOLDER / "tokenizer.json")).encode(written).ids)
    made = turn(0, error=hermes.read_turn(written).error)
    return replace(made, completion=replace(made.completion, token_ids=ids, logprobs=(-0.5,) * len(ids)))


def result(
    content: str = "51.9", cause: Cause = Cause.OK, seconds: float = 0.25, retries: int = 0
) -> ToolResult:
    return ToolResult("0.0", content, cause, seconds, retries)


def task(
    name: str, family: str = "quotes", difficulty: Difficulty = Difficulty.EASY, prompt: str = ""
) -> Task:
    truth = Truth(answer=Answer("51.9"))
    words = (Message("user", prompt or f"What does {name} cost?"),)
    return Task(name, words, ("market",), truth, difficulty=difficulty, family=family)


def episode(of: Task, turns: Sequence[Turn], *, stop: Stop = Stop.ANSWERED, member: int = 0) -> Trajectory:
    seconds = sum(turn.engine_seconds + turn.tool_seconds for turn in turns)
    return Trajectory(of, f"{of.id}/0.{member}", 2**60 + member, tuple(turns), stop, TOOLS, seconds=seconds)


def good(of: Task, member: int = 0) -> StoredEpisode:
    turns = (turn(0, calls=[("quote", {"symbol": of.id}, result())]), turn(1, "51.9"))
    return StoredEpisode(episode(of, turns, member=member), Reward(1.0, {"outcome": 1.0, "format": 1.0}))


def bad(of: Task, member: int = 0) -> StoredEpisode:
    failed = result("no such symbol", Cause.TOOL_ERROR, 1.5, retries=2)
    turns = (turn(0, calls=[("quote", {"symbol": "?"}, failed)]), turn(1, "I do not know"))
    return StoredEpisode(episode(of, turns, member=member), Reward(0.0, {"outcome": 0.0, "format": 0.5}))


def hostile(of: Task, member: int = 0, text: str = HOSTILE) -> StoredEpisode:
    turns = (
        turn(0, text, [("send", {"words": text}, result(text, Cause.TIMEOUT, 0.1))]),
        turn(1, text, error=FormatError(FormatErrorKind.BAD_JSON, text)),
    )
    played = episode(of, turns, stop=Stop.MAX_TURNS, member=member)
    return StoredEpisode(played, Reward(0.25, {"outcome": 0.0, text: 0.5}))


RATIOS = [1.0, 1.3, 0.5, 1.0, 1.01, 0.97, 1.0, 4.0]
"""The ratios of an episode's eight tokens; the clip bounds are 0.2 and 0.28."""


def trace_step(folder: RunFolder, step: int, episodes: Sequence[str]) -> None:
    """Write the update's figures of every token; every episode has a lower advantage than the one before."""
    old = [-0.01, -0.5, -1.25, -4.0] * 2
    new: list[float | None] = [round(o + math.log(r), 4) for o, r in zip(old, RATIOS, strict=True)]
    found = [
        TokenFigures(row, 8, [*old], new, [*RATIOS], 0.5 - row, ".hl....x") for row in range(len(episodes))
    ]
    write_tokens(folder.tokens(step), step, episodes, found)


def figures(step: int) -> dict[str, float]:
    return {
        "episodes/finished": 4.0,
        "success/rate": 0.5 + 0.01 * step,
        "success/quotes": 0.25 + 0.01 * step,
        "reward/mean": 0.4 + 0.01 * step,
        "reward/std": 0.3,
        "reward/outcome": 0.4,
        "tools/calls": 1.5,
        "tools/error_rate": 0.25,
        "tools/seconds": 0.875,
        "format/error_rate": 0.0,
        "truncation/rate": 0.9 if step == 1 else 0.0,
        "length/turns": 2.0,
        "rollout/tokens_per_second": 321.5,
        "time/rollout_seconds": 2.0 + step,
        "breaker/open/market": 0.0,
        "breaker/openings/market": 0.0,
        "breaker/open/slack": float(step >= 2),
        "breaker/openings/slack": float(step == 2),
        "groups/zero_variance_fraction": 0.125,
    }


def learned(step: int) -> dict[str, float]:
    return {
        "kl/sampler": 0.001 * step,
        "kl/old": 0.002,
        "entropy/mean": 0.9 - 0.05 * step,
        "loss/policy": -0.0123,
        "gradient/norm": float("nan") if step == 2 else 0.5,
        "clip/active_fraction": 0.975,
        "mask/learnable_fraction": 1.0,
        "tokens/alignment": 1.0,
        "groups/zero_variance_fraction": 0.0,
        "ratio/p50": 1.0,
        "time/update_seconds": 1.0,
        "memory/peak_gib": 1.5,
    }


def log_step(folder: RunFolder, step: int) -> None:
    """Log one step's figures, histogram and alarms as a run does."""
    folder.log(step, "rollout", figures(step))
    counts = [0] * 43
    counts[21], counts[25] = 100, step + 1
    alarms = find_alarms({**learned(step), **figures(step)}, folder.recipe)
    histograms = {"ratio": {"edges": list(EDGES), "counts": counts}}
    folder.log(step, "update", learned(step), histograms=histograms, alarms=alarms)


def play_step(folder: RunFolder, step: int, played: Sequence[StoredEpisode]) -> None:
    with TrajectoryWriter(folder.trajectories(step)) as writer:
        for episode in played:
            writer.write(StoredEpisode(episode.trajectory, episode.reward, step))


def evaluate(folder: RunFolder, name: str, played: Sequence[StoredEpisode]) -> None:
    with TrajectoryWriter(folder.evaluations / f"{name}.trajectories.jsonl") as writer:
        for episode in played:
            writer.write(episode)
    judged = [(episode.trajectory, succeeded(episode.trajectory, episode.reward)) for episode in played]
    records = tuple(record(trajectory, is_success=is_success) for trajectory, is_success in judged)
    num_tasks = len({record.task_id for record in records})
    report = EvaluationReport("tiny", 1, 1.0, 12.5, num_tasks, 0, records)
    write_report(report, folder.evaluations / f"{name}.json")


def new_run(root: Path, name: str = "run", num_steps: int = 4, model: str = "embedded") -> RunFolder:
    files = {split: root / f"{split}.jsonl" for split in ("train", "test")}
    given = {"run": {"num_steps": num_steps}, "model": {"path": model}, "tasks": files}
    recipe = Recipe.model_validate(given)
    return RunFolder.create(root, name, recipe, is_dated=False)


def write_run(root: Path, name: str = "run", num_steps: int = 4) -> Path:
    """A finished run with evaluations before, after and (of four steps) between, and two hostile episodes."""
    with new_run(root, name, num_steps) as folder:
        ace, bee = task("ace"), task("bee", "sums", Difficulty.HARD)
        write_tasks(root, [ace, bee])
        for step in range(num_steps):
            log_step(folder, step)
            played = [good(ace), bad(ace, 1), good(bee), good(bee, 1)]
            if step == num_steps - 1:
                played += [hostile(task("evil<b>", "<i>family"), 0), hostile(task("long"), 0, "x" * 2**20)]
            play_step(folder, step, played)
            trace_step(folder, step, ["ace/0.0", "ace/0.1"])
        held = held_out()
        evaluate(folder, "before", [*map(good, held[:2]), *map(bad, held[2:])])
        if num_steps == 4:
            evaluate(folder, "step-000002", [good(ace), bad(ace, 1), bad(bee), bad(bee, 1)])
        evaluate(folder, "after", [bad(held[0]), *map(good, held[1:])])
        write_json(folder.summary, summary(num_steps))
        logging.getLogger("turnwise").info("finished after %d steps", num_steps)
        return folder.path


def held_out() -> list[Task]:
    return [task(f"held{number}", "quotes" if number % 2 else "sums") for number in range(6)]


def write_tasks(root: Path, train: Sequence[Task]) -> None:
    """Write the task files that the runs in `root` name; training tasks have a demonstration."""
    calls = (ToolCall("0", "quote", {"symbol": "ACE"}),)
    shown = (DemoTurn("", calls, (result("the price is 51.9"),)), DemoTurn("51.9"))
    save([replace(each, demonstration=shown) for each in train], root / "train.jsonl")
    save(held_out(), root / "test.jsonl")


def summary(num_steps: int) -> dict[str, Any]:
    return {
        "num_steps": num_steps,
        "seconds": 61.5,
        "stopped": "",
        "heldout_success": {"before": 2 / 6, "after": 5 / 6},
        "heldout_gain": {"value": 0.5, "low": 0.0, "high": 1.0},
    }


def lines(path: Path) -> list[dict[str, Any]]:
    complete, _, _ = path.read_text().rpartition("\n")  # the last line may be half written
    return [json.loads(line) for line in complete.splitlines()]


def played(run: Path) -> list[Row]:
    """Every stored episode as its file has it, with the `source` that the page filters by."""
    files = dict.fromkeys(run.glob("trajectories/*.jsonl"), "train")
    files |= {path: path.name.partition(".")[0] for path in run.glob("evaluations/*.trajectories.jsonl")}
    rows = [(source, line) for path, source in files.items() for line in lines(path)]
    return [{**line, "source": source} for source, line in rows if line["kind"] == "trajectory"]
