"""Check every request: its Host, its token and the headers a browser must obey."""

import ipaddress
import platform
import secrets
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.system.net.addresses import LOOPBACK_NAMES, host_of, is_loopback

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The defaults of every response: only our own scripts run, no other site frames or reads it, no caching."""


class RequestGuard:
    """Refuses requests with a foreign Host header and, if there is a token, requests without it."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._names = LOOPBACK_NAMES if is_loopback(host) else LOOPBACK_NAMES | {host, platform.node()}
        self._takes_addresses = not is_loopback(host)
        self._token = token.encode()
        self._cookie = f"turnwise_view_{port}"  # cookies ignore ports: two servers need two names

    def over(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application: check every request and add `HEADERS`, unless a response has its own."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return

            async def send_guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    for name, value in HEADERS.items():
                        headers.setdefault(name, value)
                await send(message)

            answer = self._refusal(Request(scope)) or app
            await answer(scope, receive, send_guarded)

        return guarded

    def _refusal(self, request: Request) -> Response | None:
        if not self._is_ours(request.headers.get("host", "")):
            # DNS rebinding: another site's page uses its own name, resolved to this machine
            return PlainTextResponse("this name is not this server's", 421)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("only to be looked at", 405)
        if not self._token or self._has(request.cookies.get(self._cookie, "")):
            return None
        if self._has(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        if self._has(request.query_params.get("token", "")):
            return self._welcome(request)
        return PlainTextResponse("a token is needed: open the address that `turnwise view` printed", 401)

    def _has(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _welcome(self, request: Request) -> Response:
        """Move the token from the URL, which is visible and gets shared, into a cookie; redirect."""
        left = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        response = RedirectResponse(f"{request.url.path}{'?' + urlencode(left) if left else ''}", 303)
        secret = self._token.decode()
        response.set_cookie(self._cookie, secret, httponly=True, samesite="strict", path="/")
        return response

    def _is_ours(self, header: str) -> bool:
        name = host_of(header)
        if name in {name.lower() for name in self._names}:
            return True
        if not self._takes_addresses:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
