"""Takes a server's name and the environment, gives its live backend with an open HTTP client."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from turnwise.servers.live.fmp import LiveFmp
from turnwise.servers.live.http import Account, Clock, Patience, Provider
from turnwise.servers.live.polygon import LivePolygon
from turnwise.servers.live.slack import LiveSlack
from turnwise.servers.live.tavily import LiveTavily

LiveBackend = LiveFmp | LivePolygon | LiveTavily | LiveSlack


@dataclass(frozen=True, slots=True)
class Access:
    """Where a provider's API is by default, which variables change that, and what speaks to it."""

    label: str
    base_url: str
    base_url_variable: str
    key_variable: str
    backend: Callable[[Provider], LiveBackend]
    key_header: str = "Authorization"


ACCESS = {
    "fmp": Access(
        label="FMP",
        base_url="https://financialmodelingprep.com/stable",
        base_url_variable="FMP_BASE_URL",
        key_variable="FMP_API_KEY",
        key_header="apikey",
        backend=LiveFmp,
    ),
    "polygon": Access(
        label="Polygon",
        base_url="https://api.polygon.io",
        base_url_variable="POLYGON_BASE_URL",
        key_variable="POLYGON_API_KEY",
        backend=LivePolygon,
    ),
    "tavily": Access(
        label="Tavily",
        base_url="https://api.tavily.com",
        base_url_variable="TAVILY_BASE_URL",
        key_variable="TAVILY_API_KEY",
        backend=LiveTavily,
    ),
    "slack": Access(
        label="Slack",
        base_url="https://slack.com/api",
        base_url_variable="SLACK_BASE_URL",
        key_variable="SLACK_BOT_TOKEN",
        backend=LiveSlack,
    ),
}


@asynccontextmanager
async def live_backend(
    name: str, environ: Mapping[str, str], *, patience: Patience | None = None, clock: Clock | None = None
) -> AsyncIterator[LiveBackend]:
    """The live backend of a server; a `ValueError` names the variable that is missing or wrong."""
    access = ACCESS[name]
    account = _account(access, environ)
    # No redirects: following one would carry the key to a host that nobody chose.
    async with httpx.AsyncClient(
        base_url=account.base_url, headers=account.headers, follow_redirects=False
    ) as client:
        provider = Provider(client, account, patience=patience or Patience(), clock=clock or Clock())
        yield access.backend(provider)


def _account(access: Access, environ: Mapping[str, str]) -> Account:
    key = environ.get(access.key_variable, "").strip()
    if not key:
        raise ValueError(f"{access.key_variable} is not set: the live {access.label} backend needs it")
    return Account(
        label=access.label,
        base_url=environ.get(access.base_url_variable, "").strip() or access.base_url,
        key_variable=access.key_variable,
        key=key,
        key_header=access.key_header,
    )
