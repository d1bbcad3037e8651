"""Which configured values are secrets, by name or because they look random, and how they may be spelled."""

import base64
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

REDACTED = "[redacted]"
"""The replacement for a secret."""

MIN_SECRET_CHARS = 6
"""Shorter values are not redacted: they also occur in ordinary text."""

_SECRET_WORDS = {
    *("key", "keys", "apikey", "token", "tokens", "secret", "secrets", "pat", "jwt", "otp", "bearer"),
    *("password", "passwords", "passwd", "pass", "pwd", "passphrase", "passcode"),
    *("auth", "authorization", "credential", "credentials", "cookie", "session", "signature"),
    *("private", "webhook", "dsn"),
}
_SECRET_ENDINGS = ("apikey", "secretkey", "accesskey", "token", "secret", "password", "passwd", "passphrase")
_PLAIN_ENDINGS = {
    "path",
    "file",
    "dir",
    "directory",
    "folder",
    "name",
    "type",
    "kind",
    "mode",
    "version",
    "ttl",
}
"""Last words of names whose value is not itself a secret: SSH_KEY_PATH, SESSION_DIR."""
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SETTING = re.compile(r"^(?:true|false|yes|no|on|off|none|null|[+-]?\d{1,7}(?:\.\d+)?)$", re.IGNORECASE)
_PATH = re.compile(r"^(?:[.~]?/|~$)")
_URL = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://")
_FILE_URL = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:///")
_URL_LOGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s:@]*:([^/?#\s]*)@")
_URL_QUERY = re.compile(r"[?&]([^=?&#\s]+)=([^&#\s]+)")
_KNOWN_KEY = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeprs]|xapp|hf|tvly|npm|shpat|dop_v1|AKIA|ASIA|AIza"
    r"|eyJ)[-_A-Za-z.]*[0-9][-_A-Za-z0-9.]*"
)
_KNOWN_KEY_CHARS = 10
_HEX = re.compile(r"[0-9a-fA-F]{32,}")


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or flag of this name holds a secret: DB_PASS, --api-key, Authorization."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _PLAIN_ENDINGS:
        return False
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)


def secret_values(
    named: Mapping[str, str], *, also: Collection[str] = (), never: Collection[str] = ()
) -> set[str]:
    """The secrets among named values. Names in `also` always hold one, those in `never` are skipped."""
    found: set[str] = set()
    for name, value in named.items():
        if name in never:
            continue
        found.update(_parts(value))
        if name in also or (is_secret_name(name) and not _is_plain(value)) or _URL_LOGIN.match(value):
            found.add(value)
    return {secret for secret in found if len(secret) >= MIN_SECRET_CHARS}


def spellings_of(secrets: Iterable[str]) -> tuple[str, ...]:
    """Every usual spelling of these values (quoted, escaped, hex, Base64), longest first."""
    # a secret that is part of REDACTED would be found in every replacement again
    spelled = {spelling for secret in secrets if secret not in REDACTED for spelling in _spellings(secret)}
    return tuple(sorted(spelled, key=lambda secret: (-len(secret), secret)))


def _is_plain(value: str) -> bool:
    """Whether the value is a setting, a path, or a URL without a secret part."""
    if _URL.match(value):
        return not any(_parts(value))
    return bool(_SETTING.match(value)) or _is_path(value)


def _is_path(value: str) -> bool:
    """Whether it is a path, or a URL of a local file: file:///data, sqlite:////data/shop.db."""
    return bool(_PATH.match(value) or _FILE_URL.match(value))


def _parts(value: str) -> list[str]:
    """The secret parts of a value: X in `Bearer X`, `db://user:X@host`, `https://host/X?key=X`."""
    scheme, _, credential = value.partition(" ")
    parts = [credential] if scheme.lower() in ("bearer", "basic", "token") else []
    if login := _URL_LOGIN.match(value):
        parts.append(login.group(1))
    parts.extend(item for name, item in _URL_QUERY.findall(value) if is_secret_name(name))
    if not _is_path(value):  # a folder's random name occurs in every path under it
        parts.extend(_random_parts(value))
    return [*parts, *(unquote(part) for part in parts)]


def _random_parts(value: str) -> Iterator[str]:
    """Pieces that look random: known key formats, long hex, and mixed letters and digits."""
    for token in re.split(r"[\s,;'\"/?&=@:]+", value):
        if len(token) >= _KNOWN_KEY_CHARS and _KNOWN_KEY.fullmatch(token):
            yield token
            continue
        if any(_looks_random(piece) for piece in re.split(r"[-_.]", token)):
            yield token


def _looks_random(piece: str) -> bool:
    if _HEX.fullmatch(piece):
        return len(set(piece)) > 4
    kinds = ["d" if char.isdigit() else "u" if char.isupper() else "l" for char in piece if char.isalnum()]
    num_digits = kinds.count("d")
    num_changes = sum(one != other for one, other in itertools.pairwise(kinds))
    least_changes, least_chars = (4, 10) if len(set(kinds)) == 3 else (6, 16)
    return num_digits >= 3 and num_changes >= least_changes and len(kinds) >= least_chars


def _spellings(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    quoted = quote(raw, safe="")
    spellings = {
        secret,
        quoted,
        quoted.replace("%20", "+"),
        _lower_escapes(quoted),
        raw.hex(),
        raw.hex().upper(),
    }
    for is_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        spellings |= {escaped, escaped.replace("/", "\\/")}
    for num_before in range(3):
        # Base64 of a longer text with the secret inside: only the characters that depend on no other bits
        encoded = base64.b64encode(b"\0" * num_before + raw).decode()
        aligned = encoded[-(-num_before * 8 // 6) : (num_before + len(raw)) * 8 // 6]
        spellings |= {aligned, aligned.replace("+", "-").replace("/", "_")}
    return spellings


def _lower_escapes(quoted: str) -> str:
    return re.sub(r"%[0-9A-F]{2}", lambda match: match.group(0).lower(), quoted)
