"""An optional package is installed from where turnwise itself came from."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from turnwise.config.optional_packages import install_command, install_command_from

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, ["turnwise[train]"]),
        ({"url": "file:///my%20code/turnwise", "dir_info": {}}, ["/my code/turnwise[train]"]),
        ({"url": "file:///code/turnwise", "dir_info": {"editable": True}}, ["-e", "/code/turnwise[train]"]),
        ({"url": "file:///w/turnwise-1.whl", "archive_info": {}}, ["/w/turnwise-1.whl[train]"]),
        ({"url": "https://x.org/t.whl", "archive_info": {}}, ["turnwise[train] @ https://x.org/t.whl"]),
        (
            {"url": "https://x.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["turnwise[train] @ git+https://x.org/t.git@abc"],
        ),
    ],
)
def test_an_extra_comes_from_the_origin_of_the_installation(
    origin: Mapping[str, Any] | None, requirement: list[str]
) -> None:
    assert shlex.split(install_command_from(origin, "train")) == ["pip", "install", *requirement]


def test_from_a_checkout_the_command_names_the_checkout() -> None:
    assert shlex.split(install_command("train")) == ["pip", "install", "-e", f"{ROOT}[train]"]
