"""A helper process that imports vLLM while turnwise itself is imported and loads servers and weights.

vLLM inspects the model's class in one process and samples in another. By default, both start anew and spend
10 to 20 s on imports; here they are forked from the helper. It is multiprocessing's fork server: it uses no
GPU itself, and ends with this process.
"""

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from turnwise.config import Recipe
from turnwise.models.devices import VARIABLE

IMPORTED = ("vllm.v1.engine.async_llm", "vllm.v1.engine.core", "vllm.v1.worker.gpu_worker")
"""What vLLM's processes import first; none of it initialises CUDA, which would not survive the fork."""

_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def set_environment(*, has_gpu: bool) -> None:
    """Set the variables that vLLM reads on import."""
    # No fork of this process: it may have initialised CUDA, and it runs threads.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # most of its warnings are about intended settings
    if has_gpu:
        # The older runner samples row by row if requests have their own seeds.
        os.environ.setdefault(_RUNNER, "1")
    else:
        os.environ.pop(_RUNNER, None)  # set if `begin_early` expected a GPU that torch cannot use


def begin_early(recipe: Recipe) -> None:
    """Start the helper if the recipe may use vLLM on an NVIDIA GPU. If it should not, it only costs time."""
    if may_use_gpu(recipe):
        begin_import()


def may_use_gpu(recipe: Recipe, driver: Path = Path("/dev/nvidiactl")) -> bool:
    """Whether vLLM may run on an NVIDIA GPU: a guess, without the seconds that an import of torch takes."""
    device: str = recipe.model.device
    if device == "auto":
        device = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    return recipe.engine.kind == "vllm" and device in ("auto", "cuda") and driver.exists()


def begin_import() -> None:
    """Start the helper unless it runs. Only with a GPU: vLLM for CPUs sets more variables at its start."""
    set_environment(has_gpu=True)
    multiprocessing.set_forkserver_preload(list(IMPORTED))
    with interrupts_blocked():
        forkserver.ensure_running()
    atexit.unregister(_end_helper)  # if this is not the first call
    atexit.register(_end_helper)


def fork_from_helper() -> None:
    """Make vLLM fork its processes from the helper.

    vLLM has no setting for this, so two of its functions are replaced. A version without them starts its
    processes as it does by default.
    """
    from vllm.model_executor.models import registry
    from vllm.v1.engine import utils

    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = _call_in_fork
    if hasattr(utils, "get_mp_context"):
        utils.get_mp_context = _fork_context


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes that receive no Ctrl-C and no hang-up: a terminal sends them to all processes, but
    only this one handles them.

    multiprocessing's resource tracker must run before, because starting it unblocks the signal.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_helper() -> None:
    """End the helper at once: by itself it finishes its imports first, with this process's output open."""
    process = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _fork_context() -> Any:
    return multiprocessing.get_context("forkserver")


def _call_in_fork(function: Callable[[], Any]) -> Any:
    import cloudpickle

    with ProcessPoolExecutor(1, mp_context=_fork_context()) as pool:
        return pool.submit(_call, cloudpickle.dumps(function)).result()


def _call(pickled: bytes) -> Any:
    return pickle.loads(pickled)()  # noqa: S301 - pickled by the process that started this one
