"""Every family of verified tasks, by name; a new one is a `Family` and a place in its file's tuple."""

from turnwise.tasks.families.calculations import CALCULATIONS
from turnwise.tasks.families.changes import CHANGES
from turnwise.tasks.families.lookups import LOOKUPS
from turnwise.tasks.families.searches import SEARCHES
from turnwise.tasks.family import Family

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*LOOKUPS, *SEARCHES, *CALCULATIONS, *CHANGES)
}
