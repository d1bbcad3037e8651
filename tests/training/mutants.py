"""Mistakes in the training step: `python -m tests.training.mutants [FILE ...]` plants them one by one."""

import sys

from tests.mutation import Mutant, main

MUTANTS = [
    # file, what stands there, what is put in its place, the tests that should notice
    # the shift by one, and the mask by one
    ("layout", "compress(place_N, sample.loss_mask[1:])", "compress(place_N, sample.loss_mask)", "trainer"),
    ("layout", "compress(place_N, sample", "compress([place_N[0], *place_N], sample", "trainer"),
    ("layout", "sample.token_ids, sample.loss_mask)", "sample.token_ids, sample.loss_mask[1:])", "trainer"),
    ("layout", "(lengths_B.max())) < lengths_B[:", "(lengths_B.max())) < (lengths_B - 1)[:", "trainer"),
    ("batch", "torch.arange(width) < lengths_B[:", "torch.arange(width) < (lengths_B - 1)[:", "trainer"),
    ("batch", "torch.arange(width) < lengths_B[:", "torch.arange(width) <= lengths_B[:", "trainer"),
    ("batch", "(sample.logprobs, sample", "((0.0, *sample.logprobs), sample", "trainer estimates"),
    ("batch", "(sample.turns, sample", "((-1, *sample.turns), sample", "estimates"),
    # micro-batches, each with its own scores
    (
        "passes",
        "for each, scores in begun]",
        "for (each, _), (_, scores) in zip(begun, begun[::-1])]",
        "trainer prefix",
    ),
    ("tree", "tails[number][num_alike:],", "tails[number][num_alike + 1 :],", "layout"),
    # groups
    (
        "estimates",
        "ADVANTAGES[name](rewards_N_G), strict",
        "ADVANTAGES[name](rewards_N_G)[::-1], strict",
        "trainer",
    ),
    (
        "estimates",
        "turn(rewards_N_G_K, gamma=gamma), strict",
        "turn(rewards_N_G_K)[::-1], strict",
        "estimates",
    ),
    ("batch", "dict(sorted(rows.items()))", "dict(rows.items())", "estimates"),
    (
        "batch",
        "groups[part::num_parts] for row in group",
        "groups[part::num_parts] for row in group[:1]",
        "estimates",
    ),
    ("batch", 'f"{seed}/{step}/{epoch}"', 'f"{seed}/{step}"', "estimates"),
    (
        "objective",
        "num_learnable_B[list(rows)] =",
        "num_learnable_B[:] = learnable_BT.sum(dim=1) #",
        "trainer",
    ),
    # signs
    ("imitation", "return -zero_where_masked", "return zero_where_masked", "terms sft"),
    ("objective", "loss.losses_BT * fix.weights_BT", "-loss.losses_BT * fix.weights_BT", "trainer"),
    ("objective", "lesson.kl_coefficient * KL_LOSSES", "-lesson.kl_coefficient * KL_LOSSES", "terms"),
    ("objective", "self._value.coefficient * zero", "-self._value.coefficient * zero", "statistics"),
    ("estimates", "_rewards_by_token(batch) + penalty", "_rewards_by_token(batch) - penalty", "estimates"),
    # π_old and μ, and what is stale
    ("objective", "else here.of(before)", "else here.of(lesson.batch.sampler_logprobs_BT)", "terms"),
    ("objective", "live.logprobs_BT.detach() if", "here.of(lesson.batch.sampler_logprobs_BT) if", "terms"),
    ("objective", "fix.base_logprobs_BT,\n", "old_BT,\n", "terms"),
    ("steps", "if is_first else self._passes.logprobs_of(lesson.batch, rows)", "", "terms"),
    ("trainer", "update.num_epochs * update.num_minibatches > 1", "False", "terms trainer refusals"),
    ("trainer", "or self._objective.may_drop_tokens", "", "terms"),
    ("optimizer", "local(parameter).copy_(self._twins[name])", "pass", "optimizer"),
    (
        "optimizer",
        "local(parameter).copy_(self._twins[name])\n        self.clear()",
        "local(parameter).copy_(self._twins[name])",
        "trainer",
    ),
    ("optimizer", "twin.grad.add_(given.float())", "given.float()", "optimizer"),
    (
        "passes",
        "place[row] for row in each.rows",
        "place[row] for row in sorted(each.rows, key=place.__getitem__)",
        "terms trainer",
    ),
    # fewer kernels
    ("lora", "(up_OR * scale).to", "up_OR.to", "lora"),
    ("lora", ".addmm_(grad_NR, down)", "", "lora"),
    ("lora", ".mul_(ctx.scale)", "", "lora"),
    ("flash", "    lse[:, at] = both\n", "", "flash"),
    ("flash", "while path and path[-1].stop <= segment.start:", "while path and False:", "flash"),
    ("norms", "self.weight, self.epsilon)", "self.weight, 1e-2)", "norms"),
    ("norms", "return found.dtype == expected.dtype and bool(", "return bool(1 or ", "norms"),
    ("head", "asked.starts[chunk.start]", "0", "head"),
    # weights of the terms
    ("objective", "whole.of_rows(rows)", "whole.of_rows(range(len(rows)))", "trainer"),
    ("imitation", "max(1 - step / config.num_steps, 0.0)", "1.0", "terms"),
    ("steps", "weight * cross_entropy", "cross_entropy", "terms"),
    ("objective", "learnable_BT = fix.mask_BT", "pass", "terms"),
    ("objective", "counts_BT.any(dim=1)", "(lesson.targets.advantages_BT > 0).any(dim=1)", "trainer"),
    (
        "estimates",
        "is_truncated_B=torch.tensor(cut_off",
        "is_truncated_B=torch.tensor([False] * len(cut_off)",
        "estimates",
    ),
    ("estimates", "of_token <= number", "of_token < number", "estimates"),
    ("estimates", "found.returns_BT, flat", "before.values.values_BT, flat", "estimates"),
    # what a whole pass shares
    ("prefix", "        if pairs:\n", "        if False:\n", "prefix"),
    ("prefix", "torch.promote_types(made.dtype, torch.float32) if", "made.dtype if", "prefix"),
    ("layout", "max(first_own - 1, 0)", "first_own", "layout"),
    ("layout", "range(num_carried + depth, num_carried + len(ids))", "range(depth, len(ids))", "layout"),
    ("attention", "            grad_query += parts[0]\n", "            pass\n", "attention"),
    ("policy", "carried.versions == self._versions()", "True", "prefix"),
    ("policy", "has_scores=False, prefix=value_trunk", "has_scores=False, prefix=trunk", "prefix"),
    ("steps", "gather(run.backward)\n        figures", "norms()\n        figures", "prefix"),
    ("steps", "gather(run.backward)\n        return", "norms()\n        return", "prefix"),
    ("sft", "optimizer.gather(run.backward)", "pass", "sft"),
    # refusals, references and state
    ("steps", "if not math.isfinite(loss) or not norms.is_finite:", "if False:", "refusals"),
    ("steps", "            self._optimizer.clear()\n", "            pass\n", "refusals trainer"),
    ("steps", 'return "kl_cap" if', 'return "" if', "refusals"),
    ("reference", "decay=self._config.decay)", "decay=1 - self._config.decay)", "reference"),
    (
        "reference",
        "num_updates % self._config.every == 0",
        "num_updates % self._config.every == 1",
        "reference",
    ),
    ("reference", "not torch.equal(before[name], kept)", "True", "reference"),
    ("reference", "kept.copy_(part_of(tensors[name], parameters[name]))", "pass", "state"),
    ("optimizer", "self._adamw.state[twin] = dict", "_ = dict", "state"),
    ("trainer", "self._progress = _Progress(**facts)", "pass", "state"),
    ("trainer", "version=now.version + has_stepped", "version=now.version + 1", "refusals"),
    ("sft", "num_tokens, loss = num_own_tokens(samples), 0.0", "num_tokens, loss = len(samples), 0.0", "sft"),
]


if __name__ == "__main__":
    sys.exit(main("training", [Mutant(*each) for each in MUTANTS]))
