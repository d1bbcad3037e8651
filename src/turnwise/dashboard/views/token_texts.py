"""The text of single token ids, if the model's tokenizer is on this machine."""

import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnwise.models.places import EMBEDDED, EMBEDDED_FOLDER
from turnwise.system.files.regular_files import read_bytes

logger = logging.getLogger(__name__)


class Pieces:
    """The text of single tokens. Nothing is downloaded: viewing a run must not use the network."""

    def __init__(self, run: Path, model: str) -> None:
        self._run = run
        self._model = model
        self._known: dict[int, str] = {}

    @functools.cached_property
    def _tokenizer(self) -> Any:
        """Read at first need: a large one takes a second."""
        return _open(self._run, self._model)

    @property
    def exist(self) -> bool:
        return self._tokenizer is not None

    def of(self, ids: Sequence[int]) -> list[str] | None:
        """One text per id; None without a tokenizer. A token that is part of a character becomes U+FFFD."""
        if self._tokenizer is None:
            return None
        for number in set(ids) - self._known.keys():
            self._known[number] = self._tokenizer.decode([number], skip_special_tokens=False)
        return [self._known[number] for number in ids]

    def text(self, ids: Sequence[int]) -> str | None:
        """The text of ids that follow one another, as the model wrote it; None without a tokenizer."""
        if self._tokenizer is None:
            return None
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


def _open(run: Path, model: str) -> Any:
    file = _file(run, model)
    if file is None:
        return None
    try:
        # files in the hub's cache are symbolic links; the run's own file must not be one
        content = read_bytes(file, follows_links=file.parent != run)
        from tokenizers import Tokenizer

        return Tokenizer.from_buffer(content)
    except ImportError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (tokenizers raises plain Exception; a Rust panic is a BaseException)
        logger.warning("%s: not readable as a tokenizer: %s", file, type(error).__name__)
        return None


def _file(run: Path, model: str) -> Path | None:
    """The tokenizer file: the run's own copy first, since the model's may have changed since the run."""
    for folder in (run, EMBEDDED_FOLDER if model == EMBEDDED else Path(model)):
        if os.path.lexists(folder / "tokenizer.json"):
            return folder / "tokenizer.json"
    try:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, "tokenizer.json")
    except (ImportError, ValueError):  # not installed, or not a valid hub name
        return None
    return Path(cached) if isinstance(cached, str) else None
