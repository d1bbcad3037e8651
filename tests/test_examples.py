"""The one-page example runs, calls real tools and learns; its loss is the one that the trainer computes."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import warm
from tests.engines.models import VOCAB, qwen3
from turnwise.training.algorithms.losses import Bounds, clip

EXAMPLE = Path(__file__).parents[1] / "examples" / "grpo_loop.py"


@pytest.fixture(scope="module")
def loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grpo_loop", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["grpo_loop"] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def episode(loop: ModuleType, reward: float = 0.0, *, seed: int = 0, shift: float = 0.0) -> Any:
    """Sampled by the model itself: its own log-probs, moved by `shift` as if it had been another."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (20,), generator=generator)
    mask = [0] * 6 + [1] * 5 + [0] * 4 + [1] * 5
    with torch.no_grad():
        logprobs = qwen3()(ids[None]).logits[0].log_softmax(-1)
    sampled = [0.0, *logprobs[:-1].gather(-1, ids[1:, None])[:, 0].tolist()]
    kept = [(value + shift) * flag for value, flag in zip(sampled, mask, strict=True)]
    return loop.Episode(ids.tolist(), mask, kept, 1, reward)


def test_it_is_one_page_and_the_learning_is_its_own() -> None:
    source = EXAMPLE.read_text()
    assert source.count("\n") < 300
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name and re.match(r"turnwise\.(training|algorithms|run)", name)]


@pytest.mark.parametrize("advantage", [1.0, -0.5])
@pytest.mark.parametrize("shift", [0.0, 0.1, -0.4, 0.4])
def test_its_loss_and_gradient_are_those_of_the_trainers_clipped_loss(
    loop: ModuleType, advantage: float, shift: float
) -> None:
    played, ours, theirs = episode(loop, shift=shift), qwen3(), qwen3()
    loss, ratio_N = loop.clipped_loss(ours, played, advantage)
    loss.backward()
    torch.testing.assert_close(ratio_N, torch.full_like(ratio_N, -shift).exp(), rtol=1e-4, atol=0)

    ids = torch.tensor(played.ids)
    logprobs = (
        theirs(ids[None]).logits[:, :-1].float().log_softmax(-1).gather(-1, ids[None, 1:, None])[..., 0]
    )
    expected = clip(
        logprobs,
        torch.tensor([played.logprobs[1:]]),
        torch.full_like(logprobs, advantage),
        torch.tensor([played.mask[1:]]),
        Bounds(loop.CLIP_LOW, loop.CLIP_HIGH),
    ).losses_BT.sum()
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    for (name, mine), reference in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, reference.grad, rtol=1e-3, atol=1e-5, msg=name)


def test_advantages_are_rewards_less_the_groups_mean_and_equal_rewards_teach_nothing(
    loop: ModuleType,
) -> None:
    uneven = [episode(loop, reward) for reward in (1.0, 0.0, 0.0, 0.0)]
    even = [episode(loop, 1.0), episode(loop, 1.0)]
    pairs = loop.group_advantages([uneven, even])
    assert [advantage for _, advantage in pairs] == [0.75, -0.25, -0.25, -0.25]


def test_learning_makes_what_succeeded_likelier_and_what_failed_less_likely(loop: ModuleType) -> None:
    good, bad = episode(loop, 1.0, seed=1), episode(loop, 0.0, seed=2)
    policy = qwen3()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    figures = loop.learn(policy, optimizer, loop.group_advantages([[good, bad]]), 2)
    assert figures["gradient"] > 0
    assert figures["ratio_max"] > 1, "after the first step the policy is another"
    for played, sign in ((good, 1), (bad, -1)):
        _, ratio_N = loop.clipped_loss(policy, played, 1.0)
        assert sign * ratio_N.log().sum() > 0


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ("12.50", 1),
        (" $12.5 ", 1),
        ("1,212.5", 0),
        ("12.51", 0),
        ("12.5 or 13", 0),
        ("", 0),
        ("about 12.5", 0),
    ],
)
def test_only_the_right_number_alone_is_paid(loop: ModuleType, answer: str, reward: float) -> None:
    assert loop.score(answer, 12.5) == reward


def test_it_plays_with_real_servers_and_updates(tmp_path: Path) -> None:
    sizes = ("--tasks", "4", "--held-out", "2", "--tasks-per-step", "2", "--group-size", "4", "--steps", "2")
    done = subprocess.run(
        [warm.heavy(), str(EXAMPLE), *sizes, "--learning-rate", "1e-3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(steps) == 2
    for line in steps:
        match = re.search(r"(\d+) tool calls", line)
        assert match is not None
        assert int(match[1]) >= 4, "a model that knows its tools calls them in most of 8 episodes"
    learned = [float(match[1]) for line in steps if (match := re.search(r"ratio_max ([\d.]+)", line))]
    assert learned, done.stdout
    assert max(learned) > 1.001, "the second pass over a batch is under other weights than it was sampled by"
    assert re.search(r"held-out success \d\.\d\d -> \d\.\d\d", done.stdout)
