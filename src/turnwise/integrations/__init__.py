"""Integrations with other trainers; an integration is imported only when it is used."""
