"""Which device is used, and that what one cannot hold is found before it is tried."""

import pytest
import torch

from turnwise.runtime.devices import (
    MPS_MAX_BYTES,
    VARIABLE,
    check_tensors,
    choose_device,
    ignored_variable,
    memory_of,
    pinned,
)

IS_BARE = not torch.cuda.is_available() and not torch.backends.mps.is_available()


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("said", ["cpu", " CPU ", "cpu\n"])
def test_the_environment_says_what_auto_is(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == "cuda"
    monkeypatch.setenv(VARIABLE, said)
    assert choose_device("auto") == "cpu"
    assert choose_device() == "cpu"


@pytest.mark.parametrize("said", ["", "auto"])
def test_auto_is_the_best_there_is(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(VARIABLE, said)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == "cpu"


def test_what_the_recipe_names_is_not_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cuda")
    assert choose_device("cpu") == "cpu"


@pytest.mark.parametrize(
    ("wanted", "said", "words"),
    [
        ("cpu", "cuda", "DEVICE_TYPE=cuda is not used: model.device is 'cpu'"),
        ("cpu", "CPU", ""),
        ("cpu", "", ""),
        ("auto", "cuda", ""),
    ],
)
def test_a_variable_that_the_recipe_overrules_is_named(
    monkeypatch: pytest.MonkeyPatch, wanted: str, said: str, words: str
) -> None:
    monkeypatch.setenv(VARIABLE, said)
    assert ignored_variable(wanted).startswith(words)
    assert bool(ignored_variable(wanted)) == bool(words)


@pytest.mark.skipif(not IS_BARE, reason="there is one")
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_by_the_name_of_who_wants_it(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    with pytest.raises(ValueError, match=f"model.device is '{device}', and torch finds none"):
        choose_device(device)
    monkeypatch.setenv(VARIABLE, device)
    with pytest.raises(ValueError, match=f"DEVICE_TYPE is '{device}', and torch finds none"):
        choose_device("auto")


def test_a_word_that_is_no_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gpu")
    with pytest.raises(ValueError, match="DEVICE_TYPE is 'gpu': expected auto, cpu, cuda, mps"):
        choose_device()


def test_the_memory_of_the_machine_is_known() -> None:
    memory = memory_of("cpu")
    assert 0 < memory.free <= memory.total


def test_a_tensor_too_large_for_mps_is_refused_with_the_advice_to_use_the_cpu() -> None:
    sizes = {"the smaller (a.b)": 5, "keys and values (engine.max_batch)": MPS_MAX_BYTES + 1}
    with pytest.raises(ValueError, match=r"engine\.max_batch.*4\.0 GiB.*model\.device = 'cpu'.*DEVICE_TYPE"):
        check_tensors("mps", sizes)
    check_tensors("mps", sizes | {"keys and values (engine.max_batch)": MPS_MAX_BYTES})
    check_tensors("cpu", sizes)
    check_tensors("cuda", sizes)
    check_tensors("mps", {})


def test_an_expanded_tensor_is_made_contiguous_before_it_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded rows all have the same positions: one row, expanded."""
    given: list[torch.Tensor] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: given.append(tensor) or tensor)
    rows = torch.arange(5).expand(3, -1)
    assert pinned(rows).equal(rows)
    assert [device.is_contiguous() for device in given] == [True]
