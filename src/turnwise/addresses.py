"""Takes the name or number of a host, says whether it is this machine alone that can reach it."""

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
