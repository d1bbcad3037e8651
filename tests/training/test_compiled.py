"""Compiled layers score and learn as layers that are not, and are compiled once for any number of tokens."""

import shutil
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.engines.models import SIZES
from tests.training.drawn import family
from tests.training.policies import FULL, LORA, apart, gradients, made, pass_gradients, stir
from tests.training.test_policy import gemma2
from tests.training.test_prefix import begun, relatives
from turnwise.config.learning import PolicyConfig, ValueConfig
from turnwise.training import attention
from turnwise.training.policy import Policy
from turnwise.training.samples import Sample

HAS_COMPILER = (
    any(map(shutil.which, ("g++", "clang++"))) and Path(sysconfig.get_path("include"), "Python.h").is_file()
)
pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="torch compiles for a CPU by a C++ compiler and Python.h"),
    # torch's own: as its compiler is imported, and as it looks at a function and at a layer's input
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]

NUM_PARTS = 4
"""Of a layer, each compiled by itself: its norm, queries to values, attention's output, the rest."""
CLOSE = 1e-5
"""Fused sums of fp32 go in another order; relative to the largest."""

BATCHES: dict[str, Callable[[], list[Sample]]] = {
    "a family": family,
    "three with a longer prompt": lambda: family(3, prefix=75)[:3],
    "one alone": lambda: family()[8:9],
}
batches = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)


def tiny() -> Any:
    torch.manual_seed(0)
    sizes = SIZES | {"num_hidden_layers": 2}
    return Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)).eval()


def both_ways(config: PolicyConfig = LORA, **more: Any) -> tuple[Policy, Policy]:
    """One policy as it is, and the same compiled."""
    configs = [config.model_copy(update={"kernels": kernels}) for kernels in ("fused", "compiled")]
    fused, compiled = (made(tiny, each, **more) for each in configs)
    return fused, compiled


@pytest.fixture(scope="module", autouse=True)
def _compiled_anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def both() -> tuple[Policy, Policy]:
    return both_ways()


def num_compiled() -> int:
    return counters["stats"]["unique_graphs"]


def score_gap(both: tuple[Policy, Policy], samples: list[Sample], **options: Any) -> float:
    """Of log-probs without gradients."""
    with torch.no_grad():
        one, other = (policy.score(samples, **options).logprobs_BT for policy in both)
    assert (one != 0).any()
    return ((one - other).abs().max() / one.abs().max()).item()


def test_both_layers_share_what_is_compiled_and_so_does_a_carried_prefix(both: tuple[Policy, Policy]) -> None:
    torch._dynamo.reset()
    before = num_compiled()
    gradients(both[1], [family()])
    assert num_compiled() - before == NUM_PARTS
    pass_gradients(both[1], relatives(), 200)
    assert num_compiled() - before == NUM_PARTS


@batches
def test_gradients_are_those_of_layers_as_they_are(
    both: tuple[Policy, Policy], batch: Callable[[], list[Sample]]
) -> None:
    fused, compiled = (gradients(policy, [batch()]) for policy in both)
    assert all((each != 0).any() for each in fused.values())
    assert apart(fused, compiled) < CLOSE


@pytest.mark.parametrize("tokens", [1, 200, 350])
def test_gradients_go_back_through_a_carried_prefix(both: tuple[Policy, Policy], tokens: int) -> None:
    fused, compiled = (pass_gradients(policy, relatives(), tokens) for policy in both)
    assert apart(fused, compiled) < CLOSE


@batches
@pytest.mark.parametrize("adapter", ["policy", "base"])
def test_scores_without_gradients_are_the_same(
    both: tuple[Policy, Policy], batch: Callable[[], list[Sample]], adapter: str
) -> None:
    assert score_gap(both, batch(), adapter=adapter) < CLOSE


@pytest.mark.parametrize("adapter", ["policy", "base"])
def test_scores_after_a_carried_prefix_are_the_same(both: tuple[Policy, Policy], adapter: str) -> None:
    with torch.no_grad():
        runs = [begun(policy, relatives(), adapter=adapter) for policy in both]
        for part in runs[0].parts:
            one, other = (run.score(part).logprobs_BT for run in runs)
            assert (one - other).abs().max() < CLOSE * one.abs().max()


def test_an_adapter_is_on_or_off_as_asked_for(both: tuple[Policy, Policy]) -> None:
    with torch.no_grad():
        with_it, without = (both[1].score(family(), adapter=each).logprobs_BT for each in ("policy", "base"))
        assert (with_it - without).abs().max() > 0.01
        assert both[1].score(family()).logprobs_BT.equal(with_it)


def test_another_number_of_tokens_is_compiled_for_already(both: tuple[Policy, Policy]) -> None:
    compiled = both[1]

    def use(samples: list[Sample]) -> None:
        gradients(compiled, [samples])
        with torch.no_grad():
            compiled.score(samples)
            compiled.score(samples, adapter="base")

    use(family())
    before = num_compiled()
    for number in range(1, 9):
        use(family(number, prefix=10 * number)[:number])
    assert num_compiled() == before


def test_what_is_learned_takes_effect_at_once() -> None:
    pair = both_ways()
    with torch.no_grad():
        start = pair[1].score(family()).logprobs_BT
    for policy in pair:
        stir(policy)
    assert score_gap(pair, family()) < CLOSE
    with torch.no_grad():
        assert (pair[1].score(family()).logprobs_BT - start).abs().max() > 0.01


def test_layers_are_run_again_in_the_backward_pass_where_asked_for(
    both: tuple[Policy, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = made(tiny, LORA.model_copy(update={"kernels": "compiled", "gradient_checkpointing": True}))
    calls: list[Any] = []
    piece = attention.forward_piece
    monkeypatch.setattr(
        attention, "forward_piece", lambda *args, **more: calls.append(1) or piece(*args, **more)
    )  # type: ignore[func-returns-value]  # append gives nothing, so that the other is given
    kept = gradients(both[1], [family()])
    once = len(calls)
    assert apart(kept, gradients(again, [family()])) < CLOSE
    assert len(calls) == 3 * once > 0  # once above, twice here
    assert apart(pass_gradients(both[0], relatives(), 200), pass_gradients(again, relatives(), 200)) < CLOSE


def test_a_model_that_cannot_share_prefixes_is_not_compiled() -> None:
    policy = Policy(gemma2(), LORA.model_copy(update={"kernels": "compiled"}))
    assert all(each._compiled_call_impl is None for each in policy.model.modules())


@pytest.mark.slow  # each compiles as much again
class TestInOtherWays:
    """Ways of running a policy that most runs do without."""

    def test_all_parameters_learn_the_same(self) -> None:
        fused, compiled = both_ways(FULL)
        for each in (family(), relatives()[:3]):
            assert apart(gradients(fused, [each]), gradients(compiled, [each])) < CLOSE
        assert apart(*(pass_gradients(policy, relatives(), 200) for policy in (fused, compiled))) < CLOSE

    def test_padded_rows_are_scored_the_same(self, both: tuple[Policy, Policy]) -> None:
        for each in (family(), relatives()[:3]):
            assert apart(*(gradients(policy, [each], is_shared=False) for policy in both)) < CLOSE

    def test_values_with_an_adapter_of_their_own_are_the_same(self) -> None:
        pair = both_ways(value=ValueConfig(trunk="adapter"))
        found = [gradients(policy, [family()], with_values=True) for policy in pair]
        assert any(name.startswith("value adapter") for name in found[0])
        assert apart(*found) < CLOSE

    def test_other_tensors_can_stand_in_for_those_that_learn(self) -> None:
        pair = both_ways()
        before = {name: each.detach().clone() for name, each in pair[1].trainable.items()}
        with torch.no_grad():
            start = pair[1].score(family()).logprobs_BT
            for policy in pair:
                stir(policy)
            found = pair[1].score(family(), parameters=before).logprobs_BT
        assert (found - start).abs().max() < CLOSE * start.abs().max()
        assert score_gap(pair, family()) < CLOSE
