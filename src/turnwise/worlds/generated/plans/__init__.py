"""Kinds of tasks: each rehearses a conversation on a copy of a world and records the plan."""
