"""The Transformer: blocks, stacks, whole models, their gradients, training and generation."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
