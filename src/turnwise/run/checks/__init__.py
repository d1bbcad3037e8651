"""`turnwise doctor`: check a setup and report findings as they are made."""

from turnwise.run.checks.examination import examine
from turnwise.run.checks.findings import Finding, FindingLevel, print_finding, verdict

__all__ = ["Finding", "FindingLevel", "examine", "print_finding", "verdict"]
