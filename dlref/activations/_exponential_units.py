r"""
Exponential units: linear for positive inputs, an exponential that saturates for negative ones.

All three need :math:`e^x - 1` near 0, where subtracting loses every digit; `expm1` does not.
"""

from __future__ import annotations

import numpy.typing as npt

from .._elementary import Number, expm1, fused, raised
from .._elementwise import mapped, pulled, pushed
from .._jit import formula, literal_formula
from .._validate import FloatArray, as_number

__all__ = [
    "celu",
    "celu_deriv",
    "celu_deriv2",
    "celu_jvp",
    "celu_vjp",
    "elu",
    "elu_deriv",
    "elu_deriv2",
    "elu_jvp",
    "elu_vjp",
    "selu",
    "selu_deriv",
    "selu_deriv2",
    "selu_jvp",
    "selu_vjp",
]


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
SELU_SLOPE = 1.7580993408473766  #: their product, the left derivative at 0


@formula
def _elu(x: Number, alpha: Number) -> Number:
    return x if x > 0.0 else alpha * expm1(x)


@formula
def _elu_deriv(x: Number, alpha: Number) -> Number:
    return 1.0 if x > 0.0 else raised(alpha, x, 0.0)


@formula
def _elu_deriv2(x: Number, alpha: Number) -> Number:
    return 0.0 if x > 0.0 else raised(alpha, x, 0.0)


@formula
def _selu(x: Number) -> Number:
    return SELU_SCALE * x if x > 0.0 else SELU_SLOPE * expm1(x)


@formula
def _selu_deriv(x: Number) -> Number:
    return SELU_SCALE if x > 0.0 else raised(SELU_SLOPE, x, 0.0)


@formula
def _selu_deriv2(x: Number) -> Number:
    return 0.0 if x > 0.0 else raised(SELU_SLOPE, x, 0.0)


@literal_formula
def _quotient(x: Number, alpha: Number) -> tuple[Number, Number]:
    """Return x / alpha, and what it lacks to the exact quotient."""
    z = x / alpha
    rest = fused(-z, alpha, x) / alpha
    return z, (rest if abs(z) < 800.0 else 0.0)


@formula
def _celu(x: Number, alpha: Number) -> Number:
    z = x / alpha
    curve = x if abs(z) < 1e-17 else alpha * expm1(z)
    return x if x > 0.0 else curve


@formula
def _celu_deriv(x: Number, alpha: Number) -> Number:
    z, rest = _quotient(x, alpha)
    return 1.0 if x > 0.0 else raised(1.0, z, rest)


@formula
def _celu_deriv2(x: Number, alpha: Number) -> Number:
    z, rest = _quotient(x, alpha)
    return 0.0 if x > 0.0 else raised(1.0 / alpha, z, rest)


def elu(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Exponential linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        `x` where positive, else :math:`\alpha (e^x - 1)`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    elu_deriv : The first derivative.
    celu : Smooth for every `alpha`.
    selu : Scaled so that activations normalize themselves.

    Notes
    -----
    .. math:: f(x) = \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}

    For :math:`x \to -\infty` it saturates at :math:`-\alpha`; negative outputs move the mean of the
    activations towards zero. The two sides meet with slopes :math:`\alpha` and 1: the unit is
    continuously differentiable for :math:`\alpha = 1` only.

    **Numerics.** ``exp(x) - 1`` has no correct digit for x = -1e-17. `expm1` brackets the terms
    so that
    nothing cancels; the largest error is 2.0 ULP.

    References
    ----------
    - :cite:t:`Clevert2016`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu
    >>> elu(np.log([0.25, 0.5, 1.0]), alpha=2)
    array([-1.5, -1. ,  0. ])

    No cancellation near 0:

    >>> elu(-1e-20)
    np.float64(-1e-20)
    """
    return mapped(_elu, x, as_number("alpha", alpha))


def elu_deriv(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Derivative of the exponential linear unit.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        1 where `x` is positive, else :math:`\alpha e^x`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    elu : The map itself.
    elu_deriv2 : The second derivative.

    Notes
    -----
    For negative inputs :math:`f' = \alpha e^x = f + \alpha`, the form that needs only the
    output. Here
    the exponential is used: near saturation :math:`f + \alpha` cancels. At 0 the value is that of
    the left side, `alpha`, as in PyTorch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu, elu_deriv
    >>> elu_deriv(np.log([0.25, 1.0, 2.0]), alpha=0.5)
    array([0.125, 0.5  , 1.   ])

    Output plus alpha, where it can be used:

    >>> elu(np.log(0.25), alpha=0.5) + 0.5
    np.float64(0.125)
    """
    return mapped(_elu_deriv, x, as_number("alpha", alpha))


def elu_deriv2(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Second derivative of the exponential linear unit.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        0 where `x` is positive, else :math:`\alpha e^x`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    elu_deriv : The first derivative.

    Notes
    -----
    The value at 0 is that of the left side. Even for :math:`\alpha = 1` the second derivative jumps
    there, from 1 to 0: the unit is once but not twice continuously differentiable.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_deriv2
    >>> elu_deriv2(np.log([0.25, 1.0, 2.0]))
    array([0.25, 1.  , 0.  ])
    """
    return mapped(_elu_deriv2, x, as_number("alpha", alpha))


def elu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Reverse mode of the exponential linear unit.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    elu_deriv : The factor.
    elu_jvp : Forward mode.

    Notes
    -----
    Saturated units pass a gradient that is small but not zero: at -5 it is 0.0067 of the
    incoming one, at -20 it is 2e-9.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_vjp
    >>> elu_vjp([8.0, 8.0], np.log([0.25, 2.0]))
    array([2., 8.])
    """
    return pulled(_elu_deriv, dout, x, as_number("alpha", alpha))


def elu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Forward mode of the exponential linear unit.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Rate of change of the input; None is zero.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` or `alpha` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    elu_deriv : The factor.
    elu_vjp : Reverse mode.

    Notes
    -----
    The slope for a negative input is the output plus `alpha`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_jvp
    >>> elu_jvp(np.log([0.25, 2.0]), [8.0, 8.0])
    array([2., 8.])
    """
    return pushed(_elu_deriv, primals, tangents, as_number("alpha", alpha))


def selu(x: npt.ArrayLike) -> FloatArray:
    r"""
    Self-normalizing exponential linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\lambda x` where positive, else :math:`\lambda \alpha (e^x - 1)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    selu_deriv : The first derivative.
    elu : Without the scale.

    Notes
    -----
    .. math:: f(x) = \lambda \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}

    with :math:`\alpha = 1.6732632423543772` and :math:`\lambda = 1.0507009873554805`. The two
    numbers
    solve two equations: for a standard normal z, :math:`\E f(z) = 0` and :math:`\E f(z)^2 = 1`.
    With
    weights of mean 0 and variance 1/n, the sums of the next layer then have mean 0 and variance 1
    again, and the fixed point attracts. That needs this initialization; the unit alone does not
    normalize anything.

    Solving them needs two Gaussian integrals, :math:`\E[e^{tz}; z < 0] = e^{t^2/2} \Phi(-t)` for
    t = 1, 2.

    References
    ----------
    - :cite:t:`Klambauer2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import selu
    >>> x, w = np.polynomial.hermite_e.hermegauss(180)
    >>> w /= w.sum()
    >>> mean, square = w @ selu(x), w @ selu(x) ** 2
    >>> print(round(mean, 2), round(square, 2))
    -0.0 1.0
    """
    return mapped(_selu, x)


def selu_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the self-normalizing unit.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`\lambda` where `x` is positive, else :math:`\lambda \alpha e^x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    selu : The map itself.
    selu_deriv2 : The second derivative.

    Notes
    -----
    The slope jumps at 0 from :math:`\lambda \alpha = 1.758` to :math:`\lambda = 1.051`; the left
    value is taken there, as in
    PyTorch and JAX. It is not bounded away from 0: at -5 it is 0.0118.

    Examples
    --------
    >>> from dlref.activations import selu_deriv
    >>> selu_deriv([-5.0, 0.0, 1.0])
    array([0.01184598, 1.75809934, 1.05070099])
    """
    return mapped(_selu_deriv, x)


def selu_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the self-normalizing unit.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        0 where `x` is positive, else :math:`\lambda \alpha e^x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    selu_deriv : The first derivative.

    Notes
    -----
    The value at 0 is that of the left side; the jump of the slope is not part of it.

    Examples
    --------
    >>> from dlref.activations import selu_deriv2
    >>> selu_deriv2([-5.0, 0.0, 1.0])
    array([0.01184598, 1.75809934, 0.        ])
    """
    return mapped(_selu_deriv2, x)


def selu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the self-normalizing unit.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    selu_deriv : The factor.
    selu_jvp : Forward mode.

    Notes
    -----
    Positive units enlarge the gradient by 5 percent, and so do slightly negative ones, up to
    76 percent; strongly negative ones weaken it. On average the size is kept.

    Examples
    --------
    >>> from dlref.activations import selu_vjp
    >>> selu_vjp([1.0, 1.0], [-5.0, 1.0])
    array([0.01184598, 1.05070099])
    """
    return pulled(_selu_deriv, dout, x)


def selu_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the self-normalizing unit.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Rate of change of the input; None is zero.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    selu_deriv : The factor.
    selu_vjp : Reverse mode.

    Notes
    -----
    A slope above 1 near 0 is what raises the variance of too small activations.

    Examples
    --------
    >>> from dlref.activations import selu_jvp
    >>> selu_jvp([-0.1, 1.0], [1.0, 1.0])
    array([1.59079407, 1.05070099])
    """
    return pushed(_selu_deriv, primals, tangents)


def celu(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Continuously differentiable exponential linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    alpha : float, default 1.0
        Depth and width of the negative side.

    Returns
    -------
    ndarray
        `x` where positive, else :math:`\alpha (e^{x/\alpha} - 1)`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.
    ValueError
        If `alpha` is not positive.

    See Also
    --------
    celu_deriv : The first derivative.
    elu : The same for `alpha` = 1.

    Notes
    -----
    .. math:: f(x) = \max(0, x) + \min\bigl(0, \alpha (e^{x / \alpha} - 1)\bigr)

    Dividing the argument by :math:`\alpha` makes the left slope at 0 equal to 1 for every
    :math:`\alpha`. It also makes the family one curve, scaled:
    :math:`f_\alpha(x) = \alpha f_1(x / \alpha)`.
    For :math:`\alpha \to 0` it becomes relu.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import celu
    >>> celu(-2 * np.log(2), alpha=2)
    np.float64(-1.0)

    A scaled copy of the curve for alpha = 1:

    >>> x = np.array([-3.0, -1.0, 2.0])
    >>> celu(x, alpha=4) / celu(x / 4)
    array([4., 4., 4.])
    """
    return mapped(_celu, x, as_number("alpha", alpha, above=0))


def celu_deriv(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Derivative of the continuously differentiable unit.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    alpha : float, default 1.0
        Depth and width of the negative side.

    Returns
    -------
    ndarray
        1 where `x` is positive, else :math:`e^{x / \alpha}`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.
    ValueError
        If `alpha` is not positive.

    See Also
    --------
    celu : The map itself.
    celu_deriv2 : The second derivative.

    Notes
    -----
    It is continuous, with the value 1 at 0. An error of the exponent is a relative error of the
    result, so the
    rounding of :math:`x/\alpha` alone would cost hundreds of units in the last place at -700; the
    remainder of the division is added to the exponent.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import celu_deriv
    >>> celu_deriv(2 * np.log([0.25, 1.0, 2.0]), alpha=2)
    array([0.25, 1.  , 1.  ])
    """
    return mapped(_celu_deriv, x, as_number("alpha", alpha, above=0))


def celu_deriv2(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Second derivative of the continuously differentiable unit.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    alpha : float, default 1.0
        Depth and width of the negative side.

    Returns
    -------
    ndarray
        0 where `x` is positive, else :math:`e^{x / \alpha} / \alpha`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.
    ValueError
        If `alpha` is not positive.

    See Also
    --------
    celu_deriv : The first derivative.

    Notes
    -----
    It jumps at 0 from :math:`1 / \alpha` to 0; the left value is taken there.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import celu_deriv2
    >>> celu_deriv2(2 * np.log([0.25, 1.0, 2.0]), alpha=2)
    array([0.125, 0.5  , 0.   ])
    """
    return mapped(_celu_deriv2, x, as_number("alpha", alpha, above=0))


def celu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Reverse mode of the continuously differentiable unit.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    alpha : float, default 1.0
        Depth and width of the negative side.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.
    ValueError
        If `alpha` is not positive.

    See Also
    --------
    celu_deriv : The factor.
    celu_jvp : Forward mode.

    Notes
    -----
    The gradient never grows: the slope is at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import celu_vjp
    >>> celu_vjp([8.0, 8.0], 2 * np.log([0.25, 2.0]), alpha=2)
    array([2., 8.])
    """
    return pulled(_celu_deriv, dout, x, as_number("alpha", alpha, above=0))


def celu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Forward mode of the continuously differentiable unit.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Rate of change of the input; None is zero.
    alpha : float, default 1.0
        Depth and width of the negative side.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` or `alpha` is not real.
    ValueError
        If `alpha` is not positive.

    See Also
    --------
    celu_deriv : The factor.
    celu_vjp : Reverse mode.

    Notes
    -----
    Tangents of negative inputs shrink by the factor e for every `alpha` further from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import celu_jvp
    >>> celu_jvp(2 * np.log([0.25, 2.0]), [8.0, 8.0], alpha=2)
    array([2., 8.])
    """
    return pushed(_celu_deriv, primals, tangents, as_number("alpha", alpha, above=0))
