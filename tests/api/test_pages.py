"""The snippets of docs/python.md, the notebook and the example of one's own server run as they are."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
OWN_SERVER = ROOT / "examples" / "own_server.py"

IN_A_LOOP = """
import ast, asyncio, sys
async def cells():
    for source in {cells!r}:
        code = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if (waiting := eval(code, globals())) is not None:
            await waiting
asyncio.run(cells())
"""
"""Cells run one after the other in one namespace and inside a running event loop, as in a notebook."""


def run_script(script: str, folder: Path) -> str:
    file = folder / "script.py"
    file.write_text(script)
    return run_file(file, folder)


def run_file(file: Path, folder: Path) -> str:
    # where examples/quotes/mcp.json finds its `python`
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [warm.heavy(), str(file)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_snippets_of_the_guide_run_one_after_the_other(tmp_path: Path) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(snippets) == 9
    printed = run_script("\n".join(snippets), tmp_path)
    assert "finished 2 steps" in printed
    assert "success, after − before (95%)" in printed
    own_loop = printed.splitlines()[-1].split()
    assert len(own_loop) == 3, "the step, the mean reward and the gradient's norm"


def quick_notebook() -> dict[str, Any]:
    """The notebook with two steps of training."""
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        cell["source"] = source.replace('"run.num_steps": 6', '"run.num_steps": 2').replace(
            "step=5", "step=1"
        )
    return notebook


def test_the_notebook_s_cells_run_inside_a_loop(tmp_path: Path) -> None:
    cells = [cell["source"] for cell in quick_notebook()["cells"] if cell["cell_type"] == "code"]
    printed = run_script(IN_A_LOOP.format(cells=cells), tmp_path)
    assert "6 tasks × 4" in printed
    assert "success, after − before (95%)" in printed


def test_the_notebook_runs_in_a_jupyter_kernel(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.from_dict(quick_notebook())
    nbclient.NotebookClient(notebook, timeout=600).execute(cwd=str(tmp_path))
    printed = [
        "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    _, before, trained, _, _, compared = printed
    assert "6 tasks × 4" in before
    assert trained.count("\nstep ") == 2, "the lines of a run are one block of plain text"
    assert "success, after − before (95%)" in compared


def test_the_example_of_an_own_server_is_short_and_runs(tmp_path: Path) -> None:
    source = OWN_SERVER.read_text()
    assert source.count("\n") <= 30
    printed = run_file(OWN_SERVER, tmp_path)
    rewards = [float(reward) for reward in re.findall(r"^reward (\d\.\d\d)$", printed, re.M)]
    assert len(rewards) == 6
    assert max(rewards[3:]) > rewards[0], "it learns"
