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


def check_token(token: str, name: str = "the token") -> None:
    """Raise ValueError if the token does not fit into a header; an empty one does.

    With a stray line break, the HTTP library would raise an error that quotes the header, token included.
    """
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{name} has characters that are not allowed in a header")
