"""Where the small model that ships with turnwise is."""

from pathlib import Path

EMBEDDED = "embedded"
"""Its name as model.path."""

EMBEDDED_FOLDER = Path(__file__).parents[1] / "embedded" / "weights"
"""The folder of its files, made by `python -m embedded_model build` in a checkout."""
