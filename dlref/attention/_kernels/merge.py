"""Kernels of the merge of attention's parts: sums over parts, and products with their outputs."""

from __future__ import annotations

import math

import numpy as np

from ..._core.arguments import FloatArray
from ..._core.jit import kernel
from ..._core.threads import as_carray, over_rows, with_workspace
from ..._math.softmax_rows import sum_of_products

COST = 0.5  #: nanoseconds an element of a part


@kernel
def _combine(
    start: int, stop: int, w: FloatArray, parts: FloatArray, out: FloatArray, room: FloatArray
) -> None:
    """Write the sums of w parts; the output of a part with weight 0 is not looked at."""
    for n in range(start, stop):
        room[:] = 0.0
        for p in range(w.shape[0]):
            weight = w[p, n]
            if weight != 0.0:
                for v in range(room.size):
                    room[v] += weight * np.float64(parts[p, n, v])
        for v in range(room.size):
            out[n, v] = room[v]


@kernel
def _pull_back(
    start: int,
    stop: int,
    u: FloatArray,
    w: FloatArray,
    parts: FloatArray,
    d_parts: FloatArray,
    along: FloatArray,
) -> None:
    """Write w u, and the inner products of u with the parts; 0 where the weight is 0."""
    for n in range(start, stop):
        for p in range(w.shape[0]):
            weight = w[p, n]
            if weight == 0.0:
                d_parts[p, n] = 0.0
                along[p, n] = 0.0
                continue
            for v in range(u.shape[1]):
                d_parts[p, n, v] = weight * np.float64(u[n, v])
            along[p, n] = sum_of_products(u[n], parts[p, n])


def _by_rows(w: FloatArray, parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights (P, N) and parts (P, N, V), contiguous."""
    count, width = parts.shape[0], parts.shape[-1]
    rows = math.prod(w.shape[1:])  # of each part, also where there is no part
    return as_carray(w).reshape(count, rows), as_carray(parts).reshape(count, rows, width)


def combined(w: FloatArray, parts: FloatArray) -> FloatArray:
    """Return the sum over the first axis of weights (P, ...) times parts (P, ..., V)."""
    out = np.empty(parts.shape[1:], parts.dtype)
    w, parts = _by_rows(w, parts)
    count, rows, width = parts.shape
    kernel_of_rows = with_workspace(_combine, width)
    over_rows(kernel_of_rows, rows, COST * count * width, w, parts, out.reshape(rows, width))
    return out


def pulled_back(u: FloatArray, w: FloatArray, parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return w u for each part, and the inner products of u with the parts."""
    d_parts, along = np.empty(parts.shape, parts.dtype), np.empty(w.shape)
    w, flat = _by_rows(w, parts)
    count, rows, width = flat.shape
    over_rows(
        _pull_back,
        rows,
        COST * count * width,
        as_carray(u).reshape(rows, width),
        w,
        flat,
        d_parts.reshape(flat.shape),
        along.reshape(w.shape),
    )
    return d_parts, along
