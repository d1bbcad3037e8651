"""GPU time of a function, from a torch profile: its kernels grouped by purpose."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

OWNERS = {
    "head: logits, log-softmax, entropy": r"^_Scores(Backward)?$|CrossEntropy|LogSoftmax|_log_softmax",
    "attention forward": r"^(Flash|Triton)TreeAttention$|scaled_dot_product.*attention$",
    "attention backward": r"^(Flash|Triton)TreeAttentionBackward$|ScaledDotProduct.*Backward",
    "optimizer": r"^Optimizer\.step|_foreach_norm|_foreach_mul",
    "adapters: base and LoRA products, forward": r"^_Adapted$",
    "adapters: base and LoRA products, backward": r"^_AdaptedBackward$",
}
"""Groups by the operation that launched a kernel, or an enclosing one; the first match counts."""

KERNELS = {
    "attention forward": r"^forward_kernel$|flash_fwd|fmha.*(fwd|fprop)|sdpa.*fprop",
    "attention backward": r"^(keys|queries|delta)_kernel$|flash_bwd|fmha.*(bwd|bprop)|sdpa.*bprop",
    "matrix products": r"gemm|nvjet|cutlass|xmma|splitK",
    "norms": r"rms_norm|layer_norm|LayerNorm",
    "copies and concatenations": r"[Cc]opy|Memcpy|Memset|CatArray",
    "embedding, gather, scatter": r"embedding|index|gather|scatter|sort",
    "elementwise": r"elementwise|reduce",
}
"""Groups by the kernel's name, for kernels without a match above."""


@dataclass(frozen=True, slots=True)
class Times:
    """GPU times of one function call, in seconds."""

    by_group: dict[str, float]
    by_kernel: dict[str, tuple[float, int]]
    """Seconds and launches."""
    busy: float
    """Time with at least one kernel running."""
    span: float
    """From the first kernel's start to the last one's end."""
    idle_by_host: dict[str, float]
    """Time without a kernel, by what the host was doing in the middle of the gap."""


def profile(work: Callable[[], Any]) -> Times:
    """Run the function under the profiler. Do not use it for timings: the profiler slows the host down."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, acc_events=True) as profiled:
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return added_up(profiled.events())


def added_up(events: Iterable[Any]) -> Times:
    by_group: dict[str, float] = defaultdict(float)
    by_kernel: dict[str, tuple[float, int]] = {}
    spans, calls = [], []
    for event in events:
        times = (event.time_range.start, event.time_range.end)
        if str(event.device_type).endswith("CUDA"):
            spans.append(times)
        else:
            calls.append((*times, event.name))
        for kernel in event.kernels:
            seconds = kernel.duration / 1e6
            by_group[_group(event, kernel.name)] += seconds
            before, count = by_kernel.get(kernel.name, (0.0, 0))
            by_kernel[kernel.name] = before + seconds, count + 1
    spans.sort()
    gaps, busy, end = [], 0.0, spans[0][0] if spans else 0.0
    for start, stop in spans:
        if start > end:
            gaps.append((end, start))
        busy += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    span = end - spans[0][0] if spans else 0.0
    return Times(dict(by_group), by_kernel, busy / 1e6, span / 1e6, _by_host(gaps, calls))


NEARBY = 200
"""Number of host calls examined before a gap; an earlier call that still runs encloses the others."""


def _by_host(gaps: list[tuple[float, float]], calls: list[tuple[float, float, str]]) -> dict[str, float]:
    """Seconds of the gaps, by the innermost host call at the middle of a gap, or by Python between calls."""
    calls.sort()
    starts = [start for start, _, _ in calls]
    seconds: dict[str, float] = defaultdict(float)
    for start, stop in gaps:
        middle = (start + stop) / 2
        last = bisect_right(starts, middle)
        running = (name for _, end, name in reversed(calls[max(last - NEARBY, 0) : last]) if end > middle)
        seconds[next(running, "Python, between calls")] += (stop - start) / 1e6
    return dict(seconds)


def _group(event: Any, kernel: str) -> str:
    owner = event
    while owner is not None:
        name = owner.name.rpartition(": ")[2]  # autograd::engine::evaluate_function: NameBackward
        for group, pattern in OWNERS.items():
            if re.search(pattern, name):
                return group
        owner = owner.cpu_parent
    return next((group for group, pattern in KERNELS.items() if re.search(pattern, kernel)), "other")


def report(times: Times, num_kernels: int = 25) -> str:
    total = sum(times.by_group.values()) or 1.0
    lines = ["seconds  share  of the kernels' time"]
    for group, seconds in sorted(times.by_group.items(), key=lambda seconds: -seconds[1]):
        lines.append(f"{seconds:7.3f}  {seconds / total:5.1%}  {group}")
    gap = times.span - times.busy
    lines.append(f"{gap:7.3f}  no kernel ran, of {times.span:.3f} from the first to the last")
    idle = sorted(times.idle_by_host.items(), key=lambda seconds: -seconds[1])[:10]
    lines += [f"{seconds:7.3f}    of it while the host was in {name[:90]}" for name, seconds in idle]
    lines.append("seconds  launches  kernel")
    largest = sorted(times.by_kernel.items(), key=lambda seconds: -seconds[1][0])[:num_kernels]
    lines += [f"{seconds:7.3f}  {count:8}  {name[:120]}" for name, (seconds, count) in largest]
    return "\n".join(lines)
