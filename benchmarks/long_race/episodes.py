"""The episodes that every side of benchmarks/long_steps.py plays: the same number of tokens in every place.

Weights are random, so nothing that is sampled calls a tool. Every side samples the number of tokens that the
terms say and then replaces them by a scripted turn of the same length: words and a call of the tool `read`,
or an answer in the last turn. The call itself says how long it takes, so that no side needs another way to
slow its tool down. Parsing, tool calls, rendering and learning work on the scripted tokens. An
engine's prefix cache does not contain them: it computes them with the next prompt, on all sides.
"""

import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

TERMS_VARIABLE = "LONG_RACE_TERMS"
"""Where a side and its child processes find the file with the terms."""

LORA_RANK = 16
LORA_ALPHA = 32


@dataclass(frozen=True, slots=True)
class LongTerms:
    """What every side plays and how it learns."""

    folder: str
    """Scratch folder of this side."""
    model: str
    """A folder with weights and tokenizer."""
    device: str
    dtype: str
    tuning: str
    latencies: tuple[int, ...]
    """Milliseconds of a tool call, one entry per step."""
    memory_share: float
    """Share of the GPU for vLLM's weights and cache."""
    tokens_per_microbatch: int
    """turnwise: tokens per micro-batch; 0: found from the memory plan."""
    rows: int
    """TRL: episodes per micro-batch."""
    num_tasks: int = 16
    group_size: int = 8
    prompt_tokens: int = 2500
    num_turns: int = 6
    sampled_tokens: int = 300
    observed_tokens: int = 700
    num_servers: int = 1
    """Servers of every episode, one process each; only the first one's tool is called."""
    engine: str = "vllm"
    """turnwise: the engine's kind."""
    settings: tuple[str, ...] = ()
    """turnwise: further settings of its recipe."""

    @property
    def num_episodes(self) -> int:
        return self.num_tasks * self.group_size

    @property
    def tail_tokens(self) -> int:
        """Number of tokens after the prompt; nothing is observed after the last turn."""
        return self.num_turns * self.sampled_tokens + (self.num_turns - 1) * self.observed_tokens

    @property
    def model_len(self) -> int:
        return self.prompt_tokens + self.tail_tokens + 64

    def turn_of(self, num_prompt_tokens: int) -> int:
        """The turn, counted from 0, that follows a prompt of this length."""
        turn, rest = divmod(
            num_prompt_tokens - self.prompt_tokens, self.sampled_tokens + self.observed_tokens
        )
        if rest or not 0 <= turn < self.num_turns:
            raise ValueError(f"a prompt has {num_prompt_tokens} tokens, which begins none of the turns")
        return turn

    @property
    def script_file(self) -> Path:
        return Path(self.model, "script.json")

    @property
    def delay_file(self) -> Path:
        return Path(self.folder, "delay")

    @property
    def latency(self) -> int:
        """Milliseconds of a tool call in the current step."""
        return int(self.delay_file.read_text())

    def set_latency(self, milliseconds: int) -> None:
        fresh = self.delay_file.with_suffix(".new")
        fresh.write_text(str(milliseconds))
        fresh.rename(self.delay_file)


def read_terms() -> LongTerms:
    found = json.loads(Path(os.environ[TERMS_VARIABLE]).read_text())
    return LongTerms(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    )


class Script:
    """Scripted turns with an exact number of tokens."""

    def __init__(self, terms: LongTerms, tokenizer: Any) -> None:
        self._terms = terms
        self._encode = lambda text: list(tokenizer.encode(text, add_special_tokens=False))
        self._end = tokenizer.eos_token
        self.words = single_token_words(tokenizer)

    def turn(self, number: int, turn: int) -> list[int]:
        """Token ids of one turn; `number` makes it differ from all others."""
        call = json.dumps({"name": "read", "arguments": {"page": turn, "milliseconds": self._terms.latency}})
        is_last = turn == self._terms.num_turns - 1
        tail = self._end if is_last else f"\n<tool_call>\n{call}\n</tool_call>{self._end}"
        return self._padded("Notes:", tail, self._terms.sampled_tokens, random.Random(number))

    def _padded(self, head: str, tail: str, num_tokens: int, source: random.Random) -> list[int]:
        num_words = num_tokens - len(self._encode(head + tail))
        ids = self._encode(head + self.some(source, num_words) + tail)
        if len(ids) != num_tokens:
            raise ValueError(f"a scripted turn has {len(ids)} tokens, not {num_tokens}")
        return ids

    def some(self, source: random.Random, count: int) -> str:
        """Words, one token each, with a space before each."""
        if count < 0:
            raise ValueError(f"sampled_tokens is too small by {-count}")
        return "".join(source.choices(self.words, k=count))


def single_token_words(tokenizer: Any) -> list[str]:
    """` word` for every lower-case word of the vocabulary that is one token and is encoded as that token."""
    found = []
    for token, number in tokenizer.get_vocab().items():
        text = tokenizer.convert_tokens_to_string([token])
        is_word = text.startswith(" ") and text[1:].isalpha() and text[1:].isascii() and text.islower()
        if is_word and tokenizer.encode(text, add_special_tokens=False) == [number]:
            found.append(text)
    return sorted(found)


def reward_of(token_ids: Sequence[int]) -> float:
    """A reward that differs within a group: the share of even ids."""
    return sum(token % 2 == 0 for token in token_ids) / max(len(token_ids), 1)


class Steps:
    """Prints the figures of every step as a JSON line, and gives the servers the next step's latency."""

    def __init__(self, terms: LongTerms) -> None:
        self._terms = terms
        self._latencies = iter(terms.latencies)
        self.begin()

    def begin(self) -> None:
        self._latency = next(self._latencies, 0)
        self._terms.set_latency(self._latency)
        self._began = time.time()

    def end(self, **figures: float) -> None:
        now = time.time()
        common = {"latency": self._latency, "began": self._began, "seconds": now - self._began}
        tell(step={**common, **figures})
        self.begin()


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)
