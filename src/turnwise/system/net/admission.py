"""Access control of our HTTP servers: Origin, Host and token are checked before anything else."""

import secrets

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from turnwise.system.net.addresses import check_token, host_of, is_loopback


class TokenRequired(ValueError):
    """A server that others can reach was given no token."""


class Admission:
    """Refuses requests from browsers and, if a token is set, requests without it."""

    def __init__(self, host: str, token: str) -> None:
        if not token and not is_loopback(host):
            raise TokenRequired(f"host {host!r} is reachable from other machines: a token is required")
        check_token(token)
        self._token = token.encode()
        self._is_local = is_loopback(host)

    def over(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application so that every HTTP request is checked first."""

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            refusal = self._refusal(Request(scope)) if scope["type"] == "http" else None
            await (refusal or app)(scope, receive, send)

        return admitted

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if "origin" in headers:  # only browsers send it: the request comes from a web page
            return PlainTextResponse("requests from web pages are not allowed", 403)
        if self._is_local and not is_loopback(host_of(headers.get("host", ""))):
            # a foreign name that resolves to this machine: DNS rebinding
            return PlainTextResponse("unknown Host", 421)
        token = headers.get("authorization", "").removeprefix("Bearer ").encode("utf-8", "replace")
        if self._token and not secrets.compare_digest(token, self._token):
            return PlainTextResponse("a valid bearer token is required", 401)
        return None
