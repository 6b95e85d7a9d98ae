"""Losses, each with its gradient and both products with its Jacobian."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
