"""Which variables a live backend reads, and what it says when one is missing or wrong."""

import pytest

from tests.worlds.market.live.calls import KEY, environ
from turnwise.worlds.market.contract import contract, service_of
from turnwise.worlds.market.live import live_backend
from turnwise.worlds.market.live.http import ProviderAccount
from turnwise.worlds.market.live.providers import ACCESS


async def open_backend(name: str, variables: dict[str, str]) -> list[str]:
    """The names of its tools."""
    async with live_backend(name, variables) as backend:
        return [tool.name for tool in service_of(name, backend).tools]


@pytest.mark.parametrize("name", sorted(ACCESS))
async def test_every_tool_of_the_contract_has_its_method_and_a_missing_key_is_named(name: str) -> None:
    variable = ACCESS[name].key_variable
    expected = [tool["name"] for tool in contract()["servers"][name]["tools"]]
    assert await open_backend(name, {variable: KEY}) == expected
    for key in ("", "  "):
        with pytest.raises(ValueError, match=f"{variable} is not set"):
            await open_backend(name, {variable: key})


def test_every_server_with_a_key_in_the_contract_has_a_live_backend() -> None:
    keys = {name: server["key"] for name, server in contract()["servers"].items() if server["key"]}
    assert keys == {name: access.key_variable for name, access in ACCESS.items()}


@pytest.mark.parametrize("key", ["two\nlines", "ключ", "with space", "nul\x00"])
async def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ValueError, match="FMP_API_KEY") as caught:
        await open_backend("fmp", {"FMP_API_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://x.example", "x.example", "https://", "file:///etc/passwd"])
async def test_a_base_url_that_is_not_a_web_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base URL of Polygon"):
        await open_backend("polygon", environ("polygon", url))


def test_an_account_does_not_show_its_key() -> None:
    account = ProviderAccount(label="FMP", base_url="https://x.example", key_variable="FMP_API_KEY", key=KEY)
    assert KEY not in repr(account)
