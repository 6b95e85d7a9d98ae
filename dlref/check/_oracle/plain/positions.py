"""Contextual positions, which are sums of gates."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import as_rows, sigmoid, widen


def _places(gates: Any, last: int) -> tuple[Any, Any, Any]:
    """Return the whole numbers before and after each position, and the share of the latter."""
    counted = np.add.accumulate(gates[..., ::-1], -1)[..., ::-1]
    p = np.minimum(counted, last)
    n = np.floor(p).astype(int)
    return n, np.minimum(n + 1, last), p - n


def cope(q: Any, scores: Any, table: Any) -> Any:
    """Return products with the vectors of both whole positions, interpolated."""
    z = widen(q) @ widen(table).T
    n, after, w = _places(sigmoid(widen(scores)), len(table) - 1)
    low, high = (np.take_along_axis(z, i, -1) for i in (n, after))
    return ((1 - w) * low + w * high).astype(q.dtype)


def cope_vjp(dout: Any, q: Any, scores: Any, table: Any) -> Any:
    """Return the gradients: the one of a gate is a sum over the positions that it is part of."""
    u, wide, gates = widen(dout), (widen(q), widen(table)), sigmoid(widen(scores))
    z = wide[0] @ wide[1].T
    n, after, w = _places(gates, len(table) - 1)
    dz = np.zeros(z.shape, z.dtype)
    rows = as_rows(dz), as_rows(u), as_rows(n), as_rows(after), as_rows(w)
    for of, by, low, high, share in zip(*rows, strict=True):
        np.add.at(of, low, (1 - share) * by)
        np.add.at(of, high, share * by)
    dp = u * (np.take_along_axis(z, after, -1) - np.take_along_axis(z, n, -1))  # 0 at the last
    dscores = np.add.accumulate(dp, -1) * gates * (1 - gates)
    dtable = as_rows(dz).T @ as_rows(wide[0])
    grads = dz @ wide[1], dscores, dtable
    return tuple(a.astype(q.dtype) for a in grads)
