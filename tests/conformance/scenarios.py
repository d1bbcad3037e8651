"""Every client scenario of the MCP conformance suites: those that must pass, and why the others do not apply.

A scenario that is not named here fails `test_conformance.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SUITES = {
    "0.1.16": "@modelcontextprotocol/conformance",
    "0.2.0-alpha.12": "conformance-next",
}
"""The versions of the suites, and their packages in `tests/third_party/package.json`.

The released suite knows the protocol up to 2025-11-25; the pre-release is the only one for 2026-07-28.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario of one suite in one protocol version.

    The released suite runs a scenario only in the newest version that it lists.
    """

    suite: str
    scenario: str
    version: str

    def __str__(self) -> str:
        return f"{self.scenario} {self.version} ({self.suite})"


_RELEASED = dict.fromkeys(("initialize", "tools_call", "sse-retry"), ("2025-11-25",))
_PRE_RELEASED = {
    "initialize": ("2025-06-18", "2025-11-25"),
    "tools_call": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "sse-retry": ("2025-11-25",),
    "request-metadata": ("2026-07-28",),
    "http-standard-headers": ("2026-07-28",),
    "http-custom-headers": ("2026-07-28",),
    "http-invalid-tool-headers": ("2026-07-28",),
    "json-schema-ref-no-deref": ("2026-07-28",),
    "json-schema-2020-12-preservation": ("2025-11-25", "2026-07-28"),
}
_VERSIONS: Sequence[Mapping[str, Sequence[str]]] = (_RELEASED, _PRE_RELEASED)
APPLICABLE = tuple(
    Run(suite, scenario, version)
    for suite, scenarios in zip(SUITES, _VERSIONS, strict=True)
    for scenario, versions in scenarios.items()
    for version in versions
)

_NO_USER = (
    "It answers an elicitation. A training run has no user, so our client does not declare the elicitation "
    "capability, and a server may not elicit from such a client."
)
_NO_OAUTH = (
    "It is a step of an OAuth flow, in which a user or an identity provider grants access. Our client has "
    "none: a server gets its token from `mcp.json`, in `headers` or `env`."
)
_NO_SKILLS = "It belongs to the skills extension (skills/list, resources/read). Our client uses tools only."

_AUTH = """
    2025-03-26-oauth-endpoint-fallback 2025-03-26-oauth-metadata-backcompat authorization-server-migration
    basic-cimd client-credentials-basic client-credentials-jwt cross-app-access-complete-flow dpop dpop-nonce
    enterprise-managed-authorization iss-normalized iss-not-advertised iss-supported iss-supported-missing
    iss-unexpected iss-wrong-issuer metadata-default metadata-issuer-mismatch metadata-var1 metadata-var2
    metadata-var3 offline-access-not-supported offline-access-scope pre-registration resource-mismatch
    scope-from-scopes-supported scope-from-www-authenticate scope-omitted-when-undefined scope-retry-limit
    scope-step-up token-endpoint-auth-basic token-endpoint-auth-none token-endpoint-auth-post wif-jwt-bearer
"""
_SKILLS = "no-prefetch verify-digest verify-frontmatter verify-size"

NOT_APPLICABLE = {
    "elicitation-sep1034-client-defaults": _NO_USER,
    "sep-2322-client-request-state": _NO_USER,
    **{f"auth/{name}": _NO_OAUTH for name in _AUTH.split()},
    **{f"sep-2640-client-{name}": _NO_SKILLS for name in _SKILLS.split()},
}
"""Why a scenario does not apply, for both suites."""
