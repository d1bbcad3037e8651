"""Run SkyRL's single processes on the node of the command, whose loss ends the run in any case.

Ray prefers nodes without GPUs for them: the loss of a node that is there for its players would end the run.
"""

import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    AdvantageEstimatorRegistry,
    PolicyLossRegistry,
    RegistryActor,
)

_RELEASE_SECONDS = 30.0


def this_node() -> NodeAffinitySchedulingStrategy:
    """This process's node; another one if it has no CPU left."""
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


def move_registries(node: NodeAffinitySchedulingStrategy) -> list[Any]:
    """Start SkyRL's registries of losses and advantage estimators again, on this node.

    The trainer asks them in every step. They have only SkyRL's own functions, and end when the
    returned handles are dropped.
    """
    registries = {
        "policy_loss_registry": PolicyLossRegistry,
        "advantage_estimator_registry": AdvantageEstimatorRegistry,
    }
    handles = []
    for name, registry in registries.items():
        registry.reset()
        handles.append(_start_registry(name, node))
        registry.repopulate_registry()  # finds the started actor by its name
    return handles


def _start_registry(name: str, node: NodeAffinitySchedulingStrategy) -> Any:
    """Start a registry; Ray releases the name of the ended one a moment later."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            return RegistryActor.options(name=name, scheduling_strategy=node).remote()
        except ValueError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
