"""A base of 4 bits a weight: its numbers, its adapters, a whole run on it, and doing without the library."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engines.models import plain_logprobs, qwen3, running
from tests.run.stage import recipe
from tests.run.test_train import lines, run_it
from tests.training.drawn import family, plain_rows
from tests.training.policies import LORA, stir
from turnwise.assembly.trained_policy import load_trained
from turnwise.assembly.workbench import load_model
from turnwise.config import ModelConfig, load_recipe
from turnwise.engines.weight_transfer import write_model
from turnwise.protocols import Adapter
from turnwise.runtime.model_support import is_quantised
from turnwise.training.model import quantised
from turnwise.training.model.model_folder import plain_model
from turnwise.training.model.policy import POLICY, Policy
from turnwise.training.model.quantised import DISABLED, plain_weights, settled, twin
from turnwise.types import Sampling

needs_library = pytest.mark.skipif(bool(quantised.why_not()), reason="no bitsandbytes: run `make ready`")
CLOSE = 1e-4
"""The largest difference between log-probs of the engine and of the trainer, float32."""


@pytest.fixture
def base(tmp_path: Path) -> Any:
    qwen3().save_pretrained(tmp_path / "model")
    return load_model(ModelConfig(path=str(tmp_path / "model"), quantisation="nf4", device="cpu"))


@needs_library
def test_every_linear_layer_is_packed_with_double_quantisation_and_nothing_else_is(base: Any) -> None:
    for name, parameter in base.named_parameters():
        is_linear = "proj" in name
        assert is_quantised(parameter) == is_linear, name
        if is_linear:
            assert parameter.quant_state.quant_type == "nf4"
            assert parameter.quant_state.nested
            assert parameter.dtype == torch.uint8


@needs_library
def test_the_numbers_do_not_depend_on_whether_gradients_are_on(base: Any) -> None:
    ids = torch.arange(20)[None]
    with torch.no_grad():
        before = base(ids).logits
    inputs = base.get_input_embeddings()(ids).detach().requires_grad_()
    live = base(inputs_embeds=inputs).logits
    live.sum().backward()
    assert torch.equal(live, before)
    assert inputs.grad.abs().sum() > 0
    with torch.no_grad():
        assert torch.equal(base(ids).logits, before), "a pass without gradients packs nothing anew"


@needs_library
def test_plain_weights_are_what_the_packed_ones_stand_for(base: Any) -> None:
    ids, whole = torch.arange(20)[None], qwen3()
    missing = whole.load_state_dict(plain_weights(base), strict=False).unexpected_keys
    assert not missing
    with torch.no_grad():
        assert (whole(ids).logits - base(ids).logits).abs().max() < CLOSE
        assert (whole(ids).logits - qwen3()(ids).logits).abs().max() > 100 * CLOSE, "and not the first ones"


@needs_library
def test_a_folder_for_another_process_has_the_same_base_in_plain_numbers(base: Any, tmp_path: Path) -> None:
    write_model(base, tmp_path / "plain", plain_weights(base))
    assert "quantization" not in (tmp_path / "plain" / "config.json").read_text()
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.float32).eval()
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(read(ids).logits, base(ids).logits)


@needs_library
def test_twins_share_every_parameter_and_no_adapter(base: Any) -> None:
    policy = Policy(twin(base), LORA)
    stir(policy)
    own = {id(parameter) for parameter in base.parameters()}
    assert {id(parameter) for parameter in policy.model.parameters()} - own == {
        id(parameter) for parameter in policy.trainable.values()
    }
    assert not any("lora" in name for name, _ in base.named_parameters())


@needs_library
def test_merged_weights_are_plain_numbers_that_give_the_policys_own_scores(base: Any) -> None:
    policy, samples = Policy(base, LORA), family()
    stir(policy)
    merged = plain_model(policy)
    assert not any(is_quantised(parameter) for parameter in merged.parameters())
    with torch.no_grad():
        scores = policy.score(samples)
        expected = plain_rows(merged, samples)[0]
    assert (scores.logprobs_BT - expected).abs().max() < CLOSE


@needs_library
async def test_an_engine_on_the_same_base_samples_as_the_trainer_scores_before_and_after_a_publication(
    base: Any,
) -> None:
    policy = Policy(twin(base), LORA)
    prompt = list(range(5, 80))

    async with running(base) as engine:
        before = await engine.complete(prompt, Sampling(max_tokens=24), 1)
        assert _gap(policy, prompt, before) < CLOSE
        stir(policy)
        assert _gap(policy, prompt, before) > 100 * CLOSE
        await engine.publish(policy.adapter(), 1)
        after = await engine.complete(prompt, Sampling(max_tokens=24), 1)
        assert _gap(policy, prompt, after) < CLOSE
        assert after.policy_version == 1
        kept = policy.adapter()
        stir(policy)  # the engine has a copy: what learns on is not what samples
        again = await engine.complete(prompt, Sampling(max_tokens=24), 1)
        assert again.logprobs == after.logprobs
        with pytest.raises(ValueError, match="never written over: publish an adapter"):
            await engine.publish(policy.weights(), 2)
        wrong = {name.replace("up_proj", "no_proj"): tensor for name, tensor in kept.tensors.items()}
        with pytest.raises(ValueError, match="no_proj"):
            await engine.publish(Adapter(wrong, kept.rank, kept.alpha), 2)


def _gap(policy: Policy, prompt: list[int], completion: Any) -> float:
    whole = plain_model(policy)
    plain = plain_logprobs(whole, prompt, completion.token_ids)
    return max(abs(a - b) for a, b in zip(plain, completion.logprobs, strict=True))


@needs_library
def test_the_frozen_reference_is_the_quantised_base_with_the_adapter_off(base: Any) -> None:
    policy, samples = Policy(base, LORA), family()
    with torch.no_grad():
        start = policy.score(samples).logprobs_BT
        stir(policy)
        assert torch.equal(policy.score(samples, adapter="base").logprobs_BT, start)
        assert not torch.equal(policy.score(samples, adapter=POLICY).logprobs_BT, start)


@needs_library
def test_a_run_on_a_quantised_base_learns_keeps_no_packed_byte_and_its_sampler_agrees(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path,
        model={"path": str(tmp_path / "model"), "quantisation": "nf4", "device": "cpu"},
        reference={"kind": "ema"},
        algorithm={"kl": {"placement": "loss_k3"}},
    )
    ended, folder = run_it(settings)
    assert not ended.why
    updates = lines(folder, "update")
    assert len(updates) == 3
    for line in updates:
        assert line["metrics"]["gradient/norm"] > 0
        assert line["metrics"]["kl/sampler"] < 1e-6, "μ and π_old are of one base and one adapter"
        assert line["metrics"]["sampler/max_abs_difference"] < CLOSE
    trained = load_trained(folder.path)
    assert all("lora_" in name for name in trained.policy.state())
    assert any(tensor.abs().sum() > 0 for name, tensor in trained.policy.state().items() if "lora_B" in name)


def test_without_the_library_a_recipe_becomes_lora_on_bf16_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = load_recipe(None, ["model.quantisation=nf4"])
    monkeypatch.setenv(DISABLED, "1")
    with caplog.at_level(logging.WARNING):
        given = settled(wanted)
    assert (given.model.quantisation, given.model.dtype, given.policy.tuning) == ("none", "bfloat16", "lora")
    assert [record.getMessage() for record in caplog.records] == [
        "DISABLE_BITSANDBYTES is set: LoRA on a bfloat16 base in the place of nf4"
    ]
    with pytest.raises(ValueError, match=r"model\.quantisation is 'nf4', and DISABLE_BITSANDBYTES is set"):
        load_model(wanted.model)
    plain = load_recipe(None, [])
    assert settled(plain) is plain


@pytest.mark.parametrize("said", ["", "0"])
def test_a_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(DISABLED, said)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # Python's own word for: not to be had
    assert "turnwise[qlora]" in quantised.why_not()


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        (["policy.tuning=full"], "policy.tuning = 'lora'"),
        (["engine.kind=vllm", "algorithm.correction=none"], "needs algorithm.correction"),
        (["engine.kind=remote", "algorithm.correction=none"], "needs algorithm.correction"),
    ],
)
def test_what_cannot_go_with_a_quantised_base_is_refused(overrides: list[str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        load_recipe(None, ["model.quantisation=nf4", *overrides])
