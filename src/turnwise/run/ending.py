"""Record how a run ended, in its log and in ended.json."""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Iterator

from turnwise.records.ending import Ending, How
from turnwise.records.folder import RunFolder
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.loop import RunEnd
from turnwise.run.resumption import resume_command
from turnwise.system.ranks import Ranks, is_first
from turnwise.system.stopping import Stopping
from turnwise.system.terminal import ON_SCREEN
from turnwise.training.update import checkpoint

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def recording_failures(folder: RunFolder, stopping: Stopping, ranks: Ranks) -> Iterator[None]:
    """Record any exception that ends the block, then let it propagate."""
    folder.begin()
    try:
        yield
    except BaseException as error:
        if is_first(ranks):
            _record(folder, stopping, error)
        elif not isinstance(error, asyncio.CancelledError):
            trace = "".join(traceback.format_exception(error))
            folder.end(Ending(How.CRASHED, f"process {ranks.number}: {_reason(error)}", ranks.number, trace))
        raise


def ending_of(ended: RunEnd) -> Ending:
    if not ended.why:
        return Ending(How.FINISHED)
    if ended.halted_by:
        return Ending(How.HALTED, f"alarm {ended.halted_by}: {ended.why}")
    return Ending(How.STOPPED, ended.why)


def _record(folder: RunFolder, stopping: Stopping, error: BaseException) -> None:
    """Log and record how the run ended. A crash that another rank recorded first is logged as its cause."""
    elsewhere = folder.ending
    if elsewhere is not None:
        logger.error("crashed: %s\n%s", elsewhere.why, elsewhere.traceback, extra=ON_SCREEN)
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        saved = checkpoint.last_step(folder.checkpoints)
        lost = "nothing was saved" if saved is None else f"what came after step {saved} is lost"
        why = f"{stopping.why or 'interrupted'}, at once: {lost}"
        logger.warning("stopped: %s", why, extra=ON_SCREEN)
        folder.end(elsewhere or Ending(How.STOPPED, why))
        return
    why = _reason(error)
    logger.error("crashed: %s", why, exc_info=error, extra=ON_SCREEN)
    if folder.is_kept and not isinstance(error, CollectionFailed):  # that message says how to resume
        logger.info("resume with: %s", resume_command(folder), extra=ON_SCREEN)
    folder.end(Ending(How.CRASHED, why))  # the traceback is in training.log


def _reason(error: BaseException) -> str:
    """The error's type and message; a task group with a single error is unwrapped."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
