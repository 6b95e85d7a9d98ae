"""Losses, each with its gradient and both products with its Jacobian."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
