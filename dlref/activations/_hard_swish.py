r"""Hard swish: the input times its hard sigmoid."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number, quotient
from .._math.elementwise import forward, jvp, vjp


@inline_fma
def _hard_swish(x: Number) -> Number:
    return 0.0 if x <= -3.0 else (x if x >= 3.0 else quotient(x * (x + 3.0), 6.0, 0.0))


@inline_fma
def _hard_swish_deriv(x: Number) -> Number:
    return 0.0 if x <= -3.0 else (1.0 if x >= 3.0 else quotient(2.0 * x + 3.0, 6.0, 0.0))


@inline_fma
def _hard_swish_deriv2(x: Number) -> Number:
    return 0.0 if abs(x) >= 3.0 else (1.0 / 3.0 if abs(x) < 3.0 else x)


def hard_swish(x: npt.ArrayLike) -> FloatArray:
    r"""
    Piecewise quadratic approximation of silu.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`x \operatorname{relu6}(x + 3) / 6`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_swish_deriv : The first derivative.
    silu : The smooth map.
    hard_sigmoid : The factor.

    Notes
    -----
    .. math::

       f(x) = x \max\Bigl(0, \min\Bigl(1, \frac{x + 3}{6}\Bigr)\Bigr)
            = \begin{cases} 0 & x \le -3 \\ x (x + 3) / 6 & -3 < x < 3 \\ x & x \ge 3 \end{cases}

    The minimum follows from :math:`2 x + 3 = 0`: it is :math:`f(-3/2) = -3/8`, while the minimum of
    silu is -0.278 at -1.278.

    Examples
    --------
    >>> from dlref.activations import hard_swish
    >>> hard_swish([-4.0, -1.5, 0.0, 1.5, 4.0])
    array([ 0.   , -0.375,  0.   ,  1.125,  4.   ])
    """
    return forward(_hard_swish, x)


def hard_swish_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the piecewise quadratic silu.

    Parameters
    ----------
    x : as in `hard_swish`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`(2 x + 3) / 6` between the kinks, 0 to the left and 1 to the right.

    Notes
    -----
    .. math::

        f'(x)
          = \begin{cases} 0 & x \le -3 \\ (2x + 3) / 6 & -3 < x < 3 \\ 1 & x \ge 3 \end{cases}

    The product rule between the kinks gives :math:`(2x + 3)/6`, which is :math:`-1/2` at the left
    kink and :math:`3/2` at the right one: the slope falls by 1/2 at both, and exceeds 1 between 3/2
    and 3. At the kinks the outer values 0 and 1 are taken, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import hard_swish_deriv
    >>> hard_swish_deriv([-3.0, -1.5, 0.0, 1.5, 3.0])
    array([0. , 0. , 0.5, 1. , 1. ])
    """
    return forward(_hard_swish_deriv, x)


def hard_swish_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the piecewise quadratic silu.

    Parameters
    ----------
    x : as in `hard_swish`
        Raises the same errors.

    Returns
    -------
    ndarray
        1/3 between the kinks, else 0.

    Notes
    -----
    .. math:: f''(x) = \begin{cases} 1/3 & -3 < x < 3 \\ 0 & \text{otherwise} \end{cases}

    0 at the kinks, where the slope jumps.

    Examples
    --------
    >>> from dlref.activations import hard_swish_deriv2
    >>> 3 * hard_swish_deriv2([-3.0, 0.0, 3.0])
    array([0., 1., 0.])
    """
    return forward(_hard_swish_deriv2, x)


def hard_swish_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the piecewise quadratic silu.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `hard_swish`
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
          = u\, \begin{cases} 0 & x \le -3 \\ (2x + 3) / 6 & -3 < x < 3 \\ 1 & x \ge 3 \end{cases}

    Between -3 and -3/2 the gradient changes its sign: more input gives less output there.

    Examples
    --------
    >>> from dlref.activations import hard_swish_vjp
    >>> hard_swish_vjp([6.0, 6.0], [-2.0, 4.0])
    array([-1.,  6.])
    """
    return vjp(_hard_swish_deriv, dout, x)


def hard_swish_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the piecewise quadratic silu.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `hard_swish`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \begin{cases} 0 & x \le -3 \\ (2x + 3) / 6 & -3 < x < 3 \\ 1 & x \ge 3 \end{cases}\,
            \dot x

    The tangent is scaled by a slope between -1/2 and 3/2.

    Examples
    --------
    >>> from dlref.activations import hard_swish_jvp
    >>> hard_swish_jvp([0.0, 4.0], [2.0, 2.0])
    array([1., 2.])
    """
    return jvp(_hard_swish_deriv, primals, tangents)
