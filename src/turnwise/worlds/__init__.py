"""Worlds made by code, each with data, tools and verified tasks."""
