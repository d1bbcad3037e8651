"""Host names and tokens: loopback addresses, URLs, and tokens that fit into a header."""

import ipaddress
import socket

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """The URL of a server that listens on `host`; a wildcard address becomes this machine's name."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def host_of(header: str) -> str:
    """The name in a `Host` header, without port and brackets."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    return name.removeprefix("[").removesuffix("]").lower()


def check_token(token: str) -> None:
    """Raise ValueError if the token does not fit into an Authorization header; an empty one does."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token has characters that are not allowed in a header")
