"""Mutants of the SkyRL integration: `python -m tests.integrations.mutants [FILE ...]` tests them one by one.

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
        "skyrl/rows",
        "loss_mask=list(trajectory.loss_mask[start:])",
        "loss_mask=[1 for _ in trajectory.loss_mask[start:]]",
        "generator",
    ),
    (
        "skyrl/rows",
        "logprobs=list(trajectory.logprobs[start:])",
        "logprobs=list(trajectory.logprobs[start - 1 : -1])",
        "generator",
    ),
    (
        "skyrl/rows",
        "start = len(trajectory.turns[0].new_ids)",
        "start = len(trajectory.turns[0].new_ids) - 1",
        "generator",
    ),
    (
        "skyrl/generator",
        "dict(zip(request.places, rows, strict=True))",
        "dict(zip(request.places, rows[::-1], strict=True))",
        "generator",
    ),
    ("skyrl/generator", "metadata.global_step - 1", "0 * metadata.global_step", "generator"),
    ("skyrl/engine", '"seed": seed,', '"seed": 0,', "engine generator"),
    ("skyrl/engine", "not all(map(math.isfinite, values))", "False", "engine"),
    # episodes lost to infrastructure
    (
        "skyrl/generator",
        "blank_row(self._blank_id, self._mean_reward)",
        "blank_row(self._blank_id, 0.0)",
        "generator",
    ),
    ("skyrl/generator", "self._num_masked_in_a_row + 1", "1", "generator"),
    ("skyrl/player", "(order.task, *order.spares), 1)", "(order.task,), 1)", "generator"),
    ("skyrl/player", 'f"{number}/{episode_id}"', "episode_id", "generator"),
    ("skyrl/player", "await engine.finish()", "pass", "generator"),
    ("skyrl/workers", "last, num_resent = number, num_resent + 1", "raise", "workers"),
    # the config
    (
        "skyrl/counterparts",
        '"trainer.algorithm.grpo_norm_by_std": algorithm.advantage == "grpo",',
        "",
        "config",
    ),
    (
        "skyrl/counterparts",
        "size, rest = divmod(recipe.run.tasks_per_step, recipe.update.num_minibatches)",
        "size, rest = 7, 0",
        "config",
    ),
    ("skyrl/counterparts", '"trainer.policy.optimizer_config"', '"trainer.policy.optimizer"', "config"),
    ("skyrl/counterparts", '"trainer.seed": recipe.seed,', "", "translation"),
    (
        "skyrl/translation",
        "for key, reason in WITHOUT_COUNTERPART.items() if key in changed_keys",
        "for key, reason in WITHOUT_COUNTERPART.items() if False",
        "translation",
    ),
]


if __name__ == "__main__":
    os.environ["PYTEST_ADDOPTS"] = (
        "-W default"  # dependencies of SkyRL raise warnings, as in `make test-skyrl`
    )
    sys.exit(main("integrations", [Mutant(*fields) for fields in MUTANTS]))
