"""Plant mistakes in the source one by one and print the test that catches every one."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import peft  # noqa: F401  (loaded once here, so that no child loads it again)
import pytest
import torch
from transformers import Qwen3ForCausalLM  # noqa: F401

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake that raises no error and makes the policy learn the wrong thing."""

    file: str
    """The path within the package, without `.py`."""
    before: str
    """The original text."""
    after: str
    """Its replacement."""
    tests: str
    """The test files that should fail: names without `test_`, separated by spaces."""


class FirstFailure:
    """A pytest plugin that keeps the name of the test that failed first."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.rpartition("/")[2]


def first_failure(folder: Path, part: str, tests: str) -> str:
    """The first of these tests that fails on the package in `folder`; "" if none does."""
    reader, writer = os.pipe()
    child = os.fork()  # torch is loaded once, the mutated modules anew
    if not child:
        sys.path[:0] = [str(folder), str(ROOT)]
        failure = FirstFailure()
        files = [str(ROOT / "tests" / part / f"test_{name}.py") for name in tests.split()]
        # a library that pytest would have liked to load first is no fault of a test
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                code = pytest.main([*files, *options], plugins=[failure])
            os.write(writer, (failure.name or (f"(pytest: {code!r})" if code else "")).encode())
        finally:
            os._exit(0)  # never back into the parent's loop
    os.close(writer)
    with os.fdopen(reader) as pipe:
        name_of_test = pipe.read()
    os.waitpid(child, 0)
    return name_of_test


def catch(folder: Path, part: str, mutant: Mutant) -> str:
    """Plant one mistake in the copy, run the tests, restore the file."""
    file = folder / "turnwise" / part / f"{mutant.file}.py"
    text = file.read_text()
    assert mutant.before in text, f"{mutant.before!r} is not in {mutant.file}.py"
    file.write_text(text.replace(mutant.before, mutant.after))
    try:
        return first_failure(folder, part, mutant.tests)
    finally:
        file.write_text(text)


def main(part: str, mutants: Sequence[Mutant]) -> int:
    """The command, limited to the files named in its arguments; 1 if a mistake was not caught."""
    torch.set_num_threads(1)
    sys.dont_write_bytecode = True  # a mutant of the same size and second would be taken for the last one
    only = sys.argv[1:]
    tried = [mutant for mutant in mutants if not only or mutant.file in only]
    num_caught = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "turnwise", folder / "turnwise")
        whole = " ".join(sorted({test for mutant in tried for test in mutant.tests.split()}))
        assert not (failed := first_failure(folder, part, whole)), f"fails without any mistake: {failed}"
        for mutant in tried:
            caught = catch(folder, part, mutant)
            num_caught += bool(caught)
            change = f"{mutant.before.strip()!r} -> {mutant.after.strip()!r}"
            print(f"{mutant.file}: {change}\n    {caught or 'NOT CAUGHT'}", flush=True)
    print(f"{num_caught} of {len(tried)} mistakes caught")
    return 0 if num_caught == len(tried) else 1
