"""Continuous batching: one forward pass per step for all running requests.

A request is admitted when there is memory for all of it. The uncached part of its prompt is computed in
chunks while other requests decode. Then it joins the running rows until its last token.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from turnwise.engines.continuous.attention import AttentionStep, CacheSegment, Write, fresh_bias, row_bias
from turnwise.engines.continuous.request import Admitted, Request
from turnwise.engines.continuous.rows import CacheRows, rounded
from turnwise.engines.continuous.sampler import sample
from turnwise.engines.continuous.tree import KVShape, Node, PrefixTree
from turnwise.types import Completion
from turnwise.types.protocols import EngineDown

SHARED_LENGTH = 64
"""Shorter shared nodes are cheaper to copy into each row once than to attend to separately in every layer."""

LONE_LENGTH = 1024
"""A node this long stays in the tree even for one row: copied, it would lengthen all rows of the block."""

Outcome = tuple[Request, Completion | EngineDown]


@dataclass(slots=True)
class Counts:
    """Counts since the engine started; all but `num_steps` are of tokens."""

    num_steps: int = 0
    num_decoded: int = 0
    num_prefilled: int = 0
    num_reused: int = 0
    """Prompt tokens whose keys and values were cached or were being computed for another request."""
    most_cached: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of a node that the next step computes."""

    node: Node
    start: int
    stop: int


class Scheduler:
    """Owns the model and all memory for keys and values. Used from one thread only."""

    def __init__(
        self, model: Any, shape: KVShape, *, max_batch: int, cache_tokens: int, prefill_chunk: int
    ) -> None:
        self._model = model
        self._device = shape.device
        self._max_batch = max_batch
        self._cache_tokens = cache_tokens
        self._prefill_chunk = prefill_chunk
        self._tree = PrefixTree(shape)
        self._rows = CacheRows(shape)
        self._waiting: deque[Request] = deque()
        self._prefilling: list[Admitted] = []
        self._running: list[Admitted] = []
        self.counts = Counts()
        self.policy_version = 0

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self.is_busy)

    @property
    def is_busy(self) -> bool:
        """Whether a request has been admitted and is not finished."""
        return bool(self._prefilling or self._running)

    @property
    def num_cached(self) -> int:
        """Tokens for which memory is allocated, in the tree and in the rows."""
        return self._tree.num_tokens + self._rows.num_tokens

    def submit(self, request: Request) -> None:
        self._waiting.append(request)

    def forget(self) -> None:
        """Drop all keys and values."""
        assert not self.is_busy
        self._tree.clear()
        self._rows.free()

    def abort(self) -> list[Request]:
        """Drop all admitted requests and all caches; return the requests for the caller to fail."""
        lost = [sequence.request for sequence in (*self._prefilling, *self._running)]
        self._prefilling, self._running = [], []
        self.forget()
        return lost

    def drain(self) -> list[Request]:
        """Drop and return the requests that were not admitted."""
        lost = list(self._waiting)
        self._waiting.clear()
        return lost

    def step(self, *, is_admitting: bool) -> list[Outcome]:
        """Run one forward pass over all running rows and the next prompt chunks; return finished requests."""
        self._drop_cancelled()
        if is_admitting:
            self._admit()
        self._join()
        chunks = self._next_chunks()
        if not self._running and not chunks:
            return []
        logits = self._forward(chunks)
        for chunk in chunks:
            chunk.node.num_computed = chunk.stop
        self.counts.num_steps += 1
        self.counts.num_decoded += len(self._running)
        self.counts.num_prefilled += sum(chunk.stop - chunk.start for chunk in chunks)
        self.counts.most_cached = max(self.counts.most_cached, self.num_cached)
        return self._take(logits) if self._running else []

    # --- admission ---------------------------------------------------------------------------------------

    def _admit(self) -> None:
        while self._waiting and len(self._prefilling) + len(self._running) < self._max_batch:
            request = self._waiting[0]
            known = request.prompt_ids[:-1]  # the first decoding step feeds the last token, for its logits
            pinned = self._tree.num_pinned + self._tree.num_unpinned(known)
            length = rounded(request.own_length)
            if pinned + self._block_size(length) > self._cache_tokens:
                if self.is_busy:
                    return
                self._rows.free()
                assert pinned + length <= self._cache_tokens, "a request that cannot fit alone was let in"
            self._waiting.popleft()
            before = self._tree.num_tokens
            leaf = self._tree.insert(known)
            self._tree.pin(leaf)
            self.counts.num_reused += len(known) - (self._tree.num_tokens - before)
            self._tree.shrink(self._cache_tokens - self._rows.num_tokens)
            request.policy_version = self.policy_version
            self._prefilling.append(Admitted(request, leaf))

    def _block_size(self, length: int, *, num_more: int = 1) -> int:
        """The block's tokens if all admitted requests and `num_more` others had rows of at least `length`."""
        num_rows = len(self._prefilling) + len(self._running) + num_more
        needed = max([length, *(rounded(sequence.request.own_length) for sequence in self._prefilling)])
        return max(self._rows.num_rows, num_rows) * max(self._rows.length, needed)

    def _join(self) -> None:
        """Move requests whose prompt is fully computed to the running rows."""
        ready = [
            sequence
            for sequence in self._prefilling
            if all(node.is_complete for node in sequence.anchor.path())
        ]
        for sequence in ready:
            request = sequence.request
            anchor = self._choose_anchor(sequence.anchor)
            length = rounded(len(request.prompt_ids) - anchor.end + request.sampling.max_tokens)
            if self._tree.num_pinned + self._block_size(length, num_more=0) > self._cache_tokens:
                anchor, length = sequence.anchor, rounded(request.own_length)
            self._make_row(length)
            row = len(self._running)
            for node in sequence.anchor.path():
                if node.start < anchor.end:
                    break
                assert node.kv is not None
                self._rows.write(row, node.start - anchor.end, node.kv)
            self._tree.pin(anchor)
            self._tree.unpin(sequence.anchor)
            sequence.anchor = anchor
            request.num_fed = len(request.prompt_ids) - 1
            self._prefilling.remove(sequence)
            self._running.append(sequence)

    def _choose_anchor(self, leaf: Node) -> Node:
        """The deepest node to attend to in the tree; the nodes after it are copied into the row."""
        for node in leaf.path():
            size = len(node.token_ids)
            if size >= LONE_LENGTH or (size >= SHARED_LENGTH and node.num_users > 1):
                return node
        return self._tree.root

    def _make_row(self, length: int) -> None:
        """Make room for one more row of at least `length`; double the number of rows if memory allows."""
        used = len(self._running)
        length = max(length, self._rows.length)
        if used + 1 > self._rows.num_rows or length > self._rows.length:
            roomy = min(self._max_batch, max(4, 2 * used))
            later = len(self._prefilling) + used
            fits = self._tree.num_pinned + max(roomy, later) * length <= self._cache_tokens
            num_rows = max(used + 1, roomy) if fits else used + 1
            self._tree.shrink(self._cache_tokens - max(num_rows, self._rows.num_rows) * length)
            self._rows.reserve(num_rows, length, num_used=used)

    # --- forward pass ------------------------------------------------------------------------------------

    def _next_chunks(self) -> list[Chunk]:
        """The next uncomputed tokens of each prompt, oldest request first, up to `prefill_chunk` in all."""
        chunks: dict[Node, Chunk] = {}
        budget = self._prefill_chunk
        for sequence in self._prefilling:
            todo = [node for node in sequence.anchor.path() if not node.is_complete]
            if not todo or todo[-1] in chunks:
                continue
            node = todo[-1]
            stop = min(len(node.token_ids), node.num_computed + budget)
            chunks[node] = Chunk(node, node.num_computed, stop)
            budget -= stop - node.num_computed
            if not budget:
                break
        return list(chunks.values())

    def _forward(self, chunks: list[Chunk]) -> torch.Tensor:
        requests = [sequence.request for sequence in self._running]
        ids = [request.ids[request.num_fed] for request in requests]
        positions = [request.num_fed for request in requests]
        for chunk in chunks:
            ids.extend(chunk.node.token_ids[chunk.start : chunk.stop])
            positions.extend(range(chunk.node.start + chunk.start, chunk.node.start + chunk.stop))
        device = self._device
        output = self._model(
            input_ids=torch.tensor([ids], device=device),
            position_ids=torch.tensor([positions], device=device),
            # transformers takes a 4-D mask as final, so it builds none for the packed sequence.
            attention_mask=torch.empty((1, 1, 1, 1), device=device),
            use_cache=False,
            logits_to_keep=torch.arange(len(requests), device=device),
            cascade_step=self._plan(chunks, len(ids)),
        )
        logits: torch.Tensor = output.logits[0]
        return logits

    def _plan(self, chunks: list[Chunk], num_tokens: int) -> AttentionStep:
        ends = [sequence.request.num_fed - sequence.anchor.end for sequence in self._running]
        count, longest = len(ends), max(ends, default=-1) + 1
        writes = []
        first = count
        for chunk in chunks:
            length = chunk.stop - chunk.start
            writes.append(Write(self._tree.room_for(chunk.node), chunk.start, first, length))
            first += length
        return AttentionStep(
            num_rows=count,
            rows=self._rows.block[:, :, :count, :, :longest],
            row_ends=torch.tensor(ends, dtype=torch.long, device=self._device),
            row_bias=row_bias([end + 1 for end in ends], longest, self._device),
            segments=tuple(self._segments(chunks, num_tokens)),
            writes=tuple(writes),
            fresh_bias=fresh_bias([write.length for write in writes], self._device),
        )

    def _segments(self, chunks: list[Chunk], num_tokens: int) -> Iterator[CacheSegment]:
        """Yield every node in use, with the tokens of the step that attend to all its computed tokens."""
        seers: dict[Node, list[int]] = {}
        for row, sequence in enumerate(self._running):
            for node in sequence.anchor.path():
                seers.setdefault(node, []).append(row)
        first = len(self._running)
        for chunk in chunks:
            tokens = range(first, first + chunk.stop - chunk.start)
            first = tokens.stop
            for node in chunk.node.path():
                if node is not chunk.node or chunk.start:
                    seers.setdefault(node, []).extend(tokens)
        for node, tokens_seen in seers.items():
            assert node.kv is not None
            is_all = len(tokens_seen) == num_tokens
            index = None if is_all else torch.tensor(tokens_seen, device=self._device)
            yield CacheSegment(node.kv[:, :, :, : node.num_computed], index)

    # --- completion --------------------------------------------------------------------------------------

    def _take(self, logits: torch.Tensor) -> list[Outcome]:
        """Sample one token per row; remove finished rows and return their outcomes."""
        ids, logprobs = sample(logits, [sequence.request.draw() for sequence in self._running])
        outcomes: list[Outcome] = []
        left = []
        for row, sequence in enumerate(self._running):
            request = sequence.request
            request.num_fed += 1
            if not math.isfinite(logprobs[row]):
                outcomes.append((request, EngineDown("the model gave logits that are not numbers")))
                left.append(row)
            elif (finish := request.take(ids[row], logprobs[row])) is not None:
                outcomes.append((request, request.completion(finish)))
                self._keep(row)
                left.append(row)
        failed = {id(request) for request, outcome in outcomes if isinstance(outcome, EngineDown)}
        for row in reversed(left):
            self._leave(row, is_sound=id(self._running[row].request) not in failed)
        return outcomes

    def _keep(self, row: int) -> None:
        """Store a finished row in the tree: it is the prefix of its episode's next turn."""
        sequence = self._running[row]
        own = sequence.request.ids[sequence.anchor.end : sequence.request.num_fed]
        limit = self._cache_tokens - self._rows.num_tokens
        self._tree.store(sequence.anchor, own, self._rows.read(row, len(own)), limit=limit)

    def _leave(self, row: int, *, is_sound: bool = True) -> None:
        sequence, last = self._running[row], self._running[-1]
        if not is_sound:
            self._rows.clear(row)
        self._rows.move(len(self._running) - 1, row, last.request.num_fed - last.anchor.end)
        self._running[row] = last
        self._running.pop()
        self._tree.unpin(sequence.anchor)
        if not is_sound:  # neither the row nor the nodes it was copied from can be trusted
            node, _ = self._tree.find(sequence.request.prompt_ids)
            self._tree.forget(node)

    def _drop_cancelled(self) -> None:
        self._waiting = deque(request for request in self._waiting if not request.is_cancelled)
        for sequence in [sequence for sequence in self._prefilling if sequence.request.is_cancelled]:
            self._prefilling.remove(sequence)
            self._tree.unpin(sequence.anchor)
        for row in reversed(range(len(self._running))):
            if self._running[row].request.is_cancelled:
                self._leave(row)
