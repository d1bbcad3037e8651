"""Attention along the paths of a packed tree by Triton kernels, for Hopper GPUs.

A packed tree stands depth first, so key j is seen by the queries j..stop(j) and by no others. The forward
kernel runs over the key ranges of a query block's path; the backward kernel runs over the query range of a
key block. One launch does the whole tree: nothing is gathered and nothing is merged.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _tile(source, rows, limit, head, row_stride, D: tl.constexpr, IS_MASKED: tl.constexpr):
    dims = tl.arange(0, D)
    places = source + rows.to(tl.int64)[:, None] * row_stride + head * D + dims[None, :]
    if IS_MASKED:
        tile = tl.load(places, mask=(rows < limit)[:, None], other=0.0)
    else:
        tile = tl.load(places)
    return tile


@triton.jit
def _keys(source, first, limit, head, stride, D: tl.constexpr, BN: tl.constexpr, IS_MASKED: tl.constexpr, TMA: tl.constexpr):
    if TMA:
        tile = source.load([first, head * D])
    else:
        tile = _tile(source, first + tl.arange(0, BN), limit, head, stride, D, IS_MASKED)
    return tile


@triton.jit
def _soften(acc, total, peak, q, key, value, first, limit, at, head, sk, sv, scale2,
            D: tl.constexpr, BN: tl.constexpr, IS_MASKED: tl.constexpr, TMA: tl.constexpr):  # fmt: skip
    """One block of keys added to the running softmax."""
    k = _keys(key, first, limit, head, sk, D, BN, IS_MASKED, TMA)
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
    v = _keys(value, first, limit, head, sv, D, BN, IS_MASKED, TMA)
    acc = tl.dot(weights.to(v.dtype), v, acc)
    return acc, total, new_peak


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def forward_kernel(query, key, value, out, lse, blocks, ranges, shift, num_tokens, scale2, sq, sk, sv,
                   H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   TMA: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 5
    row, end, own = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    first_range, last_range = tl.load(block + 3), tl.load(block + 4)
    key_head = head // G
    rows = row + tl.arange(0, BM)
    q = _tile(query, rows, end, head, sq, D, True)
    at = rows + shift
    acc = tl.zeros([BM, D], tl.float32)
    total = tl.zeros([BM], tl.float32)
    peak = tl.full([BM], float("-inf"), tl.float32)
    everything = tl.full([BM], 2147483647, tl.int32)
    for number in range(first_range, last_range):
        low, high = tl.load(ranges + number * 2), tl.load(ranges + number * 2 + 1)
        full = low + (high - low) // BN * BN
        for first in tl.range(low, full, BN, num_stages=STAGES):
            acc, total, peak = _soften(acc, total, peak, q, key, value, first, high, everything, key_head,
                                       sk, sv, scale2, D, BN, False, TMA)  # fmt: skip
        for first in tl.range(full, high, BN, num_stages=1):
            acc, total, peak = _soften(acc, total, peak, q, key, value, first, high, everything, key_head,
                                       sk, sv, scale2, D, BN, True, TMA)  # fmt: skip
    full = own + (row + shift + 1 - own) // BN * BN
    limit = tl.minimum(row + BM, end) + shift
    for first in tl.range(own, full, BN, num_stages=STAGES):
        acc, total, peak = _soften(acc, total, peak, q, key, value, first, limit, at, key_head,
                                   sk, sv, scale2, D, BN, False, TMA)  # fmt: skip
    for first in tl.range(full, limit, BN, num_stages=1):
        acc, total, peak = _soften(acc, total, peak, q, key, value, first, limit, at, key_head,
                                   sk, sv, scale2, D, BN, True, TMA)  # fmt: skip
    acc = acc / total[:, None]
    dims = tl.arange(0, D)
    places = out + rows.to(tl.int64)[:, None] * (H * D) + head * D + dims[None, :]
    tl.store(places, acc.to(out.dtype.element_ty), mask=(rows < end)[:, None])
    tl.store(lse + head * num_tokens + rows, (peak + tl.log2(total)) * LN_2, mask=rows < end)


@triton.jit(do_not_specialize=["num_tokens"])
def delta_kernel(out, grad_out, delta, num_tokens, H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr):
    """Σ dO·O of every query and head: [H, N]."""
    head = tl.program_id(0)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    o = _tile(out, rows, num_tokens, head, H * D, D, True).to(tl.float32)
    g = _tile(grad_out, rows, num_tokens, head, H * D, D, True).to(tl.float32)
    tl.store(delta + head * num_tokens + rows, tl.sum(o * g, 1), mask=rows < num_tokens)


@triton.jit
def _key_step(dk, dv, k, v, query, grad_out, lse, delta, grad_query, first, limit, shift, at, head, key_head,
              sq, num_tokens, scale, scale2, H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
              IS_MASKED: tl.constexpr, ATOMIC: tl.constexpr):  # fmt: skip
    """What one block of queries adds to the gradients of one block of keys."""
    rows = first + tl.arange(0, BM)
    q = _tile(query, rows, limit, head, sq, D, IS_MASKED)
    g = _tile(grad_out, rows, limit, head, H * D, D, IS_MASKED)
    if IS_MASKED:
        peak = tl.load(lse + head * num_tokens + rows, mask=rows < limit, other=float("inf"))
        dot = tl.load(delta + head * num_tokens + rows, mask=rows < limit, other=0.0)
    else:
        peak = tl.load(lse + head * num_tokens + rows)
        dot = tl.load(delta + head * num_tokens + rows)
    weights = tl.exp2(tl.dot(k, tl.trans(q)) * scale2 - (peak * LOG2_E)[None, :])
    if IS_MASKED:
        weights = tl.where(at[:, None] <= (rows + shift)[None, :], weights, 0.0)
    dv = tl.dot(weights.to(g.dtype), g, dv)
    grad = weights * (tl.dot(v, tl.trans(g)) - dot[None, :])
    grad = grad.to(q.dtype)
    dk = tl.dot(grad, q, dk)
    if ATOMIC:
        dq = tl.dot(tl.trans(grad), k) * scale
        dims = tl.arange(0, D)
        places = grad_query + rows.to(tl.int64)[:, None] * (H * D) + head * D + dims[None, :]
        if IS_MASKED:
            tl.atomic_add(places, dq, mask=(rows < limit)[:, None], sem="relaxed")
        else:
            tl.atomic_add(places, dq, sem="relaxed")
    return dk, dv


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def keys_kernel(query, key, value, grad_out, lse, delta, grad_query, grad_key, grad_value, blocks, shift,
                num_tokens, scale, scale2, sq, sk, sv, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr,
                BM: tl.constexpr, BN: tl.constexpr, ATOMIC: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Gradients of a block of keys and values; with ATOMIC also those of the queries, added in float32."""
    key_head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 4
    row, end, low, stop = tl.load(block), tl.load(block + 1), tl.load(block + 2), tl.load(block + 3)
    rows = row + tl.arange(0, BN)
    k = _tile(key, rows, end, key_head, sk, D, True)
    v = _tile(value, rows, end, key_head, sv, D, True)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    # queries from here on see every key of the block; keys past `end` are zero and never stored
    diagonal = tl.minimum(low + (tl.maximum(end - shift - low, 0) + BM - 1) // BM * BM, stop)
    full = diagonal + (stop - diagonal) // BM * BM
    for member in range(G):
        head = key_head * G + member
        for first in tl.range(low, diagonal, BM, num_stages=1):
            dk, dv = _key_step(dk, dv, k, v, query, grad_out, lse, delta, grad_query, first, stop, shift, rows,
                               head, key_head, sq, num_tokens, scale, scale2, H, D, BM, True, ATOMIC)  # fmt: skip
        for first in tl.range(diagonal, full, BM, num_stages=STAGES):
            dk, dv = _key_step(dk, dv, k, v, query, grad_out, lse, delta, grad_query, first, stop, shift, rows,
                               head, key_head, sq, num_tokens, scale, scale2, H, D, BM, False, ATOMIC)  # fmt: skip
        for first in tl.range(full, stop, BM, num_stages=1):
            dk, dv = _key_step(dk, dv, k, v, query, grad_out, lse, delta, grad_query, first, stop, shift, rows,
                               head, key_head, sq, num_tokens, scale, scale2, H, D, BM, True, ATOMIC)  # fmt: skip
    dims = tl.arange(0, D)
    places = rows.to(tl.int64)[:, None] * (H // G * D) + key_head * D + dims[None, :]
    is_own = (rows < end)[:, None]
    tl.store(grad_key + places, (dk * scale).to(grad_key.dtype.element_ty), mask=is_own)
    tl.store(grad_value + places, dv.to(grad_value.dtype.element_ty), mask=is_own)


@triton.jit
def _query_step(dq, q, g, peak, dot, key, value, first, limit, at, head, sk, sv, scale2,
                D: tl.constexpr, BN: tl.constexpr, IS_MASKED: tl.constexpr):  # fmt: skip
    k = _keys(key, first, limit, head, sk, D, BN, IS_MASKED, False)
    v = _keys(value, first, limit, head, sv, D, BN, IS_MASKED, False)
    weights = tl.exp2(tl.dot(q, tl.trans(k)) * scale2 - peak[:, None])
    if IS_MASKED:
        places = first + tl.arange(0, BN)
        is_seen = (places[None, :] <= at[:, None]) & (places < limit)[None, :]
        weights = tl.where(is_seen, weights, 0.0)
    grad = weights * (tl.dot(g, tl.trans(v)) - dot[:, None])
    return tl.dot(grad.to(k.dtype), k, dq)


@triton.jit(do_not_specialize=["shift", "num_tokens"])
def queries_kernel(query, key, value, grad_out, lse, delta, grad_query, blocks, ranges, shift, num_tokens,
                   scale, scale2, sq, sk, sv, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Gradients of a block of queries."""
    head = tl.program_id(0)
    block = blocks + tl.program_id(1) * 5
    row, end, own = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    first_range, last_range = tl.load(block + 3), tl.load(block + 4)
    key_head = head // G
    rows = row + tl.arange(0, BM)
    q = _tile(query, rows, end, head, sq, D, True)
    g = _tile(grad_out, rows, end, head, H * D, D, True)
    peak = tl.load(lse + head * num_tokens + rows, mask=rows < end, other=float("inf")) * LOG2_E
    dot = tl.load(delta + head * num_tokens + rows, mask=rows < end, other=0.0)
    at = rows + shift
    everything = tl.full([BM], 2147483647, tl.int32)
    dq = tl.zeros([BM, D], tl.float32)
    for number in range(first_range, last_range):
        low, high = tl.load(ranges + number * 2), tl.load(ranges + number * 2 + 1)
        full = low + (high - low) // BN * BN
        for first in tl.range(low, full, BN, num_stages=STAGES):
            dq = _query_step(dq, q, g, peak, dot, key, value, first, high, everything, key_head, sk, sv,
                             scale2, D, BN, False)  # fmt: skip
        for first in tl.range(full, high, BN, num_stages=1):
            dq = _query_step(dq, q, g, peak, dot, key, value, first, high, everything, key_head, sk, sv,
                             scale2, D, BN, True)  # fmt: skip
    full = own + (row + shift + 1 - own) // BN * BN
    limit = tl.minimum(row + BM, end) + shift
    for first in tl.range(own, full, BN, num_stages=STAGES):
        dq = _query_step(dq, q, g, peak, dot, key, value, first, limit, at, key_head, sk, sv,
                         scale2, D, BN, False)  # fmt: skip
    for first in tl.range(full, limit, BN, num_stages=1):
        dq = _query_step(dq, q, g, peak, dot, key, value, first, limit, at, key_head, sk, sv,
                         scale2, D, BN, True)  # fmt: skip
    dims = tl.arange(0, D)
    places = grad_query + rows.to(tl.int64)[:, None] * (H * D) + head * D + dims[None, :]
    tl.store(places, (dq * scale).to(grad_query.dtype.element_ty), mask=(rows < end)[:, None])
