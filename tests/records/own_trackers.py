"""Trackers that tests name as `module:Class`: one that keeps every record, and several that fail."""

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.records.trackers.messages import EpisodeRecord, Evaluation, HistogramRecord
from turnwise.records.trackers.tracker import Start


class Keeping:
    """Writes every record to a file, one line per record."""

    def __init__(self, start: Start) -> None:
        self._options = start.config.options
        self._file = (Path(start.folder) / self._options.get("file", "kept.jsonl")).open("a")
        self.where = str(start.folder)
        self._keep("start", start.project, start.name, dict(start.recipe)["seed"], dict(os.environ))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._keep("log", step, dict(metrics))

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None:
        self._keep("histogram", step, name, histogram.edges, histogram.counts)

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        self._keep("episodes", step, [episode.question for episode in episodes])

    def evaluation(self, evaluation: Evaluation) -> None:
        self._keep("evaluation", evaluation.name, evaluation.step, dict(evaluation.figures))

    def cut(self, num_steps: int) -> None:
        self._keep("cut", num_steps)

    def close(self) -> None:
        self._keep("close")

    def _keep(self, *record: Any) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


class Slow(Keeping):
    """Sleeps before it keeps a figure."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        time.sleep(self._options["seconds"])
        super().log(step, metrics)


class Failing(Keeping):
    """Fails at every figure with an error that quotes the key."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        raise ConnectionError(f"401 for WANDB_API_KEY={os.environ['WANDB_API_KEY']}\n\x1b[31mno\nentry")


class Unstartable(Keeping):
    """Fails in its constructor."""

    def __init__(self, start: Start) -> None:
        raise PermissionError("no API key configured")


class Hanging(Keeping):
    """Hangs at the first figure, with a process and a thread that would outlive it."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self._keep("processes", os.getpid(), started.pid)
        threading.Thread(target=time.sleep, args=(600,)).start()
        time.sleep(600)


class HangingAtEnd(Keeping):
    """Hangs when it is closed."""

    def close(self) -> None:
        time.sleep(600)


class Crashing(Keeping):
    """Crashes its process, like a fault in native code."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        print("something went wrong in native code", file=sys.stderr, flush=True)
        ctypes.string_at(0)


class Chatty(Keeping):
    """Prints more than a pipe holds to stdout and stderr, and reads stdin."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        print("x" * 1_000_000, flush=True)
        print("x" * 1_000_000, file=sys.stderr, flush=True)
        assert sys.stdin.read() == ""
        super().log(step, metrics)
