"""Numbers with few bits: rounding to integers with a scale, and blocks that share one."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
