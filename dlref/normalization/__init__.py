"""Normalization: batch, layer, RMS, group and instance norm, with their derivatives."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
