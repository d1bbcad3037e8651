"""A run's own successful episodes as samples to imitate: rejection sampling.

The run's folder is not trusted: a line that cannot be read or trained on is counted and left out.
"""

import hashlib
import json
from array import array
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from turnwise.rewards import succeeded
from turnwise.rollout.store import StoredEpisode, read_valid_episodes
from turnwise.system.files.regular_files import Damaged, names_in, read_bytes
from turnwise.training.packing.samples import Sample, samples_of
from turnwise.types import Group, Reward, Trajectory
from turnwise.types.protocols import RewardDown

SAMPLES_PER_TASK = 4
"""Successes of a task that are learned from, the latest ones, so that easy tasks do not dominate."""


@dataclass(frozen=True, slots=True)
class Successes:
    """Samples of a run's successful episodes, and counts of what was left out."""

    samples: tuple[Sample, ...]
    num_episodes: int
    """Episodes that could be read."""
    num_succeeded: int
    num_repeated: int
    """Successes with the same sampled tokens as another success of the same task."""
    num_over_limit: int
    """Different successes beyond the limit per task."""
    unusable: tuple[str, ...]
    """Location and reason of each line or episode that was left out."""

    def counts(self) -> dict[str, int]:
        return {
            "num_episodes": self.num_episodes,
            "num_succeeded": self.num_succeeded,
            "num_repeated": self.num_repeated,
            "num_over_limit": self.num_over_limit,
            "num_unusable": len(self.unusable),
        }


class _Latest:
    """The latest different successes of each task, at most `per_task`."""

    def __init__(self, per_task: int) -> None:
        self._per_task = per_task
        self._kept: dict[str, dict[bytes, Sample]] = {}
        self._seen: set[tuple[str, bytes]] = set()
        self.num_added = 0

    def add(self, trajectory: Trajectory) -> None:
        task_id, key = trajectory.task.id, _digest(trajectory)
        self.num_added += 1
        self._seen.add((task_id, key))
        own = self._kept.setdefault(task_id, {})
        own.pop(key, None)  # a repeated success moves to the end
        own[key] = _sample(trajectory)
        if len(own) > self._per_task:
            del own[next(iter(own))]

    @property
    def num_different(self) -> int:
        return len(self._seen)

    @property
    def samples(self) -> tuple[Sample, ...]:
        kept = [sample for own in self._kept.values() for sample in own.values()]
        return tuple(replace(sample, group=number) for number, sample in enumerate(kept))


def successes_of(run: Path, tokenizer_json: str, *, samples_per_task: int = SAMPLES_PER_TASK) -> Successes:
    """Return the latest different successes of each task. ValueError if there are none or token ids differ.

    `tokenizer_json` is that of the model to be trained.
    """
    files = _episode_files(run)
    if not files:
        raise ValueError(f"--from {run}: not the folder of a run with episodes (trajectories/step-….jsonl)")
    max_id = _check_tokens(run, tokenizer_json)
    unusable: list[str] = []
    num_episodes, latest = 0, _Latest(samples_per_task)
    for played in (episode for file in files for episode in read_valid_episodes(file, unusable.append)):
        num_episodes += 1
        try:
            if _succeeded(played):
                _check_trainable(played.trajectory, max_id)
                latest.add(played.trajectory)
        except ValueError as error:
            unusable.append(f"episode {played.trajectory.episode_id} of step {played.step}: {error}")
    samples = latest.samples
    if not samples:
        why = f"{num_episodes} episodes, {len(unusable)} damaged lines"
        raise ValueError(f"--from {run}: none of its episodes is a success to learn from ({why})")
    num_repeated = latest.num_added - latest.num_different
    num_over = latest.num_different - len(samples)
    return Successes(samples, num_episodes, latest.num_added, num_repeated, num_over, tuple(unusable))


def _episode_files(run: Path) -> list[Path]:
    folder = run / "trajectories"
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    except Damaged as error:
        raise ValueError(f"--from {error}") from None
    return [folder / name for name in names if fnmatch(name, "step-*.jsonl")]


def _succeeded(played: StoredEpisode) -> bool:
    """Apply the rule of the run's success rate; an episode lost to infrastructure is no success."""
    try:
        is_lost = played.trajectory.stop.is_infrastructure
        return not is_lost and succeeded(played.trajectory, played.reward)
    except (RewardDown, TypeError) as error:
        raise ValueError(f"its success cannot be determined: {error}") from None


def _check_trainable(trajectory: Trajectory, max_id: int) -> None:
    turns = trajectory.turns
    if not turns or not turns[0].new_ids or not any(turn.completion.token_ids for turn in turns):
        raise ValueError("it has no prompt, or no sampled token")
    wrong = next((token for token in trajectory.token_ids if not 0 <= token <= max_id), None)
    if wrong is not None:
        raise ValueError(f"token id {wrong} is not one of the tokenizer's")


def _digest(trajectory: Trajectory) -> bytes:
    """Hash the sampled tokens, turn by turn."""
    digest = hashlib.sha256()
    for turn in trajectory.turns:
        digest.update(array("q", (len(turn.completion.token_ids), *turn.completion.token_ids)).tobytes())
    return digest.digest()


def _sample(trajectory: Trajectory) -> Sample:
    [sample] = samples_of([Group(trajectory.task, (trajectory,), (Reward(1.0, {"outcome": 1.0}),))])
    # Train the likelihood under the plain model, not under the model at the temperature of the run.
    return replace(sample, temperature=1.0)


def _check_tokens(run: Path, tokenizer_json: str) -> int:
    """Return the largest token id; ValueError if the run's ids mean other tokens than the model's."""
    file = run / "tokenizer.json"
    try:
        of_run = _tokens(read_bytes(file).decode())
    except FileNotFoundError:
        raise ValueError(f"--from {run}: it has no tokenizer.json to say what its ids stand for") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"--from {run}: its tokenizer.json cannot be read: {error!r:.200}") from None
    if not tokenizer_json:
        raise ValueError("model.path: its tokenizer has no tokenizer.json to compare with that of --from")
    if of_run != _tokens(tokenizer_json):
        raise ValueError(f"--from {run}: its token ids are of another tokenizer than that of model.path")
    return max(of_run)


def _tokens(tokenizer_json: str) -> dict[int, str]:
    """Return the token of each id in a tokenizer.json."""
    data: Any = json.loads(tokenizer_json)
    vocab = data["model"]["vocab"]
    # Unigram models list [token, score] pairs by id.
    listed = vocab.items() if isinstance(vocab, dict) else ((pair[0], i) for i, pair in enumerate(vocab))
    texts = {int(number): str(token) for token, number in listed}
    return texts | {int(added["id"]): str(added["content"]) for added in data["added_tokens"]}
