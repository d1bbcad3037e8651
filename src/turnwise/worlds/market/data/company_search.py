"""Find companies by what somebody typed, among the invented ones and the real listings."""

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.listed_names import EXACT, search
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.names import alike, fitting


def find_companies(market: Market, text: str, *, least: int = 1) -> list[Company]:
    """Return the invented companies that match; if there are none, matching listings and then guesses.

    A listing's full name ranks above invented companies that are only spelt alike: "Tesla" is not a misspelt
    "Teskuvex". If any are spelt alike, other listings do not count. `least` is the lowest score of a listing.
    """
    if companies := fitting(market.companies(), text):
        return companies
    guesses = alike(market.companies(), text)
    listed = search(market.listings, text, least=EXACT if guesses else least)
    return [*(listing.company for listing in listed), *guesses]
