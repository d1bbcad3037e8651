"""A run on disk, seen from Python: figures, episodes, how it ended, and what can be done with it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from turnwise.api.evaluation import Evaluation, checkpoint_choice, evaluate_request
from turnwise.api.request import NO_SETTINGS, TaskSource, consent, given_functions, request_of
from turnwise.config import Recipe
from turnwise.records.ending import Ending
from turnwise.records.folder import RunFolder
from turnwise.records.metrics import Metrics, read_metrics
from turnwise.rollout.store import StoredEpisode, read_episodes
from turnwise.system.files.regular_files import names_in, read_table
from turnwise.system.python_functions import NOTHING_GIVEN, Given, function_name
from turnwise.worlds.environment import generated_tasks


class Run:
    """A run's folder. Everything is read when it is asked for, so a run that goes on can be followed."""

    def __init__(self, path: str | Path, functions: Given = NOTHING_GIVEN) -> None:
        """functions: the functions that the run's recipe names and that cannot be imported."""
        self._folder = RunFolder.read(Path(path))
        self._functions = functions

    @property
    def path(self) -> Path:
        return self._folder.path

    @property
    def recipe(self) -> Recipe:
        return self._folder.recipe

    @property
    def ended(self) -> Ending | None:
        """How the run ended, and why; None while it runs, or if it was killed."""
        return self._folder.ending

    @property
    def summary(self) -> Mapping[str, Any] | None:
        """The content of summary.json; None before the run has ended."""
        return read_table(self._folder.summary) if self._folder.summary.exists() else None

    @property
    def metrics(self) -> Metrics:
        """The figures of every step."""
        return read_metrics(self._folder.metrics)

    def episodes(self, step: int | None = None, task: str | None = None) -> list[StoredEpisode]:
        """Return the training episodes: all, those of a step (from 0), or those of a task by its id."""
        if step is not None:
            files = [self._folder.trajectories(step)]
            if not files[0].exists():
                raise ValueError(f"step: {self.path} has no episodes of step {step}")
        else:
            folder = self._folder.trajectories(0).parent
            files = [folder / name for name in sorted(names_in(folder))]
        episodes = [episode for file in files for episode in read_episodes(file)]
        return [episode for episode in episodes if task is None or episode.trajectory.task.id == task]

    def evaluate(
        self,
        tasks: TaskSource | None = None,
        *,
        step: int | None = None,
        best: bool = False,
        environment: Callable[[], Any] | None = None,
        settings: Mapping[str, Any] = NO_SETTINGS,
        samples: int = 4,
        temperature: float = 1.0,
        out: str | Path | None = None,
        trust: bool = False,
        quiet: bool = False,
    ) -> Evaluation:
        """Measure what the run has learned, by default on tasks.test of its recipe.

        step: the checkpoint after this many steps; by default the one with the best validation, or the last
        if there was none.
        best: the checkpoint with the best validation; an error if there was none.
        environment, settings: play in another environment, or by other keys of the recipe.
        samples, temperature, out, quiet: as in `turnwise.evaluate`.
        trust: start what the recipe of a run made elsewhere names.
        """
        if environment is not None and tasks is None:
            name = function_name(environment, self._functions)
            tasks = generated_tasks(name, environment).get("test")
            if not tasks:
                raise ValueError(f"no tasks: environment {name!r} generates no test tasks: give `tasks`")
        request = request_of(
            run=self.path,
            tasks={"test": tasks},
            environment=environment,
            settings=settings,
            functions=self._functions,
        )
        return evaluate_request(
            request,
            request.read(consent(trust=trust)),
            which=checkpoint_choice(step, best),
            samples=samples,
            temperature=temperature,
            out=out,
            quiet=quiet,
        )

    def export(
        self, out: str | Path, *, step: int | None = None, best: bool = False, adapter: bool = False
    ) -> Path:
        """Write the trained model to a new folder that transformers, vLLM or peft can load."""
        from turnwise.setup.export import export_run

        which = checkpoint_choice(step, best)
        return export_run(self.path, Path(out), which=which, is_adapter=adapter).folder

    def __repr__(self) -> str:
        ended = self.ended
        return f"<Run {self.path}: {len(self.metrics)} steps, {ended.how if ended else 'not ended'}>"


def load_run(path: str | Path, functions: Iterable[Callable[..., Any]] = ()) -> Run:
    """Return the run in a folder. `functions`: the lambdas and notebook functions that it was given."""
    return Run(path, given_functions(functions))


def as_path(run: Run | str | Path) -> Path:
    return run.path if isinstance(run, Run) else Path(run)
