"""The providers' real HTTP APIs, answering in the same shapes as the embedded world."""

from turnwise.worlds.market.live.providers import live_backend

__all__ = ["live_backend"]
