"""The whole algorithm on one page: GRPO over episodes played with real MCP servers.

    python examples/grpo_loop.py                          # the embedded model, on a CPU
    python examples/grpo_loop.py --model Qwen/Qwen3-0.6B  # any causal model of transformers

A step leases tools, plays every task a few times, scores the answers, subtracts the mean score of the group,
takes clipped policy-gradient steps on the sampled tokens, and gives the new weights to the sampler. turnwise
starts the servers, renders prompts as ids and samples; all of the learning is written out here.
`turnwise train` does the same with shared prefixes, health checks, checkpoints and the other algorithms.
"""

import argparse
import asyncio
import copy
import json
import os
import random
import re
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads share the cores with the server

import torch

from turnwise.config import ModelConfig
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.models.chat import RenderedChat, load_tokenizer, open_chat
from turnwise.setup.bench import load_model
from turnwise.types import Fault, Finish, Message, Sampling, ToolCall
from turnwise.worlds.market.services import DEFAULT_FILE

SERVERS = ("fmp", "polygon", "tavily", "python", "slack")  # real processes that speak MCP over stdio
TOOLS = (  # offered to the model; the tasks need two of them, the others are distractors
    *("fmp_get_quote", "fmp_search_ticker", "polygon_get_previous_close", "tavily_qna_search"),
    *("execute_python", "send_slack_message", "get_slack_channel_history"),
)
MAX_TURNS = 5
TOKENS_PER_TURN = 96
CLIP_LOW, CLIP_HIGH = 0.2, 0.28

FIGURES = {"latest price": "price", "day high": "dayHigh", "day low": "dayLow", "volume": "volume"}
KINDS = (  # one call; two calls, where the second needs the result of the first
    "Look up the FMP quote of {symbol}. What is its {what}? Answer with the number only.",
    "Search FMP for {name}, take its quote, and tell me the {what}. Answer with the number only.",
)


# --- tasks: a question and the right number, from the server's own data ------------------------------------


@dataclass(frozen=True)
class Task:
    name: str
    question: str
    truth: float


async def make_tasks(
    pool: Pool, num_train: int, num_held_out: int, seed: int
) -> tuple[list[Task], list[Task]]:
    """Return training tasks and held-out tasks about other companies; the kinds alternate."""
    rng = random.Random(seed)
    async with pool.lease(SERVERS, "make tasks") as toolbox:

        async def ask(tool: str, **arguments: Any) -> Any:
            [result] = await toolbox.call([ToolCall("", tool, arguments)])
            return json.loads(result.content)

        async def task(number: int, companies: list[dict[str, str]]) -> Task:
            company, what = rng.choice(companies), rng.choice(list(FIGURES))
            quote = await ask("fmp_get_quote", symbol=company["symbol"])
            question = KINDS[number % len(KINDS)].format(**company, what=what)
            return Task(f"task-{number}", question, float(quote[FIGURES[what]]))

        listed = await ask("fmp_get_market_gainers", limit=20) + await ask("fmp_get_market_losers", limit=20)
        rng.shuffle(listed)
        train = [await task(number, listed[10:]) for number in range(num_train)]
        return train, [await task(number, listed[:10]) for number in range(num_held_out)]


def score(answer: str, truth: float) -> float:
    """Return 1 if the answer is the right number and nothing else, otherwise 0."""
    match = re.fullmatch(r"\$?(-?\d[\d,]*(?:\.\d+)?)", answer.strip())
    return float(match is not None and abs(float(match[1].replace(",", "")) - truth) < 0.005)


# --- one episode: prompt → tokens → calls → results → tokens … until an answer -----------------------------


@dataclass(frozen=True)
class Episode:
    """All tokens that were read and written, and the reward.

    ids       [prompt..][completion 0][tool output][completion 1]
    mask       0......0  1..........1  0.........0  1..........1    1: chosen by the model
    logprobs   0......0  as sampled    0.........0  as sampled
    """

    ids: list[int]
    mask: list[int]
    logprobs: list[float]
    num_calls: int
    reward: float


async def play(
    task: Task, engine: TransformersEngine, chat: RenderedChat, pool: Pool, episode_id: str, seed: int
) -> Episode | None:
    """Play one task; None if the tools failed: that is not the model's fault and must not become a reward."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    num_calls, reward = 0, 0.0
    sampling = Sampling(max_tokens=TOKENS_PER_TURN, temperature=1.0, stop_ids=chat.stop_ids)
    async with pool.lease(SERVERS, episode_id, allow=TOOLS) as toolbox:
        unread = chat.open([Message("user", task.question)], toolbox.tools)
        for turn in range(MAX_TURNS):
            # What the model reads is never trained.
            ids += unread
            mask += [0] * len(unread)
            logprobs += [0.0] * len(unread)
            said = await engine.complete(ids, sampling, seed * MAX_TURNS + turn)
            parsed = chat.parse(said.token_ids, ids, is_cut=said.finish is Finish.LENGTH)
            # Keep the sampled ids: encoding the text again may give other ids.
            ids += said.token_ids
            mask += [1] * len(said.token_ids)
            logprobs += said.logprobs
            if said.finish is Finish.LENGTH:
                break
            if parsed.error is not None:
                unread = chat.extend(ids, [("", f"error: {parsed.error.message}")])
            elif parsed.calls:
                results = await toolbox.call(parsed.calls)
                num_calls += len(results)
                if any(result.fault is Fault.INFRA for result in results):
                    return None
                pairs = zip(parsed.calls, results, strict=True)
                unread = chat.extend(ids, [(call.name, result.content) for call, result in pairs])
            else:
                # An answer without any call was guessed.
                reward = score(parsed.text, task.truth) if num_calls else 0.0
                break
    return Episode(ids, mask, logprobs, num_calls, reward)


async def play_groups(
    tasks: list[Task], size: int, engine: TransformersEngine, chat: RenderedChat, pool: Pool, batch: int
) -> list[list[Episode]]:
    """Play every task `size` times, all concurrently: while one waits for a tool, the others are sampled."""

    async def member(task: Task, number: int) -> Episode | None:
        seed = batch * 1_000 + number
        return await play(task, engine, chat, pool, f"{batch}/{task.name}/{number}", seed)

    async with asyncio.TaskGroup() as running:
        groups = [[running.create_task(member(task, n)) for n in range(size)] for task in tasks]
    played = [[future.result() for future in group] for group in groups]
    # A mean over fewer members would be a different baseline, so incomplete groups are left out.
    return [[member for member in group if member is not None] for group in played if None not in group]


# --- learning ----------------------------------------------------------------------------------------------


def group_advantages(groups: list[list[Episode]]) -> list[tuple[Episode, float]]:
    """Pair each episode with its reward minus the mean of its group; groups of equal rewards are left out."""
    pairs = []
    for group in groups:
        mean = sum(episode.reward for episode in group) / len(group)
        pairs += [(episode, episode.reward - mean) for episode in group if episode.reward != mean]
    return pairs


def clipped_loss(policy: Any, episode: Episode, advantage: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of −min(r·A, clip(r)·A) over the model's own tokens, and their ratios r = π_θ / μ."""
    ids_T = torch.tensor(episode.ids, device=policy.device)
    own_N = torch.tensor(episode.mask, device=policy.device).nonzero()[:, 0]
    # The logits at position t are those of token t + 1; the head is applied only where needed.
    logits_NV = policy(ids_T[None], logits_to_keep=own_N - 1).logits[0].float()
    logprobs_N = logits_NV.log_softmax(-1).gather(-1, ids_T[own_N, None])[:, 0]
    sampled_N = torch.tensor(episode.logprobs, device=policy.device)[own_N]
    ratio_N = (logprobs_N - sampled_N).exp()
    clipped_N = ratio_N.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    losses_N = -torch.minimum(ratio_N * advantage, clipped_N * advantage)
    return losses_N.sum(), ratio_N.detach()


def learn(
    policy: Any, optimizer: torch.optim.Optimizer, pairs: list[tuple[Episode, float]], num_passes: int
) -> dict[str, float]:
    """Take a few optimizer steps on one batch; in the first, ratios are 1 and the gradient is REINFORCE's."""
    # One denominator for all: a mean of means would give tokens of short episodes more weight.
    num_tokens = sum(sum(episode.mask) for episode, _ in pairs)
    norm, ratios = torch.tensor(0.0), [torch.ones(1)]
    for _ in range(num_passes):
        ratios = []
        for episode, advantage in pairs:
            loss, ratio_N = clipped_loss(policy, episode, advantage)
            loss = loss / num_tokens
            loss.backward()  # gradients accumulate: one episode at a time needs the least memory
            ratios.append(ratio_N)
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ratio_N = torch.cat(ratios)
    return {"gradient": float(norm), "ratio": float(ratio_N.mean()), "ratio_max": float(ratio_N.max())}


# --- the loop ----------------------------------------------------------------------------------------------


def success(groups: list[list[Episode]]) -> float:
    rewards = [episode.reward for group in groups for episode in group]
    return sum(rewards) / max(len(rewards), 1)


async def train(options: argparse.Namespace) -> None:
    chat = open_chat(load_tokenizer(options.model))
    policy = load_model(ModelConfig(path=options.model)).eval()  # no dropout, as in sampling
    optimizer = torch.optim.AdamW(policy.parameters(), lr=options.learning_rate, weight_decay=0.0)
    engine = TransformersEngine(copy.deepcopy(policy), max_batch=64)
    specs = [spec for spec in load(DEFAULT_FILE) if spec.name in SERVERS]
    async with Pool(specs, count_tokens=chat.count_tokens, special_tokens=chat.special_tokens) as pool:
        tasks, held_out = await make_tasks(pool, options.tasks, options.held_out, options.seed)
        before = success(await play_groups(held_out, 4, engine, chat, pool, -1))
        rng = random.Random(options.seed)
        for step in range(options.steps):
            drawn = rng.sample(tasks, options.tasks_per_step)
            groups = await play_groups(drawn, options.group_size, engine, chat, pool, step)
            num_calls = sum(episode.num_calls for group in groups for episode in group)
            print(f"step {step}: success {success(groups):.2f}, {num_calls} tool calls", end="", flush=True)
            pairs = group_advantages(groups)
            if pairs:
                figures = await asyncio.to_thread(learn, policy, optimizer, pairs, options.passes)
                await engine.publish(dict(policy.named_parameters()), step + 1)
                print("".join(f", {name} {value:.3f}" for name, value in figures.items()), flush=True)
            else:
                print(", all rewards in every group are equal: no update", flush=True)
        after = success(await play_groups(held_out, 4, engine, chat, pool, options.steps))
    await engine.close()
    print(f"held-out success {before:.2f} -> {after:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="GRPO over episodes with a real MCP server.")
    parser.add_argument("--model", default="embedded", help="embedded, smollm2, a folder or a hub name")
    parser.add_argument("--steps", type=int, default=20, help="number of batches")
    parser.add_argument("--tasks", type=int, default=200, help="training tasks, half of each kind")
    parser.add_argument("--held-out", type=int, default=24, help="held-out tasks")
    parser.add_argument("--tasks-per-step", type=int, default=8, help="groups per batch")
    parser.add_argument("--group-size", type=int, default=8, help="episodes per task")
    parser.add_argument("--passes", type=int, default=2, help="optimizer steps per batch")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(train(parser.parse_args()))


if __name__ == "__main__":
    main()
