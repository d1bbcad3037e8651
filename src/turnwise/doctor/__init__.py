"""`turnwise doctor`: check a setup and report findings as they are made."""

from turnwise.doctor.examination import examine
from turnwise.doctor.findings import Finding, Level, print_finding

__all__ = ["Finding", "Level", "examine", "print_finding"]
