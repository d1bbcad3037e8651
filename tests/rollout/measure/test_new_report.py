"""`turnwise eval` writes every evaluation to a new file."""

from pathlib import Path

import pytest

from tests.run.stage import write_recipe
from tests.test_cli import turnwise

ROOT = Path(__file__).parents[3]


def test_every_evaluation_has_a_folder_of_its_own_that_is_printed(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    found = set()
    for _ in range(2):
        few = ("--set", "evaluation.num_tasks=1")
        args = ("eval", "recipe.toml", "-k", "1", "--temperature", "0", *few)
        ran = turnwise(*args, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
        assert ran.code == 0, ran.err
        assert "1 tasks × 1" in ran.out
        found.add(ran.err.splitlines()[-1].removeprefix("figures: "))
    assert len(found) == 2
    for file in found:
        assert (tmp_path / file).is_file()
        assert (tmp_path / file).with_name("trajectories.jsonl").is_file()


@pytest.mark.parametrize("name", ["eval.json", "trajectories.jsonl"])
def test_what_another_command_wrote_is_not_replaced(tmp_path: Path, name: str) -> None:
    write_recipe(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    ran = turnwise("eval", "recipe.toml", "--out", "out/eval.json", cwd=tmp_path)
    assert ran.code == 2
    assert f"out/{name}: is there already" in ran.err
    assert (tmp_path / "out" / name).read_text() == "mine"
