"""Mistakes in the mathematics: `python -m tests.training.algorithms.mutants [FILE ...]` plants them."""

import sys

from tests.mutation import Mutant, main

MUTANTS = {
    "advantages": [
        ("[value - centre for value in values]", "[centre - value for value in values]"),
        ("max(len(values) - 1, 1))", "max(len(values), 1))"),
        ("1 - 1 / max(len(members), 2)", "1 + 1 / max(len(members), 2)"),
        ("in mean(rewards_N_G)]", "in mean(rewards_N_G[::-1])]"),
        ("    centre, spread = _mean(batch), _std(batch)", "    centre, spread = 0.0, _std(batch)"),
        ("if any(reward < 0 for", "if any(reward < -9 for"),
        ("FLAT * max(", "0 * max("),
        ("math.fsum(values) /", "sum(values) /"),
        ("member in returns_G_K if k < len(member)]", "member in returns_G_K[:1] if k < len(member)]"),
        ("member[k] for member", "member[max(k - 1, 0)] for member"),
        ("in reversed(rewards_K)", "in rewards_K"),
        ("reward + gamma * following", "reward + following"),
    ],
    "gae": [
        ("- values_BT[:, t]\n", "+ values_BT[:, t]\n"),
        ("discount_B * lam * advantage_B", "lam * advantage_B"),
        ("torch.where(is_truncated_B.bool(), bootstrap", "torch.where(~is_truncated_B.bool(), bootstrap"),
        ("following_B = torch.where(own_B, values", "following_B = torch.where(~own_B, values"),
        ("lam * advantage_B, advantage_B)", "lam * advantage_B, 0.0 * advantage_B)"),
        ("advantages_BT + values_BT, own", "advantages_BT - values_BT, own"),
        (" & (next_turn_B != none)", ""),
        ("(next_turn_B != turn_BT[:, t])", "(next_turn_B == turn_BT[:, t])"),
        ("max(self.num - 1.0, 1.0)", "max(self.num, 1.0)"),
        ("1.0 - residual / total", "residual / total"),
    ],
    "ratio": [
        (".clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)", ""),
        ("(bounded + (log_ratio - log_ratio.detach())).exp()", "log_ratio.clamp(-20, 20).exp()"),
        ("logprobs_BT - other_logprobs_BT", "other_logprobs_BT - logprobs_BT"),
        ("where(mask_BT.bool(), values_BT, values_BT.new_zeros(()))", "values_BT * mask_BT"),
        ("where(mask_BT.bool(),", "where(mask_BT.bool().roll(1, -1),"),
    ],
    "losses": [
        ("-used_BT * advantages_BT", "used_BT * advantages_BT"),
        ("(ratio_BT > 1 + bounds.high) & (advantages_BT > 0)", "(ratio_BT > 1 + bounds.high)"),
        ("(ratio_BT < 1 - bounds.low) & (advantages_BT < 0)", "(ratio_BT < 1 - bounds.low)"),
        ("is_high_BT, 1 + bounds.high,", "is_high_BT, 1 + bounds.low,"),
        ("(ratio_BT > bounds.dual) & (advantages_BT < 0)", "(ratio_BT > bounds.dual)"),
        ("    advantages_BT = zero_where_masked(advantages_BT, mask_BT)\n", ""),
        ("keepdim=True) / num_tokens_B", "keepdim=True)"),
        ("mask_BT.bool().sum(dim=1, keepdim=True)", "torch.ones_like(mask_BT).sum(dim=1, keepdim=True)"),
        ("mask_BT)).detach()\n    weight_BT", "mask_BT))\n    weight_BT"),
        ("ratio_BT.clamp(1 - bounds.low, 1 + bounds.high)", "ratio_BT"),
        ("-weight_BT * zero", "weight_BT * zero"),
        ("clipped_error_BT.abs() > error_BT.abs()", "clipped_error_BT.abs() < error_BT.abs()"),
        ("losses_BT - coefficient", "losses_BT + coefficient"),
    ],
    "aggregate": [
        ("max(denominators.num_tokens, 1)", "mask_BT.bool().sum().clamp(min=1)"),
        ("max(denominators.num_sequences, 1)", "len(means_B)"),
        ("denominators.num_sequences * denominators.max_tokens", "denominators.max_tokens"),
        ("counts_B.clamp(min=1)", "mask_BT.bool().sum(dim=1).clamp(min=1)"),
        ("for row in rows)", "for row in range(len(rows)))"),
    ],
    "kl": [
        ("    return 0.5 *", "    return 1.0 *"),
        (
            "masked_log_ratio(ref_logprobs_BT, logprobs_BT, mask_BT)",
            "k1(logprobs_BT, ref_logprobs_BT, mask_BT)",
        ),
        ("    return ratio_BT * k3", "    return ratio_BT.detach() * k3"),
        ("return -coefficient * k1", "return coefficient * k1"),
        ("mask_BT).detach()\n", "mask_BT)\n"),
        ("kl_per_token / target - 1", "1 - kl_per_token / target"),
        ("not kl_per_token <= cap", "kl_per_token > cap"),
    ],
    "correction": [
        ("ratio_BT.clamp(max=limits.cap)", "ratio_BT"),
        ("masked_log_ratio(old_logprobs_BT, sampler_", "masked_log_ratio(old_logprobs_BT, 0 * sampler_"),
        ("mask_BT, sampler_logprobs_BT)\n\n\ndef sequence", "mask_BT, old_logprobs_BT)\n\n\ndef sequence"),
        ("keepdim=True)).clamp(max=limits.cap)", "keepdim=True))"),
        ("keepdim=True) / num_tokens_B1", "keepdim=True)"),
        (">= low)", "> low)"),
        ("<= high)", "< high)"),
    ],
    "ema": [
        ("decay * wide + (1 - decay)", "(1 - decay) * wide + decay"),
    ],
}
"""By source file: the original text and its replacement. The test file of the same name should fail."""

ELSEWHERE = {"ratio": "losses correction kl composed"}
"""Files without a test file of their own name: the test files that should fail instead."""


if __name__ == "__main__":
    planted = [
        Mutant(file, before, after, ELSEWHERE.get(file, file))
        for file, mutants in MUTANTS.items()
        for before, after in mutants
    ]
    sys.exit(main("training/algorithms", planted))
