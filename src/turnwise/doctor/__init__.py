"""`turnwise doctor`: check a setup and report findings as they are made."""

from turnwise.doctor.examination import examine
from turnwise.doctor.findings import Finding, FindingLevel, print_finding, verdict

__all__ = ["Finding", "FindingLevel", "examine", "print_finding", "verdict"]
