"""
Reference implementations of the mathematics of deep learning.

Each chapter of the reference is one subpackage, loaded when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
