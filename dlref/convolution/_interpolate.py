r"""Linear interpolation to another size, along one, two or three axes of space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_integer,
    as_tangents,
    check_given,
    check_ndim,
    check_shape,
    result,
)
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows

COST = 2.0  #: nanoseconds an element
Integers = npt.NDArray[np.int64]


@kernel
def _read(
    start: int,
    stop: int,
    x: FloatArray,
    low: Integers,
    high: Integers,
    share: FloatArray,
    out: FloatArray,
) -> None:
    """Interpolate along the middle axis of (rows, N, inner), to (rows, M, inner)."""
    for r in range(start, stop):
        for t in range(low.size):
            i, j, b = low[t], high[t], share[t]
            a = 1.0 - b
            for k in range(x.shape[2]):
                out[r, t, k] = a * np.float64(x[r, i, k]) + b * np.float64(x[r, j, k])


@kernel
def _spread(
    start: int,
    stop: int,
    u: FloatArray,
    low: Integers,
    high: Integers,
    share: FloatArray,
    out: FloatArray,
) -> None:
    """Add (rows, M, inner) to the places that it was read from, in (rows, N, inner)."""
    for r in range(start, stop):
        for t in range(low.size):
            i, j, b = low[t], high[t], share[t]
            a = 1.0 - b
            for k in range(u.shape[2]):
                value = np.float64(u[r, t, k])
                out[r, i, k] += a * value
                out[r, j, k] += b * value


def _places(n: int, m: int, align_corners: bool) -> tuple[Integers, Integers, FloatArray]:
    """Return the two places that each output is read from, and the share of the second one."""
    t = np.arange(m, dtype=np.float64)
    at = t * ((n - 1) / max(m - 1, 1)) if align_corners else (t + 0.5) * (n / m) - 0.5
    at = np.maximum(at, 0.0)
    low = np.minimum(at.astype(np.int64), n - 1)
    return low, np.minimum(low + 1, n - 1), at - low


def _as_size(name: str, x: FloatArray, size: Any) -> tuple[int, ...]:
    """Check the size, and that the input has places along its axes of space."""
    if not isinstance(size, tuple | list) or not 1 <= len(size) <= 3:
        msg = f"Argument 'size' must be a tuple of 1 to 3 integers, not {size!r}."
        raise TypeError(msg)
    check_ndim(name, x, len(size))
    space = x.shape[x.ndim - len(size) :]
    if 0 in space:
        msg = f"Argument {name!r} must have places along its axes of space, not shape {x.shape}."
        raise ValueError(msg)
    return tuple(as_integer(f"size[{i}]", m, least=1) for i, m in enumerate(size))


def _resized(x: FloatArray, size: tuple[int, ...], align_corners: bool) -> FloatArray:
    """Interpolate along one axis after the other, in float64 until the last one."""
    dtype, first = x.dtype, x.ndim - len(size)
    for axis in range(x.ndim - 1, first - 1, -1):  # the last pass writes along contiguous rows
        before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        m = size[axis - first]
        kind = dtype if axis == first else np.float64
        out = np.empty((math.prod(before), m, math.prod(after)), kind)
        rows = as_carray(x).reshape(len(out), n, out.shape[2])
        over_rows(_read, len(out), COST * out[:1].size, rows, *_places(n, m, align_corners), out)
        x = out.reshape(*before, m, *after)
    return x


def interpolate(
    x: npt.ArrayLike, *, size: tuple[int, ...], align_corners: bool = False
) -> FloatArray:
    r"""
    Linear interpolation to another size: bilinear upsampling, over one, two or three axes.

    Parameters
    ----------
    x : array_like, shape (..., \*space)
        Input. The axes of space are the last ones, as many as `size` has entries; channels and
        batch come before.
    size : tuple of int
        Size of the output along each axis of space, from 1 to 3 of them.
    align_corners : bool, default False
        Whether the first and the last place of the output lie on those of the input. Otherwise the
        *edges* of both images lie on each other, half a place farther out.

    Returns
    -------
    ndarray, shape (..., \*size)
        The interpolated input.

    Raises
    ------
    TypeError
        If `x` is neither an integer nor a real floating-point array, `size` is not a tuple of
        integers, or `align_corners` is not a bool.
    ValueError
        If `x` has fewer axes than `size` has entries or no places, or a size is less than 1.

    See Also
    --------
    interpolate_vjp : The backward pass.
    conv_transpose : Upsampling with weights that are learned.
    mean_pool : Downsampling that reads every place.

    Notes
    -----
    Along an axis of N places, output t of M is read at the place :math:`q_t`, between two
    neighbors:

    .. math:: y_t = (1 - \alpha_t)\, x_{l_t} + \alpha_t\, x_{h_t} , \qquad
       l_t = \lfloor q_t \rfloor , \qquad h_t = \min(l_t + 1, N - 1) , \qquad
       \alpha_t = q_t - l_t .

    With several axes it is done along one after the other. On a plane that is *bilinear*: each
    output is a mean of four inputs, weighted by products.

    **Where an output is read.** A place is a square of width 1 with its value in the center. If the
    edges of both images lie on each other, the center of output t is the share
    :math:`(t + \frac12) / M` of the way through the image, and the input has that many places
    N before it, less half a one. With `align_corners` the first and last centers lie on each
    other:

    .. math:: q_t = \max \Bigl( \frac{N}{M} \bigl(t + \tfrac12\bigr) - \tfrac12, 0 \Bigr) ,
       \qquad q_t = \frac{N - 1}{M - 1}\, t .

    By the edges, outputs are N / M places apart: half a place in a doubled image of any size. By
    the corners, this distance depends on the size of the image. A single output is read at the
    center, or at 0 with `align_corners`.

    **As a matrix.** Each row has two numbers, :math:`1 - \alpha_t` and :math:`\alpha_t`, whose sum
    is 1: a constant stays constant. The output is linear in the input.

    **Smaller sizes** skip places: an output still reads two neighbors only. Use :func:`mean_pool`
    against aliasing.

    **Conventions.** As ``torch.nn.functional.interpolate`` with a `size`, in the modes linear,
    bilinear and trilinear. With a ``scale_factor`` PyTorch divides by this factor in place of
    M / N; the two differ where the factor times N is not an integer. ``jax.image.resize`` agrees
    with ``align_corners=False`` for larger sizes, and takes a mean of more places for smaller ones.

    **Numerics.** float32 is computed in float64 and rounded once.

    Examples
    --------
    Twice the size: new places lie at a quarter of the way, and the border is repeated:

    >>> from dlref.convolution import interpolate
    >>> interpolate([0, 4, 8], size=(6,))
    array([0., 1., 3., 5., 7., 8.])

    With aligned corners the five outputs are in equal distances:

    >>> interpolate([0, 4, 8], size=(5,), align_corners=True)
    array([0., 2., 4., 6., 8.])

    On a plane:

    >>> interpolate([[0, 4], [8, 12]], size=(2, 3), align_corners=True)
    array([[ 0.,  2.,  4.],
           [ 8., 10., 12.]])
    """
    check_given("x", x)
    aligned = as_bool("align_corners", align_corners)
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    with np.errstate(all="ignore"):
        return result(_resized(x, _as_size("x", x, size), aligned), dtype)


def interpolate_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, size: tuple[int, ...], align_corners: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of linear interpolation.

    Parameters
    ----------
    dout : array_like, shape of the output
        Cotangent :math:`u_t`.
    x, size, align_corners : as in `interpolate`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient with respect to the input.

    Notes
    -----
    The loss changes by :math:`\dd L = \sum_t u_t\, \dd y_t`. An output gives its cotangent back to
    the two places that it was read from, in the same shares, and a place collects all that it is
    given:

    .. math:: \pdv{L}{x_j} = \sum_t u_t \bigl( (1 - \alpha_t)\, [\, l_t = j\,]
       + \alpha_t\, [\, h_t = j\,] \bigr) .

    It is the transposed matrix. The shares of an output sum to 1, so all gradients together are all
    cotangents together. The values of `x` do not matter, only its shape.

    Examples
    --------
    >>> from dlref.convolution import interpolate_vjp
    >>> interpolate_vjp([1, 1, 1, 1, 1, 1], [0, 4, 8], size=(6,))
    array([2., 2., 2.])
    >>> interpolate_vjp([0, 8, 0, 0, 0], [0, 4, 8], size=(5,), align_corners=True)
    array([4., 4., 0.])
    """
    check_given("dout", dout)
    check_given("x", x)
    aligned = as_bool("align_corners", align_corners)
    dtype, (u, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    sizes = _as_size("x", x, size)
    first = x.ndim - len(sizes)
    check_shape("dout", u, (*x.shape[:first], *sizes))
    with np.errstate(all="ignore"):
        for axis, m in zip(range(first, x.ndim), sizes, strict=True):
            before, n, after = u.shape[:axis], x.shape[axis], u.shape[axis + 1 :]
            out = np.zeros((math.prod(before), n, math.prod(after)))
            rows = as_carray(u).reshape(len(out), m, out.shape[2])
            over_rows(_spread, len(out), COST * rows[:1].size, rows, *_places(n, m, aligned), out)
            u = out.reshape(*before, n, *after)
        return result(u, dtype)


def interpolate_jvp(
    primals: Any, tangents: Any, *, size: tuple[int, ...], align_corners: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of linear interpolation.

    Parameters
    ----------
    primals : array_like
        Input, as in `interpolate`.
    tangents : array_like or None
        Direction, of the shape of `primals`; None is zero.
    size, align_corners : as in `interpolate`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of the output
        Tangent of the output: the map is linear, so this is the map itself.

    Notes
    -----
    .. math:: \dot y_t = (1 - \alpha_t)\, \dot x_{l_t} + \alpha_t\, \dot x_{h_t} .

    Examples
    --------
    >>> from dlref.convolution import interpolate_jvp
    >>> interpolate_jvp([5, 5, 5], [0, 4, 8], size=(6,))
    array([0., 1., 3., 5., 7., 8.])
    """
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1, work=np.float32)
    aligned = as_bool("align_corners", align_corners)
    with np.errstate(all="ignore"):
        return result(_resized(dx, _as_size("primals", x, size), aligned), dtype)
