r"""The largest element of every window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_given, check_shape, result
from .._core.jit import inline_strict, kernel
from .._core.threads import over_rows, with_workspace
from ._kernels.pools import pool_of


def max_pool(
    x: npt.ArrayLike,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    ceil_mode: bool = False,
) -> FloatArray:
    r"""
    Largest element of every window, over one, two or three axes of space.

    Parameters
    ----------
    x : array_like, shape (..., \*space)
        Input. The axes of space are the last ones, as many as `size` has entries; channels and
        batch come before.
    size : tuple of int
        Size of a window along each axis of space, from 1 to 3 of them.
    stride : int or tuple of int or None, default None
        Steps between two windows. None is `size`: the windows touch and do not overlap.
    padding : int or tuple of int, default 0
        How many places before, and how many after, each axis; at most half of `size`. They hold
        −∞ and never win.
    dilation : int or tuple of int, default 1
        Steps between two places of a window, at least 1.
    ceil_mode : bool, default False
        Whether a last window that begins within the input, or in the padding before it, may reach
        beyond the padding after it.

    Returns
    -------
    ndarray, shape (..., \*space)
        One maximum for each window.

    Raises
    ------
    TypeError
        If `x` is neither an integer nor a real floating-point array, `size` is not a tuple,
        `ceil_mode` is not a bool, or another option is not an integer.
    ValueError
        If a window does not fit into the padded input, an option is out of range, or a dilated
        window has places in the padding alone.

    See Also
    --------
    max_pool_vjp : The backward pass, to the winners.
    mean_pool : The mean of every window.
    dlref.calculus.max_grad : The gradient of a maximum over whole axes, which equal ones share.

    Notes
    -----
    With a window of K places, the stride s and the padding p,

    .. math:: y_t = \max_{0 \le k < K} x_{s t + k - p} ,

    where x is −∞ outside; with a dilation d, k counts d times. With several axes t, k, s and p are
    tuples. The number of windows along an axis is the one of :func:`conv`, or with `ceil_mode` the
    same quotient rounded up. The padding is not zero: a window of negative numbers at the
    border must not get a 0 that nobody put there.

    **Use.** The output tells that a pattern is somewhere in the window, but not where: as long as
    the largest number stays within the window, its place does not matter. Pooling also makes the
    layers above see a larger part of the input.

    **Special values.** A window with a NaN gives NaN, and its gradient goes to the last NaN. A
    window of nothing but −∞ gives −∞, and its gradient goes to an element, never to the padding.

    **Numerics.** Exact: every output is one of the inputs.

    References
    ----------
    - :cite:t:`RanzatoSparse2007`, an early network with max pooling

    Examples
    --------
    >>> from dlref.convolution import max_pool
    >>> max_pool([1, 3, 2, 7, 5], size=(2,))
    array([3., 7.])

    Overlapping windows of 2 × 2:

    >>> max_pool([[1, 2, 0], [4, 3, 5], [0, 9, 8]], size=(2, 2), stride=1)
    array([[4., 5.],
           [9., 9.]])

    A last window that is not whole, and a window with gaps:

    >>> max_pool([1, 3, 2, 7, 5], size=(2,), ceil_mode=True)
    array([3., 7., 5.])
    >>> max_pool([1, 3, 2, 7, 5], size=(2,), stride=1, dilation=2)
    array([2., 7., 5.])

    The padding never wins:

    >>> max_pool([-1, -2, -3], size=(3,), stride=1, padding=1)
    array([-1., -1., -2.])
    """
    check_given("x", x)
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    pool = pool_of("x", x, size, stride, padding, ceil_mode, dilation)
    rows = pool.rows(x)
    out = np.empty((len(rows), *pool.outputs), x.dtype)

    def compute(piece: slice) -> None:
        _maxima(pool.windows(pool.at.padded(rows[piece], -np.inf)), out[piece])

    pool.over_pieces(x.itemsize, compute)
    return result(out.reshape(pool.shape), dtype)


def _maxima(windows: list[FloatArray], out: FloatArray) -> FloatArray:
    """Fill `out` with the maximum of each window."""
    out.fill(-np.inf)
    for part in windows:
        np.maximum(out, part, out=out)
    return out


@inline_strict
def _winner(x: FloatArray, at: Any, t0: int, t1: int, t2: int) -> int:
    """Return the index of a window's maximum in an image: of the first one, or of the last NaN."""
    (k0, k1, k2), (s0, s1, s2), (p0, p1, p2), (d0, d1, d2) = at
    n0, n1, n2 = x.shape
    winner, best = -1, x[0, 0, 0]
    for a in range(k0):
        i = t0 * s0 - p0 + a * d0
        for b in range(k1):
            j = t1 * s1 - p1 + b * d1
            if 0 <= i < n0 and 0 <= j < n1:
                for c in range(k2):
                    k = t2 * s2 - p2 + c * d2
                    if 0 <= k < n2:
                        v = x[i, j, k]
                        wins = (winner < 0) | (v > best) | np.isnan(v)
                        best = v if wins else best
                        winner = (i * n1 + j) * n2 + k if wins else winner
    return winner


@kernel
def _to_winners(
    start: int, stop: int, x: FloatArray, at: Any, u: FloatArray, out: FloatArray, room: FloatArray
) -> None:
    """Add the cotangent of each window to its winner, in float64."""
    for r in range(start, stop):
        room[:] = 0.0
        for t0 in range(u.shape[1]):
            for t1 in range(u.shape[2]):
                for t2 in range(u.shape[3]):
                    room[_winner(x[r], at, t0, t1, t2)] += u[r, t0, t1, t2]
        for i in range(room.size):
            out[r, i] = room[i]


@kernel
def _from_winners(
    start: int, stop: int, x: FloatArray, at: Any, moves: FloatArray, out: FloatArray
) -> None:
    """Write the number that each window has in the place of its winner."""
    for r in range(start, stop):
        for t0 in range(out.shape[1]):
            for t1 in range(out.shape[2]):
                for t2 in range(out.shape[3]):
                    out[r, t0, t1, t2] = moves[r, _winner(x[r], at, t0, t1, t2)]


def max_pool_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    ceil_mode: bool = False,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the maximum of every window.

    Parameters
    ----------
    dout : array_like, shape of the output
        Cotangent :math:`u_t`.
    x, size, stride, padding, dilation, ceil_mode : as in `max_pool`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient with respect to the input.

    Notes
    -----
    Near an input without ties, each window copies one element, its winner
    :math:`k_t = \arg\max_k x_{s t + k - p}`. So the cotangent goes to the winners, and an element
    that wins in several windows gets the sum:

    .. math:: \pdv{L}{x_j} = \sum_t u_t\, [\, s t + k_t - p = j\,] .

    All other elements get 0. As a matrix, each row has a single 1, and where it stands depends on
    the input.

    **Ties.** If several elements of a window are largest, the first one in the order of memory gets
    everything, as in PyTorch. After a ReLU, whole windows are 0 and their gradient goes to the
    first element, where the slope of the ReLU stops it.

    Examples
    --------
    >>> from dlref.convolution import max_pool_vjp
    >>> max_pool_vjp([10, 20], [1, 3, 2, 7, 5], size=(2,))
    array([ 0., 10.,  0., 20.,  0.])

    In overlapping windows 7 wins twice, and of equal elements the first one wins:

    >>> max_pool_vjp([10, 20, 30], [7, 7, 7, 1], size=(2,), stride=1)
    array([10., 20., 30.,  0.])
    >>> max_pool_vjp([10, 20, 30], [1, 3, 7, 5], size=(2,), stride=1)
    array([ 0., 10., 50.,  0.])
    """
    check_given("dout", dout)
    check_given("x", x)
    dtype, (u, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    pool = pool_of("x", x, size, stride, padding, ceil_mode, dilation)
    check_shape("dout", u, pool.shape)
    rows, cotangents, at = pool.in_three_axes(x, u)
    out = np.empty((len(rows), math.prod(pool.space)), x.dtype)
    with_room = with_workspace(_to_winners, out.shape[1])
    over_rows(with_room, len(out), pool.cost, rows, at, cotangents, out)
    return result(out.reshape(x.shape), dtype)


def max_pool_jvp(
    primals: Any,
    tangents: Any,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    ceil_mode: bool = False,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the maximum of every window.

    Parameters
    ----------
    primals : array_like
        Input, as in `max_pool`.
    tangents : array_like or None
        Direction, of the shape of `primals`; None is zero.
    size, stride, padding, dilation, ceil_mode : as in `max_pool`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of the output
        Tangent of the winners, chosen as in :func:`max_pool_vjp`.

    Notes
    -----
    With the winner :math:`k_t` of each window,

    .. math:: \dot y_t = \dot x_{s t + k_t - p} .

    Examples
    --------
    >>> from dlref.convolution import max_pool_jvp
    >>> max_pool_jvp([1, 3, 2, 7, 5], [1, 2, 3, 4, 5], size=(2,))
    array([2., 4.])
    """
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1, work=np.float32)
    pool = pool_of("primals", x, size, stride, padding, ceil_mode, dilation)
    out = np.empty(pool.shape, x.dtype)
    rows, moves, places, at = pool.in_three_axes(x, dx, out)
    flat = moves.reshape(len(rows), math.prod(pool.space))
    over_rows(_from_winners, len(rows), pool.cost, rows, at, flat, places)
    return result(out, dtype)
