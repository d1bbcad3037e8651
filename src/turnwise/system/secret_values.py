"""Which values are secrets, by name or because they look random: configured ones, and those in data."""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote

MIN_SECRET_CHARS = 6
"""Shorter values are not redacted: they also occur in ordinary text."""

_PASSWORDS = {"password", "passwords", "passwd", "pass", "pwd", "passphrase", "passcode"}
_SECRET_WORDS = {
    *_PASSWORDS,
    *("key", "keys", "apikey", "token", "tokens", "secret", "secrets", "pat", "jwt", "otp", "bearer"),
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
_KEY_IN_DATA = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|hf|tvly|npm|shpat|dop_v1|gh[pousr]|github_pat|glpat|xox[abeprs]|xapp)[-_]"
    r"|AKIA|ASIA|AIza|eyJ)[-_A-Za-z0-9.]{12,512}"
)
_LEAST_DIGITS = 3
_LOGIN_IN_DATA = re.compile(
    r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^/?#\s:@]{0,256}:([^/?#\s@]{1,256})@"
)
_LINE_OF_KEY = re.compile(r"[A-Za-z0-9+/=]{10,}")
_ASSIGNED = re.compile(
    r"""(?<![\w-])([A-Za-z][\w.-]{1,63})\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?"""
    r"""(?:(?:Bearer|Basic|Token) )?"""
    r"""([^\s"'\\,;&<>|]{6,1024})"""
)
"""`name: value` and `name=value`, in JSON also inside a string."""
_WORD = re.compile(r"[^\W\d_]+(?:[-_. ][^\W\d_]+)*")
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
    secrets: set[str] = set()
    shown = {value.lower() for name, value in named.items() if not is_secret_name(name) and name not in also}
    for name, value in named.items():
        if name in never:
            continue
        secrets.update(_parts(value))
        is_named = is_secret_name(name) and not _is_plain(value) and not _says_nothing(name, value, shown)
        if name in also or is_named or _URL_LOGIN.match(value):
            secrets.add(value)
    return {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}


def environment_secrets(variables: Mapping[str, str]) -> set[str]:
    """The secrets among variables that we were started with: those of secret names.

    DESKTOP_SESSION=ubuntu is ordinary: a plain word needs a name that ends in `key`, `password` and the like.
    """
    named = {
        name: value
        for name, value in variables.items()
        if is_secret_name(name) and (_names_plain_secret(name) or not _WORD.fullmatch(value))
    }
    return secret_values(named)


def secrets_in_data(text: str) -> set[str]:
    """The secrets in what a tool answered: keys of known formats, logins, and what a name says is secret.

    Data is full of hashes and ids, so what only looks random is not a secret here.
    """
    secrets = {key for key in _KEY_IN_DATA.findall(text) if sum(map(str.isdigit, key)) >= _LEAST_DIGITS}
    secrets.update(_LOGIN_IN_DATA.findall(text))
    for part in text.split("PRIVATE KEY-----")[1:]:
        block, end, _ = part.partition("-----END")
        secrets.update(_LINE_OF_KEY.findall(block) if end else ())
    secrets.update(value for name, value in _ASSIGNED.findall(text) if is_secret_field(name, value))
    return {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}


def is_secret_field(name: str, value: str) -> bool:
    """Whether a field of data is a secret: its name says so, and its value is no ordinary one."""
    if len(value) < MIN_SECRET_CHARS or not is_secret_name(name) or _is_plain(value):
        return False
    if _WORD.fullmatch(value.rstrip(".)]")) or value.startswith(("$", "{", "%")):
        return False  # `password: required`, `token: ${TOKEN}`
    if _last_word(name) in _PASSWORDS or any(_random_parts(value)):
        return True
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    # not a bare `key`, which is what records are called: PROJ-123
    return has_both and len(value) >= _KNOWN_KEY_CHARS and _joined(name).endswith(_SECRET_ENDINGS)


def _names_plain_secret(name: str) -> bool:
    """Whether a name ends in a word for a secret, so that its value may be a plain word."""
    return _joined(name).endswith((*_SECRET_ENDINGS, "key")) or _last_word(name) in _PASSWORDS


def _joined(name: str) -> str:
    return "".join(_WORDS.findall(name)).lower()


def _last_word(name: str) -> str:
    return next((word.lower() for word in reversed(_WORDS.findall(name))), "")


def _says_nothing(name: str, value: str, shown: Collection[str]) -> bool:
    """Whether a value is a word that is no secret: it is in the open elsewhere, or its own name says it."""
    if not _WORD.fullmatch(value):
        return False
    return value.lower() in shown or _joined(value) in _joined(name)


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
