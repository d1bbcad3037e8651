"""Send metrics, episodes, recipe and files to a W&B run, online or offline."""

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from turnwise.records.trackers.episodes import transcript
from turnwise.records.trackers.messages import EpisodeRecord, Evaluation, HistogramRecord
from turnwise.records.trackers.tracker import Start
from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.regular_files import read_bytes

_COLUMNS = {
    "task": lambda episode: episode.task_id,
    "family": lambda episode: episode.family,
    "difficulty": lambda episode: episode.difficulty,
    "success": lambda episode: episode.is_success,
    "reward": lambda episode: episode.reward,
    "parts": lambda episode: ", ".join(f"{name} {value:g}" for name, value in episode.parts.items()),
    "stop": lambda episode: episode.stop,
    "turns": lambda episode: episode.num_turns,
    "calls": lambda episode: episode.num_calls,
    "failed calls": lambda episode: episode.num_failed_calls,
    "tokens": lambda episode: episode.num_tokens,
    "question": lambda episode: episode.question,
    "answer": lambda episode: episode.answer,
    "transcript": transcript,
}


class WandbTracker:
    """One W&B run per folder, however often the run is resumed.

    The step is a metric and the x-axis of all others: W&B's own step only increases, and a resumed run
    repeats steps.
    """

    def __init__(self, start: Start) -> None:
        config = start.config
        self._folder = Path(start.folder)
        self._artifacts = config.artifacts
        # files to be uploaded are staged in the run's folder, not in the user's home
        os.environ.setdefault("WANDB_DATA_DIR", str(self._folder / "wandb" / "data"))
        entity, _, project = start.project.rpartition("/")
        self._run = wandb.init(
            entity=entity or None,
            project=project,
            name=start.name,
            id=_run_id(self._folder),
            resume="allow",
            dir=self._folder,
            config=dict(start.recipe),
            allow_val_change=True,  # a run may be resumed with more steps
            settings=wandb.Settings(
                console="off",  # training.log has the output
                silent=True,
                disable_git=True,  # a remote's URL may contain a token; versions.json has the commit
                disable_code=True,
                symlink=False,
                finish_timeout=max(0.8 * config.close_seconds, 0.1),  # 0 would mean no timeout
                finish_timeout_raises=True,
                stop_fn=_ignore,
                x_stats_pid=os.getppid(),  # measure the training's CPU and memory, not ours
            ),
        )
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")
        self.where = self._run.url or f"wandb sync {self._run.settings.sync_dir}"

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None:
        bins = wandb.Histogram(np_histogram=(list(histogram.counts), list(histogram.closed_edges)))
        self._run.log({"step": step, f"histogram/{name}": bins})

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        self._run.log({"step": step, "episodes": _table(episodes)})

    def evaluation(self, evaluation: Evaluation) -> None:
        prefix = f"evaluation/{evaluation.name}"
        figures = {f"{prefix}/{name}": value for name, value in evaluation.figures.items()}
        table = {f"{prefix}/episodes": _table(evaluation.episodes)} if evaluation.episodes else {}
        self._run.log({"step": evaluation.step, **figures, **table})

    def cut(self, num_steps: int) -> None:
        """Does nothing: sent records stay, and repeated steps are drawn over them."""

    def close(self) -> None:
        if self._artifacts != "none":
            self._run.log_artifact(self._files())
        checkpoints = sorted(self._folder.glob("checkpoints/step-*"))
        if self._artifacts == "checkpoint" and checkpoints:
            model = wandb.Artifact(f"checkpoint-{self._run.id}", type="model")
            model.add_dir(str(checkpoints[-1]))
            self._run.log_artifact(model)
        self._run.finish()

    def _files(self) -> wandb.Artifact:
        files = wandb.Artifact(f"run-{self._run.id}", type="run")
        for name in ("recipe.json", "versions.json", "metrics.jsonl", "summary.json"):
            if _is_regular(self._folder / name):
                files.add_file(str(self._folder / name))
        for report in filter(_is_regular, sorted(self._folder.glob("evaluations/*.json"))):
            files.add_file(str(report), name=f"evaluations/{report.name}")
        return files


def _table(episodes: Sequence[EpisodeRecord]) -> wandb.Table:
    rows = [[value(episode) for value in _COLUMNS.values()] for episode in episodes]
    return wandb.Table(columns=list(_COLUMNS), data=rows)


def _run_id(folder: Path) -> str:
    """The W&B id of the folder's run; created once and kept in `wandb/id`, so that a resume finds it."""
    file = folder / "wandb" / "id"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, uuid.uuid4().hex[:12].encode())
    return read_bytes(file, 1_024).decode()


def _is_regular(path: Path) -> bool:
    """Whether it is a file and no link: a link could upload a file from outside the run's folder."""
    return path.is_file() and not path.is_symlink()


def _ignore() -> None:
    """Ignore the stop button of W&B's page: a run is stopped on its own machine."""
