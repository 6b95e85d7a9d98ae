r"""Hard sigmoid: a line, clipped at 0 and 1."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_strict
from .._math.elementary import Number, fma
from .._math.elementwise import forward, jvp, vjp
from ._relu import _no_curvature


@inline_strict
def _hard_sigmoid(x: Number, alpha: Number, beta: Number) -> Number:
    line = fma(alpha, x, beta)  # near the lower kink the terms cancel
    inside = 1.0 if line >= 1.0 else line
    return 0.0 if alpha * x + beta <= 0.0 else inside  # not the digits that alpha was rounded by


@inline_strict
def _hard_sigmoid_deriv(x: Number, alpha: Number, beta: Number) -> Number:
    line = alpha * x + beta
    return 0.0 if (line <= 0.0) | (line >= 1.0) else (alpha if line > 0.0 else x)


def hard_sigmoid(x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5) -> FloatArray:
    r"""
    Piecewise linear sigmoid.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    alpha : float, default 1 / 6
        Slope of the line.
    beta : float, default 0.5
        Its value at 0.

    Returns
    -------
    ndarray
        :math:`\alpha x + \beta`, clipped to [0, 1].

    Raises
    ------
    TypeError
        If `x`, `alpha` or `beta` is not real.

    See Also
    --------
    hard_sigmoid_deriv : The first derivative.
    sigmoid : The smooth map.
    hard_swish : Its product with the input.

    Notes
    -----
    .. math:: f(x) = \max(0, \min(1, \alpha x + \beta))

    PyTorch and Keras 3 also use the slope 1/6; ONNX and older Keras use 0.2, and the tangent of
    :math:`\sigma` at 0 would be 1/4.

    Near the lower kink :math:`\alpha x` and :math:`\beta` cancel. The rounding error of
    :math:`\alpha x` is computed and added back, so the value is right to the last digit for the
    `alpha` that was passed.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid
    >>> hard_sigmoid([-6.0, 0.0, 1.5, 6.0])
    array([0.  , 0.5 , 0.75, 1.  ])
    >>> hard_sigmoid([1.5], alpha=0.2)
    array([0.8])
    """
    return forward(_hard_sigmoid, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_deriv(x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5) -> FloatArray:
    r"""
    Derivative of the piecewise linear sigmoid.

    Parameters
    ----------
    x, alpha, beta : as in `hard_sigmoid`
        Raises the same errors.

    Returns
    -------
    ndarray
        `alpha` between the kinks, else 0.

    Notes
    -----
    .. math::

        f'(x)
          = \begin{cases} \alpha & 0 < \alpha x + \beta < 1 \\ 0 & \text{otherwise} \end{cases}

    0 at both kinks, as in PyTorch. The largest derivative of the smooth sigmoid is 1/4, so
    with the default slope less gradient passes near 0, but more at 2.5.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_deriv
    >>> (6 * hard_sigmoid_deriv([-3.0, 0.0, 2.5, 3.0])).round(12)
    array([0., 1., 1., 0.])
    """
    return forward(_hard_sigmoid_deriv, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_deriv2(x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5) -> FloatArray:
    r"""
    Second derivative of the piecewise linear sigmoid: zero wherever it exists.

    Parameters
    ----------
    x, alpha, beta : as in `hard_sigmoid`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    The slope jumps by `alpha` at the lower kink and back at the upper one; 0 is given there.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_deriv2
    >>> hard_sigmoid_deriv2([-3.0, 0.0, 3.0])
    array([0., 0., 0.])
    """
    return forward(_no_curvature, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5
) -> FloatArray:
    r"""
    Reverse mode of the piecewise linear sigmoid.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, alpha, beta : as in `hard_sigmoid`
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
          = u\, \begin{cases} \alpha & 0 < \alpha x + \beta < 1 \\ 0 & \text{otherwise} \end{cases}

    Outside the linear part the gradient is exactly zero, not merely small as for the smooth
    sigmoid: a gate that is fully open or closed gets no gradient.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_vjp
    >>> hard_sigmoid_vjp([6.0, 6.0], [0.0, 4.0])
    array([1., 0.])
    """
    return vjp(_hard_sigmoid_deriv, dout, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    alpha: float = 1 / 6,
    beta: float = 0.5,
) -> FloatArray:
    r"""
    Forward mode of the piecewise linear sigmoid.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    alpha, beta : as in `hard_sigmoid`
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
          = \begin{cases} \alpha & 0 < \alpha x + \beta < 1 \\ 0 & \text{otherwise} \end{cases}\,
            \dot x

    `alpha` times the tangent between the kinks.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_jvp
    >>> hard_sigmoid_jvp([0.0, 4.0], [6.0, 6.0])
    array([1., 0.])
    """
    return jvp(
        _hard_sigmoid_deriv, primals, tangents, as_number("alpha", alpha), as_number("beta", beta)
    )
