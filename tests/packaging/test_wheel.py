"""The built wheel, used from an empty environment and an empty folder as a stranger uses it."""

import email
import os
import zipfile
from pathlib import Path

import pytest

from tests.packaging.installed import ROOT, Installed, build, install
from turnwise.config import Recipe
from turnwise.config.optional_packages import EXTRA_OF
from turnwise.records.folder import RunFolder

PYTHONS = sorted(Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/3.1[123].*"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The base install: `pip install turnwise`."""
    return install(wheel, tmp_path_factory.mktemp("base"))


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as files:
        return set(files.namelist())


def test_the_wheel_has_all_that_the_demo_needs(wheel: Path) -> None:
    recipes = {f"turnwise/recipes/{file.name}" for file in (ROOT / "recipes").glob("*.toml")}
    demo = {f"turnwise/recipes/cpu/{split}.jsonl" for split in ("train", "validation", "test")}
    others = {
        "turnwise/py.typed",
        "turnwise/models/weights/model.safetensors",
        "turnwise/worlds/market/mcp.json",
    }
    assert recipes | demo | others <= names_in(wheel)


def test_the_wheel_has_a_licence_for_everything_vendored(wheel: Path) -> None:
    fonts = {file.parent for file in (ROOT / "src").rglob("*.woff2")}
    assert fonts
    expected = {str(file.relative_to(ROOT)) for folder in fonts for file in folder.glob("LICENSE*")}
    assert len(expected) >= len(fonts)
    licences = {name.partition("/licenses/")[2] for name in names_in(wheel)}
    assert expected | {"LICENSE"} <= licences


def test_every_optional_package_names_an_extra_that_the_wheel_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(files.read(name))
    assert set(EXTRA_OF.values()) <= set(metadata.get_all("Provides-Extra", []))


def use_base(turnwise: Installed, wheel: Path) -> None:
    """Use every command that the base install has, and see what the others need."""
    assert turnwise.run("--version").stdout.startswith("turnwise 0.")
    assert "Usage" in turnwise.run("--help").stdout
    with RunFolder.create(turnwise.folder / "made", "run", Recipe(), is_dated=False):
        pass
    viewed = turnwise.run("view", "made", "--export", "made.html")
    assert viewed.returncode == 0, viewed.stderr
    examined = turnwise.run("doctor")
    assert "ok   server fmp" in examined.stdout
    assert f"bad  torch: not installed\n     pip install '{wheel}[train]'" in examined.stdout
    assert turnwise.run("config", "rollout.group_size").returncode == 0
    assert turnwise.run("runs").returncode == 0
    assert turnwise.run("init", "mine").returncode == 0
    assert (turnwise.folder / "mine" / "recipe.toml").exists()
    assert turnwise.run("tools").returncode == 0
    for needs_torch in (["demo"], ["train", "mine/recipe.toml"], ["eval", "cpu"], ["chat", "cpu"]):
        refused = turnwise.run(*needs_torch)
        assert refused.returncode == 2
        [line] = refused.stderr.splitlines()
        assert line.endswith(f"is not installed: pip install '{wheel}[train]'")
    assert not (turnwise.folder / "runs").exists()


def test_with_the_base_install_a_command_works_or_says_what_to_install(base: Installed, wheel: Path) -> None:
    use_base(base, wheel)


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.name)
def test_the_base_install_works_with_every_supported_python(
    wheel: Path, tmp_path: Path, python: Path
) -> None:
    use_base(install(wheel, tmp_path, python=str(python / "bin" / "python")), wheel)


@pytest.mark.slow
def test_the_training_install_runs_the_demo_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    turnwise = install(wheel, tmp_path, extra="train")
    short = ["run.num_steps=1", "run.tasks_per_step=2", "evaluation.before_and_after=false"]
    done = turnwise.run("demo", *(word for key in short for word in ("--set", key)), timeout=1200)
    assert done.returncode == 0, done.stderr
    [run] = (turnwise.folder / "runs").iterdir()
    assert run.name.startswith("cpu-")
    assert (run / "checkpoints").exists()
