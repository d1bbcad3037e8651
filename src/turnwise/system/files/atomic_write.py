"""Write a file whole or not at all: under another name first, then renamed."""

import json
import os
from pathlib import Path
from typing import Any

from turnwise.system.files.regular_files import open_new


def write_json(path: Path, document: Any, *, is_private: bool = True) -> None:
    write_atomically(path, (json.dumps(document, indent=1) + "\n").encode(), is_private=is_private)


def write_atomically(path: Path, content: bytes, *, is_private: bool = True) -> None:
    """Write a temporary file, sync it to disk and rename it, so that a crash leaves no partial file.

    A private file is readable only by its owner, like everything in a run's folder; else the umask decides.
    """
    # several processes of a run may write the same file at the same time
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open_new(part, is_private=is_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, path)  # noqa: PTH105 (the one call whose atomicity is documented)
