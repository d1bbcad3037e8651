"""A base of 4 bits per weight: logits, adapters, an engine, a whole run, and a missing library."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engines.models import qwen3, running, worst_gap
from tests.run.stage import recipe
from tests.run.test_train import lines, run_it
from tests.training.policies import LORA, add_noise
from tests.training.samples import family, plain_rows
from turnwise.config import ModelConfig, parse_settings, read_recipe
from turnwise.engines.weight_transfer import write_model
from turnwise.models import quantised
from turnwise.models.model_support import is_quantised
from turnwise.models.quantised import DISABLED, plain_weights, settled, twin
from turnwise.setup.bench import load_model
from turnwise.setup.trained import load_trained
from turnwise.training.policy.model_folder import plain_model
from turnwise.training.policy.policy import POLICY, Policy
from turnwise.types import Sampling
from turnwise.types.protocols import Adapter

needs_library = pytest.mark.skipif(bool(quantised.why_not()), reason="no bitsandbytes: run `make ready`")
CLOSE = 1e-4
"""The largest difference between log-probs of the engine and of the trainer, float32."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A packed base; tests that add adapters use a twin of it."""
    folder = tmp_path_factory.mktemp("base")
    qwen3().save_pretrained(folder)
    return load_model(ModelConfig(path=str(folder), quantisation="nf4", device="cpu"))


@torch.no_grad()
def logits_of(model: Any) -> torch.Tensor:
    return model(torch.arange(20)[None]).logits


@needs_library
def test_only_linear_layers_are_packed_and_with_double_quantisation(base: Any) -> None:
    for name, parameter in base.named_parameters():
        is_linear = "proj" in name
        assert is_quantised(parameter) == is_linear, name
        if is_linear:
            assert parameter.quant_state.quant_type == "nf4"
            assert parameter.quant_state.nested
            assert parameter.dtype == torch.uint8


@needs_library
def test_logits_do_not_depend_on_whether_gradients_are_on(base: Any) -> None:
    before = logits_of(base)
    inputs = base.get_input_embeddings()(torch.arange(20)[None]).detach().requires_grad_()
    live = base(inputs_embeds=inputs).logits
    live.sum().backward()
    assert torch.equal(live, before)
    assert inputs.grad.abs().sum() > 0
    assert torch.equal(logits_of(base), before), "a pass without gradients does not repack"


@needs_library
def test_plain_weights_give_the_logits_of_the_packed_ones_also_from_a_folder(
    base: Any, tmp_path: Path
) -> None:
    plain = qwen3()
    assert not plain.load_state_dict(plain_weights(base), strict=False).unexpected_keys
    assert (logits_of(plain) - logits_of(base)).abs().max() < CLOSE
    assert (logits_of(plain) - logits_of(qwen3())).abs().max() > 100 * CLOSE, "quantised, not the original"
    write_model(base, tmp_path / "plain", plain_weights(base))
    assert "quantization" not in (tmp_path / "plain" / "config.json").read_text()
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.float32).eval()
    assert torch.equal(logits_of(read), logits_of(base))


@needs_library
def test_twins_share_every_parameter_and_no_adapter(base: Any) -> None:
    policy = Policy(twin(base), LORA)
    shared = {id(parameter) for parameter in base.parameters()}
    own = {id(parameter) for parameter in policy.model.parameters()} - shared
    assert own == {id(parameter) for parameter in policy.trainable.values()}
    assert not any("lora" in name for name, _ in base.named_parameters())


@needs_library
def test_merged_weights_give_the_policys_scores_and_the_adapter_off_gives_the_base(base: Any) -> None:
    policy, samples = Policy(twin(base), LORA), family()
    with torch.no_grad():
        start = policy.score(samples).logprobs_BT
        add_noise(policy)
        moved = policy.score(samples, adapter=POLICY).logprobs_BT
        assert torch.equal(policy.score(samples, adapter="base").logprobs_BT, start)
        assert not torch.equal(moved, start)
        merged = plain_model(policy)
        assert not any(is_quantised(parameter) for parameter in merged.parameters())
        assert (moved - plain_rows(merged, samples)[0]).abs().max() < CLOSE


@needs_library
async def test_engine_and_trainer_on_one_base_agree_before_and_after_a_publication(base: Any) -> None:
    policy = Policy(twin(base), LORA)
    prompt, sampling = list(range(5, 80)), Sampling(max_tokens=12)
    async with running(base) as engine:
        before = await engine.complete(prompt, sampling, 1)
        assert worst_gap(plain_model(policy), prompt, before) < CLOSE
        add_noise(policy)
        assert worst_gap(plain_model(policy), prompt, before) > 100 * CLOSE
        await engine.publish(policy.adapter(), 1)
        after = await engine.complete(prompt, sampling, 1)
        assert worst_gap(plain_model(policy), prompt, after) < CLOSE
        assert after.policy_version == 1
        kept = policy.adapter()
        add_noise(policy)
        again = await engine.complete(prompt, sampling, 1)
        assert again.logprobs == after.logprobs, "the engine has a copy of the adapter"
        with pytest.raises(ValueError, match="never written over: publish an adapter"):
            await engine.publish(policy.weights(), 2)
        wrong = {name.replace("up_proj", "no_proj"): tensor for name, tensor in kept.tensors.items()}
        with pytest.raises(ValueError, match="no_proj"):
            await engine.publish(Adapter(wrong, kept.rank, kept.alpha), 2)


@needs_library
def test_a_run_on_a_quantised_base_learns_and_saves_only_adapters(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path,
        model={"path": str(tmp_path / "model"), "quantisation": "nf4", "device": "cpu"},
        reference={"kind": "ema"},
        algorithm={"kl": {"placement": "loss_k3"}},
        run={"num_steps": 2},
        evaluation={"before_and_after": False},
    )
    ended, folder = run_it(settings)
    assert not ended.why
    updates = lines(folder, "update")
    assert len(updates) == 2
    for line in updates:
        assert line["metrics"]["gradient/norm"] > 0
        assert line["metrics"]["kl/sampler"] < 1e-6, "one base and one adapter for engine and trainer"
        assert line["metrics"]["sampler/max_abs_difference"] < CLOSE
    trained = load_trained(folder.path)
    assert all("lora_" in name for name in trained.policy.state())
    assert any(tensor.abs().sum() > 0 for name, tensor in trained.policy.state().items() if "lora_B" in name)


def test_without_the_library_a_recipe_becomes_lora_on_bf16_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = read_recipe(None, {"model.quantisation": "nf4"})
    monkeypatch.setenv(DISABLED, "1")
    with caplog.at_level(logging.WARNING):
        chosen = settled(wanted.model)
    assert (chosen.quantisation, chosen.dtype, wanted.policy.tuning) == ("none", "bfloat16", "lora")
    assert [record.getMessage() for record in caplog.records] == [
        "DISABLE_BITSANDBYTES is set: LoRA on a bfloat16 base in the place of nf4"
    ]
    with pytest.raises(ValueError, match=r"model\.quantisation is 'nf4', and DISABLE_BITSANDBYTES is set"):
        load_model(wanted.model)
    plain = read_recipe(None, parse_settings([]))
    assert settled(plain.model) is plain.model


@pytest.mark.parametrize("value", ["", "0"])
def test_the_message_for_a_missing_library_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(DISABLED, value)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # makes its import fail
    assert "[qlora]" in quantised.why_not()


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        (["policy.tuning=full"], "policy.tuning = 'lora'"),
        (["engine.kind=vllm", "algorithm.correction=none"], "needs algorithm.correction"),
        (["engine.kind=remote", "algorithm.correction=none"], "needs algorithm.correction"),
    ],
)
def test_unsupported_settings_of_a_quantised_base_are_rejected(overrides: list[str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read_recipe(None, parse_settings(["model.quantisation=nf4", *overrides]))
