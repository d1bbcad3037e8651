"""Set up a process that will load a model and import the user's own functions."""

import logging
import os
import sys
import warnings
from pathlib import Path


def prepare() -> None:
    """Set up this process before a model is loaded or a reward is imported."""
    # Torch's threads share the cores with the servers, so they must not spin while they wait.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # A reward of the user's own, `module:function`, may be in the working directory.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    # bitsandbytes logs a missing CPU kernel on import, and peft imports it even if nothing is quantised.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    # tqdm warns in a notebook without ipywidgets, although no progress bar of transformers is shown.
    warnings.filterwarnings("ignore", message="IProgress not found")
    # Weights are published from a thread; torch sets the CUDA context of a new thread itself, and says so.
    warnings.filterwarnings("ignore", message="Attempting to run cuBLAS, but there was no current CUDA")
