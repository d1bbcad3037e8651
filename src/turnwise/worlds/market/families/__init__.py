"""Every family of verified tasks, by name; a new one has a draft here and its phrasings in families.toml."""

from collections.abc import Sequence

from turnwise.worlds.market.families.calculations import CALCULATIONS
from turnwise.worlds.market.families.changes import CHANGES
from turnwise.worlds.market.families.changing_conversations import CHANGING_CONVERSATIONS
from turnwise.worlds.market.families.conversations import CONVERSATIONS
from turnwise.worlds.market.families.kit import Family, families_of
from turnwise.worlds.market.families.lookups import LOOKUPS
from turnwise.worlds.market.families.searches import SEARCHES

FAMILIES: dict[str, Family] = families_of(LOOKUPS | SEARCHES | CALCULATIONS | CHANGES)
"""Families of one user message, which `tasks make` makes by default."""

CONVERSATION_FAMILIES: dict[str, Family] = families_of(CONVERSATIONS | CHANGING_CONVERSATIONS)
"""Families with several user messages, or with a user who replies."""

CONVERSATION_GROUP = "conversations"
"""Names all of them at once."""


def chosen_families(names: Sequence[str]) -> dict[str, Family]:
    """Return the families of these names; without names, those of one message. ValueError if unknown."""
    if not names:
        return FAMILIES
    known = FAMILIES | CONVERSATION_FAMILIES
    chosen: dict[str, Family] = {}
    for name in names:
        if name == CONVERSATION_GROUP:
            chosen |= CONVERSATION_FAMILIES
        elif name in known:
            chosen[name] = known[name]
        else:
            raise ValueError(
                f"{name}: unknown; the families are {', '.join(known)}, and {CONVERSATION_GROUP} for the "
                f"last {len(CONVERSATION_FAMILIES)}"
            )
    return chosen
