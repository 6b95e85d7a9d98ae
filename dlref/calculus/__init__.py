"""Derivatives of the maps that NumPy has: arithmetic, reductions, matrices, chains."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
