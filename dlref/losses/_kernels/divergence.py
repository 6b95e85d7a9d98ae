"""Terms of a Kullback-Leibler divergence, none of them negative."""

from __future__ import annotations

import numpy as np

from ..._core.arguments import FloatArray
from ..._core.jit import kernel
from ..._core.threads import as_carray, over_rows
from ..._math.elementary import exp, expm1

__all__ = ["divergence_terms"]

COST = 5  #: nanoseconds an element


@kernel
def _terms(
    start: int,
    stop: int,
    log_a: FloatArray,
    log_b: FloatArray,
    gap: FloatArray,
    out: FloatArray,
) -> None:
    """Write a log(a / b) - a + b, for the logarithm as `gap`; near 1, by the series of expm1."""
    x, y, g, to = log_a[start:stop], log_b[start:stop], gap[start:stop], out[start:stop]
    for i in range(to.size):
        a, b = exp(x[i]), exp(y[i])
        far = a * g[i] - a + b
        near = a * (g[i] + expm1(-g[i]))
        to[i] = b if a == 0.0 else (near if abs(g[i]) < 1.0 else far)


def divergence_terms(log_a: FloatArray, log_b: FloatArray, gap: FloatArray) -> FloatArray:
    """Return ``a * gap - a + b`` for float64 arrays of one shape; b where a is 0."""
    out = np.empty(log_a.shape)
    flat = (as_carray(x).reshape(-1) for x in (log_a, log_b, gap))
    over_rows(_terms, out.size, COST, *flat, out.reshape(-1))
    return out
