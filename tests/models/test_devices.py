"""Which device is chosen, and that a tensor too large for it is refused beforehand."""

import pytest
import torch

from turnwise.models.devices import (
    MPS_MAX_BYTES,
    VARIABLE,
    check_tensors,
    choose_device,
    ignored_variable,
    pinned,
)


def have(
    monkeypatch: pytest.MonkeyPatch, *, cuda: bool = False, mps: bool = False, variable: str = ""
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setenv(VARIABLE, variable)


@pytest.mark.parametrize("variable", ["", "auto"])
def test_auto_is_the_best_device_of_the_machine(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for devices, expected in (({"cuda": True, "mps": True}, "cuda"), ({"mps": True}, "mps"), ({}, "cpu")):
        have(monkeypatch, **devices, variable=variable)
        assert choose_device() == choose_device("auto") == expected


@pytest.mark.parametrize("variable", ["cpu", " CPU ", "cpu\n"])
def test_the_variable_decides_what_auto_is(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    have(monkeypatch, cuda=True, variable=variable)
    assert choose_device("auto") == "cpu"


@pytest.mark.parametrize(
    ("wanted", "variable", "warning"),
    [
        ("cpu", "cuda", "DEVICE_TYPE=cuda is not used: model.device is 'cpu'"),
        ("cpu", "CPU", ""),
        ("cpu", "", ""),
        ("auto", "cuda", ""),
    ],
)
def test_the_recipe_takes_precedence_and_an_ignored_variable_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, wanted: str, variable: str, warning: str
) -> None:
    have(monkeypatch, cuda=True, variable=variable)
    assert choose_device(wanted) == ("cuda" if wanted == "auto" else "cpu")
    assert ignored_variable(wanted).startswith(warning)
    assert bool(ignored_variable(wanted)) == bool(warning)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_missing_device_is_refused_with_the_setting_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    have(monkeypatch, variable=device)
    with pytest.raises(ValueError, match=f"model.device is '{device}', and torch finds none"):
        choose_device(device)
    with pytest.raises(ValueError, match=f"DEVICE_TYPE is '{device}', and torch finds none"):
        choose_device("auto")


def test_an_unknown_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, variable="gpu")
    with pytest.raises(ValueError, match="DEVICE_TYPE is 'gpu': expected auto, cpu, cuda, mps"):
        choose_device()


def test_a_tensor_too_large_for_mps_is_refused_with_the_advice_to_use_the_cpu() -> None:
    sizes = {"the smaller (a.b)": 5, "keys and values (engine.max_batch)": MPS_MAX_BYTES + 1}
    with pytest.raises(ValueError, match=r"engine\.max_batch.*4\.0 GiB.*model\.device = 'cpu'.*DEVICE_TYPE"):
        check_tensors("mps", sizes)
    check_tensors("mps", sizes | {"keys and values (engine.max_batch)": MPS_MAX_BYTES})
    check_tensors("cpu", sizes)
    check_tensors("cuda", sizes)
    check_tensors("mps", {})


def test_an_expanded_tensor_is_made_contiguous_before_it_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positions of padded rows are one row, expanded."""
    given: list[torch.Tensor] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: given.append(tensor) or tensor)
    rows = torch.arange(5).expand(3, -1)
    assert pinned(rows).equal(rows)
    assert [tensor.is_contiguous() for tensor in given] == [True]
