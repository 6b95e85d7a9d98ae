"""From one neuron to a layer: the affine map, the activation after it, both derivatives."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
