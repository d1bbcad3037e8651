"""The four providers: where their APIs are, which variables hold their keys, and their live backends."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from turnwise.system.net.retries import Clock
from turnwise.worlds.market.live.fmp import LiveFmp
from turnwise.worlds.market.live.http import Provider, ProviderAccount, ProviderPatience
from turnwise.worlds.market.live.polygon import LivePolygon
from turnwise.worlds.market.live.slack import LiveSlack
from turnwise.worlds.market.live.tavily import LiveTavily

LiveBackend = LiveFmp | LivePolygon | LiveTavily | LiveSlack


@dataclass(frozen=True, slots=True)
class KeyTrial:
    """A read-only call that succeeds if the provider accepts the key."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: str = ""
    """What the provider charges for the call; empty if that is one request."""


@dataclass(frozen=True, slots=True)
class Access:
    """A provider's default base URL, the variables for its URL and key, and its backend."""

    label: str
    base_url: str
    base_url_variable: str
    key_variable: str
    backend: Callable[[Provider], LiveBackend]
    trial: KeyTrial
    key_header: str = "Authorization"
    effects: Mapping[str, str] = field(default_factory=dict)
    """Name of a tool that writes → what it does to the provider's data."""


ACCESS = {
    "fmp": Access(
        label="FMP",
        base_url="https://financialmodelingprep.com/stable",
        base_url_variable="FMP_BASE_URL",
        key_variable="FMP_API_KEY",
        key_header="apikey",
        backend=LiveFmp,
        trial=KeyTrial("fmp_get_previous_close", {"symbol": "AAPL"}),
    ),
    "polygon": Access(
        label="Polygon",
        base_url="https://api.polygon.io",
        base_url_variable="POLYGON_BASE_URL",
        key_variable="POLYGON_API_KEY",
        backend=LivePolygon,
        trial=KeyTrial("polygon_get_market_status"),
    ),
    "tavily": Access(
        label="Tavily",
        base_url="https://api.tavily.com",
        base_url_variable="TAVILY_BASE_URL",
        key_variable="TAVILY_API_KEY",
        backend=LiveTavily,
        trial=KeyTrial("tavily_search", {"query": "weather", "max_results": 1}, cost="one credit"),
    ),
    "slack": Access(
        label="Slack",
        base_url="https://slack.com/api",
        base_url_variable="SLACK_BASE_URL",
        key_variable="SLACK_BOT_TOKEN",
        backend=LiveSlack,
        trial=KeyTrial("list_slack_channels"),
        effects={"send_slack_message": "posts to channels of the real workspace, for everyone to see"},
    ),
}


@asynccontextmanager
async def live_backend(
    name: str,
    environ: Mapping[str, str],
    *,
    patience: ProviderPatience | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[LiveBackend]:
    """Open the live backend of a server; a `ValueError` names the variable that is missing or wrong."""
    access = ACCESS[name]
    account = _account(access, environ)
    # No redirects: following one would send the key to a host that the user did not choose.
    async with httpx2.AsyncClient(
        base_url=account.base_url, headers=account.headers, follow_redirects=False
    ) as client:
        provider = Provider(client, account, patience=patience or ProviderPatience(), clock=clock or Clock())
        yield access.backend(provider)


def _account(access: Access, environ: Mapping[str, str]) -> ProviderAccount:
    key = environ.get(access.key_variable, "").strip()
    if not key:
        raise ValueError(f"{access.key_variable} is not set: the live {access.label} backend needs it")
    return ProviderAccount(
        label=access.label,
        base_url=environ.get(access.base_url_variable, "").strip() or access.base_url,
        key_variable=access.key_variable,
        key=key,
        key_header=access.key_header,
    )
