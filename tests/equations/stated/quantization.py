"""Inline relations of quantization, and of its exercises."""

import numpy as np
from equations.stated import slope, stated


@stated("dlref/quantization/_fake_quantize.py")
def of_quantization():
    x = np.array([-1.5, 0.2, 0.9])
    yield r"s = \max |x| / (2^{n-1} - 1)", np.max(np.abs(x)) / (2**7 - 1), 1.5 / 127
    s = 0.3
    text = r"s\, \partial (x / s) / \partial s = -x / s"
    yield text, s * slope(lambda s: x / s, s), -x / s
