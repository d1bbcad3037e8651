"""`turnwise train` when its infrastructure is down: what it says, and that it can be gone on from."""

from pathlib import Path

from tests.run.stage import write_recipe
from tests.run.test_signals import training


def test_a_run_that_cannot_collect_says_why_and_how_to_go_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, evaluation={"is_before_and_after": False})
    recipe.write_text(recipe.read_text().replace("even_ids", "unreachable"))
    with training(str(recipe)) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(timeout=60) == 2, said
    assert "groups were lost to infrastructure; the last one: " in said
    assert "the provider does not answer" in said
    assert f"go on with: turnwise train --resume {tmp_path / 'runs' / 'run'}" in said
    assert "warning: the provider said \ufffd[31mno" in said, "shown while the folder's log is open, and tame"
    assert "\x1b" not in said
    assert "Traceback" not in said
