"""Conventions of other libraries, and how to get from one to the other."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
