"""Servers that take SQL: what their tables hold, and questions and changes in SQL."""
