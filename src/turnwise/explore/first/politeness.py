"""Fewer calls for remote servers, and none for those that ask for fewer."""

from collections.abc import Collection, Sequence

from turnwise.explore.first.acceptance import Accepted
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.verdicts import Refusal
from turnwise.explore.survey.budget import Limits
from turnwise.mcp.spec import ServerSpec

_REMOTE_CONCURRENCY = 4
_REMOTE_RATE_PER_SECOND = 5.0
_REMOTE_NUM_CALLS = 300
"""Calls of the survey and of the search for changes."""
_REMOTE_NUM_VERIFYING_CALLS = 1_200
_PATIENCE_SECONDS = 15.0
"""How long a call waits for a server that asks for a rest; training is more patient."""


LIMITED = "its server limits the rate of calls"
CALLED_ENOUGH = "its server is remote and was called often enough"


def polite(spec: ServerSpec) -> ServerSpec:
    """Return the server with few processes and, if it is remote, few calls at once and per second."""
    options = spec.options
    changed: dict[str, object] = {
        "num_warm": min(1, options.num_warm),  # sessions follow one another here
        "patience_seconds": min(_PATIENCE_SECONDS, options.patience_seconds),
    }
    if spec.is_remote:
        changed["max_concurrency"] = min(_REMOTE_CONCURRENCY, options.max_concurrency)
        rate = options.rate_per_second or _REMOTE_RATE_PER_SECOND
        changed["rate_per_second"] = min(_REMOTE_RATE_PER_SECOND, rate)
    return spec.model_copy(update={"options": options.model_copy(update=changed)})


def limits_for(spec: ServerSpec, seconds: float) -> Limits:
    """Return the limits of the survey of one server."""
    return Limits(num_calls=_REMOTE_NUM_CALLS, seconds=seconds) if spec.is_remote else Limits(seconds=seconds)


def affordable(
    drafts: Sequence[Draft], remote: Collection[str], limited: Collection[str], accepted: Accepted
) -> list[Draft]:
    """Return the drafts that may be verified: remote servers are spared, as are those that limit calls."""
    num_left = dict.fromkeys(remote, _REMOTE_NUM_VERIFYING_CALLS)
    chosen: list[Draft] = []
    for draft in drafts:
        called = [server for server in draft.servers if server in num_left]
        num_calls = 2 * len(draft.tools)  # in two sessions
        if any(server in limited for server in draft.servers):
            accepted.reject(draft, Refusal(LIMITED))
        elif any(num_left[server] < num_calls for server in called):
            accepted.reject(draft, Refusal(CALLED_ENOUGH))
        else:
            chosen.append(draft)
            for server in called:
                num_left[server] -= num_calls
    return chosen
