"""The recipes inside the package, by name: `turnwise train cpu` needs no file."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "recipes"


def included_recipes() -> dict[str, Path]:
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def recipe_file(path: Path) -> Path:
    """The file itself, or the included recipe of this name if there is no such file."""
    if path.is_file() or path.name != str(path):
        return path
    return included_recipes().get(path.name, path)
