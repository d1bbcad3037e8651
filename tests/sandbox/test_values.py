"""Checks how values of all kinds become JSON, in one warm sandbox."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from turnwise.sandbox import Execution, Sandbox


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], Execution]]:
    pytest.importorskip("pandas")
    with asyncio.Runner() as runner:
        sandbox = Sandbox(num_workers=1)
        runner.run(sandbox.__aenter__())
        yield lambda code: runner.run(sandbox.run(code))
        runner.run(sandbox.__aexit__(None, None, None))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("np.float64(1.5)", 1.5),
        ("np.arange(3)", [0, 1, 2]),
        ("{'m': np.int64(1), 2: float('nan')}", {"m": 1, "2": None}),
        ("pd.Series([1, 2], index=['a', 'b'])", {"a": 1, "b": 2}),
        ("pd.Series([1, None])", [1.0, None]),
        (
            "pd.DataFrame({'a': [1]}, index=pd.to_datetime(['2024-01-02']))",
            [{"index": "2024-01-02T00:00:00", "a": 1}],
        ),
        ("pd.Timestamp('2024-01-02')", "2024-01-02T00:00:00"),
        ("(True, None, {'s'})", [True, None, ["s"]]),
        ("b'bytes'", "absent"),
        ("'x' * (2 << 20)", "absent"),
    ],
)
def test_values_become_the_json_closest_to_them(
    expression: str, expected: Any, run: Callable[[str], Execution]
) -> None:
    execution = run(f"import numpy as np, pandas as pd\n{expression}")
    assert execution.error == ""
    assert execution.value
    found = "absent" if execution.value_json is None else json.loads(execution.value_json)
    assert found == expected
