"""Mistakes in the SkyRL integration: `python -m tests.integrations.mutants [FILE ...]` plants them.

With SkyRL installed: `.tools/skyrl/bin/python`. Those of the workers take a Ray cluster each.
"""

import os
import sys

import ray  # noqa: F401  (loaded once here, so that no child loads them again)
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
        "dict(zip(each.places, rows, strict=True))",
        "dict(zip(each.places, rows[::-1], strict=True))",
        "generator",
    ),
    ("skyrl/generator", "metadata.global_step - 1", "0 * metadata.global_step", "generator"),
    ("skyrl/engine", '"seed": seed,', '"seed": 0,', "engine generator"),
    ("skyrl/engine", "not all(map(math.isfinite, values))", "False", "engine"),
    # what infrastructure takes
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
        "for key, reason in LEFT.items() if key in said",
        "for key, reason in LEFT.items() if False",
        "translation",
    ),
]


if __name__ == "__main__":
    os.environ["PYTEST_ADDOPTS"] = (
        "-W default"  # what SkyRL stands on warns of itself, as in `make test-skyrl`
    )
    sys.exit(main("integrations", [Mutant(*each) for each in MUTANTS]))
