"""Executions in a sandbox that has imported numpy and pandas: values, variables, and what is left behind."""

import json
import os
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.sandbox.attack import BOTH
from tests.system.sandbox.boxes import sandboxed
from tests.system.sandbox.processes import zygote_pids
from turnwise.system.sandbox import Sandbox
from turnwise.system.sandbox.layout import PACKAGES

SECRET = "s3cret"


@pytest.fixture(scope="module", params=BOTH, ids=str)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    pytest.importorskip("pandas")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNWISE_SECRET", SECRET)
        async with sandboxed(request.param, packages=PACKAGES) as sandbox:
            yield sandbox


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
async def test_values_become_the_json_closest_to_them(
    sandbox: Sandbox, expression: str, expected: Any
) -> None:
    execution = await sandbox.run(f"import numpy as np, pandas as pd\n{expression}")
    assert execution.error == ""
    assert execution.value
    found = "absent" if execution.value_json is None else json.loads(execution.value_json)
    assert found == expected


async def test_variables_arrive_and_libraries_work(sandbox: Sandbox) -> None:
    code = """
    import pandas as pd, numpy as np, dataclasses, zoneinfo, pickle
    @dataclasses.dataclass
    class Row:
        a: int
    frame = pd.DataFrame(data)
    frame["c"] = np.sqrt(frame.a) + pickle.loads(pickle.dumps(Row(1))).a
    frame.groupby("b", as_index=False).c.sum()
    """
    rows = [{"a": 4, "b": "x"}, {"a": 9, "b": "x"}, {"a": 16, "b": "y"}]
    execution = await sandbox.run(textwrap.dedent(code), {"data": rows})
    assert execution.error == ""
    assert json.loads(execution.value_json or "") == [{"b": "x", "c": 7.0}, {"b": "y", "c": 5.0}]


async def test_nothing_passes_from_one_execution_to_the_next(sandbox: Sandbox) -> None:
    imports = "import builtins, os, json, random, numpy\n"
    await sandbox.run(imports + "builtins.left = 1\nos.environ['L'] = '1'\njson.left = 1", {"data": 1})
    after = await sandbox.run(
        imports + "[hasattr(builtins, 'left'), 'L' in os.environ, hasattr(json, 'left'), 'data' in globals()]"
    )
    assert after.value_json == "[false,false,false,false]"
    draw = imports + "[random.random(), numpy.random.rand()]"
    first, second = [json.loads((await sandbox.run(draw)).value_json or "") for _ in range(2)]
    assert first[0] != second[0]
    assert first[1] != second[1]


async def test_the_zygote_has_one_thread_and_nothing_of_our_environment(sandbox: Sandbox) -> None:
    await sandbox.run("1")
    [zygote] = zygote_pids()
    assert len(os.listdir(f"/proc/{zygote}/task")) == 1
    assert SECRET.encode() not in Path(f"/proc/{zygote}/environ").read_bytes()
