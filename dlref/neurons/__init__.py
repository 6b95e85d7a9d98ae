"""From one neuron to a layer: the affine map, the activation after it, both derivatives."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
