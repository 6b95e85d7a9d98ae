r"""Weights as directions and lengths, and both Jacobian products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_given,
    check_ndim,
    check_shape,
    reduced_axes,
    result,
)
from .._core.jit import inline_fma, inline_reassoc, kernel
from .._core.threads import as_carray, over_rows
from ._kernels.rows import HUGE, TINY, safe_unit

COST = 1.0  #: nanoseconds an element


@inline_reassoc
def _product(a: FloatArray, b: FloatArray, scale: float) -> float:
    """Return the dot product of two rows, the first of them times a scale."""
    total = np.float64(0.0)
    for k in range(a.size):
        total += (scale * np.float64(a[k])) * np.float64(b[k])
    return total


@inline_fma
def _length(v: FloatArray) -> tuple[float, float]:
    """Return a scale, 1 or a power of two, and the length of the scaled row."""
    scale, largest = np.float64(1.0), np.float64(0.0)
    total = _product(v, v, scale)
    if not TINY < total < HUGE:
        for k in range(v.size):
            if abs(v[k]) > largest:
                largest = np.float64(abs(v[k]))
        scale = safe_unit(largest)
        total = np.float64(0.0)
        for k in range(v.size):
            total += (scale * v[k]) * (scale * v[k])
    return scale, np.sqrt(total)


@kernel
def _stretch(start: int, stop: int, v: FloatArray, g: FloatArray, out: FloatArray) -> None:
    """Give each row its length."""
    for r in range(start, stop):
        scale, length = _length(v[r])
        factor = np.float64(g[r]) / length * scale
        for k in range(v.shape[1]):
            out[r, k] = factor * np.float64(v[r, k])


@kernel
def _turn(
    start: int,
    stop: int,
    u: FloatArray,
    v: FloatArray,
    g: FloatArray,
    out: FloatArray,
    along: FloatArray,
) -> None:
    """Split each row of u: its part along the row of v, and the rest times g / norm(v)."""
    for r in range(start, stop):
        scale, length = _length(v[r])
        part = _product(v[r], u[r], scale) / length
        along[r] = part
        of_v, factor = part * scale / length, np.float64(g[r]) / length * scale
        for k in range(v.shape[1]):
            out[r, k] = factor * (np.float64(u[r, k]) - of_v * np.float64(v[r, k]))


def _stretched(v: FloatArray, g: FloatArray) -> FloatArray:
    out = np.empty_like(v)
    with np.errstate(all="ignore"):
        over_rows(_stretch, len(v), COST * v.shape[1], v, g, out)
    return out


def _turned(u: FloatArray, v: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
    out, along = np.empty_like(v), np.empty_like(g)
    with np.errstate(all="ignore"):
        over_rows(_turn, len(v), COST * v.shape[1], u, v, g, out, along)
    return out, along


def _as_rows(v: FloatArray, axis: int | None) -> FloatArray:
    """Return a matrix with a row for each length."""
    if axis is None:
        return as_carray(v).reshape(1, v.size)
    first = as_carray(np.moveaxis(v, axis, 0))
    return first.reshape(len(first), math.prod(first.shape[1:]))


def _restored(rows: FloatArray, like: FloatArray, axis: int | None) -> FloatArray:
    """Return the rows as an array of the shape that they came from."""
    if axis is None:
        return rows.reshape(like.shape)
    return np.moveaxis(rows.reshape(np.moveaxis(like, axis, 0).shape), 0, axis)


def _check(v: FloatArray, g: FloatArray, axis: Any, names: tuple[str, str]) -> int | None:
    """Check the shapes, and return the axis."""
    check_ndim(names[0], v, 1)
    if axis is not None:
        (axis,) = reduced_axes(as_integer("axis", axis, least=-v.ndim, most=v.ndim - 1), v.ndim)
    check_shape(names[1], g, () if axis is None else v.shape[axis : axis + 1])
    return None if axis is None else int(axis)


def weight_norm(v: npt.ArrayLike, g: npt.ArrayLike, *, axis: int | None = 0) -> FloatArray:
    r"""
    Give each row of a weight a length of its own.

    Parameters
    ----------
    v : array_like, shape (..., n, ...)
        Directions: a weight of any shape.
    g : array_like, shape (n,), or () if `axis` is None
        Lengths, one for each index along `axis`.
    axis : int or None, default 0
        The axis of the outputs. The length is over all others; None takes all axes.

    Returns
    -------
    ndarray, shape of `v`
        Weight whose rows have the lengths :math:`\abs{g}`.

    Raises
    ------
    TypeError
        If an array is not real, or `axis` is not an integer.
    ValueError
        If `v` is a scalar, the shapes do not fit, or `axis` is out of range.

    See Also
    --------
    weight_norm_vjp : The gradient, with its derivation.
    l2_norm : Rows of length 1.
    dlref.neurons.lora_linear : DoRA normalizes its sum of weights so.

    Notes
    -----
    For each row,

    .. math:: \vec w = g\, \frac{\vec v}{\norm{\vec v}} .

    Training then moves the length of a weight and its direction apart from each other
    :cite:p:`SalimansKingma2016`. The length of :math:`\vec v` does not count, so its
    gradient is orthogonal to it, and a step of plain descent makes it longer (Pythagoras):

    .. math:: \norm{\vec v - \eta \vec d}^2 = \norm{\vec v}^2 + \eta^2 \norm{\vec d}^2 , \qquad
       \vec d = \pdv{L}{\vec v} .

    A longer :math:`\vec v` has a smaller gradient. So a learning rate that is too large makes its
    own steps smaller.

    **Conventions.** As PyTorch's ``parametrizations.weight_norm``, whose ``original0`` is `g` with
    axes of length 1, and ``original1`` is `v`. The kernel of a convolution, of shape (n_out, n_in,
    size), has one length for each output, too. PyTorch's ``dim=None`` is ``axis=None``.

    **Special values.** A row of zeros has no direction and gives NaN, as in PyTorch.

    References
    ----------
    - :cite:t:`SalimansKingma2016`

    Examples
    --------
    >>> from dlref.normalization import weight_norm
    >>> weight_norm([[3.0, 4.0], [0.0, 5.0]], [10.0, 2.0])
    array([[6., 8.],
           [0., 2.]])

    One length for the whole matrix:

    >>> weight_norm([[1.0, 1.0], [1.0, 1.0]], 6.0, axis=None)
    array([[3., 3.],
           [3., 3.]])
    """
    check_given("v", v)
    check_given("g", g)
    dtype, (v, g) = as_floats({"v": v, "g": g}, work=np.float32)
    along = _check(v, g, axis, ("v", "g"))
    rows = _stretched(_as_rows(v, along), as_carray(g).reshape(-1))
    return result(_restored(rows, v, along), dtype)


def weight_norm_vjp(
    dout: npt.ArrayLike, v: npt.ArrayLike, g: npt.ArrayLike, *, axis: int | None = 0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of weight normalization.

    Parameters
    ----------
    dout : array_like, shape of `v`
        Cotangent :math:`\vec u = \partial L / \partial \vec w` of each row.
    v, g, axis : as in `weight_norm`
        Raises the same errors.

    Returns
    -------
    dv : ndarray, shape of `v`
        Gradient with respect to the directions.
    dg : ndarray, shape of `g`
        Gradient with respect to the lengths.

    Notes
    -----
    Let :math:`\vec e = \vec v / \norm{\vec v}` be the direction of a row.

    **The differential.** The change of the length is
    :math:`\dd \norm{\vec v} = \vec e \cdot \dd \vec v`, so

    .. math:: \dd \vec w = \vec e\, \dd g
       + \frac{g}{\norm{\vec v}} \bigl( \dd \vec v - \vec e\, (\vec e \cdot \dd \vec v) \bigr) .

    **The inner product.** The loss changes by

    .. math:: \dd L = \vec u \cdot \dd \vec w = (\vec e \cdot \vec u)\, \dd g
       + \frac{g}{\norm{\vec v}} \bigl( \vec u - \vec e\, (\vec e \cdot \vec u) \bigr)
       \cdot \dd \vec v .

    **The transpose.** The factors of both differentials are

    .. math:: \pdv{L}{g} = \vec e \cdot \vec u , \qquad
       \pdv{L}{\vec v} = \frac{g}{\norm{\vec v}}
       \bigl( \vec u - \vec e\, (\vec e \cdot \vec u) \bigr) .

    The cotangent is split: its part along the row moves the length, and the rest turns the
    direction.

    Examples
    --------
    >>> from dlref.normalization import weight_norm_vjp
    >>> dv, dg = weight_norm_vjp([[25.0, 0.0]], [[3.0, 4.0]], [10.0])
    >>> dv.round(12), dg.round(12)
    (array([[ 32., -24.]]), array([15.]))
    """
    check_given("dout", dout)
    check_given("v", v)
    check_given("g", g)
    dtype, (u, v, g) = as_floats({"dout": dout, "v": v, "g": g}, work=np.float32)
    along = _check(v, g, axis, ("v", "g"))
    check_shape("dout", u, v.shape)
    dv, dg = _turned(_as_rows(u, along), _as_rows(v, along), as_carray(g).reshape(-1))
    return result(_restored(dv, v, along), dtype), result(dg.reshape(g.shape), dtype)


def weight_norm_jvp(primals: Any, tangents: Any, *, axis: int | None = 0) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of weight normalization.

    Parameters
    ----------
    primals : tuple of array_like
        Directions v and lengths g.
    tangents : tuple of array_like or None
        Their tangents; None is zero.
    axis : int or None, default 0
        As in `weight_norm`, which raises the same errors.

    Returns
    -------
    ndarray, shape of the directions
        Tangent of the weight.

    Notes
    -----
    The differential of :func:`weight_norm_vjp`, with the direction :math:`\vec e`:

    .. math:: \dot{\vec w} = \dot g\, \vec e + \frac{g}{\norm{\vec v}}
       \bigl( \dot{\vec v} - \vec e\, (\vec e \cdot \dot{\vec v}) \bigr) .

    Examples
    --------
    A longer direction changes nothing; a longer length counts:

    >>> from dlref.normalization import weight_norm_jvp
    >>> weight_norm_jvp(([[3.0, 4.0]], [10.0]), ([[3.0, 4.0]], [5.0])).round(12)
    array([[3., 4.]])
    """
    dtype, (v, g), (dv, dg) = as_tangents(primals, tangents, count=2)
    along = _check(v, g, axis, ("primals[0]", "primals[1]"))
    rows = _as_rows(v, along)
    turned, _ = _turned(_as_rows(dv, along), rows, as_carray(g).reshape(-1))
    longer = _stretched(rows, as_carray(dg).reshape(-1))
    return result(_restored(turned + longer, v, along), dtype)
