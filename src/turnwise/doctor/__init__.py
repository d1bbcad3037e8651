"""Takes a setup, gives findings as they are made: what works, what is missing, and what to do about it."""

from turnwise.doctor.examination import examine
from turnwise.doctor.findings import Finding, Level, print_finding

__all__ = ["Finding", "Level", "examine", "print_finding"]
