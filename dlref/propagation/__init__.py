"""How values and gradients propagate through depth, and how to initialize weights for that."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
