r"""Whole matrices of scores and weights, their gradients and tangents, in NumPy."""

from __future__ import annotations

import numpy as np

from ..._core.arguments import FloatArray, check_shape
from . import flash
from .arguments import Attention, TangentAttention


def scores(at: Attention) -> FloatArray:
    """Return all scores (q_heads, T, S), −inf where something is hidden."""
    return flash.scores_of(at.q, at.k, at.spec)


def softmax_parts(at: Attention, s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights that belong to all scores, and the weight of the sink in each row."""
    with np.errstate(all="ignore"):
        top = np.maximum(np.max(s, axis=-1, initial=-np.inf), at.sinks[:, None])
        shift = np.where(top == -np.inf, 0, top)
        p, sink = np.exp(s - shift[..., None]), np.exp(at.sinks[:, None] - shift)
        total = p.sum(-1, dtype=np.float64) + sink
        factor = np.where(total == 0, 0, 1 / total)
        return p * factor[..., None].astype(p.dtype), sink * factor


def matrix_cotangent(at: Attention) -> FloatArray:
    """Return the cotangent of a matrix of scores or weights by heads, as a copy."""
    dout = at.more["dout"]
    check_shape("dout", dout, (*at.output_shape[:-1], at.S))
    return np.array(at.queries(dout))


@np.errstate(all="ignore")
def scores_vjp(at: Attention, moved: FloatArray) -> tuple[FloatArray, ...]:
    """Return the gradients of q, k and the bias; overwrite the gradients of the scores."""
    dbias = () if at.bias is None else (at.bias_of_scores(moved),)
    slope = flash.slope_of(at.q, at.k, at.spec)
    if slope is not None:
        np.multiply(moved, slope, out=moved, where=moved != 0)
    product = np.matmul if flash.finite(moved, at.q, at.k) else flash.product_with_gaps
    dq = flash.grouped(product, moved, at.k) * at.q.dtype.type(at.factor)
    dk = np.zeros_like(at.k)
    for first in range(0, len(at.q), max(1, len(at.k))):
        heads = slice(first, first + len(at.k))
        dk += product(moved[heads].swapaxes(1, 2), at.q[heads])
    return (at.of_queries(dq, at.T, at.E), at.of_keys(dk, at.S, at.E), *dbias)


def scores_jvp(at: TangentAttention, hidden: FloatArray) -> FloatArray:
    """Return the tangents of all scores, 0 for `hidden` ones."""
    dq, dk, *_ = at.tangents
    with np.errstate(all="ignore"):
        moved = flash.grouped(np.matmul, dq, at.k.swapaxes(1, 2))
        moved += flash.grouped(np.matmul, at.q, dk.swapaxes(1, 2))
        slope = flash.slope_of(at.q, at.k, at.spec)
        moved = moved if slope is None else moved * slope
        if at.dbias is not None:
            whole = slice(None)
            moved += at.dbias.tile(whole, whole, whole)
    moved[hidden] = 0
    return moved


def weights_jvp(at: TangentAttention) -> FloatArray:
    """Return the tangents of all weights."""
    s = scores(at)
    p, sink = softmax_parts(at, s)
    with np.errstate(all="ignore"):
        moved = scores_jvp(at, p == 0)
        means = np.sum(p * moved, axis=-1, dtype=np.float64)
        means += np.where(sink == 0, 0, sink * at.dsink[:, None])
        return p * (moved - means.astype(p.dtype)[..., None])
