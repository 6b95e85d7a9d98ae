"""Activation functions: element-wise maps, gated units, softmax, and their derivatives."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
