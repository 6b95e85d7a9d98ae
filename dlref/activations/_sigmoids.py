r"""
Sigmoids and their relatives: logistic, tanh, their logarithm and integral, softsign.

Everything here is a function of :math:`e = e^{-|x|}`, which never overflows.  The textbook
derivatives :math:`s (1 - s)` and :math:`1 - t^2` subtract numbers that are equal in the tails;
written in e,
nothing is subtracted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._elementary import Number, exp, exp_parts, log1p_exp, tanh_gap
from .._elementary import sigmoid as sigmoid_of
from .._elementary import tanh as tanh_of
from .._elementwise import mapped, pulled, pushed
from .._jit import formula
from .._validate import FloatArray

__all__ = [
    "log_sigmoid",
    "log_sigmoid_deriv",
    "log_sigmoid_deriv2",
    "log_sigmoid_jvp",
    "log_sigmoid_vjp",
    "sigmoid",
    "sigmoid_deriv",
    "sigmoid_deriv2",
    "sigmoid_jvp",
    "sigmoid_vjp",
    "softplus",
    "softplus_deriv",
    "softplus_deriv2",
    "softplus_jvp",
    "softplus_vjp",
    "softsign",
    "softsign_deriv",
    "softsign_deriv2",
    "softsign_jvp",
    "softsign_vjp",
    "tanh",
    "tanh_deriv",
    "tanh_deriv2",
    "tanh_jvp",
    "tanh_vjp",
    "tanhshrink",
    "tanhshrink_deriv",
    "tanhshrink_deriv2",
    "tanhshrink_jvp",
    "tanhshrink_vjp",
]


@formula
def _sigmoid(x: Number) -> Number:
    return sigmoid_of(x)


@formula
def _sigmoid_deriv(x: Number) -> Number:
    e = exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


@formula
def _bell_slope(x: Number, scale: Number) -> Number:
    """-sign(x) scale e (1 - e) / (1 + e)^3 with e = exp(-|x|): an odd function."""
    r, t, a, b = exp_parts(-abs(x), 0.0)
    p = r + t
    e = (1.0 + p) * a * b
    half = 0.5 * a * b
    rest = -2.0 * ((half * r + (half - 0.5)) + half * t)  # 1 - e, as expm1 does it
    factor = scale * rest / ((1.0 + e) * (1.0 + e) * (1.0 + e))
    size = (factor + factor * p) * a * b
    return size if x < 0.0 else -size


@formula
def _sigmoid_deriv2(x: Number) -> Number:
    return _bell_slope(x, 1.0)


@formula
def _log_sigmoid(x: Number) -> Number:
    return (x if x < 0.0 else 0.0) - log1p_exp(-abs(x))


@formula
def _log_sigmoid_deriv(x: Number) -> Number:
    return _sigmoid(-x)


@formula
def _log_sigmoid_deriv2(x: Number) -> Number:
    return -_sigmoid_deriv(x)


@formula
def _softplus(x: Number) -> Number:
    return (x if x > 0.0 else 0.0) + log1p_exp(-abs(x))


@formula
def _tanh(x: Number) -> Number:
    return tanh_of(x)


@formula
def _tanh_deriv(x: Number) -> Number:
    r, t, a, b = exp_parts(-2.0 * abs(x), 0.0)
    p = r + t
    e = (1.0 + p) * a * b
    factor = 4.0 / ((1.0 + e) * (1.0 + e))
    return (factor + factor * p) * a * b


@formula
def _tanh_deriv2(x: Number) -> Number:
    return _bell_slope(2.0 * x, 8.0)


@formula
def _tanhshrink(x: Number) -> Number:
    return tanh_gap(x)


@formula
def _tanhshrink_deriv(x: Number) -> Number:
    t = tanh_of(x)
    return t * t


@formula
def _tanhshrink_deriv2(x: Number) -> Number:
    return -_bell_slope(2.0 * x, 8.0)


@formula
def _softsign(x: Number) -> Number:
    limit = 1.0 if x > 0.0 else -1.0
    return limit if abs(x) == np.inf else x / (1.0 + abs(x))


@formula
def _softsign_deriv(x: Number) -> Number:
    r = 1.0 / (1.0 + abs(x))
    return r * r


@formula
def _softsign_deriv2(x: Number) -> Number:
    r = 1.0 / (1.0 + abs(x))
    size = 2.0 * r * r * r
    return -size if x > 0.0 else (size if x < 0.0 else 0.0 * r)


def sigmoid(x: npt.ArrayLike) -> FloatArray:
    r"""
    Logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values in [0, 1], with the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    sigmoid_deriv : The first derivative.
    log_sigmoid : Its logarithm, without underflow.
    softplus : Its integral.
    tanh : The same curve, rescaled.

    Notes
    -----
    .. math:: \sigma(x) = \frac{1}{1 + e^{-x}} = \frac{e^x}{1 + e^x}

    It is the probability that turns log-odds into: :math:`x = \ln \frac{\sigma}{1 - \sigma}`.
    Adding the two
    fractions for x and -x gives :math:`\sigma(x) + \sigma(-x) = 1`; and
    :math:`\sigma(x) = \frac12 (1 + \tanh \frac x2)`.

    **Numerics.** The first fraction overflows for x = -800 (harmlessly, but with a warning), the
    second
    for x = 800. With :math:`e = e^{-\abs{x}} \le 1` the code takes :math:`1 / (1 + e)` for
    :math:`x \ge 0` and :math:`e / (1 + e)` for x < 0, which is accurate down to the smallest
    subnormal number. For float32 the first fraction alone does, since float64 holds
    :math:`e^{700}`. Error: 1.8 ULP in float64, 0.501 in float32.

    References
    ----------
    - :cite:t:`GlorotBengio2010`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid
    >>> sigmoid([0.0, np.log(3.0), -np.log(3.0)])
    array([0.5 , 0.75, 0.25])

    The left tail does not stop at the rounding of 1:

    >>> sigmoid(-700.0)
    np.float64(9.85967654375977e-305)
    """
    return mapped(_sigmoid, x)


def sigmoid_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`\sigma(x) \sigma(-x)`, at most 1/4.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    sigmoid : The map itself.
    sigmoid_deriv2 : The second derivative.

    Notes
    -----
    From :math:`\sigma = (1 + e^{-x})^{-1}` the chain rule gives

    .. math:: \sigma' = \frac{e^{-x}}{(1 + e^{-x})^2} = \sigma(x) \sigma(-x) = \sigma (1 - \sigma).

    The last form loses everything where :math:`\sigma` is near 1: at 40 it gives 0. The code takes
    :math:`e / (1 + e)^2` with :math:`e = e^{-\abs{x}}`, since :math:`\sigma'` is even. Error:
    3.3 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid, sigmoid_deriv
    >>> sigmoid_deriv([0.0, np.log(3.0)])
    array([0.25  , 0.1875])
    >>> s = sigmoid(40.0)
    >>> print(s * (1 - s), f"{sigmoid_deriv(40.0):.3g}")
    0.0 4.25e-18
    """
    return mapped(_sigmoid_deriv, x)


def sigmoid_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`\sigma(x) \sigma(-x) (\sigma(-x) - \sigma(x))`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    sigmoid_deriv : The first derivative.

    Notes
    -----
    The product rule on :math:`\sigma(x) \sigma(-x)` gives
    :math:`\sigma' (\sigma(-x) - \sigma(x))`, that is
    :math:`-\sigma' \tanh \frac x2`. It is odd, and extreme where :math:`e^x = 2 \pm \sqrt 3`.
    The difference
    :math:`1 - e` it needs comes from `expm1`, so that small x keep their digits. Error: 4.6 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_deriv2
    >>> sigmoid_deriv2([0.0, np.log(3.0)])
    array([ 0.     , -0.09375])
    >>> abs(sigmoid_deriv2(np.log(2 + np.sqrt(3.0))) * 6 * np.sqrt(3)).round(12)
    np.float64(1.0)
    """
    return mapped(_sigmoid_deriv2, x)


def sigmoid_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the logistic sigmoid.

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
    sigmoid_deriv : The factor.
    sigmoid_jvp : Forward mode.

    Notes
    -----
    The gradient is divided by at least 4 at every such unit, however the sum is scaled: the
    reason why gradients vanish through many of them.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_vjp
    >>> sigmoid_vjp([16.0, 16.0], [0.0, np.log(3.0)])
    array([4., 3.])
    """
    return pulled(_sigmoid_deriv, dout, x)


def sigmoid_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the logistic sigmoid.

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
    sigmoid_deriv : The factor.
    sigmoid_vjp : Reverse mode.

    Notes
    -----
    At 0, where the curve is steepest, a change of the input arrives as a quarter.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_jvp
    >>> sigmoid_jvp([0.0, np.log(3.0)], [16.0, 16.0])
    array([4., 3.])
    """
    return pushed(_sigmoid_deriv, primals, tangents)


def log_sigmoid(x: npt.ArrayLike) -> FloatArray:
    r"""
    Logarithm of the logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values below or at 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    log_sigmoid_deriv : The first derivative.
    softplus : Its mirror image.
    sigmoid : The argument of the logarithm.

    Notes
    -----
    .. math:: \ln \sigma(x) = -\ln(1 + e^{-x}) = \min(x, 0) - \ln\bigl(1 + e^{-\abs{x}}\bigr)

    The log-likelihood of a binary outcome with log-odds x. The second form follows by taking out
    :math:`e^{-x}` for x < 0. It neither overflows nor takes the logarithm of 0: at -800 the
    sigmoid underflows, its logarithm is -800. And :math:`\ln(1 + e)`, computed as such, keeps the
    digits of e where 1 + e rounds to 1. Error: 1.5 ULP.

    Examples
    --------
    >>> from dlref.activations import log_sigmoid
    >>> log_sigmoid([0.0, -800.0])
    array([-6.93147181e-01, -8.00000000e+02])
    >>> print(f"{log_sigmoid(50.0):.4g}")
    -1.929e-22
    """
    return mapped(_log_sigmoid, x)


def log_sigmoid_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the log-sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`\sigma(-x)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    log_sigmoid : The map itself.
    log_sigmoid_deriv2 : The second derivative.

    Notes
    -----
    :math:`(\ln \sigma)' = \sigma' / \sigma = \sigma(-x)`: the larger the log-odds of what
    happened, the less is
    left to learn from it.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_sigmoid_deriv
    >>> log_sigmoid_deriv([0.0, np.log(3.0), -800.0])
    array([0.5 , 0.25, 1.  ])
    """
    return mapped(_log_sigmoid_deriv, x)


def log_sigmoid_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the log-sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`-\sigma(x) \sigma(-x)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    log_sigmoid_deriv : The first derivative.

    Notes
    -----
    Negative everywhere: the log-likelihood of a logistic model is concave.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_sigmoid_deriv2
    >>> log_sigmoid_deriv2([0.0, np.log(3.0)])
    array([-0.25  , -0.1875])
    """
    return mapped(_log_sigmoid_deriv2, x)


def log_sigmoid_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the log-sigmoid.

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
    log_sigmoid_deriv : The factor.
    log_sigmoid_jvp : Forward mode.

    Notes
    -----
    Bounded by `dout`, and equal to it for very negative inputs: no wrong answer is so wrong
    that its gradient vanishes.

    Examples
    --------
    >>> from dlref.activations import log_sigmoid_vjp
    >>> log_sigmoid_vjp([1.0, 1.0], [0.0, -800.0])
    array([0.5, 1. ])
    """
    return pulled(_log_sigmoid_deriv, dout, x)


def log_sigmoid_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the log-sigmoid.

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
    log_sigmoid_deriv : The factor.
    log_sigmoid_vjp : Reverse mode.

    Notes
    -----
    For very negative inputs the map is the identity, and so is this.

    Examples
    --------
    >>> from dlref.activations import log_sigmoid_jvp
    >>> log_sigmoid_jvp([0.0, -800.0], [1.0, 1.0])
    array([0.5, 1. ])
    """
    return pushed(_log_sigmoid_deriv, primals, tangents)


def softplus(x: npt.ArrayLike) -> FloatArray:
    r"""
    Smooth positive part.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Positive values.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softplus_deriv : The first derivative.
    relu : Its limit.
    sigmoid : Its derivative.

    Notes
    -----
    .. math:: f(x) = \ln(1 + e^x) = \max(x, 0) + \ln\bigl(1 + e^{-\abs{x}}\bigr)

    The integral of the logistic sigmoid. It exceeds relu by :math:`\ln(1 + e^{-\abs{x}})`, at most
    :math:`\ln 2`, and scaling approaches relu: :math:`f(n x) / n \to \max(x, 0)`. From the
    definition
    :math:`f(x) - f(-x) = x`.

    **Numerics.** The second form neither overflows nor rounds 1 + e; its terms have the same sign.
    Error: 1.4 ULP.

    Examples
    --------
    >>> from dlref.activations import softplus
    >>> softplus([0.0, 1000.0])
    array([6.93147181e-01, 1.00000000e+03])
    >>> softplus(2.0) - softplus(-2.0)
    np.float64(2.0)
    """
    return mapped(_softplus, x)


def softplus_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of softplus: the logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`\sigma(x)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softplus : The map itself.
    softplus_deriv2 : The second derivative.

    Notes
    -----
    :math:`\dv{}{x} \ln(1 + e^x) = e^x / (1 + e^x)`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softplus_deriv
    >>> softplus_deriv([0.0, np.log(3.0)])
    array([0.5 , 0.75])
    """
    return mapped(_sigmoid, x)


def softplus_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of softplus.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`\sigma(x) \sigma(-x)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softplus_deriv : The first derivative.

    Notes
    -----
    A bump of area 1 around 0, in place of the unit mass that relu has there. Positive:
    softplus is convex.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softplus_deriv2
    >>> softplus_deriv2([0.0, np.log(3.0)])
    array([0.25  , 0.1875])
    """
    return mapped(_sigmoid_deriv, x)


def softplus_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of softplus.

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
    softplus_deriv : The factor.
    softplus_jvp : Forward mode.

    Notes
    -----
    The gate that relu closes suddenly closes gradually here.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softplus_vjp
    >>> softplus_vjp([8.0, 8.0], [0.0, -np.log(3.0)])
    array([4., 2.])
    """
    return pulled(_sigmoid, dout, x)


def softplus_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of softplus.

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
    softplus_deriv : The factor.
    softplus_vjp : Reverse mode.

    Notes
    -----
    The tangent is weighted with the probability that the input, as log-odds, stands for.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softplus_jvp
    >>> softplus_jvp([0.0, -np.log(3.0)], [8.0, 8.0])
    array([4., 2.])
    """
    return pushed(_sigmoid, primals, tangents)


def tanh(x: npt.ArrayLike) -> FloatArray:
    r"""
    Hyperbolic tangent.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values in [-1, 1].

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanh_deriv : The first derivative.
    sigmoid : The same curve, rescaled.
    hard_tanh : A piecewise linear stand-in.

    Notes
    -----
    .. math:: \tanh x = \frac{e^x - e^{-x}}{e^x + e^{-x}} = \frac{t}{t + 2}, \qquad t = e^{2x} - 1

    Multiplying numerator and denominator by :math:`e^x` gives the second form. The code computes
    t without
    cancellation, for :math:`\abs{x}`, and restores the sign. :math:`\tanh x = 2 \sigma(2x) - 1`.
    Error: 1.9 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh
    >>> tanh([0.0, np.log(2.0), -np.log(2.0)])
    array([ 0. ,  0.6, -0.6])
    """
    return mapped(_tanh, x)


def tanh_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the hyperbolic tangent.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`1 / \cosh^2 x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanh : The map itself.
    tanh_deriv2 : The second derivative.

    Notes
    -----
    The quotient rule on sinh / cosh gives
    :math:`(\cosh^2 x - \sinh^2 x) / \cosh^2 x = 1 / \cosh^2 x`, which is also
    :math:`1 - \tanh^2 x`. That form is 0 from 19.1 on; the code takes :math:`4e / (1 + e)^2` with
    :math:`e = e^{-2\abs{x}}`. Error: 3.2 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh, tanh_deriv
    >>> tanh_deriv([0.0, np.log(2.0)])
    array([1.  , 0.64])
    >>> print(1 - tanh(20.0) ** 2, f"{tanh_deriv(20.0):.3g}")
    0.0 1.7e-17
    """
    return mapped(_tanh_deriv, x)


def tanh_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the hyperbolic tangent.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`-2 \tanh x / \cosh^2 x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanh_deriv : The first derivative.

    Notes
    -----
    By the chain rule on :math:`1 - \tanh^2 x`. Computed as the second derivative of
    :math:`2 \sigma(2x) - 1`,
    eight times that of the sigmoid at 2x. Error: 4.6 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh_deriv2
    >>> tanh_deriv2([0.0, np.log(2.0)])
    array([ 0.   , -0.768])
    """
    return mapped(_tanh_deriv2, x)


def tanh_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the hyperbolic tangent.

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
    tanh_deriv : The factor.
    tanh_jvp : Forward mode.

    Notes
    -----
    Unlike the logistic sigmoid it passes the gradient of a small input unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh_vjp
    >>> tanh_vjp([1.0, 1.0], [0.0, np.log(2.0)])
    array([1.  , 0.64])
    """
    return pulled(_tanh_deriv, dout, x)


def tanh_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the hyperbolic tangent.

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
    tanh_deriv : The factor.
    tanh_vjp : Reverse mode.

    Notes
    -----
    The identity near 0, nothing in the tails.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh_jvp
    >>> tanh_jvp([0.0, np.log(2.0)], [1.0, 1.0])
    array([1.  , 0.64])
    """
    return pushed(_tanh_deriv, primals, tangents)


def tanhshrink(x: npt.ArrayLike) -> FloatArray:
    r"""
    What the hyperbolic tangent takes away.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`x - \tanh x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanhshrink_deriv : The first derivative.
    tanh : The map that is subtracted.

    Notes
    -----
    .. math:: f(x) = x - \tanh x = \tfrac13 x^3 - \tfrac{2}{15} x^5 + \ldots

    Small inputs shrink to almost nothing, large ones by 1: a smooth relative of soft thresholding.

    **Numerics.** The difference cancels for small x, where the first term of the series is
    all that remains. Below 1 the code evaluates :math:`f(x) / x^3`, a polynomial in
    :math:`x^2`; above 1 it adds :math:`x - 1`, which is exact, and :math:`1 - \tanh x`. Error:
    2.8 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanhshrink
    >>> 3 * tanhshrink(1e-6)
    np.float64(9.999999999995999e-19)
    >>> print(1e-6 - np.tanh(1e-6))
    3.333074647445672e-19
    """
    return mapped(_tanhshrink, x)


def tanhshrink_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of tanhshrink.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`\tanh^2 x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanhshrink : The map itself.
    tanhshrink_deriv2 : The second derivative.

    Notes
    -----
    :math:`1 - 1 / \cosh^2 x = \tanh^2 x`. Error: 4 ULP, twice that of tanh.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanhshrink_deriv
    >>> tanhshrink_deriv([0.0, np.log(2.0)])
    array([0.  , 0.36])
    """
    return mapped(_tanhshrink_deriv, x)


def tanhshrink_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of tanhshrink.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`2 \tanh x / \cosh^2 x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    tanhshrink_deriv : The first derivative.

    Notes
    -----
    The second derivative of tanh with the opposite sign, x having none.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanhshrink_deriv2
    >>> tanhshrink_deriv2([0.0, np.log(2.0)])
    array([-0.   ,  0.768])
    """
    return mapped(_tanhshrink_deriv2, x)


def tanhshrink_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of tanhshrink.

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
    tanhshrink_deriv : The factor.
    tanhshrink_jvp : Forward mode.

    Notes
    -----
    Small inputs receive almost no gradient; large ones all of it.

    Examples
    --------
    >>> from dlref.activations import tanhshrink_vjp
    >>> tanhshrink_vjp([1.0, 1.0], [0.01, 20.0])
    array([9.99933337e-05, 1.00000000e+00])
    """
    return pulled(_tanhshrink_deriv, dout, x)


def tanhshrink_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of tanhshrink.

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
    tanhshrink_deriv : The factor.
    tanhshrink_vjp : Reverse mode.

    Notes
    -----
    The map and its slope vanish at 0 together.

    Examples
    --------
    >>> from dlref.activations import tanhshrink_jvp
    >>> tanhshrink_jvp([0.0, 20.0], [1.0, 1.0])
    array([0., 1.])
    """
    return pushed(_tanhshrink_deriv, primals, tangents)


def softsign(x: npt.ArrayLike) -> FloatArray:
    r"""
    Sigmoid with algebraic tails.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values in [-1, 1].

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softsign_deriv : The first derivative.
    tanh : Exponential tails.

    Notes
    -----
    .. math:: f(x) = \frac{x}{1 + \abs{x}}

    It approaches its limits as :math:`1 - 1/x`, so that saturation sets in later than for tanh.
    Its inverse has the same form: :math:`x = y / (1 - \abs{y})`.

    References
    ----------
    - :cite:t:`GlorotBengio2010`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softsign
    >>> softsign([-3.0, 0.0, 1.0])
    array([-0.75,  0.  ,  0.5 ])
    >>> softsign(np.inf)
    np.float64(1.0)
    """
    return mapped(_softsign, x)


def softsign_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of softsign.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`1 / (1 + \abs{x})^2`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softsign : The map itself.
    softsign_deriv2 : The second derivative.

    Notes
    -----
    For x > 0 the quotient rule gives :math:`(1 + x - x) / (1 + x)^2`, and the map is odd. It is
    continuous at 0, where
    both sides give 1. Computed as the square of a reciprocal, since the square of a large x
    overflows.

    Examples
    --------
    >>> from dlref.activations import softsign_deriv
    >>> softsign_deriv([-3.0, 0.0, 1.0])
    array([0.0625, 1.    , 0.25  ])
    """
    return mapped(_softsign_deriv, x)


def softsign_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of softsign.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`-2 \operatorname{sign}(x) / (1 + \abs{x})^3`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softsign_deriv : The first derivative.

    Notes
    -----
    It jumps from 2 to -2 at 0; the value given there is their mean, 0.

    Examples
    --------
    >>> from dlref.activations import softsign_deriv2
    >>> softsign_deriv2([-1.0, 0.0, 1.0])
    array([ 0.25,  0.  , -0.25])
    """
    return mapped(_softsign_deriv2, x)


def softsign_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of softsign.

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
    softsign_deriv : The factor.
    softsign_jvp : Forward mode.

    Notes
    -----
    At 9 the gradient is divided by 100; at the same place tanh divides it by 16 million.

    Examples
    --------
    >>> from dlref.activations import softsign_vjp
    >>> softsign_vjp([1.0, 1.0], [0.0, 9.0])
    array([1.  , 0.01])
    """
    return pulled(_softsign_deriv, dout, x)


def softsign_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of softsign.

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
    softsign_deriv : The factor.
    softsign_vjp : Reverse mode.

    Notes
    -----
    A tenfold input, beyond 1, weakens the tangent about a hundredfold.

    Examples
    --------
    >>> from dlref.activations import softsign_jvp
    >>> softsign_jvp([0.0, 9.0], [1.0, 1.0])
    array([1.  , 0.01])
    """
    return pushed(_softsign_deriv, primals, tangents)
