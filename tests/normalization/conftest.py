"""What the tests of all normalizations need."""

from fractions import Fraction
from math import isqrt

import numpy as np
import peers
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


@pytest.fixture
def assert_rounded_once(rng):
    """Return a function that compares float32 gradients of x, w and b with PyTorch's in float64."""

    def check(vjp, by_torch, shape, offset):
        x = (rng.normal(size=shape) + offset).astype(np.float32)
        u, (w, b) = rng.normal(size=shape).astype(np.float32), rng.normal(size=(2, shape[-1]))
        w, b = w.astype(np.float32), b.astype(np.float32)
        wide = [a.astype(float) for a in (x, w, b)]
        _, grads = peers.value_and_vjp(by_torch, *wide, dout=u.astype(float))
        for got, want in zip(vjp(u, x, w, b), grads, strict=True):
            assert got.dtype == np.float32
            assert np.all(abs(got - want) <= 2.0**-24 * abs(want) + 1e-11 * np.max(abs(want)))

    return check
