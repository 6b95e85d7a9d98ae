r"""ReLU that passes inputs above a threshold only."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp
from ._relu import _no_curvature


@inline_fma
def _thresholded_relu(x: Number, alpha: Number) -> Number:
    return 0.0 if x <= alpha else x


@inline_fma
def _thresholded_relu_deriv(x: Number, alpha: Number) -> Number:
    return 0.0 if x <= alpha else (1.0 if x > alpha else x)


def thresholded_relu(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Rectifier that is zero up to a threshold.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    alpha : float, default 1.0
        Threshold.

    Returns
    -------
    ndarray
        `x` where it exceeds `alpha`, else 0.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    thresholded_relu_deriv : The first derivative.
    relu : The threshold 0.

    Notes
    -----
    .. math:: f(x) = \begin{cases} x & x > \alpha \\ 0 & x \le \alpha \end{cases}

    Unless :math:`\alpha = 0`, the map jumps by :math:`\alpha`: it is not a shifted relu, and
    gradients do not see the jump.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu
    >>> thresholded_relu([0.5, 1.0, 1.5])
    array([0. , 0. , 1.5])
    """
    return forward(_thresholded_relu, x, as_number("alpha", alpha))


def thresholded_relu_deriv(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Derivative of the thresholded rectifier.

    Parameters
    ----------
    x, alpha : as in `thresholded_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 where `x` exceeds `alpha`, else 0.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & x > \alpha \\ 0 & x \le \alpha \end{cases}

    The jump at the threshold has no derivative; the value given there is 0, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_deriv
    >>> thresholded_relu_deriv([0.5, 1.0, 1.5])
    array([0., 0., 1.])
    """
    return forward(_thresholded_relu_deriv, x, as_number("alpha", alpha))


def thresholded_relu_deriv2(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Second derivative of the thresholded rectifier: zero wherever it exists.

    Parameters
    ----------
    x, alpha : as in `thresholded_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    At the threshold both the map and its slope jump; the value given there is 0.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_deriv2
    >>> thresholded_relu_deriv2([0.5, 1.5])
    array([0., 0.])
    """
    return forward(_no_curvature, x, as_number("alpha", alpha))


def thresholded_relu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Reverse mode of the thresholded rectifier.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, alpha : as in `thresholded_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math::

        \pdv{L}{x} = u\, f'(x)
          = u\, \begin{cases} 1 & x > \alpha \\ 0 & x \le \alpha \end{cases}

    Inputs up to the threshold receive no gradient, positive ones included.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_vjp
    >>> thresholded_relu_vjp([1.0, 1.0], [0.5, 1.5])
    array([0., 1.])
    """
    return vjp(_thresholded_relu_deriv, dout, x, as_number("alpha", alpha))


def thresholded_relu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Forward mode of the thresholded rectifier.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    alpha : as in `thresholded_relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \begin{cases} 1 & x > \alpha \\ 0 & x \le \alpha \end{cases}\, \dot x

    Right for changes too small to cross the threshold; the jump there is invisible.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_jvp
    >>> thresholded_relu_jvp([0.5, 1.5], [1.0, 1.0])
    array([0., 1.])
    """
    return jvp(_thresholded_relu_deriv, primals, tangents, as_number("alpha", alpha))
