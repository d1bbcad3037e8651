"""The optional packages that a recipe needs, as `doctor` and `train --dry-run` report them."""

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.run.stage import recipe as small_recipe
from turnwise.config import Recipe, override_recipe, parse_settings, read_recipe
from turnwise.config.requirements import is_installed, requirements
from turnwise.run.checks import FindingLevel
from turnwise.run.checks.dry import dry_run, to_check
from turnwise.run.checks.machine import check_requirements, without_quantisation

SETTINGS = {
    "vllm": ["engine.kind=vllm"],
    "deepspeed": ["hardware.strategy=zero3", "policy.tuning=full"],
    "bitsandbytes": ["model.quantisation=nf4"],
    "wandb": ["trackers=wandb"],
    "weave": ["trackers=weave"],
    "tensorboard": ["trackers=tensorboard"],
    "trackio": ["trackers=trackio"],
    "skyrl": ["skyrl.num_nodes=2"],
    "ray": ["skyrl.num_nodes=2"],
}
ABSENT = "trackers=no_such_module:Tracker"


def settings(module: str) -> Recipe:
    return read_recipe(None, parse_settings(SETTINGS[module]))


def test_the_default_recipe_needs_no_optional_package() -> None:
    assert [*requirements(Recipe())] == []


@pytest.mark.parametrize("module", SETTINGS)
def test_a_package_is_required_by_its_setting_and_found_by_the_doctor(module: str) -> None:
    [required] = [found for found in requirements(settings(module)) if found.module == module]
    assert SETTINGS[module][0].split("=")[0].split(".")[0] in required.why
    assert "pip install " in required.advice
    [finding] = [found for found in check_requirements(settings(module)) if found.what == required.title]
    if is_installed(module):
        assert finding.level is FindingLevel.GOOD
        if module != "vllm":  # which has packages of several names
            assert version(module) in finding.detail
    else:
        assert finding.level is (FindingLevel.WARNING if module == "bitsandbytes" else FindingLevel.BAD)
        assert "not installed" in finding.detail
        assert "pip install" in finding.advice


async def test_the_doctor_and_a_dry_run_report_a_missing_package(tmp_path: Path) -> None:
    recipe = override_recipe(small_recipe(tmp_path), parse_settings([ABSENT]))
    [finding] = check_requirements(recipe)
    assert (finding.level, finding.what) == (FindingLevel.BAD, "no_such_module")
    [problem] = (await dry_run(to_check(recipe))).problems
    assert "[[trackers]] has 'no_such_module:Tracker', and no_such_module is not installed" in problem


def test_a_folder_with_the_name_of_a_package_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_tracker").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("some_tracker")
    assert not is_installed("no_such_package.module")


def test_skyrl_is_required_by_its_section_or_by_the_command() -> None:
    recipe = settings("skyrl")
    assert [requirement.title for requirement in requirements(recipe)] == ["SkyRL", "Ray"]
    assert [*requirements(recipe, is_on_skyrl=False)] == []
    assert [requirement.title for requirement in requirements(Recipe(), is_on_skyrl=True)] == ["SkyRL", "Ray"]


@pytest.mark.skipif(not is_installed("bitsandbytes"), reason="pip install 'turnwise[qlora]'")
def test_a_base_that_cannot_be_quantised_here_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = settings("bitsandbytes")
    assert without_quantisation(recipe) == recipe
    monkeypatch.setenv("DISABLE_BITSANDBYTES", "1")
    found = {finding.what: finding for finding in check_requirements(recipe)}
    assert found["quantisation"].level is FindingLevel.WARNING
    assert "DISABLE_BITSANDBYTES" in found["quantisation"].detail
    assert without_quantisation(recipe).model.quantisation == "none"
