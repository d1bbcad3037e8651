"""Train on an MCP server of your own with a reward of your own: python examples/own_server.py

The included model knows a tool named fmp_get_quote, so it learns in about a minute on a CPU. A larger model
learns tools of any name.
"""

from pathlib import Path

from quotes.server import PRICES

import turnwise as tw


def right_price(trajectory: tw.Trajectory) -> float:
    asked = next(symbol for symbol in PRICES if symbol in trajectory.task.prompt[0].content)
    return float(trajectory.final_text.strip() == f"{PRICES[asked]:g}")


if __name__ == "__main__":
    run = tw.train(
        model="embedded",
        mcp=Path(__file__).parent / "quotes" / "mcp.json",
        tasks=[
            tw.Task(prompt=f"What is the latest price of {symbol}? Only the number.") for symbol in PRICES
        ],
        rewards=[right_price],
        settings={"run.num_steps": 6, "policy.tuning": "full", "optimizer.learning_rate": 2e-4},
        on_step=lambda figures: print(f"reward {figures['reward/mean']:.2f}"),
    )
    tw.print_episode(run.episodes(step=5)[0])
