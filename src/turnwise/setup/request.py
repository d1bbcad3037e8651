"""What somebody asks for, in the command or in Python, before anything is decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.config import Recipe, override_recipe, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.setup.consent import Consent, require_consent
from turnwise.system.process_setup import prepare
from turnwise.system.python_functions import Given
from turnwise.types import Task


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody asked for: a recipe or a run, the keys to change, and what no recipe can store."""

    source: Path | Recipe | None = None
    """A recipe's file or a recipe; None for the default recipe."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values by key: {"run.num_steps": 20}."""
    run: Path | None = None
    """The folder of a run, whose recipe is taken instead of `source`."""
    functions: Given = field(default_factory=dict)
    """Functions that the recipe names and that cannot be imported."""
    tasks: Mapping[str, tuple[Task, ...]] = field(default_factory=dict)
    """Tasks that are in no file, by split."""
    command: str = ""
    """How it was asked for, as `failed_starts.jsonl` records it."""

    @property
    def name(self) -> str:
        """The name of a run of this recipe, unless run.name is set."""
        return self.source.stem if isinstance(self.source, Path) else "run"

    @property
    def recipe_file(self) -> str:
        """The name of the recipe's file; empty if it is in no file."""
        return self.source.name if isinstance(self.source, Path) else ""

    def read(self, consent: Consent | None) -> Recipe:
        """Return the recipe with its changes; of a run, once the user has agreed to what it would start.

        Without `consent` the user has agreed already. ValueError for the user's mistakes.
        """
        prepare()
        if self.run is None:
            return read_recipe(self.source, self.changes)
        before = RunFolder.read(self.run).recipe
        recipe = override_recipe(before, self.changes)
        if consent is not None:
            require_consent(self.run, before, recipe, list(self.changes), consent)
        return recipe
