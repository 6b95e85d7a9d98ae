r"""Sum, mean, product, maximum and norm; the dot product and the scaled sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._jit import kernel, summation
from .._parallel import over_rows
from .._validate import (
    Axis,
    FloatArray,
    FloatDType,
    as_floats,
    as_tangents,
    check_ndim,
    check_shape,
    reduced_axes,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    # (start, stop, cotangents of the rows, rows, gradients to fill)
    RowKernel = Callable[[int, int, FloatArray, FloatArray, FloatArray], None]

__all__ = [
    "dot_grad",
    "dot_jvp",
    "dot_vjp",
    "max_grad",
    "max_jvp",
    "max_vjp",
    "mean_grad",
    "mean_jvp",
    "mean_vjp",
    "norm_grad",
    "norm_jvp",
    "norm_vjp",
    "prod_grad",
    "prod_jvp",
    "prod_vjp",
    "scaled_sum_grad",
    "scaled_sum_jvp",
    "scaled_sum_vjp",
    "sum_grad",
    "sum_jvp",
    "sum_vjp",
]


# The kernels of the vjp: each row of x times the cotangent of its value.


@kernel
def _sum_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        for i in range(x.shape[1]):
            dx[r, i] = dout[r]


@kernel
def _mean_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        for i in range(x.shape[1]):
            dx[r, i] = np.float64(dout[r]) / x.shape[1]


@summation
def _extremes(x: FloatArray) -> tuple[float, float]:
    """Return two numbers between which every product of some of the elements lies, or is zero."""
    least, most = np.float64(1.0), np.float64(1.0)
    for i in range(x.size):
        size = abs(np.float64(x[i]))
        least *= size if (size > 0.0) & (size < 1.0) else 1.0
        most *= size if size > 1.0 else 1.0
    return least, most


@kernel
def _prod_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    before, after = np.empty(x.shape[1]), np.empty(x.shape[1])
    exponents = np.empty(x.shape[1], np.int64)
    for r in range(start, stop):
        least, most = _extremes(x[r])
        if least > 1e-300 and most < 1e300:
            _products(np.float64(dout[r]), x[r], before, after, dx[r])
        else:
            _scaled_products(np.float64(dout[r]), x[r], before, exponents, dx[r])


@kernel
def _products(
    dout: float, x: FloatArray, before: FloatArray, after: FloatArray, dx: FloatArray
) -> None:
    left, right = np.float64(1.0), np.float64(1.0)
    for i in range(x.size):  # both at once, as each product waits for the one before it
        j = x.size - 1 - i
        before[i], after[j] = left, right
        left *= np.float64(x[i])
        right *= np.float64(x[j])
    for i in range(x.size):
        dx[i] = dout * (before[i] * after[i])


@kernel
def _scaled_products(
    dout: float,
    x: FloatArray,
    before: FloatArray,
    exponents: npt.NDArray[np.int64],
    dx: FloatArray,
) -> None:
    # A product is kept as fraction * 2 ** exponent: on the way it may leave the range
    # of float64 where the result does not.
    fraction, exponent = 1.0, 0
    for i in range(x.size):
        before[i], exponents[i] = fraction, exponent
        head, head_exponent = math.frexp(x[i])
        fraction, shift = math.frexp(fraction * head)
        exponent += head_exponent + shift
    fraction, exponent = 1.0, 0
    for i in range(x.size - 1, -1, -1):  # now of the elements after i
        both = min(max(exponents[i] + exponent, -5000), 5000)  # ldexp takes 32 bits
        dx[i] = dout * np.ldexp(before[i] * fraction, both)
        head, head_exponent = math.frexp(x[i])
        fraction, shift = math.frexp(fraction * head)
        exponent += head_exponent + shift


@kernel
def _max_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        top = x[r, 0]
        for i in range(x.shape[1]):
            if x[r, i] > top or np.isnan(x[r, i]):
                top = x[r, i]
        ties = 0
        for i in range(x.shape[1]):
            ties += x[r, i] == top
        share = np.float64(dout[r]) / ties if ties > 0 else np.nan  # none: top is NaN
        for i in range(x.shape[1]):
            dx[r, i] = share if x[r, i] == top or ties == 0 else 0.0


@summation
def _squares(x: FloatArray, scale: float) -> float:
    total = np.float64(0.0)
    for i in range(x.size):
        scaled = scale * np.float64(x[i])
        total += scaled * scaled
    return total


@kernel
def _norm_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        scale, total = np.float64(1.0), _squares(x[r], 1.0)
        if total < 1e-290 or total > 1e300:  # squares that vanished or overflowed
            largest = np.float64(0.0)
            for i in range(x.shape[1]):
                if abs(x[r, i]) > largest:  # max() may keep a NaN
                    largest = np.float64(abs(x[r, i]))
            if largest > 0.0 and not np.isinf(largest):
                exponent = min(max(math.frexp(largest)[1], -1000), 1000)
                scale = np.ldexp(np.float64(1.0), -exponent)  # a product with it is exact
                total = _squares(x[r], scale)
        length = math.sqrt(total)
        slope, to = np.float64(dout[r]), dx[r]
        for i in range(x.shape[1]):
            to[i] = slope * (scale * np.float64(x[r, i]) / length if length != 0.0 else 0.0)


def _by_rows(
    row_kernel: RowKernel, dout: FloatArray, x: FloatArray, axes: tuple[int, ...]
) -> FloatArray:
    """Give the slices of `x` to a kernel as rows; return what it makes of them in x's shape."""
    if row_kernel is _max_rows and 0 in (x.shape[axis] for axis in axes):
        msg = f"Argument 'x' must not be empty where it is reduced, not of shape {x.shape}."
        raise ValueError(msg)
    kept = x.ndim - len(axes)
    last = np.moveaxis(x, axes, range(kept, x.ndim))
    shape = math.prod(last.shape[:kept]), math.prod(last.shape[kept:])
    rows = np.ascontiguousarray(last).reshape(shape)
    dx = np.empty_like(rows)
    over_rows(row_kernel, shape[0], 3 * shape[1], dout.ravel(), rows, dx)
    return np.moveaxis(dx.reshape(last.shape), range(kept, x.ndim), axes)


def _grad(row_kernel: RowKernel, x: npt.ArrayLike, axis: Axis) -> FloatArray:
    """Return the gradient of the value of each slice."""
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    axes = reduced_axes(axis, x.ndim)
    slices = math.prod(length for a, length in enumerate(x.shape) if a not in axes)
    return result(_by_rows(row_kernel, np.ones(slices, x.dtype), x, axes), dtype)


def _vjp(
    row_kernel: RowKernel, dout: npt.ArrayLike, x: npt.ArrayLike, axis: Axis, keepdims: bool
) -> FloatArray:
    """Scale the gradient of each slice by the slice's cotangent."""
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    axes = reduced_axes(axis, x.ndim)
    kept = tuple(1 if a in axes else length for a, length in enumerate(x.shape))
    reduced = tuple(length for a, length in enumerate(x.shape) if a not in axes)
    check_shape("dout", dout, kept if keepdims else reduced)
    return result(_by_rows(row_kernel, dout, x, axes), dtype)


def _jvp(
    row_kernel: RowKernel, primals: Any, tangents: Any, axis: Axis, keepdims: bool
) -> FloatArray:
    """Multiply the gradient of each slice with the slice's tangent, summing in float64."""
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1)
    axes = reduced_axes(axis, x.ndim)
    slices = math.prod(length for a, length in enumerate(x.shape) if a not in axes)
    with np.errstate(all="ignore"):
        moved = _by_rows(row_kernel, np.ones(slices), x, axes) * dx
        return result(np.sum(moved, axis=axes, keepdims=keepdims), dtype)


def _dot_operands(
    w: npt.ArrayLike, x: npt.ArrayLike, **dout: npt.ArrayLike
) -> tuple[FloatDType, list[FloatArray]]:
    dtype, arrays = as_floats({"w": w, "x": x, **dout})
    check_ndim("w", arrays[0], 1)
    check_shape("x", arrays[1], arrays[0].shape)
    return dtype, arrays


def _check_one_element(name: str, z: FloatArray) -> None:
    if z.size != 1:
        msg = f"Argument {name!r} must have exactly one element, not shape {z.shape}."
        raise ValueError(msg)


def sum_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the sum of all elements, :math:`y = \sum_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        Ones.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` no integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    sum_vjp, sum_jvp : The sum over some of the axes.
    scaled_sum_grad : The sum times a scalar.

    Notes
    -----
    Each element enters the sum once, with slope one:

    .. math::

        \pdv{y}{x_j} = \sum_i \pdv{x_i}{x_j} = \sum_i \delta_{ij} = 1,
        \qquad \nabla y = \vec{1} .

    Examples
    --------
    >>> from dlref.calculus import sum_grad
    >>> sum_grad([2, 3, 4])
    array([1., 1., 1.])
    """
    return _grad(_sum_rows, x, axis)


def sum_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a sum over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout`, copied to every element of its slice.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `dout` has not the shape of the
        reduced array.

    See Also
    --------
    sum_grad : The derivation.
    sum_jvp : Forward mode.
    add_vjp : Reverse mode of broadcasting: the sum.

    Notes
    -----
    :math:`y_k = \sum_i x_{ki}` hands :math:`u_k` to every :math:`x_{ki}`: the reverse of
    a sum is a broadcast, as the reverse of a broadcast is a sum.

    Examples
    --------
    >>> from dlref.calculus import sum_vjp
    >>> sum_vjp([10, 20], [[1, 2, 3], [4, 5, 6]], axis=1)
    array([[10., 10., 10.],
           [20., 20., 20.]])
    """
    return _vjp(_sum_rows, dout, x, axis, keepdims)


def sum_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a sum over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \sum_i \dot x_i`, accumulated in float64.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `tangents` has not the shape of
        `primals`.

    See Also
    --------
    sum_grad : The derivation.
    sum_vjp : Reverse mode.

    Notes
    -----
    The sum is linear, hence its own derivative: `primals` gives the shape and the dtype,
    its values do not matter.

    Examples
    --------
    >>> from dlref.calculus import sum_jvp
    >>> float(sum_jvp([2, 3, 4], [0.5, 0, 0.25]))
    0.75
    """
    return _jvp(_sum_rows, primals, tangents, axis, keepdims)


def mean_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the mean of all elements, :math:`y = \frac1n \sum_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        :math:`1/n` in every element.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` no integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    mean_vjp, mean_jvp : The mean over some of the axes.

    Notes
    -----
    The gradient of the sum, divided by the number of elements:

    .. math:: \pdv{y}{x_j} = \frac{1}{n} .

    This factor is why a loss averaged over a batch has gradients that do not grow with
    the batch, and a summed one has.

    Examples
    --------
    >>> from dlref.calculus import mean_grad
    >>> mean_grad([2, 3, 4, 5])
    array([0.25, 0.25, 0.25, 0.25])
    """
    return _grad(_mean_rows, x, axis)


def mean_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a mean over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` divided by the number :math:`n` of elements of a slice, in each of them.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `dout` has not the shape of the
        reduced array.

    See Also
    --------
    mean_grad : The derivation.
    mean_jvp : Forward mode.

    Notes
    -----
    Centring, :math:`y_i = x_i - \bar x`, is where this meets itself: its vjp is
    :math:`u_j - \frac1n \sum_i u_i`, so cotangents are centred as the values are, and a
    constant shift of :math:`x` gets no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import mean_vjp
    >>> x, u = np.array([1.0, 2.0, 6.0]), np.array([3.0, 0.0, 0.0])
    >>> u + mean_vjp(-u.sum(), x)
    array([ 2., -1., -1.])
    """
    return _vjp(_mean_rows, dout, x, axis, keepdims)


def mean_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a mean over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \frac1n \sum_i \dot x_i`, accumulated in float64.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `tangents` has not the shape of
        `primals`.

    See Also
    --------
    mean_grad : The derivation.
    mean_vjp : Reverse mode.

    Notes
    -----
    The mean is linear: it moves by the mean of the tangents, wherever `primals` is. A
    mean over no elements is NaN, as in NumPy, here without a warning.

    Examples
    --------
    >>> from dlref.calculus import mean_jvp
    >>> mean_jvp([[1, 2], [3, 4]], [[1, 0], [1, 4]], axis=0)
    array([1., 2.])
    """
    return _jvp(_mean_rows, primals, tangents, axis, keepdims)


def prod_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the product of all elements, :math:`y = \prod_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        In element :math:`j` the product of all *other* elements.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` no integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    prod_vjp, prod_jvp : The product over some of the axes.

    Notes
    -----
    The product is linear in each of its factors, with the others as slope:

    .. math:: \pdv{y}{x_j} = \prod_{i \ne j} x_i .

    The shorter :math:`y / x_j` fails where :math:`x_j = 0`. The code multiplies the
    elements before :math:`j`, collected from the first to the last, with those after
    :math:`j`, collected from the last to the first: :math:`3n` multiplications and no
    division. Products are carried as fraction and exponent, so that an overflow or
    underflow on the way does not spoil a gradient that is representable. The relative
    error is at most :math:`n` units of roundoff.

    **Special values.** One zero leaves only its own entry non-zero; two zeros leave none.

    Examples
    --------
    A zero is no obstacle:

    >>> from dlref.calculus import prod_grad
    >>> prod_grad([2, 3, 4])
    array([12.,  8.,  6.])
    >>> prod_grad([2, 0, 4])
    array([0., 8., 0.])

    Nor is an intermediate product of :math:`10^{400}`:

    >>> prod_grad([1e200, 1e200, 1e-200, 1e-200]).round(12)[2]
    np.float64(1e+200)
    """
    return _grad(_prod_rows, x, axis)


def prod_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a product over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the product of the other elements of the slice.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `dout` has not the shape of the
        reduced array.

    See Also
    --------
    prod_grad : The derivation, and why no division is used.
    prod_jvp : Forward mode.

    Notes
    -----
    Element :math:`x_{kj}` reaches the output :math:`y_k` only, so its gradient is
    :math:`u_k \prod_{i \ne j} x_{ki}`. Time and memory are proportional to the size of
    `x`.

    Examples
    --------
    >>> from dlref.calculus import prod_vjp
    >>> prod_vjp([1, 10], [[2, 3], [0, 5]], axis=1)
    array([[ 3.,  2.],
           [50.,  0.]])
    """
    return _vjp(_prod_rows, dout, x, axis, keepdims)


def prod_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a product over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \sum_j \dot x_j \prod_{i \ne j} x_i`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `tangents` has not the shape of
        `primals`.

    See Also
    --------
    prod_grad : The derivation.
    prod_vjp : Reverse mode.

    Notes
    -----
    The product rule for :math:`n` factors. Where no factor is zero it says that relative
    changes add up: :math:`\dot y / y = \sum_j \dot x_j / x_j`.

    Examples
    --------
    All factors equal and moving alike is the power rule, :math:`(t^3)' = 3 t^2`:

    >>> from dlref.calculus import prod_jvp
    >>> float(prod_jvp([2, 2, 2], [1, 1, 1]))
    12.0
    """
    return _jvp(_prod_rows, primals, tangents, axis, keepdims)


def max_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the largest element, :math:`y = \max_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        One at the largest element, shared evenly among equals; zero elsewhere.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` no integer.
    ValueError
        If `axis` is out of range or repeated, or a slice is empty.

    See Also
    --------
    max_vjp, max_jvp : The maximum over some of the axes.
    maximum_jacobian : The maximum of two arrays.

    Notes
    -----
    Where one element :math:`x_k` is larger than the others, :math:`y = x_k` also nearby:

    .. math:: \pdv{y}{x_j} = \delta_{jk} .

    **Ties.** Where :math:`m` elements are largest, the subdifferential is the set of all
    convex weights on them. Returned is its centre, :math:`1/m` for each: the shortest
    subgradient, and the only choice that does not depend on the order of the elements.
    ``torch.amax``, ``torch.max`` without `dim`, and JAX choose it too;
    ``torch.max(dim=...)`` takes one of the largest, by position.

    **Special values.** A NaN makes the maximum, and the whole gradient, NaN.

    Examples
    --------
    >>> from dlref.calculus import max_grad
    >>> max_grad([2, 7, 4])
    array([0., 1., 0.])
    >>> max_grad([7, 2, 7, 4])
    array([0.5, 0. , 0.5, 0. ])
    """
    return _grad(_max_rows, x, axis)


def max_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a maximum over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` at the largest element of its slice, shared evenly among equals, else zero.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `dout` has not the shape of the
        reduced array,
        or a slice is empty.

    See Also
    --------
    max_grad : The derivation, and the choice at a tie.
    max_jvp : Forward mode.

    Notes
    -----
    Max-pooling in reverse: each output sends its whole gradient to the element it came
    from, and :math:`\sum_j \partial L / \partial x_{kj} = u_k`.

    Examples
    --------
    >>> from dlref.calculus import max_vjp
    >>> max_vjp([[5, 6]], [[1, 9], [2, 3]], axis=0, keepdims=True)
    array([[0., 6.],
           [5., 0.]])
    """
    return _vjp(_max_rows, dout, x, axis, keepdims)


def max_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a maximum over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        The tangent of the largest element; the mean of the tangents of equals.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `tangents` has not the shape of
        `primals`,
        or a slice is empty.

    See Also
    --------
    max_grad : The derivation, and the choice at a tie.
    max_vjp : Reverse mode.

    Notes
    -----
    At a tie the directional derivative is the largest of the tied tangents. It is not
    linear, so no matrix times :math:`\dot x` can give it; the mean is, and stays the
    adjoint of :func:`max_vjp`.

    Examples
    --------
    >>> from dlref.calculus import max_jvp
    >>> float(max_jvp([2, 7, 4], [10, 20, 30]))
    20.0
    """
    return _jvp(_max_rows, primals, tangents, axis, keepdims)


def norm_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the Euclidean norm of all elements, :math:`y = \lVert x \rVert_2`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        The unit vector in the direction of `x`; zeros if `x` is zero.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` no integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    norm_vjp, norm_jvp : The norm over some of the axes.

    Notes
    -----
    From :math:`y^2 = \sum_i x_i^2`, differentiating both sides,
    :math:`2 y\, \partial y / \partial x_j = 2 x_j`, so

    .. math:: \nabla y = \frac{x}{\norm{x}} .

    It has length one: moving away from the origin, the distance grows as fast as one
    walks. Where the squares would overflow or underflow, x is multiplied by a power of two
    first, which changes no digit.

    **The kink.** At :math:`x = 0` the norm is a cone and every vector of length at most
    one is a subgradient. Returned is the shortest, 0, as in PyTorch; JAX returns NaN.

    **Special values.** An infinite element gets NaN and makes the finite ones 0; a NaN
    makes all NaN.

    Examples
    --------
    >>> from dlref.calculus import norm_grad
    >>> norm_grad([3, 4])
    array([0.6, 0.8])
    >>> norm_grad([3e-200, 4e-200])
    array([0.6, 0.8])
    >>> norm_grad([0, 0])
    array([0., 0.])
    """
    return _grad(_norm_rows, x, axis)


def norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a Euclidean norm over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the unit vector of the slice.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `dout` has not the shape of the
        reduced array.

    See Also
    --------
    norm_grad : The derivation, and the value at zero.
    norm_jvp : Forward mode.

    Notes
    -----
    For one slice :math:`\partial L / \partial x = u\, x / \norm{x}`: the gradient points
    along :math:`x`, whatever :math:`L` does with the norm.

    Examples
    --------
    >>> from dlref.calculus import norm_vjp
    >>> norm_vjp([10, 1], [[3, 4], [0, 0]], axis=1)
    array([[6., 8.],
           [0., 0.]])
    """
    return _vjp(_norm_rows, dout, x, axis, keepdims)


def norm_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a Euclidean norm over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : int, tuple of int or None
        Axes to reduce over; None means all.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = x^\top \dot x / \lVert x \rVert_2`; zero at :math:`x = 0`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array, or `axis` no
        integer.
    ValueError
        If `axis` is out of range or repeated, or `tangents` has not the shape of
        `primals`.

    See Also
    --------
    norm_grad : The derivation, and the value at zero.
    norm_vjp : Reverse mode.

    Notes
    -----
    Only the part of :math:`\dot x` along :math:`x` changes the length: walking at right
    angles, as on a sphere, does not.

    Examples
    --------
    >>> from dlref.calculus import norm_jvp
    >>> float(norm_jvp([3, 4], [3, 4])), float(norm_jvp([3, 4], [-4, 3]))
    (5.0, 0.0)
    """
    return _jvp(_norm_rows, primals, tangents, axis, keepdims)


def dot_grad(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the dot product :math:`y = w^\top x`.

    Parameters
    ----------
    w, x : array_like, shape (..., n)
        Vectors, or rows of vectors, of the same shape.

    Returns
    -------
    gw : ndarray, shape (..., n)
        :math:`\partial y / \partial w = x`, a gradient per row.
    gx : ndarray, shape (..., n)
        :math:`\partial y / \partial x = w`, a gradient per row.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If an argument is a scalar, or the shapes differ.

    See Also
    --------
    dot_vjp, dot_jvp : The products with a cotangent and with tangents.
    quadratic_form_grad : The dot product with a matrix between.

    Notes
    -----
    The dot product is a sum after a product. By the vector chain rule with
    :math:`p = w \odot x`,

    .. math::

        \nabla_w\, y = \pdv{y}{p} \pdv{p}{w}
                     = \vec{1}^\top \operatorname{diag}(x) = x^\top ,

    and likewise :math:`\nabla_x\, y = w^\top`: each vector is the other one's gradient.

    Examples
    --------
    >>> from dlref.calculus import dot_grad
    >>> gw, gx = dot_grad([2, 3, 4], [5, 6, 7])
    >>> gw
    array([5., 6., 7.])
    """
    dtype, (w, x) = _dot_operands(w, x)
    return result(x.copy(), dtype), result(w.copy(), dtype)


def dot_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the dot product along the last axis.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per row.
    w, x : array_like, shape (..., n)
        Rows of vectors, of the same shape.

    Returns
    -------
    dw : ndarray, shape (..., n)
        :math:`u\, x`, row by row.
    dx : ndarray, shape (..., n)
        :math:`u\, w`, row by row.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If an operand is a scalar, the shapes differ, or `dout` has not one number per row.

    See Also
    --------
    dot_grad : The derivation.
    dot_jvp : Forward mode.

    Notes
    -----
    The score :math:`q^\top k` of attention is such a product: its gradient moves a query
    towards the keys whose scores should rise, by :math:`u` times the key.

    Examples
    --------
    >>> from dlref.calculus import dot_vjp
    >>> dw, dx = dot_vjp([2, -1], [[1, 0], [0, 1]], [[3, 4], [5, 6]])
    >>> dw
    array([[ 6.,  8.],
           [-5., -6.]])
    """
    dtype, (w, x, dout) = _dot_operands(w, x, dout=dout)
    check_shape("dout", dout, w.shape[:-1])
    with np.errstate(all="ignore"):
        return result(dout[..., None] * x, dtype), result(dout[..., None] * w, dtype)


def dot_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the dot product along the last axis.

    Parameters
    ----------
    primals : tuple (w, x) of array_like, shape (..., n)
        Rows of vectors, of the same shape.
    tangents : tuple (dw, dx) of array_like or None, shape (..., n)
        Directions; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \dot w^\top x + w^\top \dot x`, accumulated in float64.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If an operand is a scalar, or the shapes differ.

    See Also
    --------
    dot_grad : The derivation.
    dot_vjp : Reverse mode.

    Notes
    -----
    With :math:`w = x` and :math:`\dot w = \dot x` this is the derivative of the squared
    length, :math:`2\, x^\top \dot x`.

    Examples
    --------
    >>> from dlref.calculus import dot_jvp
    >>> float(dot_jvp(([3, 4], [3, 4]), ([1, 0], [1, 0])))
    6.0
    """
    dtype, (w, x), (dw, dx) = as_tangents(primals, tangents, count=2)
    check_ndim("primals[0]", w, 1)
    check_shape("primals[1]", x, w.shape)
    with np.errstate(all="ignore"):
        return result(np.sum(dw * x + w * dx, axis=-1), dtype)


def scaled_sum_grad(x: npt.ArrayLike, z: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the scaled sum :math:`y = \sum_i x_i z` for one scalar :math:`z`.

    Parameters
    ----------
    x : array_like
        Array of any shape; the sum is over all its elements.
    z : array_like, one element
        The scale.

    Returns
    -------
    gx : ndarray, shape ``x.shape``
        :math:`z` in every element.
    gz : ndarray or scalar, shape ``z.shape``
        :math:`\sum_i x_i`, accumulated in float64.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `z` has not exactly one element.

    See Also
    --------
    sum_grad : Without the scale.
    multiply_jacobian : The scalar expansion alone.
    scaled_sum_vjp, scaled_sum_jvp : The products with a cotangent and with tangents.

    Notes
    -----
    .. math::

        \pdv{y}{x_j} = \sum_i \pdv{(x_i z)}{x_j} = \sum_i \delta_{ij}\, z = z,
        \qquad
        \pdv{y}{z} = \sum_i \pdv{(x_i z)}{z} = \sum_i x_i .

    Examples
    --------
    For :math:`x = (2, 3, 4)` and :math:`z = 5`, where :math:`y = 45`:

    >>> from dlref.calculus import scaled_sum_grad
    >>> gx, gz = scaled_sum_grad([2, 3, 4], 5)
    >>> gx
    array([5., 5., 5.])
    >>> float(gz)
    9.0
    """
    dtype, (x, z) = as_floats({"x": x, "z": z})
    _check_one_element("z", z)
    with np.errstate(all="ignore"):
        return (
            result(np.full(x.shape, z.item()), dtype),
            result(np.full(z.shape, x.sum()), dtype),
        )


def scaled_sum_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, z: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the scaled sum.

    Parameters
    ----------
    dout : array_like, shape ()
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like
        Array of any shape.
    z : array_like, one element
        The scale.

    Returns
    -------
    dx : ndarray, shape ``x.shape``
        :math:`u z` in every element.
    dz : ndarray or scalar, shape ``z.shape``
        :math:`u \sum_i x_i`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `z` has not exactly one element, or `dout` is no scalar.

    See Also
    --------
    scaled_sum_grad : The derivation.
    scaled_sum_jvp : Forward mode.

    Notes
    -----
    The output is a scalar, so its Jacobian is the gradient, and the vjp a multiple of it.

    Examples
    --------
    >>> from dlref.calculus import scaled_sum_vjp
    >>> dx, dz = scaled_sum_vjp(2, [2, 3, 4], 5)
    >>> dx, float(dz)
    (array([10., 10., 10.]), 18.0)
    """
    dtype, (dout, x, z) = as_floats({"dout": dout, "x": x, "z": z})
    check_shape("dout", dout, ())
    _check_one_element("z", z)
    with np.errstate(all="ignore"):
        return (
            result(np.full(x.shape, dout * z.item()), dtype),
            result(np.full(z.shape, dout * x.sum()), dtype),
        )


def scaled_sum_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the scaled sum.

    Parameters
    ----------
    primals : tuple (x, z) of array_like
        Array of any shape, and the scale, of one element.
    tangents : tuple (dx, dz) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    scalar
        :math:`\dot y = z \sum_i \dot x_i + \dot z \sum_i x_i`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If `z` has not exactly one element, or a tangent has not the shape of its operand.

    See Also
    --------
    scaled_sum_grad : The derivation.
    scaled_sum_vjp : Reverse mode.

    Notes
    -----
    The product rule for :math:`y = z \cdot s` with the sum :math:`s = \sum_i x_i`, which
    moves by :math:`\dot s = \sum_i \dot x_i`.

    Examples
    --------
    >>> from dlref.calculus import scaled_sum_jvp
    >>> float(scaled_sum_jvp(([2, 3, 4], 5), ([1, 1, 1], 1)))
    24.0
    """
    dtype, (x, z), (dx, dz) = as_tangents(primals, tangents, count=2)
    _check_one_element("primals[1]", z)
    with np.errstate(all="ignore"):
        return result(z.item() * dx.sum() + dz.item() * x.sum(), dtype)
