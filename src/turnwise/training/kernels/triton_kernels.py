"""Triton kernels for attention along the paths of a packed tree, tuned for Hopper GPUs.

A packed tree is stored depth first, so key j is visible to the queries j..stop(j) and to no others. A program
of the forward kernel loops over the key ranges on its query block's path. A program of the keys kernel loops
over the one query range that sees its key block. One launch covers the whole tree: no gathers, no merges.

Tensors are contiguous: queries [N, H, D], keys and values [P + N, K, D], where P tokens precede the row and
G = H / K query heads share a key head. `lse` and `delta` are [H, N] in float32. Powers are of 2: `scale2` is
the scale times log2(e).
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
ANY_KEY = tl.constexpr(2147483647)
"""The position of a query that sees every key of a range."""


@triton.jit
def _tile(source, rows, limit, column, WIDTH: tl.constexpr, D: tl.constexpr, IS_MASKED: tl.constexpr):
    """[rows, D] of a matrix with WIDTH columns; zero from row `limit` on if IS_MASKED."""
    places = source + rows.to(tl.int64)[:, None] * WIDTH + column + tl.arange(0, D)[None, :]
    if IS_MASKED:
        return tl.load(places, mask=(rows < limit)[:, None], other=0.0)
    else:  # noqa: RET505 (Triton compiles one branch of a constant condition only with its `else`)
        return tl.load(places)


@triton.jit
def _store(target, rows, limit, column, tile, WIDTH: tl.constexpr, D: tl.constexpr):
    places = target + rows.to(tl.int64)[:, None] * WIDTH + column + tl.arange(0, D)[None, :]
    tl.store(places, tile.to(target.dtype.element_ty), mask=(rows < limit)[:, None])


@triton.jit
def _forward_step(acc, total, peak, q, key, value, first, limit, at, column, scale2,
                  BN: tl.constexpr, IS_MASKED: tl.constexpr):  # fmt: skip
    """Add one block of keys to the running softmax. The descriptors read zeros past the last key."""
    k = key.load([first, column])
    scores = tl.dot(q, tl.trans(k))
    if IS_MASKED:
        places = first + tl.arange(0, BN)
        is_seen = (places[None, :] <= at[:, None]) & (places < limit)[None, :]
        scores = tl.where(is_seen, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, 1) * scale2)
    weights = tl.exp2(scores * scale2 - new_peak[:, None])
    fade = tl.exp2(peak - new_peak)
    total = total * fade + tl.sum(weights, 1)
    acc = acc * fade[:, None]
    v = value.load([first, column])
    acc = tl.dot(weights.to(v.dtype), v, acc)
    return acc, total, new_peak


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def forward_kernel(query, key, value, out, lse, blocks, ranges, shift, num_tokens, scale2,
                   H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   STAGES: tl.constexpr):  # fmt: skip
    """Outputs and log-sum-exps of one query block. `key` and `value` are TMA descriptors."""
    head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 5
    row, end, own = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    first_range, last_range = tl.load(block + 3), tl.load(block + 4)
    column = head // G * D
    rows = row + tl.arange(0, BM)
    q = _tile(query, rows, end, head * D, H * D, D, True)
    at = rows + shift
    acc = tl.zeros([BM, D], tl.float32)
    total = tl.zeros([BM], tl.float32)
    peak = tl.full([BM], float("-inf"), tl.float32)
    anywhere = tl.full([BM], ANY_KEY, tl.int32)
    for number in range(first_range, last_range):
        low, high = tl.load(ranges + number * 2), tl.load(ranges + number * 2 + 1)
        full = low + (high - low) // BN * BN
        for first in tl.range(low, full, BN, num_stages=STAGES):
            acc, total, peak = _forward_step(acc, total, peak, q, key, value, first, high, anywhere, column,
                                             scale2, BN, False)  # fmt: skip
        for first in tl.range(full, high, BN, num_stages=1):
            acc, total, peak = _forward_step(acc, total, peak, q, key, value, first, high, anywhere, column,
                                             scale2, BN, True)  # fmt: skip
    full = own + (row + shift + 1 - own) // BN * BN
    limit = tl.minimum(row + BM, end) + shift
    for first in tl.range(own, full, BN, num_stages=STAGES):
        acc, total, peak = _forward_step(acc, total, peak, q, key, value, first, limit, at, column,
                                         scale2, BN, False)  # fmt: skip
    for first in tl.range(full, limit, BN, num_stages=1):
        acc, total, peak = _forward_step(acc, total, peak, q, key, value, first, limit, at, column,
                                         scale2, BN, True)  # fmt: skip
    _store(out, rows, end, head * D, acc / total[:, None], H * D, D)
    tl.store(lse + head * num_tokens + rows, (peak + tl.log2(total)) * LN_2, mask=rows < end)


@triton.jit(do_not_specialize=["num_tokens"])
def delta_kernel(out, grad_out, delta, num_tokens, H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr):
    """Σ dO·O of every query and head."""
    head = tl.program_id(0)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    o = _tile(out, rows, num_tokens, head * D, H * D, D, True).to(tl.float32)
    g = _tile(grad_out, rows, num_tokens, head * D, H * D, D, True).to(tl.float32)
    tl.store(delta + head * num_tokens + rows, tl.sum(o * g, 1), mask=rows < num_tokens)


@triton.jit
def _keys_step(dk, dv, k, v, query, grad_out, lse, delta, first, limit, shift, at, head, num_tokens, scale2,
               H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, IS_MASKED: tl.constexpr):  # fmt: skip
    """Add one block of queries to the gradients of one block of keys and values."""
    rows = first + tl.arange(0, BM)
    q = _tile(query, rows, limit, head * D, H * D, D, IS_MASKED)
    g = _tile(grad_out, rows, limit, head * D, H * D, D, IS_MASKED)
    if IS_MASKED:
        peak = tl.load(lse + head * num_tokens + rows, mask=rows < limit, other=float("inf"))
        dot = tl.load(delta + head * num_tokens + rows, mask=rows < limit, other=0.0)
    else:
        peak = tl.load(lse + head * num_tokens + rows)
        dot = tl.load(delta + head * num_tokens + rows)
    weights = tl.exp2(tl.dot(k, tl.trans(q)) * scale2 - (peak * LOG2_E)[None, :])
    if IS_MASKED:
        # an unseen key may score far above the log-sum-exp: its infinity is replaced before it is used
        weights = tl.where(at[:, None] <= (rows + shift)[None, :], weights, 0.0)
    dv = tl.dot(weights.to(g.dtype), g, dv)
    grad = weights * (tl.dot(v, tl.trans(g)) - dot[None, :])
    dk = tl.dot(grad.to(q.dtype), q, dk)
    return dk, dv


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def keys_kernel(query, key, value, grad_out, lse, delta, grad_key, grad_value, blocks, shift, num_tokens,
                scale, scale2, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
                BN: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Gradients of one block of keys and values, summed over the query heads that share the key head."""
    key_head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 4
    row, end, low, stop = tl.load(block), tl.load(block + 1), tl.load(block + 2), tl.load(block + 3)
    rows = row + tl.arange(0, BN)
    k = _tile(key, rows, end, key_head * D, H // G * D, D, True)
    v = _tile(value, rows, end, key_head * D, H // G * D, D, True)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    # Queries from `diagonal` on see every key of the block. Keys past `end` are zero and never stored.
    diagonal = tl.minimum(low + (tl.maximum(end - shift - low, 0) + BM - 1) // BM * BM, stop)
    full = diagonal + (stop - diagonal) // BM * BM
    for member in range(G):
        head = key_head * G + member
        for first in tl.range(low, diagonal, BM, num_stages=1):
            dk, dv = _keys_step(dk, dv, k, v, query, grad_out, lse, delta, first, stop, shift, rows, head,
                                num_tokens, scale2, H, D, BM, True)  # fmt: skip
        for first in tl.range(diagonal, full, BM, num_stages=STAGES):
            dk, dv = _keys_step(dk, dv, k, v, query, grad_out, lse, delta, first, stop, shift, rows, head,
                                num_tokens, scale2, H, D, BM, False)  # fmt: skip
        for first in tl.range(full, stop, BM, num_stages=1):
            dk, dv = _keys_step(dk, dv, k, v, query, grad_out, lse, delta, first, stop, shift, rows, head,
                                num_tokens, scale2, H, D, BM, True)  # fmt: skip
    _store(grad_key, rows, end, key_head * D, dk * scale, H // G * D, D)
    _store(grad_value, rows, end, key_head * D, dv, H // G * D, D)


@triton.jit
def _queries_step(dq, q, g, peak, dot, key, value, first, limit, at, column, scale2, WIDTH: tl.constexpr,
                  D: tl.constexpr, BN: tl.constexpr, IS_MASKED: tl.constexpr):  # fmt: skip
    """Add one block of keys to the gradients of one block of queries."""
    places = first + tl.arange(0, BN)
    k = _tile(key, places, limit, column, WIDTH, D, IS_MASKED)
    v = _tile(value, places, limit, column, WIDTH, D, IS_MASKED)
    weights = tl.exp2(tl.dot(q, tl.trans(k)) * scale2 - peak[:, None])
    if IS_MASKED:
        is_seen = (places[None, :] <= at[:, None]) & (places < limit)[None, :]
        weights = tl.where(is_seen, weights, 0.0)
    grad = weights * (tl.dot(g, tl.trans(v)) - dot[:, None])
    return tl.dot(grad.to(k.dtype), k, dq)


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def queries_kernel(query, key, value, grad_out, lse, delta, grad_query, blocks, ranges, shift, num_tokens,
                   scale, scale2, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Gradients of one block of queries."""
    head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 5
    row, end, own = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    first_range, last_range = tl.load(block + 3), tl.load(block + 4)
    column = head // G * D
    rows = row + tl.arange(0, BM)
    q = _tile(query, rows, end, head * D, H * D, D, True)
    g = _tile(grad_out, rows, end, head * D, H * D, D, True)
    peak = tl.load(lse + head * num_tokens + rows, mask=rows < end, other=float("inf")) * LOG2_E
    dot = tl.load(delta + head * num_tokens + rows, mask=rows < end, other=0.0)
    at = rows + shift
    anywhere = tl.full([BM], ANY_KEY, tl.int32)
    dq = tl.zeros([BM, D], tl.float32)
    for number in range(first_range, last_range):
        low, high = tl.load(ranges + number * 2), tl.load(ranges + number * 2 + 1)
        full = low + (high - low) // BN * BN
        for first in tl.range(low, full, BN, num_stages=STAGES):
            dq = _queries_step(dq, q, g, peak, dot, key, value, first, high, anywhere, column, scale2,
                               H // G * D, D, BN, False)  # fmt: skip
        for first in tl.range(full, high, BN, num_stages=1):
            dq = _queries_step(dq, q, g, peak, dot, key, value, first, high, anywhere, column, scale2,
                               H // G * D, D, BN, True)  # fmt: skip
    full = own + (row + shift + 1 - own) // BN * BN
    limit = tl.minimum(row + BM, end) + shift
    for first in tl.range(own, full, BN, num_stages=STAGES):
        dq = _queries_step(dq, q, g, peak, dot, key, value, first, limit, at, column, scale2,
                           H // G * D, D, BN, False)  # fmt: skip
    for first in tl.range(full, limit, BN, num_stages=1):
        dq = _queries_step(dq, q, g, peak, dot, key, value, first, limit, at, column, scale2,
                           H // G * D, D, BN, True)  # fmt: skip
    _store(grad_query, rows, end, head * D, dq * scale, H * D, D)
