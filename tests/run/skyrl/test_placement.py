"""SkyRL's single processes run on the node of the command, not on a node that is there for its players."""

from collections.abc import Iterator

import pytest

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

import ray
from ray._private.state import actors
from ray.cluster_utils import Cluster
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    AdvantageEstimatorRegistry,
    PolicyLossRegistry,
    sync_registries,
)

from turnwise.run.skyrl.placement import move_registries, this_node


@pytest.fixture
def command_node() -> Iterator[str]:
    """The id of the command's node, which has a GPU; another node has none."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1})
    ray.init(address=cluster.address, log_to_driver=False)
    here = ray.get_runtime_context().get_node_id()
    other = cluster.add_node(num_cpus=2, num_gpus=0)
    yield here
    ray.shutdown()
    cluster.remove_node(other)
    cluster.shutdown()


def nodes_of_registries() -> set[str]:
    alive = [actor for actor in actors().values() if actor["State"] == "ALIVE"]
    assert len(alive) == 2
    return {actor["Address"]["NodeID"] for actor in alive}


def test_the_trainer_and_the_registries_are_on_the_node_of_the_command(command_node: str) -> None:
    sync_registries()  # as SkyRL does at its start
    handles = move_registries(this_node())
    assert len(handles) == 2
    assert nodes_of_registries() == {command_node}
    assert "grpo" in AdvantageEstimatorRegistry.list_available()
    assert "cispo" in PolicyLossRegistry.list_available()
    trainer = ray.remote(num_cpus=1, scheduling_strategy=this_node())(
        lambda: ray.get_runtime_context().get_node_id()
    )
    assert ray.get(trainer.remote(), timeout=60) == command_node
