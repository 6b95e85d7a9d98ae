r"""Leaky ReLU: a small slope for negative inputs."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp
from ._relu import _no_curvature


@inline_fma
def _leaky_relu(x: Number, slope: Number) -> Number:
    return x if x > 0.0 else slope * x


@inline_fma
def _leaky_relu_deriv(x: Number, slope: Number) -> Number:
    return slope if x <= 0.0 else (1.0 if x > 0.0 else x)


def leaky_relu(x: npt.ArrayLike, *, negative_slope: float = 0.01) -> FloatArray:
    r"""
    Rectifier that lets a fraction of the negative part through.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    negative_slope : float, default 0.01
        Slope for negative inputs.

    Returns
    -------
    ndarray
        `x` where positive, else `negative_slope` times `x`.

    Raises
    ------
    TypeError
        If `x` or `negative_slope` is not real.

    See Also
    --------
    leaky_relu_deriv : The first derivative.
    prelu : The same with a learned slope.

    Notes
    -----
    .. math:: f(x) = \begin{cases} x & x > 0 \\ a x & x \le 0 \end{cases}

    with the slope a. For :math:`0 \le a \le 1` it is :math:`\max(x, a x)`. For :math:`a > 0` the
    map is invertible, its inverse being the rectifier of slope :math:`1/a`, and no unit can die.

    Examples
    --------
    >>> from dlref.activations import leaky_relu
    >>> leaky_relu([-2.0, 3.0], negative_slope=0.25)
    array([-0.5,  3. ])

    The inverse has the inverse slope:

    >>> leaky_relu(leaky_relu([-2.0, 3.0], negative_slope=0.25), negative_slope=4)
    array([-2.,  3.])
    """
    return forward(_leaky_relu, x, as_number("negative_slope", negative_slope))


def leaky_relu_deriv(x: npt.ArrayLike, *, negative_slope: float = 0.01) -> FloatArray:
    r"""
    Derivative of the leaky rectifier.

    Parameters
    ----------
    x, negative_slope : as in `leaky_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 where `x` is positive, else `negative_slope`.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}

    At the kink it returns the left slope, as PyTorch does; JAX returns 1.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_deriv
    >>> leaky_relu_deriv([-2.0, 0.0, 3.0], negative_slope=0.25)
    array([0.25, 0.25, 1.  ])
    """
    return forward(_leaky_relu_deriv, x, as_number("negative_slope", negative_slope))


def leaky_relu_deriv2(x: npt.ArrayLike, *, negative_slope: float = 0.01) -> FloatArray:
    r"""
    Second derivative of the leaky rectifier: zero wherever it exists.

    Parameters
    ----------
    x, negative_slope : as in `leaky_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    The slope jumps by one minus `negative_slope` at 0; the value given there is 0.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_deriv2
    >>> leaky_relu_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return forward(_no_curvature, x, as_number("negative_slope", negative_slope))


def leaky_relu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, negative_slope: float = 0.01
) -> FloatArray:
    r"""
    Reverse mode of the leaky rectifier.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, negative_slope : as in `leaky_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}

    The gradient of a negative unit is weakened, not lost. Through n such units in a row it
    shrinks by the n-th power of the slope.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_vjp
    >>> leaky_relu_vjp([8.0, 8.0], [-2.0, 3.0], negative_slope=0.25)
    array([2., 8.])
    """
    return vjp(_leaky_relu_deriv, dout, x, as_number("negative_slope", negative_slope))


def leaky_relu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, negative_slope: float = 0.01
) -> FloatArray:
    r"""
    Forward mode of the leaky rectifier.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    negative_slope : as in `leaky_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}\, \dot x

    On either side the map is linear, so this is the map itself applied to the tangent, with
    the side decided by the input.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_jvp
    >>> leaky_relu_jvp([-2.0, 3.0], [4.0, 4.0], negative_slope=0.25)
    array([1., 4.])
    """
    return jvp(_leaky_relu_deriv, primals, tangents, as_number("negative_slope", negative_slope))
