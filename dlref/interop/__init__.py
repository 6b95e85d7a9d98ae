"""Conventions of other libraries, and conversions between them."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
