r"""Product over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from .._core.jit import inline_reassoc, kernel
from ._kernels.reductions import _vjp, grad, jvp


@inline_reassoc
def _extremes(x: FloatArray) -> tuple[float, float]:
    """Return two numbers between which every product of some of the elements lies, or is zero."""
    least, most = np.float64(1.0), np.float64(1.0)
    for i in range(x.size):
        size = abs(np.float64(x[i]))
        least *= size if (size > 0.0) & (size < 1.0) else 1.0
        most *= size if size > 1.0 else 1.0
    return least, most


def _prod_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    before, after = np.empty((2, x.shape[1]))
    _rows(start, stop, dout, x, dx, before, after, np.empty(x.shape[1], np.int64))


@kernel
def _rows(
    start: int,
    stop: int,
    dout: FloatArray,
    x: FloatArray,
    dx: FloatArray,
    before: FloatArray,
    after: FloatArray,
    exponents: npt.NDArray[np.int64],
) -> None:
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
    # A product is kept as fraction * 2 ** exponent: a partial product may leave the range
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
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
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
    division. Slices in which a partial product could leave the range from 1e-300 to 1e300 take a
    slower path, which keeps each product as a fraction and an exponent: an overflow or underflow
    of a partial product does not spoil a gradient that is representable. The relative error is at
    most :math:`n` units of roundoff.

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
    return grad(_prod_rows, x, axis)


def prod_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a product over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `prod_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the product of the other elements of the slice.

    Notes
    -----
    .. math:: \pdv{L}{x_{kj}} = u_k \prod_{i \ne j} x_{ki}

    Element :math:`x_{kj}` contributes to the output :math:`y_k` only. Time and memory are
    proportional to the size of `x`.

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
    axis : as in `prod_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \sum_j \dot x_j \prod_{i \ne j} x_i`.

    Notes
    -----
    .. math:: \dot y_k = \sum_j \dot x_{kj} \prod_{i \ne j} x_{ki}

    The product rule for :math:`n` factors. Where no factor is zero it says that relative
    changes add up: :math:`\dot y / y = \sum_j \dot x_j / x_j`.

    Examples
    --------
    With equal factors and equal tangents this is the power rule, :math:`(t^3)' = 3 t^2`:

    >>> from dlref.calculus import prod_jvp
    >>> float(prod_jvp([2, 2, 2], [1, 1, 1]))
    12.0
    """
    return jvp(_prod_rows, primals, tangents, axis, keepdims)
