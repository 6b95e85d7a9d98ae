r"""The mean of every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_tangents,
    check_given,
    check_shape,
    result,
)
from ._kernels.pools import Pool, pool_of


def mean_pool(
    x: npt.ArrayLike,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> FloatArray:
    r"""
    Mean of every window, over one, two or three axes of space.

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
        How many zeros stand before, and how many after, each axis; at most half of `size`.
    ceil_mode : bool, default False
        Whether a last window that begins within the input, or in the padding before it, may reach
        beyond the padding after it. Places beyond do not count.
    count_include_pad : bool, default True
        Whether the zeros of the padding count in the mean.

    Returns
    -------
    ndarray, shape (..., \*space)
        One mean for each window.

    Raises
    ------
    TypeError
        If `x` is neither an integer nor a real floating-point array, `size` is not a tuple,
        `ceil_mode` or `count_include_pad` is not a bool, or another option is not an integer.
    ValueError
        If a window does not fit into the padded input, or an option is out of range.

    See Also
    --------
    mean_pool_vjp : The backward pass.
    max_pool : The largest element of every window.
    conv : It is a convolution of each channel with equal weights.

    Notes
    -----
    With a window of K places, the stride s and the padding p,

    .. math:: y_t = \frac{1}{K} \sum_{k=0}^{K-1} x_{s t + k - p} ,

    where x is 0 outside. With several axes t, k, s and p are tuples, and K is the product of the
    sizes. The number of windows along an axis is the one of :func:`conv`.

    **Padding counts.** The divisor is K for every window, so that means at the border are smaller:
    the zeros of the padding are elements like others. This is PyTorch's default. With
    ``count_include_pad=False``, as in TensorFlow and Keras, it is the number of real elements.
    :func:`mean_pool` of ones is the factor between them.

    **As a matrix.** Each row has 1 / K at the places of a window: a Toeplitz matrix as for
    :func:`conv`, without anything to learn. The output is linear in the input.

    **Use.** A window of the size of the image, *global average pooling*, makes one
    number of each channel before the last layer of a ResNet. Smaller ones halve the resolution,
    with less aliasing than a stride alone has.

    **Numerics.** float32 is added up in float64 and rounded once.

    References
    ----------
    - :cite:t:`LinNetworkInNetwork2014` on global average pooling

    Examples
    --------
    >>> from dlref.convolution import mean_pool
    >>> mean_pool([1, 3, 5, 7, 100], size=(2,))
    array([2., 6.])

    The fifth element is in no whole window. With padding, the zeros are counted:

    >>> mean_pool([6, 6, 6, 6], size=(3,), stride=1, padding=1)
    array([4., 6., 6., 4.])

    Without them:

    >>> mean_pool([6, 6, 6, 6], size=(3,), stride=1, padding=1, count_include_pad=False)
    array([6., 6., 6., 6.])

    The fifth element in a window of its own:

    >>> mean_pool([1, 3, 5, 7, 100], size=(2,), ceil_mode=True)
    array([  2.,   6., 100.])
    """
    check_given("x", x)
    counts = as_bool("count_include_pad", count_include_pad)
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    return result(_means(x, counts, pool_of("x", x, size, stride, padding, ceil_mode)), dtype)


def _means(x: FloatArray, counts: bool, pool: Pool) -> FloatArray:
    rows, divisor = pool.rows(x), pool.members(with_padding=counts)
    out = np.zeros((len(rows), *pool.outputs), x.dtype)

    def compute(piece: slice) -> None:
        total = np.zeros(out[piece].shape)
        for part in pool.windows(pool.at.padded(rows[piece])):
            total += part
        out[piece] = total / divisor

    pool.over_pieces(8, compute)
    return out.reshape(pool.shape)


def mean_pool_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the mean of every window.

    Parameters
    ----------
    dout : array_like, shape of the output
        Cotangent :math:`u_t`.
    x, size, stride, padding, ceil_mode, count_include_pad : as in `mean_pool`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient with respect to the input.

    Notes
    -----
    An element gets the same share, 1 / K, from each window that it is in:

    .. math:: \pdv{L}{x_j} = \frac{1}{K} \sum_t \sum_{k=0}^{K-1} u_t\, [\, s t + k - p = j\,] .

    The values of `x` do not matter, only its shape. Windows that touch give every element of a
    window the K-th part of one cotangent; the shares of the padding are lost.

    Examples
    --------
    >>> from dlref.convolution import mean_pool_vjp
    >>> mean_pool_vjp([2, 6], [1, 3, 5, 7, 100], size=(2,))
    array([1., 1., 3., 3., 0.])
    """
    check_given("dout", dout)
    check_given("x", x)
    dtype, (u, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    pool = pool_of("x", x, size, stride, padding, ceil_mode)
    check_shape("dout", u, pool.shape)
    divisor = pool.members(with_padding=as_bool("count_include_pad", count_include_pad))
    rows, out = pool.rows(u), np.empty(pool.rows(x).shape, x.dtype)

    def compute(piece: slice) -> None:
        share = rows[piece] / divisor
        room = np.zeros(pool.around(len(share)))
        for part in pool.windows(room):
            np.add(part, share, out=part)
        out[piece] = pool.at.cropped(room)

    pool.over_pieces(8, compute)
    return result(out.reshape(x.shape), dtype)


def mean_pool_jvp(
    primals: Any,
    tangents: Any,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the mean of every window.

    Parameters
    ----------
    primals : array_like
        Input, as in `mean_pool`.
    tangents : array_like or None
        Direction, of the shape of `primals`; None is zero.
    size, stride, padding, ceil_mode, count_include_pad : as in `mean_pool`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of the output
        Tangent of the output: the map is linear, so this is the map itself.

    Notes
    -----
    .. math:: \dot y_t = \frac{1}{K} \sum_{k=0}^{K-1} \dot x_{s t + k - p} .

    Examples
    --------
    >>> from dlref.convolution import mean_pool_jvp
    >>> mean_pool_jvp([5, 5, 5, 5], [1, 3, 5, 7], size=(2,))
    array([2., 6.])
    """
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1, work=np.float32)
    counts = as_bool("count_include_pad", count_include_pad)
    return result(
        _means(dx, counts, pool_of("primals", x, size, stride, padding, ceil_mode)), dtype
    )
