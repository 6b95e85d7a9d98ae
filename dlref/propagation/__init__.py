"""How values and gradients propagate through depth, and how to initialize weights for that."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
