"""Derivatives of the maps that NumPy has: elementary functions, reductions, matrices, chains."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
