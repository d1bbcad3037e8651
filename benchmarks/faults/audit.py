"""Check from files alone whether a soak lost, duplicated or wrongly scored an episode.

turnwise wrote the trajectories, the proxies the ledger, and the harness the journal. None of turnwise's own
counters or readers is used.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWERED = "answered"
REPEATED = "repeated, then answered"
REPLAYED = "episode replayed"
READ = "an error the model read"
UNMET = "no call waited"
OUTCOMES = (ANSWERED, REPEATED, REPLAYED, READ, UNMET)


@dataclass(frozen=True, slots=True)
class Audit:
    """Counts and problems found in the files."""

    num_episodes: int
    num_attempts: int
    num_calls: int
    faults: Mapping[str, Counter[str]]
    """By fault: how often each outcome followed."""
    problems: tuple[str, ...]


def audit(folder: Path, num_asked: int, scores: Mapping[str, float], writers: tuple[str, ...]) -> Audit:
    """`scores`: the score that every episode of a task must have, by task name without its round."""
    journal, ledger = list(_lines(folder / "journal.jsonl")), list(_lines(folder / "ledger.jsonl"))
    attempts = Counter(line["episode"] for line in journal if line["kind"] == "attempt")
    finished: Counter[str] = Counter()
    problems: list[str] = []
    for line in _lines(folder / "trajectories.jsonl"):
        if line["kind"] == "trajectory":
            trajectory = line["trajectory"]
            finished[trajectory["episode_id"]] += 1
            problems += _mis_scored(trajectory, line["reward"]["total"], scores)
    problems += _lost_or_doubled(num_asked, attempts, finished)
    problems += _doubled_writes(ledger, writers)
    calls = [line for line in journal if line["kind"] == "call"]
    faults = _outcomes([line for line in ledger if line["kind"] == "fault"], calls)
    for fault, ended in faults.items():
        if ended[READ]:
            problems.append(f"{fault}: {ended[READ]} became an error that the model read")
    return Audit(finished.total(), attempts.total(), len(calls), faults, tuple(problems))


def _mis_scored(trajectory: Mapping[str, Any], reward: float, scores: Mapping[str, float]) -> Iterator[str]:
    name = trajectory["task"]["id"].partition("#")[0]
    if reward != scores[name]:
        yield f"{trajectory['episode_id']}: scored {reward}, must be {scores[name]}"
    if trajectory["stop"] != "answered":
        yield f"{trajectory['episode_id']}: ended in {trajectory['stop']}"


def _lost_or_doubled(num_asked: int, attempts: Counter[str], finished: Counter[str]) -> Iterator[str]:
    if finished.total() != num_asked:
        yield f"{finished.total()} episodes on disk, {num_asked} were asked for"
    members = Counter(episode.rpartition(".")[0] for episode in finished)
    yield from (f"{member}: {count} episodes on disk" for member, count in members.items() if count > 1)
    yield from (f"{episode}: written {count} times" for episode, count in finished.items() if count > 1)
    yield from (f"{episode}: played {count} times" for episode, count in attempts.items() if count > 1)
    yield from (f"{episode}: on disk, never played" for episode in finished.keys() - attempts.keys())


def _doubled_writes(ledger: list[dict[str, Any]], writers: tuple[str, ...]) -> Iterator[str]:
    """Writes that reached their server twice in one episode; a separate process is one episode."""
    seen: Counter[str] = Counter()
    for line in ledger:
        if line["kind"] == "call" and line["tool"] in writers:
            seen[f"{line['episode'] or line['process']}: {line['tool']} {json.dumps(line['arguments'])}"] += 1
    yield from (f"{write}: reached the server {count} times" for write, count in seen.items() if count > 1)


def _outcomes(faults: list[dict[str, Any]], calls: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """How the call that met each fault ended; a call is known by its tool, arguments, time and episode."""
    by_content: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in calls:
        by_content[_content(call)].append(call)
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    for fault in faults:
        met = [
            call for call in by_content[_content(fault)] if call["started"] <= fault["at"] <= call["ended"]
        ]
        named = [call for call in met if fault["episode"].startswith(call["episode"] + "/")]
        # of two equal calls at the same time, the one that ended last met the fault
        call = max(named or met, key=lambda task: task["ended"], default=None)
        ended[fault["fault"]][UNMET if call is None else _outcome(call)] += 1
    return dict(ended)


def _content(line: Mapping[str, Any]) -> str:
    return line["tool"] + json.dumps(line["arguments"], sort_keys=True)


def _outcome(call: Mapping[str, Any]) -> str:
    if call["fault"] == "infra":
        return REPLAYED
    if call["cause"] not in ("ok", "too_large"):
        return READ
    return REPEATED if call["num_retries"] else ANSWERED


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        yield from map(json.loads, lines)
