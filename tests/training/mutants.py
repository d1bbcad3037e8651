"""Mistakes in the training step: `python -m tests.training.mutants [FILE ...]` plants them one by one."""

import sys

from tests.mutation import Mutant, main

MUTANTS = {
    "packing/layout": [
        ("compress(place_N, sample.loss_mask[1:])", "compress(place_N, sample.loss_mask)", "trainer"),
        ("compress(place_N, sample", "compress([place_N[0], *place_N], sample", "trainer"),
        ("sample.token_ids, sample.loss_mask)", "sample.token_ids, sample.loss_mask[1:])", "trainer"),
        ("(lengths_B.max())) < lengths_B[:", "(lengths_B.max())) < (lengths_B - 1)[:", "trainer"),
        ("max(first_own - 1, 0)", "first_own", "layout"),
        ("range(num_carried + depth, num_carried + len(ids))", "range(depth, len(ids))", "layout"),
    ],
    "packing/batch": [
        ("torch.arange(width) < lengths_B[:", "torch.arange(width) < (lengths_B - 1)[:", "trainer"),
        ("torch.arange(width) < lengths_B[:", "torch.arange(width) <= lengths_B[:", "trainer"),
        ("(sample.logprobs, sample", "((0.0, *sample.logprobs), sample", "trainer estimates"),
        ("(sample.turns, sample", "((-1, *sample.turns), sample", "estimates"),
        ("dict(sorted(rows.items()))", "dict(rows.items())", "estimates"),
        (
            "groups[part::num_parts] for row in group",
            "groups[part::num_parts] for row in group[:1]",
            "estimates",
        ),
        ('f"{seed}/{step}/{epoch}"', 'f"{seed}/{step}"', "estimates"),
    ],
    "update/scoring": [
        (
            "for one_round, scores in begun]",
            "for (one_round, _), (_, scores) in zip(begun, begun[::-1])]",
            "trainer prefix",
        ),
        (
            "place[row] for row in one_round.rows",
            "place[row] for row in sorted(one_round.rows, key=place.__getitem__)",
            "terms trainer",
        ),
    ],
    "packing/tree": [
        ("tails[number][num_alike:],", "tails[number][num_alike + 1 :],", "layout"),
    ],
    "update/targets": [
        ("ADVANTAGES[name](rewards_N_G), strict", "ADVANTAGES[name](rewards_N_G)[::-1], strict", "trainer"),
        ("turn(rewards_N_G_K, gamma=gamma), strict", "turn(rewards_N_G_K)[::-1], strict", "estimates"),
        ("_rewards_by_token(batch) + penalty", "_rewards_by_token(batch) - penalty", "estimates"),
        (
            "is_truncated_B=torch.tensor(cut_off",
            "is_truncated_B=torch.tensor([False] * len(cut_off)",
            "estimates",
        ),
        ("of_token <= number", "of_token < number", "estimates"),
        ("found.returns_BT, flat", "before.values.values_BT, flat", "estimates"),
    ],
    "update/objective": [
        ("num_learnable_B[list(rows)] =", "num_learnable_B[:] = learnable_BT.sum(dim=1) #", "trainer"),
        ("loss.losses_BT * fix.weights_BT", "-loss.losses_BT * fix.weights_BT", "trainer"),
        ("lesson.kl_coefficient * KL_LOSSES", "-lesson.kl_coefficient * KL_LOSSES", "terms"),
        ("VALUE_COEFFICIENT * zero", "-VALUE_COEFFICIENT * zero", "statistics"),
        ("else here.of(before)", "else here.of(lesson.batch.sampler_logprobs_BT)", "terms"),
        ("live.logprobs_BT.detach() if", "here.of(lesson.batch.sampler_logprobs_BT) if", "terms"),
        ("fix.base_logprobs_BT,\n", "old_BT,\n", "terms"),
        ("denominators.of_rows(rows)", "denominators.of_rows(range(len(rows)))", "trainer"),
        ("learnable_BT = fix.mask_BT", "pass", "terms"),
        ("counts_BT.any(dim=1)", "(lesson.targets.advantages_BT > 0).any(dim=1)", "trainer"),
    ],
    "update/imitation": [
        ("return -zero_where_masked", "return zero_where_masked", "terms sft"),
        ("max(1 - step / config.num_steps, 0.0)", "1.0", "terms"),
    ],
    "update/steps": [
        ("if is_first else self._passes.logprobs_of(lesson.batch, rows)", "", "terms"),
        ("weight * cross_entropy", "cross_entropy", "terms"),
        ("gather(run.backward)\n        figures", "norms()\n        figures", "prefix"),
        ("gather(run.backward)\n        return", "norms()\n        return", "prefix"),
        ("if not math.isfinite(loss) or not norms.is_finite:", "if False:", "refusals"),
        ("            self._optimizer.clear()\n", "            pass\n", "refusals trainer"),
        ('return "kl_cap" if', 'return "" if', "refusals"),
    ],
    "update/trainer": [
        ("update.num_epochs * update.num_minibatches > 1", "False", "terms trainer refusals"),
        ("or self._objective.may_drop_tokens", "", "terms"),
        ("self._progress = progress", "pass", "trainer"),
        ("version=now.version + has_stepped", "version=now.version + 1", "refusals"),
    ],
    "update/optimizer": [
        ("local(parameter).copy_(self._twins[name])", "pass", "optimizer"),
        (
            "local(parameter).copy_(self._twins[name])\n        self.clear()",
            "local(parameter).copy_(self._twins[name])",
            "trainer",
        ),
        ("twin.grad.add_(given.float())", "given.float()", "optimizer"),
        ("self._adamw.state[twin] = dict", "_ = dict", "trainer"),
    ],
    "kernels/lora": [
        ("(up_OR * scale).to", "up_OR.to", "lora"),
        (".addmm_(grad_NR, down)", "", "lora"),
        (".mul_(ctx.scale)", "", "lora"),
    ],
    "kernels/flash": [
        ("    lse[:, at] = both\n", "", "flash"),
        ("while path and path[-1].stop <= segment.start:", "while path and False:", "flash"),
    ],
    "kernels/norms": [
        ("self.weight, self.epsilon)", "self.weight, 1e-2)", "norms"),
        ("return actual.dtype == expected.dtype and bool(", "return bool(1 or ", "norms"),
    ],
    "packing/head": [
        ("asked.starts[chunk.start]", "0", "head"),
    ],
    "kernels/prefix": [
        ("        if pairs:\n", "        if False:\n", "prefix"),
        ("torch.promote_types(made.dtype, torch.float32) if", "made.dtype if", "prefix"),
    ],
    "kernels/attention": [
        ("            grad_query += parts[0]\n", "            pass\n", "attention"),
    ],
    "policy/policy": [
        ("carried.versions == self._versions()", "True", "prefix"),
        ("has_scores=False, prefix=value_trunk", "has_scores=False, prefix=trunk", "prefix"),
    ],
    "update/sft": [
        ("optimizer.gather(run.backward)", "pass", "sft"),
        ("num_tokens, loss = num_own_tokens(samples), 0.0", "num_tokens, loss = len(samples), 0.0", "sft"),
    ],
    "policy/reference": [
        ("decay=self._config.decay)", "decay=1 - self._config.decay)", "reference"),
        ("num_updates % self._config.every == 0", "num_updates % self._config.every == 1", "reference"),
        ("not torch.equal(before[name], kept)", "True", "reference"),
        ("kept.copy_(part_of(tensors[name], parameters[name]))", "pass", "trainer"),
    ],
}
"""By source file: the original text, its replacement, and the test files that should fail."""


if __name__ == "__main__":
    planted = [Mutant(file, *mutant) for file, mutants in MUTANTS.items() for mutant in mutants]
    sys.exit(main("training", planted))
