"""Texts on disk, one file each, found by a key: verdicts of a judge, replies of a user's model."""

import logging
import os
import tempfile
from pathlib import Path

from turnwise.system.files.regular_files import Damaged, make_private_folder, read_bytes

logger = logging.getLogger(__name__)


class TextCache:
    """Files are written atomically and shared by any number of processes. No fault of the disk is fatal."""

    def __init__(self, folder: Path, what: str, suffix: str = ".txt") -> None:
        """what: names a text in the log."""
        self._folder = folder
        self._what = what
        self._suffix = suffix

    def find(self, key: str) -> str | None:
        try:
            return read_bytes(self._path(key)).decode()
        except FileNotFoundError:
            return None
        except (Damaged, OSError, UnicodeDecodeError) as error:
            logger.warning("%s %s cannot be read and is asked for again: %s", self._what, key, error)
            return None

    def keep(self, key: str, text: str) -> None:
        path = self._path(key)
        try:
            make_private_folder(path.parent)
            with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
                file.write(text.encode())
            os.replace(file.name, path)  # noqa: PTH105
        except OSError as error:
            # For example on a full disk: this run has its text, the next one asks again.
            logger.warning("%s %s cannot be kept: %s", self._what, key, error)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}{self._suffix}"
