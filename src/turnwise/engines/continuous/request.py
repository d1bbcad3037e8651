"""One request on its way through the engine: what was asked, what was sampled so far, where its keys are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnwise.engines.continuous.sampler import Draw, stream_key, uniform
from turnwise.engines.continuous.tree import Node
from turnwise.types import Completion, Finish, Sampling


@dataclass(eq=False, slots=True)
class Request:
    """`ids` is the prompt and what was sampled so far; keys and values exist for the first `num_fed` ids.

    ids:   [ in tree nodes, up to `anchor`'s end ][ in the request's own row ][ next to be fed ]
    """

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    key: bytes
    ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    num_fed: int = 0
    policy_version: int = 0
    is_cancelled: bool = False
    """Set by the event loop, read by the worker between steps."""

    @property
    def own_length(self) -> int:
        """The longest its row can become if all of the prompt but its last token stays in the tree."""
        return 1 + self.sampling.max_tokens

    @property
    def num_sampled(self) -> int:
        return len(self.ids) - len(self.prompt_ids)

    def draw(self) -> Draw:
        return Draw(uniform(self.key, len(self.ids)), self.sampling.temperature, self.sampling.top_p)

    def take(self, token_id: int, logprob: float) -> Finish | None:
        """Append a sampled token. Return why it was the last, or None if it was not."""
        self.ids.append(token_id)
        self.logprobs.append(logprob)
        if token_id in self.sampling.stop_ids:
            return Finish.STOP
        return Finish.LENGTH if self.num_sampled >= self.sampling.max_tokens else None

    def completion(self, finish: Finish) -> Completion:
        token_ids = tuple(self.ids[len(self.prompt_ids) :])
        return Completion(token_ids, tuple(self.logprobs), finish, self.policy_version)


@dataclass(eq=False, slots=True)
class Admitted:
    """A request with a path in the tree, pinned up to `anchor`; once it is running it also has a row."""

    request: Request
    anchor: Node


def new_request(prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Request:
    ids = [int(token) for token in prompt_ids]
    return Request(tuple(ids), sampling, stream_key(seed, ids), ids)
