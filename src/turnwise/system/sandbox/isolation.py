"""Find out which isolation works on this machine: bubblewrap, Landlock or none."""

import contextlib
import functools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from turnwise.system.sandbox.bubblewrap import bubblewrap_launch, find_bubblewrap
from turnwise.system.sandbox.execution import NoIsolation, SandboxLimits
from turnwise.system.sandbox.fallback import landlock_launch
from turnwise.system.sandbox.inside.report import read_report
from turnwise.system.sandbox.launch import Launch, send_run, start
from turnwise.system.sandbox.layout import find_layout

_TRIAL_SECONDS = 20.0
_ADVICE = "install bubblewrap (`apt install bubblewrap`), or run on Linux 5.13 or later with Landlock enabled"


class Kind(StrEnum):
    """The kinds of isolation, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SandboxIsolation:
    """The isolation that works here, and a sentence about it: why no stronger one works, what to install."""

    kind: Kind
    detail: str


@functools.cache
def isolation() -> SandboxIsolation:
    """Try each kind with a harmless line, strongest first; return the first that works."""
    if sys.platform != "linux":
        return SandboxIsolation(Kind.NONE, f"{sys.platform} has neither bubblewrap nor Landlock: use Linux")
    failures: list[str] = []
    for kind in (Kind.BUBBLEWRAP, Kind.LANDLOCK):
        failure = trial(kind)
        if not failure:
            better = f" ({'; '.join(failures)})" if failures else ""
            return SandboxIsolation(kind, f"code runs in {_DESCRIPTIONS[kind]}{better}")
        failures.append(f"{kind}: {failure}")
    return SandboxIsolation(Kind.NONE, f"{_ADVICE}. {'; '.join(failures)}")


_DESCRIPTIONS = {
    Kind.BUBBLEWRAP: "its own namespaces, by bubblewrap and seccomp",
    Kind.LANDLOCK: "a process shut in by Landlock and seccomp, without its own files; "
    "bubblewrap would be stronger: `apt install bubblewrap`",
}


@contextlib.contextmanager
def launch_behind(kind: Kind) -> Iterator[Launch]:
    """Yield how to start a zygote in this isolation; descriptors that the launch holds are closed on exit."""
    if kind is Kind.BUBBLEWRAP:
        bwrap = find_bubblewrap()
        if bwrap is None:
            raise NoIsolation("bwrap is not installed")
        yield bubblewrap_launch(bwrap, find_layout())
    elif kind is Kind.LANDLOCK:
        from turnwise.system.sandbox.inside import landlock  # uses libc calls that only Linux has

        if landlock.abi() < 1:
            raise NoIsolation("this kernel has no Landlock")
        with landlock_launch(find_layout()) as launch:
            yield launch
    else:
        raise NoIsolation(_ADVICE)


def trial(kind: Kind) -> str:
    """Return why a line of code does not run in this isolation; empty if it does."""
    try:
        with launch_behind(kind) as launch:
            zygote = start(launch, SandboxLimits(), packages=())
    except (OSError, NoIsolation) as error:
        return str(error)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        zygote.control.settimeout(_TRIAL_SECONDS)
        if not zygote.control.recv(4096):
            return zygote.last_words() or "it died at its start"
        request = {"sources": ["6 * 7"], "variables": {}, "result_names": []}
        send_run(zygote.control, json.dumps(request).encode(), null, null)
        answer = zygote.control.recv(4096)
        if not answer:
            return zygote.last_words() or "it died at its first line"
        report = read_report(answer)
        return "" if report.exit_code == report.signal == 0 else f"its first line ended in {report}"
    except OSError as error:
        return zygote.last_words() or str(error)
    finally:
        os.close(null)
        zygote.end()
