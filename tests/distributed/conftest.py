"""Tiny models are faster with one thread."""

from tests.training.conftest import single_thread

__all__ = ["single_thread"]
