"""Mistakes in the training step: `python -m tests.training.mutants [FILE ...]` plants them one by one."""

import sys

from tests.mutation import Mutant, main

MUTANTS = [
    # file, what stands there, what is put in its place, the tests that should notice
    # the shift by one, and the mask by one
    (
        "packing/layout",
        "compress(place_N, sample.loss_mask[1:])",
        "compress(place_N, sample.loss_mask)",
        "trainer",
    ),
    ("packing/layout", "compress(place_N, sample", "compress([place_N[0], *place_N], sample", "trainer"),
    (
        "packing/layout",
        "sample.token_ids, sample.loss_mask)",
        "sample.token_ids, sample.loss_mask[1:])",
        "trainer",
    ),
    (
        "packing/layout",
        "(lengths_B.max())) < lengths_B[:",
        "(lengths_B.max())) < (lengths_B - 1)[:",
        "trainer",
    ),
    (
        "packing/batch",
        "torch.arange(width) < lengths_B[:",
        "torch.arange(width) < (lengths_B - 1)[:",
        "trainer",
    ),
    ("packing/batch", "torch.arange(width) < lengths_B[:", "torch.arange(width) <= lengths_B[:", "trainer"),
    ("packing/batch", "(sample.logprobs, sample", "((0.0, *sample.logprobs), sample", "trainer estimates"),
    ("packing/batch", "(sample.turns, sample", "((-1, *sample.turns), sample", "estimates"),
    # micro-batches, each with its own scores
    (
        "update/scoring",
        "for one_round, scores in begun]",
        "for (one_round, _), (_, scores) in zip(begun, begun[::-1])]",
        "trainer prefix",
    ),
    ("packing/tree", "tails[number][num_alike:],", "tails[number][num_alike + 1 :],", "layout"),
    # groups
    (
        "update/targets",
        "ADVANTAGES[name](rewards_N_G), strict",
        "ADVANTAGES[name](rewards_N_G)[::-1], strict",
        "trainer",
    ),
    (
        "update/targets",
        "turn(rewards_N_G_K, gamma=gamma), strict",
        "turn(rewards_N_G_K)[::-1], strict",
        "estimates",
    ),
    ("packing/batch", "dict(sorted(rows.items()))", "dict(rows.items())", "estimates"),
    (
        "packing/batch",
        "groups[part::num_parts] for row in group",
        "groups[part::num_parts] for row in group[:1]",
        "estimates",
    ),
    ("packing/batch", 'f"{seed}/{step}/{epoch}"', 'f"{seed}/{step}"', "estimates"),
    (
        "update/objective",
        "num_learnable_B[list(rows)] =",
        "num_learnable_B[:] = learnable_BT.sum(dim=1) #",
        "trainer",
    ),
    # signs
    ("update/imitation", "return -zero_where_masked", "return zero_where_masked", "terms sft"),
    ("update/objective", "loss.losses_BT * fix.weights_BT", "-loss.losses_BT * fix.weights_BT", "trainer"),
    ("update/objective", "lesson.kl_coefficient * KL_LOSSES", "-lesson.kl_coefficient * KL_LOSSES", "terms"),
    ("update/objective", "VALUE_COEFFICIENT * zero", "-VALUE_COEFFICIENT * zero", "statistics"),
    (
        "update/targets",
        "_rewards_by_token(batch) + penalty",
        "_rewards_by_token(batch) - penalty",
        "estimates",
    ),
    # π_old and μ, and what is stale
    ("update/objective", "else here.of(before)", "else here.of(lesson.batch.sampler_logprobs_BT)", "terms"),
    (
        "update/objective",
        "live.logprobs_BT.detach() if",
        "here.of(lesson.batch.sampler_logprobs_BT) if",
        "terms",
    ),
    ("update/objective", "fix.base_logprobs_BT,\n", "old_BT,\n", "terms"),
    ("update/steps", "if is_first else self._passes.logprobs_of(lesson.batch, rows)", "", "terms"),
    ("update/trainer", "update.num_epochs * update.num_minibatches > 1", "False", "terms trainer refusals"),
    ("update/trainer", "or self._objective.may_drop_tokens", "", "terms"),
    ("update/optimizer", "local(parameter).copy_(self._twins[name])", "pass", "optimizer"),
    (
        "update/optimizer",
        "local(parameter).copy_(self._twins[name])\n        self.clear()",
        "local(parameter).copy_(self._twins[name])",
        "trainer",
    ),
    ("update/optimizer", "twin.grad.add_(given.float())", "given.float()", "optimizer"),
    (
        "update/scoring",
        "place[row] for row in one_round.rows",
        "place[row] for row in sorted(one_round.rows, key=place.__getitem__)",
        "terms trainer",
    ),
    # fewer kernels
    ("kernels/lora", "(up_OR * scale).to", "up_OR.to", "lora"),
    ("kernels/lora", ".addmm_(grad_NR, down)", "", "lora"),
    ("kernels/lora", ".mul_(ctx.scale)", "", "lora"),
    ("kernels/flash", "    lse[:, at] = both\n", "", "flash"),
    ("kernels/flash", "while path and path[-1].stop <= segment.start:", "while path and False:", "flash"),
    ("kernels/norms", "self.weight, self.epsilon)", "self.weight, 1e-2)", "norms"),
    ("kernels/norms", "return found.dtype == expected.dtype and bool(", "return bool(1 or ", "norms"),
    ("packing/head", "asked.starts[chunk.start]", "0", "head"),
    # weights of the terms
    ("update/objective", "whole.of_rows(rows)", "whole.of_rows(range(len(rows)))", "trainer"),
    ("update/imitation", "max(1 - step / config.num_steps, 0.0)", "1.0", "terms"),
    ("update/steps", "weight * cross_entropy", "cross_entropy", "terms"),
    ("update/objective", "learnable_BT = fix.mask_BT", "pass", "terms"),
    ("update/objective", "counts_BT.any(dim=1)", "(lesson.targets.advantages_BT > 0).any(dim=1)", "trainer"),
    (
        "update/targets",
        "is_truncated_B=torch.tensor(cut_off",
        "is_truncated_B=torch.tensor([False] * len(cut_off)",
        "estimates",
    ),
    ("update/targets", "of_token <= number", "of_token < number", "estimates"),
    ("update/targets", "found.returns_BT, flat", "before.values.values_BT, flat", "estimates"),
    # what a whole pass shares
    ("kernels/prefix", "        if pairs:\n", "        if False:\n", "prefix"),
    ("kernels/prefix", "torch.promote_types(made.dtype, torch.float32) if", "made.dtype if", "prefix"),
    ("packing/layout", "max(first_own - 1, 0)", "first_own", "layout"),
    (
        "packing/layout",
        "range(num_carried + depth, num_carried + len(ids))",
        "range(depth, len(ids))",
        "layout",
    ),
    ("kernels/attention", "            grad_query += parts[0]\n", "            pass\n", "attention"),
    ("model/policy", "carried.versions == self._versions()", "True", "prefix"),
    ("model/policy", "has_scores=False, prefix=value_trunk", "has_scores=False, prefix=trunk", "prefix"),
    ("update/steps", "gather(run.backward)\n        figures", "norms()\n        figures", "prefix"),
    ("update/steps", "gather(run.backward)\n        return", "norms()\n        return", "prefix"),
    ("update/sft", "optimizer.gather(run.backward)", "pass", "sft"),
    # refusals, references and state
    ("update/steps", "if not math.isfinite(loss) or not norms.is_finite:", "if False:", "refusals"),
    ("update/steps", "            self._optimizer.clear()\n", "            pass\n", "refusals trainer"),
    ("update/steps", 'return "kl_cap" if', 'return "" if', "refusals"),
    ("model/reference", "decay=self._config.decay)", "decay=1 - self._config.decay)", "reference"),
    (
        "model/reference",
        "num_updates % self._config.every == 0",
        "num_updates % self._config.every == 1",
        "reference",
    ),
    ("model/reference", "not torch.equal(before[name], kept)", "True", "reference"),
    ("model/reference", "kept.copy_(part_of(tensors[name], parameters[name]))", "pass", "state"),
    ("update/optimizer", "self._adamw.state[twin] = dict", "_ = dict", "state"),
    ("update/trainer", "self._progress = _Progress(**facts)", "pass", "state"),
    ("update/trainer", "version=now.version + has_stepped", "version=now.version + 1", "refusals"),
    (
        "update/sft",
        "num_tokens, loss = num_own_tokens(samples), 0.0",
        "num_tokens, loss = len(samples), 0.0",
        "sft",
    ),
]


if __name__ == "__main__":
    sys.exit(main("training", [Mutant(*mutant) for mutant in MUTANTS]))
