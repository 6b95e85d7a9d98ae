"""Positional encodings: sinusoidal, learned, rotary and relative."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
