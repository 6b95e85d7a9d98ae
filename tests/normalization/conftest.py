"""What the tests of all normalizations need."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest


@pytest.fixture
def exactly_standardized():
    """Return a function that standardizes a float64 vector in exact arithmetic."""

    def standardize(x, eps):
        x = [Fraction(float(v)) for v in x]
        mean = sum(x) / len(x)
        var = sum((v - mean) ** 2 for v in x) / len(x) + Fraction(eps)
        digits = 10**80
        root = Fraction(isqrt(var.numerator * digits**2 // var.denominator), digits)
        return np.array([float((v - mean) / root) for v in x])

    return standardize
