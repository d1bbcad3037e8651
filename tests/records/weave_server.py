"""A loopback server for Weave's client that records the requests."""

from typing import Any

from tests.worlds.market.provider import Answer, LoopbackProvider

_VIEWER = {"username": "someone", "entity": "team", "defaultEntity": {"name": "team"}, "flags": "{}"}
_ANSWERS: dict[str, Any] = {
    "/server_info": {"min_required_weave_python_version": "0.0.0", "trace_server_version": "99.0.0"},
    "/graphql": {"data": {"viewer": _VIEWER, "project": {"name": "ours"}}},
    "/obj/create": {"digest": "o" * 43},
    "/table/create": {"digest": "t" * 43, "row_digests": []},
    "/file/create": {"digest": "f" * 43},
}


class WeaveServer(LoopbackProvider):
    """Accepts every request, or refuses calls while `is_down`."""

    is_down = False

    @property
    def url(self) -> str:
        return super().url.removesuffix("/api")

    def next_answer(self, path: str) -> Answer:
        is_refused = self.is_down and "/call" in path
        return Answer(_ANSWERS.get(path, {}), 403 if is_refused else 200)

    def calls(self, op: str) -> list[dict[str, Any]]:
        """Finished calls of one operation, in the order of their start."""
        found: dict[str, dict[str, Any]] = {}
        for request in self.requests:
            if request.path.endswith("/calls/complete"):
                found |= {call["id"]: call for call in request.body["batch"]}
            elif request.path.endswith(("/call/start", "/call/end")):
                for half in request.body.values():
                    found[half["id"]] = {**found.get(half["id"], {}), **half}
        chosen = [call for call in found.values() if f"/op/{op}:" in call.get("op_name", "")]
        return sorted(chosen, key=lambda call: call["started_at"])
