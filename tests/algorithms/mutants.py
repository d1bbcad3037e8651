"""Takes planted mistakes one by one, gives the test that catches each; name files to try only those."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]

MUTANTS = [
    # file, what stands there, what is put in its place
    ("advantages", "[value - centre for value in values]", "[centre - value for value in values]"),
    ("advantages", "max(len(values) - 1, 1))", "max(len(values), 1))"),
    ("advantages", "1 - 1 / max(len(members), 2)", "1 + 1 / max(len(members), 2)"),
    ("advantages", "in mean(rewards_N_G)]", "in mean(rewards_N_G[::-1])]"),
    ("advantages", "    centre, spread = _mean(batch), _std(batch)", "    centre, spread = 0.0, _std(batch)"),
    ("advantages", "if any(reward < 0 for", "if any(reward < -9 for"),
    ("advantages", "FLAT * max(", "0 * max("),
    ("advantages", "math.fsum(values) /", "sum(values) /"),
    (
        "advantages",
        "member in returns_G_K if k < len(member)]",
        "member in returns_G_K[:1] if k < len(member)]",
    ),
    ("advantages", "member[k] for member", "member[max(k - 1, 0)] for member"),
    ("advantages", "in reversed(rewards_K)", "in rewards_K"),
    ("advantages", "reward + gamma * following", "reward + following"),
    ("gae", "- values_BT[:, t]\n", "+ values_BT[:, t]\n"),
    ("gae", "discount_B * lam * advantage_B", "lam * advantage_B"),
    ("gae", "torch.where(is_truncated_B.bool(), bootstrap", "torch.where(~is_truncated_B.bool(), bootstrap"),
    ("gae", "following_B = torch.where(own_B, values", "following_B = torch.where(~own_B, values"),
    ("gae", "lam * advantage_B, advantage_B)", "lam * advantage_B, 0.0 * advantage_B)"),
    ("gae", "advantages_BT + values_BT, own", "advantages_BT - values_BT, own"),
    ("gae", " & (next_turn_B != none)", ""),
    ("gae", "(next_turn_B != turn_BT[:, t])", "(next_turn_B == turn_BT[:, t])"),
    ("gae", "max(self.num - 1.0, 1.0)", "max(self.num, 1.0)"),
    ("gae", "1.0 - missed / spread", "missed / spread"),
    ("ratio", ".clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)", ""),
    ("ratio", "(bounded + (log_ratio - log_ratio.detach())).exp()", "log_ratio.clamp(-20, 20).exp()"),
    ("ratio", "logprobs_BT - other_logprobs_BT", "other_logprobs_BT - logprobs_BT"),
    ("ratio", "where(mask_BT.bool(), values_BT, values_BT.new_zeros(()))", "values_BT * mask_BT"),
    ("ratio", "where(mask_BT.bool(),", "where(mask_BT.bool().roll(1, -1),"),
    ("losses", "-used_BT * advantages_BT", "used_BT * advantages_BT"),
    ("losses", "(ratio_BT > 1 + bounds.high) & (advantages_BT > 0)", "(ratio_BT > 1 + bounds.high)"),
    ("losses", "(ratio_BT < 1 - bounds.low) & (advantages_BT < 0)", "(ratio_BT < 1 - bounds.low)"),
    ("losses", "is_high_BT, 1 + bounds.high,", "is_high_BT, 1 + bounds.low,"),
    ("losses", "(ratio_BT > bounds.dual) & (advantages_BT < 0)", "(ratio_BT > bounds.dual)"),
    ("losses", "    advantages_BT = zero_where_masked(advantages_BT, mask_BT)\n", ""),
    ("losses", "keepdim=True) / num_tokens_B", "keepdim=True)"),
    (
        "losses",
        "mask_BT.bool().sum(dim=1, keepdim=True)",
        "torch.ones_like(mask_BT).sum(dim=1, keepdim=True)",
    ),
    ("losses", "mask_BT)).detach()\n    weight_BT", "mask_BT))\n    weight_BT"),
    ("losses", "ratio_BT.clamp(1 - bounds.low, 1 + bounds.high)", "ratio_BT"),
    ("losses", "-weight_BT * zero", "weight_BT * zero"),
    ("losses", "near_missed_BT.abs() > missed_BT.abs()", "near_missed_BT.abs() < missed_BT.abs()"),
    ("aggregate", "max(whole.num_tokens, 1)", "mask_BT.bool().sum().clamp(min=1)"),
    ("aggregate", "max(whole.num_sequences, 1)", "len(means_B)"),
    ("aggregate", "whole.num_sequences * whole.max_tokens", "whole.max_tokens"),
    ("aggregate", "counts_B.clamp(min=1)", "mask_BT.bool().sum(dim=1).clamp(min=1)"),
    ("aggregate", "for row in rows)", "for row in range(len(rows)))"),
    ("kl", "    return 0.5 *", "    return 1.0 *"),
    (
        "kl",
        "masked_log_ratio(ref_logprobs_BT, logprobs_BT, mask_BT)",
        "k1(logprobs_BT, ref_logprobs_BT, mask_BT)",
    ),
    ("kl", "    return ratio_BT * k3", "    return ratio_BT.detach() * k3"),
    ("kl", "return -coefficient * k1", "return coefficient * k1"),
    ("kl", "mask_BT).detach()\n", "mask_BT)\n"),
    ("kl", "kl_per_token / target - 1", "1 - kl_per_token / target"),
    ("kl", "not kl_per_token <= cap", "kl_per_token > cap"),
    ("correction", "ratio_BT.clamp(max=limits.cap)", "ratio_BT"),
    (
        "correction",
        "masked_log_ratio(old_logprobs_BT, sampler_",
        "masked_log_ratio(old_logprobs_BT, 0 * sampler_",
    ),
    (
        "correction",
        "mask_BT, sampler_logprobs_BT)\n\n\ndef sequence",
        "mask_BT, old_logprobs_BT)\n\n\ndef sequence",
    ),
    ("correction", "keepdim=True)).clamp(max=limits.cap)", "keepdim=True))"),
    ("correction", "keepdim=True) / num_tokens_B1", "keepdim=True)"),
    ("correction", ">= low)", "> low)"),
    ("correction", "<= high)", "< high)"),
    ("entropy", "losses_BT - coefficient", "losses_BT + coefficient"),
    ("entropy", "return -(logprobs", "return (logprobs"),
    ("entropy", ".masked_fill(logprobs_BTV.isneginf(), 0.0)", ""),
    ("ema", "decay * wide + (1 - decay)", "(1 - decay) * wide + decay"),
]


class FirstFailure:
    """A pytest plugin that keeps the name of the test that failed first."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.rpartition("/")[2]


def first_failure(folder: Path, name: str) -> str:
    """The first test of the file `name` that fails on the package in `folder`; "" if none does."""
    reader, writer = os.pipe()
    child = os.fork()  # torch is loaded once, the mutated modules anew
    if not child:
        sys.path.insert(0, str(folder))
        failure = FirstFailure()
        tests = ROOT / "tests" / "algorithms"
        own = sorted(tests.glob(f"test_{name}.py")) or [tests]
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            pytest.main([*map(str, own), "-x", "-q", "-p", "no:cacheprovider"], plugins=[failure])
        os.write(writer, failure.name.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        name_of_test = pipe.read()
    os.waitpid(child, 0)
    return name_of_test


def catch(folder: Path, name: str, before: str, after: str) -> str:
    """Plant one mistake in the copy, run the tests, take it out again."""
    file = folder / "turnwise" / "algorithms" / f"{name}.py"
    text = file.read_text()
    assert before in text, f"{before!r} is not in {name}.py"
    file.write_text(text.replace(before, after))
    try:
        return first_failure(folder, name)
    finally:
        file.write_text(text)


def main(only: list[str]) -> int:
    torch.set_num_threads(1)
    sys.dont_write_bytecode = True  # a mutant of the same size and second would be taken for the last one
    mutants = [mutant for mutant in MUTANTS if not only or mutant[0] in only]
    num_caught = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "turnwise", folder / "turnwise")
        for name in sorted({name for name, _, _ in mutants}):
            assert not (failed := first_failure(folder, name)), f"fails without any mistake: {failed}"
        for name, before, after in mutants:
            caught = catch(folder, name, before, after)
            num_caught += bool(caught)
            print(
                f"{name}: {before.strip()!r} -> {after.strip()!r}\n    {caught or 'NOT CAUGHT'}", flush=True
            )
    print(f"{num_caught} of {len(mutants)} mistakes caught")
    return 0 if num_caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
