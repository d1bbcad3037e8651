"""What the Python interface is tried on: the embedded model, a tool that it knows, and tasks in memory."""

from typing import Any

import turnwise as tw

PRICES = {"ACME": 12.5, "GLOBX": 30.25, "INTC": 7.75, "UMBR": 99.5}

SMALL: dict[str, Any] = {
    "run.num_steps": 2,
    "rollout.group_size": 4,
    "rollout.tokens_per_turn": 64,
    "rollout.tokens_per_episode": 1024,
    "rollout.lockstep": True,
    "policy.tuning": "full",
    "optimizer.learning_rate": 1e-4,
}


def fmp_get_quote(symbol: str) -> dict[str, Any]:
    """Latest quote of a stock."""
    return {"symbol": symbol, "price": PRICES[symbol], "volume": 1000}


def tasks() -> list[tw.Task]:
    question = "Look up the FMP quote of {}. What is its latest price? Answer with the number only."
    return [
        tw.Task(prompt=question.format(symbol), answer=price, max_turns=3) for symbol, price in PRICES.items()
    ]
