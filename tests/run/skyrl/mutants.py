"""Mutants of the SkyRL integration: `python -m tests.run.skyrl.mutants [FILE ...]` tests them one by one.

Needs SkyRL: use `.tools/skyrl/bin/python`. Every mutant of the workers starts a Ray cluster.
"""

import os
import sys

import ray  # noqa: F401  (loaded here once, so that no child loads them again)
import skyrl.train.fully_async_trainer  # noqa: F401

from tests.mutation import Mutant, main

MUTANTS = [
    # ids, masks, log-probs and rewards
    (
        "rows",
        "list(trajectory.loss_mask[start:])",
        "[1 for _ in trajectory.loss_mask[start:]]",
        "generator",
    ),
    ("rows", "trajectory.logprobs[start:]", "trajectory.logprobs[start - 1 : -1]", "generator"),
    ("rows", "len(trajectory.turns[0].new_ids)", "len(trajectory.turns[0].new_ids) - 1", "generator"),
    ("generator", "zip(request.places, rows, ", "zip(request.places, rows[::-1], ", "generator"),
    ("generator", "metadata.global_step - 1", "0 * metadata.global_step", "generator"),
    ("engine", '"seed": seed,', '"seed": 0,', "engine generator"),
    ("engine", "not all(map(math.isfinite, values))", "False", "engine"),
    # episodes lost to infrastructure
    ("generator", "(self._blank_id, self._mean_reward)", "(self._blank_id, 0.0)", "generator"),
    ("generator", "self._num_masked_in_a_row + 1", "1", "generator"),
    ("player", "(order.task, *order.spares), 1)", "(order.task,), 1)", "generator"),
    ("player", 'f"{number}/{episode_id}"', "episode_id", "generator"),
    ("player", "await engine.finish()", "pass", "generator"),
    ("workers", "last, num_resent = number, num_resent + 1", "raise", "workers"),
    # the config
    (
        "counterparts",
        '_norm_by_std": algorithm.advantage ==',
        '_norm_by_std": algorithm.advantage !=',
        "config",
    ),
    (
        "counterparts",
        "divmod(recipe.run.tasks_per_step, recipe.update.num_minibatches)",
        "7, 0",
        "config",
    ),
    ("counterparts", '"trainer.policy.optimizer_config"', '"trainer.policy.optimizer"', "config"),
    ("counterparts", '"trainer.seed": recipe.seed,', "", "translation"),
    (
        "translation",
        "COUNTERPART.items() if key in changed_keys",
        "COUNTERPART.items() if False",
        "translation",
    ),
]


if __name__ == "__main__":
    os.environ["PYTEST_ADDOPTS"] = (
        "-W default"  # dependencies of SkyRL raise warnings, as in `make test-skyrl`
    )
    sys.exit(main("run/skyrl", [Mutant(*fields) for fields in MUTANTS]))
