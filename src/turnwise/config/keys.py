"""Look up the keys of a recipe by name: one key, a section, or what an unknown name may mean."""

import difflib

from turnwise.config.describe import KeyFacts, describe_keys


def keys_below(name: str) -> list[KeyFacts]:
    """The key of this name, or all keys of the section; empty if there is neither."""
    return [key for key in describe_keys() if key.name == name or key.name.startswith(f"{name}.")]


def nearest_keys(name: str) -> list[str]:
    """Keys that an unknown name may mean: the same key in other sections, else a similar name."""
    last_parts = {key.name: key.name.rpartition(".")[2] for key in describe_keys()}
    last = name.rpartition(".")[2]
    if last not in last_parts.values():
        similar = difflib.get_close_matches(name, last_parts, n=1, cutoff=0.8)
        if similar and "." in name:
            return similar
        last = next(iter(difflib.get_close_matches(last, last_parts.values(), n=1, cutoff=0.7)), "")
    return [known for known, part in last_parts.items() if part == last]
