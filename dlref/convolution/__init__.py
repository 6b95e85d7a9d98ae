"""Maps that slide a window along an axis: convolution, its transpose, pooling."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
