r"""Rotary embedding of places with several coordinates: rows and columns of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    check_ndim,
    check_shape,
    result,
)
from ._rotary import checked_tables, rotated, with_constants

NAMES = ("x", "cos", "sin")


def _tables(
    names: tuple[str, str, str], x: FloatArray, cos: npt.ArrayLike, sin: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Check the arguments; return both tables, with axes for place, coordinate and pair."""
    check_ndim(names[0], x, 2)
    c = as_array(names[1], cos)
    check_ndim(names[1], c, 3)
    axes, pairs = c.shape[-2:]
    check_shape(names[0], x, (*x.shape[:-1], axes * 2 * pairs))
    return checked_tables(names, x.reshape(*x.shape[:-1], axes, 2 * pairs), c, sin, None)


def _rotated(
    v: FloatArray, tables: tuple[FloatArray, FloatArray], sign: float, interleaved: bool
) -> FloatArray:
    """Rotate the blocks of channels, one per coordinate."""
    axes, pairs = tables[0].shape[-2:]
    blocks = v.reshape(*v.shape[:-1], axes, 2 * pairs)
    return rotated(blocks, *tables, sign, interleaved).reshape(v.shape)


def apply_rope_axial(
    x: npt.ArrayLike, cos: npt.ArrayLike, sin: npt.ArrayLike, *, interleaved: bool = True
) -> FloatArray:
    r"""
    Rotate one block of channels by each coordinate of a place.

    Parameters
    ----------
    x : array_like, shape (..., N, E)
        Queries or keys at N places.
    cos, sin : array_like, shape (N, A, E / 2A)
        Tables of `rope_tables` for positions of shape (N, A), with A coordinates per place.
    interleaved : bool, default True
        Whether the pairs of a block are neighbors, or one channel of each of its halves.

    Returns
    -------
    ndarray, shape (..., N, E)
        Rotated vectors, of the dtype of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `interleaved` is not a
        bool.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    apply_rope : One coordinate, with the derivation.
    apply_rope_axial_vjp, apply_rope_axial_jvp : The derivatives.

    Notes
    -----
    The channels are split into A blocks of equal width, and block a is rotated by coordinate
    :math:`p_a`, with the rotation :math:`\mat R` of :func:`rope_matrix`:

    .. math:: \vec y_a = \mat R_{p_a} \vec x_a, \qquad a = 1, \dots, A .

    The score of two places is a sum over the blocks,

    .. math:: \sum_a g_a(p'_a - p_a),

    in which each term is, by the argument for one coordinate, a function :math:`g_a` of the
    difference in that coordinate.
    So the score depends on the offset along each axis, and on nothing else. It is not a function of
    the Euclidean distance, and no term mixes two coordinates.

    For a grid of h rows and w columns, the positions are all pairs (row, column).

    References
    ----------
    - :cite:t:`Su2021`

    Examples
    --------
    Two places, the same step apart as two others:

    >>> import numpy as np
    >>> from dlref.positions import apply_rope_axial, rope_tables
    >>> q, k, f = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 0.0, 1.0, 1.0]), [0.5]
    >>> def score(place, other):
    ...     rotated = apply_rope_axial([q, k], *rope_tables([place, other], f))
    ...     return float(rotated[0] @ rotated[1])
    >>> score((0, 0), (1, 2)), score((5, 7), (6, 9))
    (8.2964544, 8.2964544)
    """
    dtype, (v,) = as_floats({"x": x}, work=np.float32)
    return result(_rotated(v, _tables(NAMES, v, cos, sin), 1.0, interleaved), dtype)


def apply_rope_axial_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    *,
    interleaved: bool = True,
) -> FloatArray:
    r"""
    Reverse mode of `apply_rope_axial`: rotation by the negative angles.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the rotated vectors.
    x : array_like, shape (..., N, E)
        Queries or keys. Only their shape and dtype matter.
    cos, sin : array_like, shape (N, A, E / 2A)
        Tables of `rope_tables`, constants.
    interleaved : as in `apply_rope_axial`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to `x`.

    Notes
    -----
    The Jacobian has one rotation per block, and its transpose rotates each block by the negative
    angles:

    .. math::

        \pdv{L}{\vec x_a} = \mat R_{p_a}^\top\, \vec u_a = \mat R_{-p_a}\, \vec u_a,
        \qquad a = 1, \dots, A .

    Examples
    --------
    >>> from dlref.positions import apply_rope_axial_vjp
    >>> apply_rope_axial_vjp([[1, 0, 1, 0]], [[0.0] * 4], [[[0], [1]]], [[[1], [0]]])
    array([[ 0., -1., 1., 0.]])
    """
    dtype, (u, v) = as_floats({"dout": dout, "x": x}, work=np.float32)
    tables = _tables(NAMES, v, cos, sin)
    check_shape("dout", u, v.shape)
    return result(_rotated(u, tables, -1.0, interleaved), dtype)


def apply_rope_axial_jvp(primals: Any, tangents: Any, *, interleaved: bool = True) -> FloatArray:
    r"""
    Forward mode of `apply_rope_axial`: the tangent is rotated.

    Parameters
    ----------
    primals : tuple (x, cos, sin) of array_like
        Queries or keys (..., N, E) and the tables.
    tangents : tuple (dx, None, None)
        Tangent of `x`; None is zero.
    interleaved : as in `apply_rope_axial`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of x
        Tangent of the rotated vectors.

    Notes
    -----
    The map is linear, so the tangent is rotated as the vector is. For each block of channels,

    .. math::

        \dot{\vec y}_a = \mat R_{p_a}\, \dot{\vec x}_a, \qquad a = 1, \dots, A .

    Examples
    --------
    >>> from dlref.positions import apply_rope_axial_jvp
    >>> tables = [[[0], [1]]], [[[1], [0]]]
    >>> apply_rope_axial_jvp(([[0.0] * 4], *tables), ([[1, 0, 1, 0]], None, None))
    array([[0., 1., 1., 0.]])
    """
    dtype, v, moved, (cos, sin) = with_constants(primals, tangents, 3)
    tables = _tables(("primals[0]", "primals[1]", "primals[2]"), v, cos, sin)
    return result(_rotated(moved, tables, 1.0, interleaved), dtype)
