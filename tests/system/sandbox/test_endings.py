"""However code ends, it is the code's own fault, and the next execution cannot see it."""

import textwrap

from tests.system.sandbox.boxes import both_kinds, sandboxed
from turnwise.system.sandbox import ExecutionStop, Kind

OWN_ENDINGS = (ExecutionStop.NONE, ExecutionStop.KILLED, ExecutionStop.TIMEOUT)


@both_kinds
async def test_no_frame_has_the_exit_status_of_the_execution_before(kind: Kind) -> None:
    search = """
    import gc, sys
    frame, found = sys._getframe(), []
    gc.unfreeze()
    waiting = [value for value in gc.get_objects() if type(value).__module__.startswith('inside')]
    while frame is not None:
        waiting += frame.f_locals.items()
        frame = frame.f_back
    for _, value in [item if isinstance(item, tuple) else ('', item) for item in waiting]:
        parts = [getattr(value, name, None) for name in getattr(type(value), '__slots__', ())]
        found += [part for part in (value, *parts) if type(part) is int]
    173 in found, len(found) > 3
    """

    async with sandboxed(kind) as sandbox:
        ended = await sandbox.run("import os\nos._exit(173)")
        assert "status 173" in ended.error
        after = await sandbox.run(textwrap.dedent(search))
        assert (after.value, after.error) == ("(False, True)", "")


@both_kinds
async def test_a_signal_that_code_sends_itself_is_its_own_fault(kind: Kind) -> None:
    async with sandboxed(kind, wall_seconds=0.5) as sandbox:
        for number in range(1, 65):
            code = f"import os, signal\nsignal.pthread_sigmask(1, [])\nos.kill(os.getpid(), {number})"
            execution = await sandbox.run(code)
            assert execution.stopped in OWN_ENDINGS, number
        if kind is Kind.LANDLOCK:
            assert execution.error == "killed by SIGRTMAX"
            assert (await sandbox.run(code.replace("64", "35"))).error == "killed by signal 35"
