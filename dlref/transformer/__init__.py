"""The Transformer: blocks, stacks, whole models, their gradients, training and generation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
