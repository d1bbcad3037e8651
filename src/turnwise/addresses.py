"""Takes the name of a host, or a token for it, says who can reach it and whether a header can carry it."""

import ipaddress

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a request's `Host`, without its port and brackets."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    return name.removeprefix("[").removesuffix("]").lower()


def check_token(token: str) -> None:
    """ValueError if it does not fit into an Authorization header; none at all does."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token has characters that no header can carry")
