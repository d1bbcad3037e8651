"""The number of this version; the package is built with it."""

__version__ = "0.1.0"
