r"""
Functions of one number, element by element.

NumPy and SciPy have the functions. Each derivative is a formula of one number, which
`dlref._math.elementwise` applies.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from .._math.circle import cos, sin
from .._math.elementary import Number, exp, raised, two_square
from .._math.elementwise import forward, jvp, vjp

__all__ = [  # noqa: RUF022  # in the order of the page
    "exp_deriv",
    "exp_vjp",
    "exp_jvp",
    "log_deriv",
    "log_vjp",
    "log_jvp",
    "log1p_deriv",
    "log1p_vjp",
    "log1p_jvp",
    "expm1_deriv",
    "expm1_vjp",
    "expm1_jvp",
    "sqrt_deriv",
    "sqrt_vjp",
    "sqrt_jvp",
    "sin_deriv",
    "sin_vjp",
    "sin_jvp",
    "cos_deriv",
    "cos_vjp",
    "cos_jvp",
    "tan_deriv",
    "tan_vjp",
    "tan_jvp",
    "erf_deriv",
    "erf_vjp",
    "erf_jvp",
    "absolute_deriv",
    "absolute_vjp",
    "absolute_jvp",
    "clip_deriv",
    "clip_vjp",
    "clip_jvp",
]


SLOPE_AT_0 = 2.0 / math.sqrt(math.pi)  #: of erf


@inline_fma
def _log_slope(x: Number) -> Number:
    return np.nan if x < 0.0 else 1.0 / abs(x)


@inline_fma
def _log1p_slope(x: Number) -> Number:
    return np.nan if x < -1.0 else 1.0 / abs(1.0 + x)


@inline_fma
def _sqrt_slope(x: Number) -> Number:
    return 0.5 / abs(np.sqrt(x))  # the root of -0.0 is -0.0


@inline_fma
def _exact_cosine(x: Number) -> Number:
    return np.cos(x)


@inline_fma
def _minus_sine(x: Number) -> Number:
    return -sin(x)


@inline_fma
def _minus_exact_sine(x: Number) -> Number:
    return -np.sin(x)


@inline_fma
def _tan_slope(x: Number) -> Number:
    c = cos(x)
    return 1.0 / (c * c)


@inline_fma
def _exact_tan_slope(x: Number) -> Number:
    return 1.0 + np.tan(x) ** 2


@inline_fma
def _erf_slope(x: Number) -> Number:
    size = 28.0 if abs(x) > 28.0 else abs(x)  # beyond, the result underflows
    high, low = two_square(size)
    return raised(SLOPE_AT_0, -high, -low)


@inline_fma
def _sign(x: Number) -> Number:
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else abs(x))


@inline_fma
def _inside(x: Number, low: Number, high: Number) -> Number:
    return x if np.isnan(x) else (1.0 if low <= x <= high else 0.0)


def _limits(min: float | None, max: float | None) -> tuple[float, float]:
    low = -math.inf if min is None else as_number("min", min, least=-math.inf)
    return low, math.inf if max is None else as_number("max", max, least=low)


def exp_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the exponential function.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The exponential itself, positive.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    log_deriv : The inverse function.
    dlref.activations.softmax : Exponentials, divided by their sum.

    Notes
    -----
    The exponential is the only function that is its own derivative and has the value 1 at 0. It is
    a power series, and the derivative of each of its terms is the term before it:

    .. math::

       e^x = \sum_{n=0}^\infty \frac{x^n}{n!} , \qquad
       \dv{}{x} e^x = \sum_{n=1}^\infty \frac{x^{n-1}}{(n-1)!} = e^x

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import exp_deriv
    >>> exp_deriv([0.0, np.log(3.0)]).round(12)
    array([1., 3.])
    """
    return forward(exp, x)


def exp_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the exponential function.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `exp_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, e^x

    The factor is the output. A backward pass that has kept :math:`y = e^x` needs neither x nor a
    second exponential.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import exp_vjp
    >>> exp_vjp([5.0, 5.0], [0.0, np.log(3.0)]).round(12)
    array([ 5., 15.])
    """
    return vjp(exp, dout, x)


def exp_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the exponential function.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `exp_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = e^x\, \dot x

    The relative change of the output is the change of the input: :math:`\dot y / y = \dot x`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import exp_jvp
    >>> x, moved = np.array([0.0, 3.0]), np.array([0.5, 0.5])
    >>> exp_jvp(x, moved) / np.exp(x)
    array([0.5, 0.5])
    """
    return jvp(exp, primals, tangents)


def log_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the natural logarithm.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The reciprocal of `x`; NaN where `x` is negative.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    exp_deriv : The inverse function.
    log1p_deriv : The logarithm of a number near 1.

    Notes
    -----
    Differentiate both sides of :math:`x = e^{\log x}`:

    .. math::

       1 = e^{\log x}\, \dv{}{x} \log x = x\, \dv{}{x} \log x
       \quad\Longrightarrow\quad \dv{}{x} \log x = \frac1x

    The logarithm to another base, 10 or 2, divides the slope by :math:`\log 10` or :math:`\log 2`.

    **Special values.** The slope is infinite at 0. The logarithm of a negative number is NaN, and
    so is its derivative; PyTorch and JAX return the reciprocal there, the slope of :math:`\log
    \abs{x}`.

    Examples
    --------
    >>> from dlref.calculus import log_deriv
    >>> log_deriv([0.25, 1.0, 4.0, 0.0])
    array([4.  , 1.  , 0.25,  inf])
    """
    return forward(_log_slope, x)


def log_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the natural logarithm.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `log_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \frac1x

    It is the last step of cross-entropy, where x is the probability of the right class: the loss
    :math:`-\log x` has the gradient :math:`-1 / x`, which is large where the probability is small.

    Examples
    --------
    >>> from dlref.calculus import log_vjp
    >>> log_vjp([-1.0, -1.0], [0.5, 0.01])
    array([  -2., -100.])
    """
    return vjp(_log_slope, dout, x)


def log_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the natural logarithm.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `log_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \frac1x\, \dot x

    The tangent of a logarithm is the relative change of its argument.

    Examples
    --------
    >>> from dlref.calculus import log_jvp
    >>> log_jvp([2.0, 200.0], [0.02, 2.0])
    array([0.01, 0.01])
    """
    return jvp(_log_slope, primals, tangents)


def log1p_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the logarithm of :math:`1 + x`.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The reciprocal of ``1 + x``; NaN where `x` is less than -1.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    log_deriv : The derivation.
    expm1_deriv : The inverse function.

    Notes
    -----
    The chain rule, with an inner function of slope 1:

    .. math:: \dv{}{x} \log(1 + x) = \frac{1}{1 + x}\, \dv{}{x} (1 + x) = \frac{1}{1 + x}

    The function exists for accuracy: for a small x the sum :math:`1 + x` is rounded, and its
    logarithm has few correct digits. The rounding does not hurt the derivative, which is near 1
    there.

    **Special values.** The slope is infinite at -1 and NaN below.

    Examples
    --------
    >>> from dlref.calculus import log1p_deriv
    >>> log1p_deriv([0.0, 3.0, -0.5, -1.0])
    array([1.  , 0.25, 2.  ,  inf])
    """
    return forward(_log1p_slope, x)


def log1p_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the logarithm of :math:`1 + x`.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `log1p_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \frac{1}{1 + x}

    Near 0 the gradient passes unchanged; at a large x it is divided by about x. If a model takes
    :math:`\log(1 + x)` of counts, a few large counts do not dominate the loss.

    Examples
    --------
    >>> from dlref.calculus import log1p_vjp
    >>> log1p_vjp([8.0, 8.0], [0.0, 3.0])
    array([8., 2.])
    """
    return vjp(_log1p_slope, dout, x)


def log1p_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the logarithm of :math:`1 + x`.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `log1p_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \frac{1}{1 + x}\, \dot x

    Near 0 the function is x, to first order, and the tangent passes unchanged.

    Examples
    --------
    >>> from dlref.calculus import log1p_jvp
    >>> log1p_jvp([0.0, 3.0], [8.0, 8.0])
    array([8., 2.])
    """
    return jvp(_log1p_slope, primals, tangents)


def expm1_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the exponential minus 1.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The exponential of `x`.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    exp_deriv : The derivation.
    log1p_deriv : The inverse function.
    dlref.activations.elu : A rectifier whose left part it is.

    Notes
    -----
    The slope of a constant is 0:

    .. math:: \dv{}{x} (e^x - 1) = e^x

    In terms of the output y it is :math:`1 + y`. The code computes the exponential again, because
    for a very negative x the output is near -1 and the sum cancels.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import expm1_deriv
    >>> expm1_deriv([0.0, np.log(3.0), -np.inf]).round(12)
    array([1., 3., 0.])
    """
    return forward(exp, x)


def expm1_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the exponential minus 1.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `expm1_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, e^x

    The gradient vanishes for very negative x, where the output stays near -1.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import expm1_vjp
    >>> expm1_vjp([5.0, 5.0], [0.0, -np.inf])
    array([5., 0.])
    """
    return vjp(exp, dout, x)


def expm1_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the exponential minus 1.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `expm1_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = e^x\, \dot x

    This is the tangent of :func:`exp_jvp`, since the constant 1 does not change.

    Examples
    --------
    >>> from dlref.calculus import exp_jvp, expm1_jvp
    >>> exp_jvp([0.5, -2.0], [1.0, 4.0]) - expm1_jvp([0.5, -2.0], [1.0, 4.0])
    array([0., 0.])
    """
    return jvp(exp, primals, tangents)


def sqrt_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the square root.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        Half the reciprocal of the root; NaN where `x` is negative.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    power_jacobian : Other exponents.
    norm_grad : The root of a sum of squares.

    Notes
    -----
    Differentiate both sides of :math:`x = y^2`, where y is the root:

    .. math::

       1 = 2 y\, \dv{y}{x} \quad\Longrightarrow\quad \dv{y}{x} = \frac{1}{2 y} = \frac{1}{2 \sqrt x}

    **Special values.** The slope is infinite at 0 and NaN below.

    Examples
    --------
    >>> from dlref.calculus import sqrt_deriv
    >>> sqrt_deriv([0.25, 4.0, 0.0])
    array([1.  , 0.25,  inf])
    """
    return forward(_sqrt_slope, x)


def sqrt_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the square root.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `sqrt_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \frac{1}{2 \sqrt x}

    Near 0 the factor grows without bound. This is why a normalization adds eps to the variance
    inside its root, and why the gradient of a norm at 0 is a convention.

    Examples
    --------
    >>> from dlref.calculus import sqrt_vjp
    >>> sqrt_vjp([1.0, 1.0], [0.25, 1e-12])
    array([1.e+00, 5.e+05])
    """
    return vjp(_sqrt_slope, dout, x)


def sqrt_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the square root.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `sqrt_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \frac{1}{2 \sqrt x}\, \dot x

    A root halves relative changes: :math:`\dot y / y = \dot x / (2 x)`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import sqrt_jvp
    >>> sqrt_jvp([4.0, 100.0], [0.08, 2.0]) / np.sqrt([4.0, 100.0])
    array([0.01, 0.01])
    """
    return jvp(_sqrt_slope, primals, tangents)


def sin_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the sine.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The cosine of `x`, an angle in radians.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    cos_deriv : The other part of the same derivation.

    Notes
    -----
    Sine and cosine are the parts of the point :math:`e^{\mathrm{i} x}` on the unit circle. Its
    slope is a quarter turn ahead:

    .. math::

       \dv{}{x} (\cos x + \mathrm{i} \sin x) = \dv{}{x} e^{\mathrm{i} x}
       = \mathrm{i} e^{\mathrm{i} x} = -\sin x + \mathrm{i} \cos x

    The imaginary part is the slope of the sine:

    .. math:: \dv{}{x} \sin x = \cos x

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import sin_deriv
    >>> sin_deriv([0.0, np.pi / 3, np.pi]).round(12)
    array([ 1. ,  0.5, -1. ])
    """
    return forward(cos, x, exact=_exact_cosine)


def sin_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the sine.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `sin_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \cos(x)

    No gradient passes where the sine has its maximum or minimum, since the cosine is 0 there.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import sin_vjp
    >>> sin_vjp([6.0, 6.0], [0.0, np.pi / 3]).round(12)
    array([6., 3.])
    """
    return vjp(cos, dout, x, exact=_exact_cosine)


def sin_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the sine.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `sin_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \cos(x)\, \dot x

    Together with :func:`cos_jvp` it is the velocity of a point on the circle, at a right angle to
    its position.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import cos_jvp, sin_jvp
    >>> x = np.array([0.0, 0.5, 2.0])
    >>> along = np.cos(x) * cos_jvp(x, np.ones(3)) + np.sin(x) * sin_jvp(x, np.ones(3))
    >>> abs(along).max() < 1e-15
    np.True_
    """
    return jvp(cos, primals, tangents, exact=_exact_cosine)


def cos_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the cosine.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        Minus the sine of `x`, an angle in radians.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    sin_deriv : The derivation.

    Notes
    -----
    This is the real part of the derivation in :func:`sin_deriv`. The cosine falls where the sine is
    positive:

    .. math:: \dv{}{x} \cos x = -\sin x

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import cos_deriv
    >>> cos_deriv([np.pi / 2, np.pi / 6]).round(12)
    array([-1. , -0.5])
    """
    return forward(_minus_sine, x, exact=_minus_exact_sine)


def cos_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the cosine.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `cos_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = -u\, \sin(x)

    The sine has the slope :math:`\cos x`, so that the second derivative of the cosine is
    :math:`-\cos x`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import cos_vjp
    >>> cos_vjp([6.0, 6.0], [np.pi / 2, np.pi / 6]).round(12)
    array([-6., -3.])
    """
    return vjp(_minus_sine, dout, x, exact=_minus_exact_sine)


def cos_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cosine.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `cos_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = -\sin(x)\, \dot x

    Near 0 the cosine changes only to second order.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import cos_jvp
    >>> cos_jvp([0.0, np.pi / 2], [6.0, 6.0]).round(12)
    array([-0., -6.])
    """
    return jvp(_minus_sine, primals, tangents, exact=_minus_exact_sine)


def tan_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the tangent.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The slope, at least 1.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    sin_deriv : The slopes of its numerator and denominator.
    dlref.activations.tanh : Its hyperbolic relative.

    Notes
    -----
    The quotient rule, with the slopes of sine and cosine:

    .. math::

       \dv{}{x} \frac{\sin x}{\cos x} = \frac{\cos^2 x + \sin^2 x}{\cos^2 x}
       = \frac{1}{\cos^2 x} = 1 + \tan^2 x

    The code uses the last form, which needs only the tangent itself. The slope of the hyperbolic
    tangent has a minus sign in place of the plus.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import tan_deriv
    >>> tan_deriv([0.0, np.pi / 4]).round(12)
    array([1., 2.])
    """
    return forward(_tan_slope, x, exact=_exact_tan_slope)


def tan_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the tangent.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `tan_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, (1 + \tan^2 x)

    The factor is 1 at 0 and grows without bound toward each pole, an odd multiple of :math:`\pi /
    2`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import tan_vjp
    >>> tan_vjp([3.0, 3.0], [0.0, np.pi / 4]).round(12)
    array([3., 6.])
    """
    return vjp(_tan_slope, dout, x, exact=_exact_tan_slope)


def tan_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the tangent.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `tan_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = (1 + \tan^2 x)\, \dot x

    The factor is at least 1, so the output moves at least as fast as the input.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import tan_jvp
    >>> tan_jvp([0.0, np.pi / 4], [3.0, 3.0]).round(12)
    array([3., 6.])
    """
    return jvp(_tan_slope, primals, tangents, exact=_exact_tan_slope)


def erf_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the error function.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The slope, a bell curve with the area 2.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    dlref.activations.gelu : The activation that uses the error function.

    Notes
    -----
    The error function is an integral, and the derivative of an integral is its integrand:

    .. math::

       \operatorname{erf} x = \frac{2}{\sqrt\pi} \int_0^x e^{-t^2}\, \dd t
       \quad\Longrightarrow\quad \dv{}{x} \operatorname{erf} x = \frac{2}{\sqrt\pi}\, e^{-x^2}

    SciPy has the function as `scipy.special.erf`. The distribution function of the standard normal
    distribution is :math:`\Phi(x) = \frac12 (1 + \operatorname{erf}(x / \sqrt 2))`.

    **Numerics.** The exponential magnifies the rounding error of the square by its exponent, up to
    745. The code splits x into a part of 24 bits, whose square is exact, and the rest.

    Examples
    --------
    >>> from dlref.calculus import erf_deriv
    >>> (erf_deriv([0.0, 1.0, -1.0]) / erf_deriv(0.0)).round(6)
    array([1.      , 0.367879, 0.367879])
    """
    return forward(_erf_slope, x)


def erf_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the error function.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `erf_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \frac{2}{\sqrt\pi}\, e^{-x^2}

    The factor falls faster than an exponential. Beyond 28 it is 0 in float64.

    Examples
    --------
    >>> from dlref.calculus import erf_vjp
    >>> erf_vjp([1.0, 1.0], [28.0, -28.0])
    array([0., 0.])
    """
    return vjp(_erf_slope, dout, x)


def erf_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the error function.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `erf_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \frac{2}{\sqrt\pi}\, e^{-x^2}\, \dot x

    The factor is largest at 0, where it is 1.128.

    Examples
    --------
    >>> from dlref.calculus import erf_jvp
    >>> float(erf_jvp(0.0, 1.0).round(6))
    1.128379
    """
    return jvp(_erf_slope, primals, tangents)


def absolute_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the absolute value.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray, shape ``x.shape``
        The sign of `x`; 0 at 0.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array.

    See Also
    --------
    maximum_jacobian : Another map with a kink.
    norm_grad : The length of a vector.

    Notes
    -----
    Left of 0 the function is :math:`-x`, right of it x:

    .. math::

       \dv{}{x} \abs{x} = \operatorname{sign}(x)
       = \begin{cases} 1 & x > 0 \\ 0 & x = 0 \\ -1 & x < 0 \end{cases}

    **The kink.** The absolute value has no derivative at 0. Every number from -1 to 1 is a
    subgradient there: the slope of a line through the origin that stays below the graph. dlref
    returns 0, the middle of the range, as PyTorch does; JAX returns 1.

    Examples
    --------
    >>> from dlref.calculus import absolute_deriv
    >>> absolute_deriv([-2.0, 0.0, 0.5])
    array([-1.,  0.,  1.])
    """
    return forward(_sign, x)


def absolute_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the absolute value.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x : as in `absolute_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \operatorname{sign}(x)

    The size of the gradient does not depend on the size of x. An L1 penalty, the sum of the
    absolute values of the weights, therefore pulls small weights toward 0 as hard as large ones.

    Examples
    --------
    >>> from dlref.calculus import absolute_vjp
    >>> absolute_vjp([0.1, 0.1, 0.1], [-2.0, 0.0, 0.001])
    array([-0.1,  0. ,  0.1])
    """
    return vjp(_sign, dout, x)


def absolute_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the absolute value.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `absolute_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \operatorname{sign}(x)\, \dot x

    At 0 the directional derivative is :math:`\abs{\dot x}`, which is not linear in the direction.
    dlref returns 0 instead, which is linear and the adjoint of :func:`absolute_vjp`.

    Examples
    --------
    >>> from dlref.calculus import absolute_jvp
    >>> absolute_jvp([-2.0, 0.0, 3.0], [5.0, 5.0, 5.0])
    array([-5.,  0.,  5.])
    """
    return jvp(_sign, primals, tangents)


def clip_deriv(
    x: npt.ArrayLike, *, min: float | None = None, max: float | None = None
) -> FloatArray:
    r"""
    Derivative of the restriction to an interval.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    min, max : float or None
        Limits; None is no limit.

    Returns
    -------
    ndarray, shape ``x.shape``
        1 between the limits and at them, 0 outside.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or a limit is not a number.
    ValueError
        If `max` is less than `min`, or a limit is NaN.

    See Also
    --------
    maximum_jacobian, minimum_jacobian : One limit, which may be an array and has a gradient.
    dlref.training.clip_by_value : The same for gradients.

    Notes
    -----
    With the limits :math:`a` and :math:`b` the function is :math:`f(x) = \min(\max(x, a), b)`.
    Between the limits it is x, and outside it is constant:

    .. math:: f'(x) = \begin{cases} 1 & a \le x \le b \\ 0 & \text{otherwise} \end{cases}

    **The kinks of a clip.** At a limit the slope is 0 on one side and 1 on the other. dlref returns
    1, as ``torch.clamp`` does, so that an element at the limit can still move back. JAX returns
    1/2, the product of the slopes of maximum and minimum. :func:`dlref.activations.hard_tanh`
    returns 0, as PyTorch's does.

    Examples
    --------
    >>> from dlref.calculus import clip_deriv
    >>> clip_deriv([-3.0, -1.0, 0.5, 1.0, 3.0], min=-1, max=1)
    array([0., 1., 1., 1., 0.])
    """
    return forward(_inside, x, *_limits(min, max))


def clip_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    min: float | None = None,
    max: float | None = None,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the restriction to an interval.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x, min, max : as in `clip_deriv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the derivative.

    Notes
    -----
    .. math:: \pdv{L}{x} = u\, \begin{cases} 1 & a \le x \le b \\ 0 & \text{otherwise} \end{cases}

    An element that was clipped gets no gradient. The clipped loss of PPO uses this: once the ratio
    of probabilities has left the interval, the clipped term pushes it no further.

    Examples
    --------
    >>> from dlref.calculus import clip_vjp
    >>> clip_vjp([7.0, 7.0, 7.0], [-3.0, 0.5, 3.0], max=1)
    array([7., 7., 0.])
    """
    return vjp(_inside, dout, x, *_limits(min, max))


def clip_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the restriction to an interval.

    Parameters
    ----------
    primals : array_like
        Input :math:`x`. Raises the same errors as `clip_deriv`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.
    min, max : as in `clip_deriv`
        Limits.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The derivative times `tangents`.

    Notes
    -----
    .. math:: \dot y = \begin{cases} 1 & a \le x \le b \\ 0 & \text{otherwise} \end{cases}\, \dot x

    If a limit is None, every tangent on its side passes.

    Examples
    --------
    >>> from dlref.calculus import clip_jvp
    >>> clip_jvp([-3.0, 0.5, 3.0], [7.0, 7.0, 7.0], min=-1)
    array([0., 7., 7.])
    """
    return jvp(_inside, primals, tangents, *_limits(min, max))
