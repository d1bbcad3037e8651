"""Everything in this folder needs a CUDA device, and is skipped without one."""

from pathlib import Path

import pytest

from tests.gpu.device import why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    here = Path(__file__).parent
    for item in items:
        if reason and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))
