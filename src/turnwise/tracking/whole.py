"""Takes a path and what is to stand there, gives a file that is written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, document: Any) -> None:
    write_whole(path, (json.dumps(document, indent=1) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Under another name first, and onto the disk, so that no crash leaves half of it."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)  # noqa: PTH105 (the one call whose atomicity is documented)
