"""A radix tree of computed keys and values, looked up by the longest known prefix.

A node holds some tokens with their keys and values; its ancestors hold the tokens before them.

    root ── system prompt + tool schemas ─┬─ task A ─┬─ turn 1 of member 1 ── turn 2
                                          │          └─ turn 1 of member 2
                                          └─ task B
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, slots=True)
class KVShape:
    """The size, dtype and device of one token's keys and values."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize

    def empty(self, num_tokens: int) -> torch.Tensor:
        """Uninitialised memory for one sequence: [layer, key or value, head, token, dim]."""
        size = (self.num_layers, 2, self.num_kv_heads, num_tokens, self.head_dim)
        return torch.empty(size, dtype=self.dtype, device=self.device)


@dataclass(eq=False, slots=True)
class Node:
    """Some tokens of a sequence; `kv` is computed for the first `num_computed` of them."""

    token_ids: tuple[int, ...]
    start: int
    """The number of tokens before this node's first."""
    parent: "Node | None"
    kv: torch.Tensor | None = None
    num_computed: int = 0
    num_users: int = 0
    """Admitted requests whose path includes this node; it is not evicted while there are any."""
    last_used: int = 0
    children: "dict[int, Node]" = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + len(self.token_ids)

    @property
    def is_complete(self) -> bool:
        return self.num_computed == len(self.token_ids)

    def path(self) -> "Iterator[Node]":
        """Yield this node and its ancestors, deepest first, without the empty root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def shared_length(ids: Sequence[int], start: int, other: Sequence[int]) -> int:
    """The number of leading tokens of `other` that equal `ids` from `start` on."""
    if tuple(ids[start : start + len(other)]) == other:  # the common case, compared in C
        return len(other)
    length = min(len(other), len(ids) - start)
    return next((i for i in range(length) if ids[start + i] != other[i]), length)


class PrefixTree:
    """All cached prefixes. The owner keeps `num_tokens` within its memory budget."""

    def __init__(self, shape: KVShape) -> None:
        self._shape = shape
        self._clock = 0
        self.clear()

    def clear(self) -> None:
        """Drop everything: the weights changed, or the computed values cannot be trusted."""
        self.root = Node((), 0, None)
        self.num_tokens = 0
        self.num_pinned = 0

    def find(self, ids: Sequence[int]) -> tuple[Node, int]:
        """The deepest node that shares tokens with `ids`, and the number of leading ids in the tree."""
        node, depth = self.root, 0
        while depth < len(ids) and (child := node.children.get(ids[depth])) is not None:
            length = shared_length(ids, depth, child.token_ids)
            depth += length
            node = child
            if length < len(child.token_ids):
                break
        return node, depth

    def num_unpinned(self, ids: Sequence[int]) -> int:
        """The number of tokens that admitting a request for `ids` would newly pin."""
        node, depth = self.find(ids)
        pinned = next((min(ancestor.end, depth) for ancestor in node.path() if ancestor.num_users), 0)
        return len(ids) - pinned

    def insert(self, ids: Sequence[int]) -> Node:
        """Return the node that ends where `ids` end. Missing tokens are added as an uncomputed node."""
        node, depth = self.find(ids)
        if depth < node.end:
            node = self._split(node, depth)
        self._touch(node)
        return self._add(node, tuple(ids[depth:]), None) if depth < len(ids) else node

    def store(self, anchor: Node, ids: Sequence[int], kv: torch.Tensor, *, limit: int) -> None:
        """Store the keys and values of `ids`, which start at `anchor`'s end, unless the tree has them.

        Others are evicted until at most `limit` tokens are held; if that is impossible, nothing is stored.
        """
        node, depth = anchor, 0
        while depth < len(ids) and (child := node.children.get(ids[depth])) is not None:
            length = shared_length(ids, depth, child.token_ids)
            if not child.is_complete:
                return  # a request is about to compute these itself
            node = child if length == len(child.token_ids) else self._split(child, child.start + length)
            depth += length
        self._touch(node)
        self.pin(node)
        has_room = self.shrink(limit - (len(ids) - depth))
        self.unpin(node)
        if has_room and depth < len(ids):
            self._add(node, tuple(ids[depth:]), kv[:, :, :, depth : len(ids)].clone())

    def pin(self, node: Node) -> None:
        for ancestor in node.path():
            if not ancestor.num_users:
                self.num_pinned += len(ancestor.token_ids)
            ancestor.num_users += 1

    def unpin(self, node: Node) -> None:
        """Release a path. Nodes that are not fully computed and that no request uses are removed."""
        for ancestor in tuple(node.path()):
            ancestor.num_users -= 1
            if not ancestor.num_users:
                self.num_pinned -= len(ancestor.token_ids)
                if not ancestor.is_complete:
                    self._remove(ancestor)

    def forget(self, node: Node) -> None:
        """Remove the node and its ancestors up to the first that is pinned or has other children."""
        for ancestor in tuple(node.path()):
            if ancestor.num_users or ancestor.children:
                return
            self._remove(ancestor)

    def shrink(self, num_tokens: int) -> bool:
        """Evict the least recently used until at most `num_tokens` are held; False if that is impossible."""
        while self.num_tokens > num_tokens:
            idle = (n for n in self._nodes() if not n.children and not n.num_users)
            oldest = min(idle, key=lambda n: n.last_used, default=None)
            if oldest is None:
                return False
            self._remove(oldest)
        return True

    def _nodes(self) -> Iterator[Node]:
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            yield node

    def _touch(self, node: Node) -> None:
        self._clock += 1
        for ancestor in node.path():
            ancestor.last_used = self._clock

    def _add(self, parent: Node, ids: tuple[int, ...], kv: torch.Tensor | None) -> Node:
        node = Node(ids, parent.end, parent, kv, len(ids) if kv is not None else 0, last_used=self._clock)
        parent.children[ids[0]] = node
        self.num_tokens += len(ids)
        return node

    def _remove(self, node: Node) -> None:
        assert node.parent is not None
        assert not node.children
        assert not node.num_users
        del node.parent.children[node.token_ids[0]]
        node.kv = None
        self.num_tokens -= len(node.token_ids)

    def _split(self, node: Node, depth: int) -> Node:
        """Split a node at `depth` and return the upper half.

        The lower half stays the same object: requests refer to the node in which their path ends.
        """
        cut = depth - node.start
        upper = Node(node.token_ids[:cut], node.start, node.parent, None, min(node.num_computed, cut))
        upper.num_users, upper.last_used = node.num_users, node.last_used
        assert node.parent is not None
        node.parent.children[upper.token_ids[0]] = upper
        upper.children[node.token_ids[cut]] = node
        if node.kv is not None:  # copies, so that evicting one half frees its memory
            upper.kv = node.kv[:, :, :, :cut].clone()
            node.kv = node.kv[:, :, :, cut:].clone()
        node.parent, node.start = upper, depth
        node.token_ids, node.num_computed = node.token_ids[cut:], max(0, node.num_computed - cut)
        return upper

    def room_for(self, node: Node) -> torch.Tensor:
        """The memory for the node's keys and values, allocated on first use."""
        if node.kv is None:
            node.kv = self._shape.empty(len(node.token_ids))
        return node.kv
