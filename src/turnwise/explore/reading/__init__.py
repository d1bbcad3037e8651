"""What an answer says, as relations: rows with named, typed columns."""

from turnwise.explore.reading.answers import is_cut, read

__all__ = ["is_cut", "read"]
