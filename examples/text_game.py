"""An environment of your own that is not MCP: a text game, and a small model that learns it on a CPU.

    python examples/text_game.py

docs/guides/environments.md explains the class.
"""

import re

import turnwise as tw


class GuessTheNumber:
    """The model has four turns to find a number from 1 to 8; the game says `higher` or `lower`."""

    def reset(self, task: tw.Task) -> str:
        self.number, self.distance = task.seed, 8
        return "Guess my number from 1 to 8. Answer with the number only."

    def step(self, said: str | list[tw.ToolCall]) -> tuple[str, bool]:
        digit = re.search(r"\d", said) if isinstance(said, str) else None
        if digit is None:
            return "Say a number.", False
        guess = int(digit[0])
        self.distance = min(self.distance, abs(guess - self.number))
        if guess == self.number:
            return "right", True
        return ("higher" if guess < self.number else "lower"), False

    def score(self) -> dict[str, float]:
        return {"outcome": float(self.distance == 0), "close": 1 - self.distance / 8}

    @staticmethod
    def tasks() -> list[tw.Task]:
        return [tw.Task(id=f"number-{number}", seed=number, max_turns=4) for number in range(1, 9)]


SETTINGS = {
    "run.num_steps": 20,
    "rollout.tokens_per_turn": 8,
    "rollout.tokens_per_episode": 256,
    "rollout.dynamic_sampling": False,  # eight tasks, and each step plays all of them
    "rollout.lockstep": True,  # the same figures in every run
    "policy.tuning": "full",  # the model has only 2.6 million parameters
    "optimizer.learning_rate": 3e-4,
}

if __name__ == "__main__":
    rewards = [tw.outcome(), tw.weighted("environment.close", 0.3)]
    run = tw.train(environment=GuessTheNumber, rewards=rewards, settings=SETTINGS)
    success = [step["success/rate"] or 0.0 for step in run.metrics]
    first, last = sum(success[:5]) / 5, sum(success[-5:]) / 5
    print(f"found: {first:.0%} in the first five steps, {last:.0%} in the last five")
