"""How values and gradients travel through depth, and how to start so that they arrive."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
