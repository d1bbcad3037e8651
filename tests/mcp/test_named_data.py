"""Which folders of the user the command of a server names, and which servers share one copy of them."""

from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leases import spec_of
from turnwise.mcp.processes.named_data import NamedData, named_data
from turnwise.mcp.spec import ServerSpec
from turnwise.mcp.stock import grouped


def spec(name: str = "s", **block: Any) -> ServerSpec:
    return spec_of(name, {"command": "server", **block}, Path("/"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home and working directory of the user."""
    for name in ("repo/src/", "data, with: marks/shop.db", "code/server.py", "local.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


FOLDERS = [
    "{home}/repo",
    "~/repo",
    "./repo",
    "repo",
    "repo/src/../",
    "--root={home}/repo",
    "root={home}/repo",
]


@pytest.mark.parametrize("argument", [*FOLDERS, "file://{home}/repo", "--db={home}/repo/new.db"])
def test_a_folder_is_found_in_every_usual_spelling(home: Path, argument: str) -> None:
    assert named_data(spec(args=[argument.format(home=home)])).data == (home / "repo",)


@pytest.mark.parametrize(
    "value", ["{}/data, with: marks/shop.db", "sqlite:////{}/data, with: marks/shop.db?mode=rw"]
)
def test_a_file_stands_for_its_folder(home: Path, value: str) -> None:
    found = named_data(spec(env={"DB_URL": value.format(home)}))
    assert found == NamedData(data=(home / "data, with: marks",))


def test_a_relative_database_is_in_the_working_directory(home: Path) -> None:
    assert named_data(spec(args=["sqlite:///local.db"])).data == (home,)
    assert named_data(spec(args=["local.db"])).data == (home,)
    assert named_data(spec(args=["src/new.db"], cwd=str(home / "repo"))).data == (home / "repo",)


def test_a_list_of_folders_is_split(home: Path) -> None:
    found = named_data(spec(env={"ROOTS": f"{home}/repo,{home}/code"}))
    assert found.data == (home / "code", home / "repo")


def test_a_script_is_code_and_not_data(home: Path) -> None:
    assert named_data(spec(args=[f"{home}/code/server.py"])) == NamedData(code=(home / "code",))


NO_FILES = [
    "run",
    "-y",
    "@scope/package",
    "https://example.com/etc",
    "postgres://h/etc",
    "1.2.3",
    "/nowhere/x/y",
    "",
]


@pytest.mark.parametrize("argument", NO_FILES)
def test_an_argument_that_names_no_file_is_ignored(home: Path, argument: str) -> None:
    assert named_data(spec(args=[argument], env={"PATH": f"{home}/code"})) == NamedData()


def test_a_remote_server_names_no_files() -> None:
    assert named_data(spec_of("s", {"url": "http://127.0.0.1:1/home"})) == NamedData()


def test_servers_over_the_same_data_form_a_group(home: Path) -> None:
    specs = [
        spec("git", args=[str(home / "repo")]),
        spec("db", args=[str(home / "data, with: marks")]),
        spec("files", args=[str(home / "repo" / "src")]),
        spec("mine", args=[str(home / "repo")], turnwise={"data": "real"}),
        spec("api"),
    ]
    groups = {tuple(member.name for member in group) for group in grouped(specs)}
    assert groups == {("git", "files"), ("db",), ("mine",), ("api",)}
