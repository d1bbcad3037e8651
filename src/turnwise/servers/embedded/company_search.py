"""Find companies by what somebody typed, among the invented ones and the real listings."""

from turnwise.servers.embedded.companies import Company
from turnwise.servers.embedded.listed_names import EXACT, search
from turnwise.servers.embedded.market import Market
from turnwise.servers.embedded.names import alike, fitting


def find_companies(market: Market, text: str, *, least: int = 1) -> list[Company]:
    """The invented companies that fit; where none does, the real listings that do, best first.

    A listing's whole name comes before invented companies that are only spelt alike: "Tesla" is no misspelt
    "Teskuvex". `least` is the least fit of a listing.
    """
    if found := fitting(market.companies(), text):
        return found
    guesses = alike(market.companies(), text)
    listed = search(market.listings, text, least=EXACT if guesses else least)
    return [*(listing.company for listing in listed), *guesses]
