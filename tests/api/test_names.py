"""`import turnwise`: the names it offers, and that it imports nothing before they are used."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import turnwise
from turnwise.rewards import REWARDS

tw: Any = turnwise
STUB = Path(turnwise.__file__).with_suffix(".pyi")


def test_importing_turnwise_and_describing_tasks_and_rewards_does_not_import_torch() -> None:
    code = (
        "import sys, turnwise as tw\n"
        "tw.Task(prompt='?', answer='42'), tw.outcome(0.5), tw.Recipe()\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_name_exists_and_type_checkers_see_the_same_ones() -> None:
    listed = re.findall(r"^from (\S+) import (\w+) as (\w+)$", STUB.read_text(), re.M)
    assert sorted(name for _, name, _ in listed) == sorted(tw.__all__)
    for module, name, alias in listed:
        assert name == alias
        assert getattr(tw, name) is not None
        assert name == "format" or hasattr(import_module(module), name)
    assert set(tw.__all__) <= set(dir(tw))


def test_every_built_in_reward_has_a_name_that_makes_a_weighted_part() -> None:
    for name in REWARDS:
        part = getattr(tw, name)(0.25, rubric="x")
        assert (part.name, part.weight, dict(part.options)) == (name, 0.25, {"rubric": "x"})


def test_a_function_is_not_replaced_by_the_package_of_its_name() -> None:
    code = (
        "import importlib, turnwise\n"
        "for name in ('explore', 'rollout'):\n"
        "    importlib.import_module(f'turnwise.{name}')\n"
        "    from turnwise.rollout.store import StoredEpisode\n"
        "    print(callable(getattr(turnwise, name)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_a_name_that_needs_more_than_the_base_install_says_what_to_install() -> None:
    """The packages are absent, as in a base install; other failures end the process."""
    code = """
import sys
from turnwise.config.optional_packages import EXTRA_OF

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA_OF:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import turnwise
for name in turnwise.__all__:
    try:
        getattr(turnwise, name)
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert {line.partition(":")[0] for line in lines} >= {"turnwise.train", "turnwise.evaluate"}
    assert all(" is not installed: pip install " in line and "[train]" in line for line in lines)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = tw.trian  # type: ignore[attr-defined]
