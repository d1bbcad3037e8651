"""Takes the name of a host, or a token for it, says who can reach it and whether a header can carry it."""

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
    """Where others find what listens there."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def host_of(header: str) -> str:
    """The name in a request's `Host`, without its port and brackets."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    return name.removeprefix("[").removesuffix("]").lower()


def check_token(token: str) -> None:
    """ValueError if it does not fit into an Authorization header; none at all does."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token has characters that no header can carry")
