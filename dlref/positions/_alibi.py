r"""Attention with linear biases: every score minus a slope times the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_number,
    as_offsets,
    as_tangents,
    check_flags,
    check_shape,
    choice,
    result,
)
from .._core.broadcasting import unbroadcast
from .._core.jit import kernel
from .._core.threads import over_rows
from ._kernels.diagonals import distances
from ._relative_bias import as_grid, diagonal_sums

IntArray = npt.NDArray[np.int64]


@kernel
def _causal(
    start: int, stop: int, slopes: FloatArray, T: int, firsts: IntArray, out: FloatArray
) -> None:
    for r in range(start, stop):
        m, i, row = np.float64(slopes[r // T]), firsts[r // T] + r % T, out[r]
        for j in range(row.size):
            row[j] = m * (j - i) if j < i else 0.0


@kernel
def _symmetric(
    start: int, stop: int, slopes: FloatArray, T: int, firsts: IntArray, out: FloatArray
) -> None:
    for r in range(start, stop):
        m, i, row = np.float64(slopes[r // T]), firsts[r // T] + r % T, out[r]
        for j in range(row.size):
            row[j] = m * -abs(j - i)


def alibi_slopes(num_heads: int, *, rule: str = "official", exponent: float = 8.0) -> FloatArray:
    r"""
    Slope of each head.

    Parameters
    ----------
    num_heads : int
        Number H of heads.
    rule : {"official", "paper"}
        The rule for an H that is not a power of two.
    exponent : float, default 8.0
        The least slope is 2 to the power of minus this number a. MPT's name for it is
        ``alibi_bias_max``; its model for stories has 16.

    Returns
    -------
    ndarray of float64, shape (H,)
        Slopes m, all positive.

    Raises
    ------
    TypeError
        If `num_heads` is not an integer, or `exponent` not a number.
    ValueError
        If `num_heads` is less than 1, the rule unknown, or `exponent` not greater than 0.

    See Also
    --------
    alibi_bias : The bias with these slopes.

    Notes
    -----
    For H heads, a power of two, the slopes are a geometric sequence that ends at
    :math:`2^{-a}` and starts at its own ratio:

    .. math:: m_h = 2^{-a h / H}, \qquad h = 1, \dots, H .

    With 8 heads and a = 8 these are 1/2, 1/4, ..., 1/256. A slope m makes a distance of 1/m cost as
    much as a score lower by 1, so the heads look back some 2 to 256 tokens.

    For other H there are two rules. "paper" uses the formula above for any H. "official", in the
    authors' code and in models such as BLOOM, which has 112 heads, takes the slopes for the largest
    power of two P below H, followed by the first H − P of every other slope for 2P heads. The first
    of them is steeper than all, the others lie between those already there:

    .. math::

        m_h = 2^{-a h/P}, \; h = 1, \dots, P; \qquad
        m_{P + h} = 2^{-a (2h - 1)/(2 P)}, \; h = 1, \dots, H - P .

    Slopes are neither learned nor part of the state of a model; they follow from H and a.

    References
    ----------
    - :cite:t:`Press2022`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import alibi_slopes
    >>> 1 / alibi_slopes(8)
    array([  2.,   4.,   8.,  16.,  32.,  64., 128., 256.])

    Twelve heads: the slopes for 8, then a steeper one and three in between; below, the other rule.

    >>> alibi_slopes(12)[[0, 7, 8, 9, 10, 11]].round(4)
    array([0.5   , 0.0039, 0.7071, 0.3536, 0.1768, 0.0884])
    >>> alibi_slopes(12, rule="paper")[[0, 1, 11]].round(4)
    array([0.63  , 0.3969, 0.0039])
    """
    heads = as_integer("num_heads", num_heads, least=1, most=2**20)
    choice("rule", rule, ("official", "paper"))
    exponent = as_number("exponent", exponent, above=0)
    power = heads if rule == "paper" else 1 << (heads.bit_length() - 1)
    first = np.arange(1, power + 1) / power
    between = (2 * np.arange(1, heads - power + 1) - 1) / (2 * power)
    return np.asarray(2.0 ** (-exponent * np.concatenate([first, between])))


def _grid(
    name: str, m: FloatArray, T: int, S: int, q_offset: npt.ArrayLike
) -> tuple[FloatArray, int, int, IntArray]:
    """Return the slopes with the batch axes of the offsets, the sizes, and an offset for each."""
    T, S, _ = as_grid(T, S, 0)
    firsts = as_offsets(name, m, m.shape, q_offset)
    shape = np.broadcast_shapes(firsts.shape, m.shape)
    return np.broadcast_to(m, shape), T, S, np.broadcast_to(firsts, shape)


def alibi_bias(
    slopes: npt.ArrayLike,
    T: int,
    S: int,
    *,
    q_offset: npt.ArrayLike = 0,
    symmetric: bool = False,
) -> FloatArray:
    r"""
    Penalty of the scores of every head, proportional to the distance.

    Parameters
    ----------
    slopes : array_like, shape (..., H)
        Slope m of each head.
    T : int
        Number of queries.
    S : int
        Number of keys.
    q_offset : int or array_like of int, default 0
        Position of the first query; with a cache of t keys it is t. It is negative where keys are
        fewer than queries and both end together, T > S. An array has one for each sequence: its
        axes are batch axes, which broadcast with those of `slopes` before the heads.
    symmetric : bool, default False
        Whether keys after the query are penalized, too; otherwise their bias is 0, as a causal mask
        hides them.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias, to be added to the scores before the softmax.

    Raises
    ------
    TypeError
        If `slopes` is not real, a number is not an integer, or `symmetric` is not a bool.
    ValueError
        If `T` or `S` is negative, or the axes of an array of offsets do not broadcast.

    See Also
    --------
    alibi_slopes : The slopes.
    alibi_bias_vjp, alibi_bias_jvp : The derivatives.
    relative_bias : A learned number for every offset.

    Notes
    -----
    .. math:: B_{hij} = -m_h\, (i + \text{q\_offset} - j)_+ \qquad\text{or}\qquad
       -m_h\, \abs{i + \text{q\_offset} - j}

    Here :math:`(d)_+ = \max(d, 0)`; the second form is for `symmetric`. The scores become
    :math:`\vec q_i \cdot \vec k_j / \sqrt E + B_{hij}`. Since :math:`e^{s + B} = e^s\, e^B`, the
    weight of a key at the distance d is multiplied by :math:`e^{-m d}` before it is normalized: the
    bias is additive in the scores and multiplicative in the weights. At a distance of 1000 that is
    :math:`7 \cdot 10^{-28}` for m = 1/16 and 0.02 for m = 1/256.

    A constant added to a row changes no softmax. Some implementations therefore add
    :math:`m_h j` to every row: with a causal mask, it is the same as above.

    With a cache, one query at position t needs row t alone: T = 1 and q_offset = t.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Press2022`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import alibi_bias
    >>> alibi_bias([0.5], 1, 4, q_offset=3)
    array([[[-1.5, -1. , -0.5, 0. ]]])
    >>> alibi_bias([0.5], 2, 3, symmetric=True)[0]
    array([[ 0. , -0.5, -1. ],
           [-0.5,  0. , -0.5]])

    Two sequences, with caches of 3 and of 1 keys:

    >>> alibi_bias([0.5], 1, 4, q_offset=[3, 1])[:, 0, 0]
    array([[-1.5, -1. , -0.5,  0. ],
           [-0.5,  0. ,  0. ,  0. ]])

    Adding m j instead gives the same weights where the mask lets anything through:

    >>> def weights(bias):
    ...     w = np.exp(bias) * np.tril(np.ones((4, 4)))
    ...     return w / w.sum(-1, keepdims=True)
    >>> bool(np.allclose(weights(alibi_bias([0.5], 4, 4)), weights(0.5 * np.arange(4))))
    True
    """
    dtype, (m,) = as_floats({"slopes": slopes}, work=np.float32)
    return result(_penalties(*_grid("slopes", m, T, S, q_offset), symmetric), dtype)


def _penalties(m: FloatArray, T: int, S: int, firsts: IntArray, symmetric: bool) -> FloatArray:
    check_flags(symmetric=symmetric)
    out = np.empty((m.size * T, S), m.dtype)
    if out.size:
        fill = _symmetric if symmetric else _causal
        each = np.ascontiguousarray(m).ravel(), T, np.ascontiguousarray(firsts).ravel()
        over_rows(fill, len(out), S / 2, *each, out)
    return out.reshape(*m.shape, T, S)


def alibi_bias_vjp(
    dout: npt.ArrayLike,
    slopes: npt.ArrayLike,
    T: int,
    S: int,
    *,
    q_offset: npt.ArrayLike = 0,
    symmetric: bool = False,
) -> FloatArray:
    r"""
    Reverse mode of `alibi_bias`: gradient of the slopes, for those who train them.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Gradient of a loss with respect to the bias.
    slopes : array_like, shape (..., H)
        Slope m of each head. Only its shape and dtype matter.
    T, S, q_offset, symmetric : as in `alibi_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H)
        Gradient of that loss with respect to the slopes.

    Notes
    -----
    Let :math:`U_{hij}` be the cotangent, and :math:`d_{ij}` the distance in the formula of
    `alibi_bias`, :math:`(i + \text{q\_offset} - j)_+` or :math:`\abs{i + \text{q\_offset} - j}`.
    The bias is linear in the slope, with :math:`-d_{ij}` as its factor:

    .. math:: \pdv{L}{m_h} = -\sum_{ij} U_{hij}\, d_{ij} .

    ALiBi itself keeps its slopes fixed. Sums are taken along diagonals first, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import alibi_bias_vjp
    >>> alibi_bias_vjp(np.ones((1, 3, 3)), [0.5], 3, 3)
    array([-4.])
    """
    dtype, (u, m) = as_floats({"dout": dout, "slopes": slopes}, work=np.float32)
    every, T, S, firsts = _grid("slopes", m, T, S, q_offset)
    check_shape("dout", u, (*every.shape, T, S))
    distance = distances(T, S, firsts[..., None], symmetric=symmetric)
    with np.errstate(all="ignore"):
        sums = diagonal_sums(np.ascontiguousarray(u))
        grad = -np.einsum("...d,...d->...", sums, distance[..., : max(T + S - 1, 0)])
        return result(unbroadcast(grad, m.shape), dtype)


def alibi_bias_jvp(
    primals: Any,
    tangents: Any,
    T: int,
    S: int,
    *,
    q_offset: npt.ArrayLike = 0,
    symmetric: bool = False,
) -> FloatArray:
    r"""
    Forward mode of `alibi_bias`: the bias of the tangent.

    Parameters
    ----------
    primals : array_like, shape (..., H)
        Slope m of each head.
    tangents : array_like or None
        Tangent of the slopes; None is zero.
    T, S, q_offset, symmetric : as in `alibi_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Tangent of the bias.

    Notes
    -----
    .. math:: \dot B_{hij} = -\dot m_h\, d_{ij}

    with the distance :math:`d_{ij}` of `alibi_bias_vjp`.

    Examples
    --------
    >>> from dlref.positions import alibi_bias_jvp
    >>> alibi_bias_jvp([0.5], [1.0], 1, 3, q_offset=2)
    array([[[-2., -1.,  0.]]])
    """
    dtype, _, (moved,) = as_tangents(primals, tangents, count=1)
    return result(_penalties(*_grid("primals", moved, T, S, q_offset), symmetric), dtype)
