r"""
Rectifiers: piecewise linear and quadratic maps with kinks.

Where a derivative jumps, there is no derivative; a program has to return something.  Here it
is what PyTorch returns, so that gradients can be compared without exceptions.  The docstrings
say the value, and what JAX chooses if that differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._broadcast import unbroadcast
from .._elementary import Number, fused, quotient
from .._elementwise import mapped, pulled, pushed
from .._jit import formula, literal_formula
from .._validate import FloatArray, as_floats, as_number, as_tangents, check_shape, result

__all__ = [
    "hard_sigmoid",
    "hard_sigmoid_deriv",
    "hard_sigmoid_deriv2",
    "hard_sigmoid_jvp",
    "hard_sigmoid_vjp",
    "hard_swish",
    "hard_swish_deriv",
    "hard_swish_deriv2",
    "hard_swish_jvp",
    "hard_swish_vjp",
    "hard_tanh",
    "hard_tanh_deriv",
    "hard_tanh_deriv2",
    "hard_tanh_jvp",
    "hard_tanh_vjp",
    "leaky_relu",
    "leaky_relu_deriv",
    "leaky_relu_deriv2",
    "leaky_relu_jvp",
    "leaky_relu_vjp",
    "prelu",
    "prelu_jvp",
    "prelu_vjp",
    "relu",
    "relu6",
    "relu6_deriv",
    "relu6_deriv2",
    "relu6_jvp",
    "relu6_vjp",
    "relu_deriv",
    "relu_deriv2",
    "relu_jvp",
    "relu_vjp",
    "thresholded_relu",
    "thresholded_relu_deriv",
    "thresholded_relu_deriv2",
    "thresholded_relu_jvp",
    "thresholded_relu_vjp",
]


@formula
def _no_curvature(x: Number, *options: Number) -> Number:
    return 0.0 if x == x else x  # noqa: PLR0124  # NaN stays NaN


@formula
def _relu(x: Number) -> Number:
    return 0.0 if x <= 0.0 else x


@formula
def _relu_deriv(x: Number) -> Number:
    return 0.0 if x <= 0.0 else (1.0 if x > 0.0 else x)


@formula
def _leaky_relu(x: Number, slope: Number) -> Number:
    return x if x > 0.0 else slope * x


@formula
def _leaky_relu_deriv(x: Number, slope: Number) -> Number:
    return slope if x <= 0.0 else (1.0 if x > 0.0 else x)


@formula
def _relu6(x: Number) -> Number:
    return 0.0 if x <= 0.0 else (6.0 if x >= 6.0 else x)


@formula
def _relu6_deriv(x: Number) -> Number:
    return 0.0 if (x <= 0.0) | (x >= 6.0) else (1.0 if x > 0.0 else x)


@formula
def _thresholded_relu(x: Number, alpha: Number) -> Number:
    return 0.0 if x <= alpha else x


@formula
def _thresholded_relu_deriv(x: Number, alpha: Number) -> Number:
    return 0.0 if x <= alpha else (1.0 if x > alpha else x)


@formula
def _hard_tanh(x: Number) -> Number:
    return -1.0 if x <= -1.0 else (1.0 if x >= 1.0 else x)


@formula
def _hard_tanh_deriv(x: Number) -> Number:
    return 0.0 if abs(x) >= 1.0 else (1.0 if abs(x) < 1.0 else x)


@literal_formula
def _hard_sigmoid(x: Number, alpha: Number, beta: Number) -> Number:
    line = alpha * x + beta
    exact = fused(alpha, x, beta)  # near the lower kink the terms cancel
    return 0.0 if line <= 0.0 else (1.0 if line >= 1.0 else exact)


@literal_formula
def _hard_sigmoid_deriv(x: Number, alpha: Number, beta: Number) -> Number:
    line = alpha * x + beta
    return 0.0 if (line <= 0.0) | (line >= 1.0) else (alpha if line > 0.0 else x)


@formula
def _hard_swish(x: Number) -> Number:
    return 0.0 if x <= -3.0 else (x if x >= 3.0 else quotient(x * (x + 3.0), 6.0))


@formula
def _hard_swish_deriv(x: Number) -> Number:
    return 0.0 if x <= -3.0 else (1.0 if x >= 3.0 else quotient(2.0 * x + 3.0, 6.0))


@formula
def _hard_swish_deriv2(x: Number) -> Number:
    return 0.0 if abs(x) >= 3.0 else (1.0 / 3.0 if abs(x) < 3.0 else x)


def relu(x: npt.ArrayLike) -> FloatArray:
    r"""
    Rectified linear unit: the positive part of the input.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\max(x, 0)`, with the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu_deriv : The first derivative.
    leaky_relu : Lets a little of the negative part through.
    gelu : A smooth relative.

    Notes
    -----
    .. math:: \operatorname{relu}(x) = \max(x, 0) = \tfrac12 (x + \abs{x}).

    The map is positively homogeneous, :math:`\operatorname{relu}(c x) = c \operatorname{relu}(x)`
    for :math:`c > 0`: a layer of such units can be rescaled without changing what it selects. Two
    of them restore the identity, :math:`x = \operatorname{relu}(x) - \operatorname{relu}(-x)`.

    No rounding takes place. NaN stays NaN, :math:`\operatorname{relu}(-0) = 0`.

    References
    ----------
    - :cite:t:`He2015`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu
    >>> relu([-2.0, 0.0, 3.0])
    array([0., 0., 3.])

    Positive part minus negative part is the input:

    >>> x = np.array([-1.5, 0.5])
    >>> relu(x) - relu(-x)
    array([-1.5,  0.5])
    """
    return mapped(_relu, x)


def relu_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the rectified linear unit: a step.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        1 where `x` is positive, else 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu : The map itself.
    relu_deriv2 : The second derivative.

    Notes
    -----
    The left derivative at 0 is 0, the right one is 1, and every number between is a subgradient:
    :math:`\operatorname{relu}(y) \ge g y` for all y if and only if :math:`0 \le g \le 1`. The
    value here is 0, as in PyTorch and JAX, hence a unit whose sum is exactly 0 does not learn.

    Examples
    --------
    >>> from dlref.activations import relu_deriv
    >>> relu_deriv([-2.0, 0.0, 3.0])
    array([0., 0., 1.])
    """
    return mapped(_relu_deriv, x)


def relu_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the rectified linear unit: zero wherever it exists.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu_deriv : The first derivative.

    Notes
    -----
    The slope jumps by 1 at 0. As a distribution the second derivative is a unit mass there,
    which no value at a point can express; the value given at 0 is 0.

    Examples
    --------
    >>> from dlref.activations import relu_deriv2
    >>> relu_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return mapped(_no_curvature, x)


def relu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the rectified linear unit: a gate on the gradient.

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
    relu_deriv : The factor.
    relu_jvp : Forward mode.

    Notes
    -----
    The gradient passes where the input was positive and is lost elsewhere: a unit that is
    negative for every example receives no gradient at all and stays as it is (it is *dead*).

    Examples
    --------
    >>> from dlref.activations import relu_vjp
    >>> relu_vjp([10.0, 20.0, 30.0], [-2.0, 0.0, 3.0])
    array([ 0.,  0., 30.])
    """
    return pulled(_relu_deriv, dout, x)


def relu_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the rectified linear unit.

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
    relu_deriv : The factor.
    relu_vjp : Reverse mode.

    Notes
    -----
    A change of a negative input does not reach the output.

    Examples
    --------
    >>> from dlref.activations import relu_jvp
    >>> relu_jvp([-2.0, 3.0], [1.0, 1.0])
    array([0., 1.])
    """
    return pushed(_relu_deriv, primals, tangents)


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
    map
    is invertible, its inverse being the rectifier of slope :math:`1/a`, and no unit can die.

    Examples
    --------
    >>> from dlref.activations import leaky_relu
    >>> leaky_relu([-2.0, 3.0], negative_slope=0.25)
    array([-0.5,  3. ])

    The inverse has the inverse slope:

    >>> leaky_relu(leaky_relu([-2.0, 3.0], negative_slope=0.25), negative_slope=4)
    array([-2.,  3.])
    """
    return mapped(_leaky_relu, x, as_number("negative_slope", negative_slope))


def leaky_relu_deriv(x: npt.ArrayLike, *, negative_slope: float = 0.01) -> FloatArray:
    r"""
    Derivative of the leaky rectifier.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    negative_slope : float, default 0.01
        Slope for negative inputs.

    Returns
    -------
    ndarray
        1 where `x` is positive, else `negative_slope`.

    Raises
    ------
    TypeError
        If `x` or `negative_slope` is not real.

    See Also
    --------
    leaky_relu : The map itself.
    leaky_relu_deriv2 : The second derivative.

    Notes
    -----
    At the kink the slope of the left side is taken, as in PyTorch; JAX takes 1.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_deriv
    >>> leaky_relu_deriv([-2.0, 0.0, 3.0], negative_slope=0.25)
    array([0.25, 0.25, 1.  ])
    """
    return mapped(_leaky_relu_deriv, x, as_number("negative_slope", negative_slope))


def leaky_relu_deriv2(x: npt.ArrayLike, *, negative_slope: float = 0.01) -> FloatArray:
    r"""
    Second derivative of the leaky rectifier: zero wherever it exists.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    negative_slope : float, default 0.01
        Slope for negative inputs.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x` or `negative_slope` is not real.

    See Also
    --------
    leaky_relu_deriv : The first derivative.

    Notes
    -----
    The slope jumps by one minus `negative_slope` at 0; the value given there is 0.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_deriv2
    >>> leaky_relu_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return mapped(_no_curvature, x, as_number("negative_slope", negative_slope))


def leaky_relu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, negative_slope: float = 0.01
) -> FloatArray:
    r"""
    Reverse mode of the leaky rectifier.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    negative_slope : float, default 0.01
        Slope for negative inputs.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` or `negative_slope` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    leaky_relu_deriv : The factor.
    leaky_relu_jvp : Forward mode.

    Notes
    -----
    The gradient of a negative unit is weakened, not lost. Through n such units in a row it
    shrinks by the n-th power of the slope.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_vjp
    >>> leaky_relu_vjp([8.0, 8.0], [-2.0, 3.0], negative_slope=0.25)
    array([2., 8.])
    """
    return pulled(_leaky_relu_deriv, dout, x, as_number("negative_slope", negative_slope))


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
        Rate of change of the input; None is zero.
    negative_slope : float, default 0.01
        Slope for negative inputs.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` or `negative_slope` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    leaky_relu_deriv : The factor.
    leaky_relu_vjp : Reverse mode.

    Notes
    -----
    On either side the map is linear, so this is the map itself applied to the tangent, with
    the side decided by the input.

    Examples
    --------
    >>> from dlref.activations import leaky_relu_jvp
    >>> leaky_relu_jvp([-2.0, 3.0], [4.0, 4.0], negative_slope=0.25)
    array([1., 4.])
    """
    return pushed(_leaky_relu_deriv, primals, tangents, as_number("negative_slope", negative_slope))


def relu6(x: npt.ArrayLike) -> FloatArray:
    r"""
    Rectifier that saturates at 6.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\min(\max(x, 0), 6)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu6_deriv : The first derivative.
    relu : Without the ceiling.
    hard_swish : Built from it.

    Notes
    -----
    .. math:: f(x) = \min(\max(x, 0), 6)

    The ceiling keeps activations in a range that few bits of fixed-point arithmetic cover: with
    three bits before the point, everything below 8 can be represented.

    Examples
    --------
    >>> from dlref.activations import relu6
    >>> relu6([-1.0, 2.5, 8.0])
    array([0. , 2.5, 6. ])
    """
    return mapped(_relu6, x)


def relu6_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the rectifier that saturates at 6.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        1 between the kinks, else 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu6 : The map itself.
    relu6_deriv2 : The second derivative.

    Notes
    -----
    0 at both kinks, 0 and 6, as in PyTorch and JAX.

    Examples
    --------
    >>> from dlref.activations import relu6_deriv
    >>> relu6_deriv([-1.0, 0.0, 2.5, 6.0, 8.0])
    array([0., 0., 1., 0., 0.])
    """
    return mapped(_relu6_deriv, x)


def relu6_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the rectifier that saturates at 6: zero.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu6_deriv : The first derivative.

    Notes
    -----
    The slope jumps up at 0 and down at 6; the values given there are 0.

    Examples
    --------
    >>> from dlref.activations import relu6_deriv2
    >>> relu6_deriv2([0.0, 3.0, 6.0])
    array([0., 0., 0.])
    """
    return mapped(_no_curvature, x)


def relu6_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the rectifier that saturates at 6.

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
    relu6_deriv : The factor.
    relu6_jvp : Forward mode.

    Notes
    -----
    Only inputs strictly between 0 and 6 receive a gradient.

    Examples
    --------
    >>> from dlref.activations import relu6_vjp
    >>> relu6_vjp([1.0, 1.0, 1.0], [-1.0, 2.5, 8.0])
    array([0., 1., 0.])
    """
    return pulled(_relu6_deriv, dout, x)


def relu6_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the rectifier that saturates at 6.

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
    relu6_deriv : The factor.
    relu6_vjp : Reverse mode.

    Notes
    -----
    A saturated unit does not notice small changes of its input.

    Examples
    --------
    >>> from dlref.activations import relu6_jvp
    >>> relu6_jvp([2.5, 8.0], [1.0, 1.0])
    array([1., 0.])
    """
    return pushed(_relu6_deriv, primals, tangents)


def thresholded_relu(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Rectifier that is silent up to a threshold.

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

    Unless :math:`\alpha = 0`, the map jumps by :math:`\alpha`: it is no shifted relu, and gradients
    do not see the jump.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu
    >>> thresholded_relu([0.5, 1.0, 1.5])
    array([0. , 0. , 1.5])
    """
    return mapped(_thresholded_relu, x, as_number("alpha", alpha))


def thresholded_relu_deriv(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Derivative of the thresholded rectifier.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    alpha : float, default 1.0
        Threshold.

    Returns
    -------
    ndarray
        1 where `x` exceeds `alpha`, else 0.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    thresholded_relu : The map itself.
    thresholded_relu_deriv2 : The second derivative.

    Notes
    -----
    The jump at the threshold has no derivative; the value given there is 0, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_deriv
    >>> thresholded_relu_deriv([0.5, 1.0, 1.5])
    array([0., 0., 1.])
    """
    return mapped(_thresholded_relu_deriv, x, as_number("alpha", alpha))


def thresholded_relu_deriv2(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Second derivative of the thresholded rectifier: zero wherever it exists.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    alpha : float, default 1.0
        Threshold.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    thresholded_relu_deriv : The first derivative.

    Notes
    -----
    At the threshold both the map and its slope jump; the value given there is 0.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_deriv2
    >>> thresholded_relu_deriv2([0.5, 1.5])
    array([0., 0.])
    """
    return mapped(_no_curvature, x, as_number("alpha", alpha))


def thresholded_relu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Reverse mode of the thresholded rectifier.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    alpha : float, default 1.0
        Threshold.

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
    thresholded_relu_deriv : The factor.
    thresholded_relu_jvp : Forward mode.

    Notes
    -----
    Inputs up to the threshold receive no gradient, positive ones included.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_vjp
    >>> thresholded_relu_vjp([1.0, 1.0], [0.5, 1.5])
    array([0., 1.])
    """
    return pulled(_thresholded_relu_deriv, dout, x, as_number("alpha", alpha))


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
        Rate of change of the input; None is zero.
    alpha : float, default 1.0
        Threshold.

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
    thresholded_relu_deriv : The factor.
    thresholded_relu_vjp : Reverse mode.

    Notes
    -----
    Right for changes too small to cross the threshold; the jump there is invisible.

    Examples
    --------
    >>> from dlref.activations import thresholded_relu_jvp
    >>> thresholded_relu_jvp([0.5, 1.5], [1.0, 1.0])
    array([0., 1.])
    """
    return pushed(_thresholded_relu_deriv, primals, tangents, as_number("alpha", alpha))


def hard_tanh(x: npt.ArrayLike) -> FloatArray:
    r"""
    Piecewise linear hyperbolic tangent: clipping to [-1, 1].

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        `x` clipped to [-1, 1].

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_tanh_deriv : The first derivative.
    tanh : The smooth map.

    Notes
    -----
    .. math:: f(x) = \max(-1, \min(1, x))

    It agrees with tanh at 0, where both have slope 1, and in both limits; between them it
    differs by
    at most :math:`1 - \tanh 1 = 0.238`, at :math:`x = \pm 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import hard_tanh
    >>> hard_tanh([-3.0, 0.5, 1.0, 7.0])
    array([-1. ,  0.5,  1. ,  1. ])
    >>> x = np.linspace(-3, 3, 601)
    >>> abs(hard_tanh(x) - np.tanh(x)).max().round(3)
    np.float64(0.238)
    """
    return mapped(_hard_tanh, x)


def hard_tanh_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the clipping map.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        1 between the kinks, else 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_tanh : The map itself.
    hard_tanh_deriv2 : The second derivative.

    Notes
    -----
    0 at both kinks, as in PyTorch; JAX takes 1 there.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_deriv
    >>> hard_tanh_deriv([-2.0, -1.0, 0.0, 1.0])
    array([0., 0., 1., 0.])
    """
    return mapped(_hard_tanh_deriv, x)


def hard_tanh_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the clipping map: zero wherever it exists.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_tanh_deriv : The first derivative.

    Notes
    -----
    The slope jumps by 1 at -1 and by -1 at 1; the values given there are 0.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_deriv2
    >>> hard_tanh_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return mapped(_no_curvature, x)


def hard_tanh_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the clipping map.

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
    hard_tanh_deriv : The factor.
    hard_tanh_jvp : Forward mode.

    Notes
    -----
    Clipped inputs receive no gradient: the reason why gradients are clipped by norm, not the
    loss through a clipping of its inputs.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_vjp
    >>> hard_tanh_vjp([1.0, 1.0], [0.5, 7.0])
    array([1., 0.])
    """
    return pulled(_hard_tanh_deriv, dout, x)


def hard_tanh_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the clipping map.

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
    hard_tanh_deriv : The factor.
    hard_tanh_vjp : Reverse mode.

    Notes
    -----
    Tangents pass unchanged inside the interval and vanish outside.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_jvp
    >>> hard_tanh_jvp([0.5, 7.0], [0.1, 0.1])
    array([0.1, 0. ])
    """
    return pushed(_hard_tanh_deriv, primals, tangents)


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

    The default slope 1/6 is that of PyTorch and Keras 3; ONNX and older Keras take 0.2, and the
    tangent of
    :math:`\sigma` at 0 would be 1/4.

    Near the lower kink :math:`\alpha x` and :math:`\beta` cancel. What the rounding of
    :math:`\alpha x` loses is computed and added back, hence the value is right to the last digit
    for the `alpha` that was passed.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid
    >>> hard_sigmoid([-6.0, 0.0, 1.5, 6.0])
    array([0.  , 0.5 , 0.75, 1.  ])
    >>> hard_sigmoid([1.5], alpha=0.2)
    array([0.8])
    """
    return mapped(_hard_sigmoid, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_deriv(x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5) -> FloatArray:
    r"""
    Derivative of the piecewise linear sigmoid.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    alpha : float, default 1 / 6
        Slope of the line.
    beta : float, default 0.5
        Its value at 0.

    Returns
    -------
    ndarray
        `alpha` between the kinks, else 0.

    Raises
    ------
    TypeError
        If `x`, `alpha` or `beta` is not real.

    See Also
    --------
    hard_sigmoid : The map itself.
    hard_sigmoid_deriv2 : The second derivative.

    Notes
    -----
    0 at both kinks, as in PyTorch. The largest derivative of the smooth sigmoid is 1/4, so
    with the default slope less gradient passes near 0, but more at 2.5.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_deriv
    >>> (6 * hard_sigmoid_deriv([-3.0, 0.0, 2.5, 3.0])).round(12)
    array([0., 1., 1., 0.])
    """
    return mapped(_hard_sigmoid_deriv, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_deriv2(x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5) -> FloatArray:
    r"""
    Second derivative of the piecewise linear sigmoid: zero wherever it exists.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    alpha : float, default 1 / 6
        Slope of the line.
    beta : float, default 0.5
        Its value at 0.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Raises
    ------
    TypeError
        If `x`, `alpha` or `beta` is not real.

    See Also
    --------
    hard_sigmoid_deriv : The first derivative.

    Notes
    -----
    The slope jumps by `alpha` at the lower kink and back at the upper one; 0 is given there.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_deriv2
    >>> hard_sigmoid_deriv2([-3.0, 0.0, 3.0])
    array([0., 0., 0.])
    """
    return mapped(_no_curvature, x, as_number("alpha", alpha), as_number("beta", beta))


def hard_sigmoid_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1 / 6, beta: float = 0.5
) -> FloatArray:
    r"""
    Reverse mode of the piecewise linear sigmoid.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    alpha : float, default 1 / 6
        Slope of the line.
    beta : float, default 0.5
        Its value at 0.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x`, `alpha` or `beta` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    hard_sigmoid_deriv : The factor.
    hard_sigmoid_jvp : Forward mode.

    Notes
    -----
    Outside the linear part the gradient is exactly zero, not merely small as for the smooth
    sigmoid: a gate that is fully open or closed cannot learn to move.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_vjp
    >>> hard_sigmoid_vjp([6.0, 6.0], [0.0, 4.0])
    array([1., 0.])
    """
    return pulled(_hard_sigmoid_deriv, dout, x, as_number("alpha", alpha), as_number("beta", beta))


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
        Rate of change of the input; None is zero.
    alpha : float, default 1 / 6
        Slope of the line.
    beta : float, default 0.5
        Its value at 0.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals`, `alpha` or `beta` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    hard_sigmoid_deriv : The factor.
    hard_sigmoid_vjp : Reverse mode.

    Notes
    -----
    `alpha` times the tangent between the kinks.

    Examples
    --------
    >>> from dlref.activations import hard_sigmoid_jvp
    >>> hard_sigmoid_jvp([0.0, 4.0], [6.0, 6.0])
    array([1., 0.])
    """
    return pushed(
        _hard_sigmoid_deriv, primals, tangents, as_number("alpha", alpha), as_number("beta", beta)
    )


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

    The minimum follows from :math:`2 x + 3 = 0`: it is :math:`f(-3/2) = -3/8`, while that of
    silu is
    -0.278 at -1.278.

    Examples
    --------
    >>> from dlref.activations import hard_swish
    >>> hard_swish([-4.0, -1.5, 0.0, 1.5, 4.0])
    array([ 0.   , -0.375,  0.   ,  1.125,  4.   ])
    """
    return mapped(_hard_swish, x)


def hard_swish_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the piecewise quadratic silu.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`(2 x + 3) / 6` between the kinks, 0 to the left and 1 to the right.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_swish : The map itself.
    hard_swish_deriv2 : The second derivative.

    Notes
    -----
    The product rule between the kinks gives :math:`(2x + 3)/6`, which is :math:`-1/2` at the
    left kink and
    :math:`3/2` at the right one: the slope jumps by 1/2 at both, and exceeds 1 between 3/2 and 3.
    At the kinks the outer values 0 and 1 are taken, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import hard_swish_deriv
    >>> hard_swish_deriv([-3.0, -1.5, 0.0, 1.5, 3.0])
    array([0. , 0. , 0.5, 1. , 1. ])
    """
    return mapped(_hard_swish_deriv, x)


def hard_swish_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the piecewise quadratic silu.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        1/3 between the kinks, else 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_swish_deriv : The first derivative.

    Notes
    -----
    0 at the kinks, where the slope jumps.

    Examples
    --------
    >>> from dlref.activations import hard_swish_deriv2
    >>> 3 * hard_swish_deriv2([-3.0, 0.0, 3.0])
    array([0., 1., 0.])
    """
    return mapped(_hard_swish_deriv2, x)


def hard_swish_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the piecewise quadratic silu.

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
    hard_swish_deriv : The factor.
    hard_swish_jvp : Forward mode.

    Notes
    -----
    Between -3 and -3/2 the gradient changes its sign: more input gives less output there.

    Examples
    --------
    >>> from dlref.activations import hard_swish_vjp
    >>> hard_swish_vjp([6.0, 6.0], [-2.0, 4.0])
    array([-1.,  6.])
    """
    return pulled(_hard_swish_deriv, dout, x)


def hard_swish_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the piecewise quadratic silu.

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
    hard_swish_deriv : The factor.
    hard_swish_vjp : Reverse mode.

    Notes
    -----
    The tangent is scaled by a slope between -1/2 and 3/2.

    Examples
    --------
    >>> from dlref.activations import hard_swish_jvp
    >>> hard_swish_jvp([0.0, 4.0], [2.0, 2.0])
    array([1., 2.])
    """
    return pushed(_hard_swish_deriv, primals, tangents)


def prelu(x: npt.ArrayLike, slope: npt.ArrayLike) -> FloatArray:
    r"""
    Rectifier whose negative side has a learned slope.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input.
    slope : array_like, shape (D,) or one that stretches to the shape of `x`
        Slopes, one for each feature, or a single one.

    Returns
    -------
    ndarray, shape of `x`
        `x` where positive, else `slope` times `x`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `slope` does not stretch to the shape of `x`.

    See Also
    --------
    leaky_relu : The slope is a fixed number.

    Notes
    -----
    .. math:: f(x, a) = \max(x, 0) + a \min(x, 0)

    Linear in a, piecewise linear in x. Features come last here; PyTorch counts the second axis as
    the channels. With slope 1 it is the identity, with -1 the absolute value.

    References
    ----------
    - :cite:t:`He2015`

    Examples
    --------
    >>> from dlref.activations import prelu
    >>> prelu([[-2.0, -2.0], [3.0, 3.0]], [0.25, -1.0])
    array([[-0.5,  2. ],
           [ 3. ,  3. ]])
    """
    dtype, [array, a] = as_floats({"x": x, "slope": slope}, work=np.float32)
    a = _stretched(a, array)
    with np.errstate(all="ignore"):
        return result(np.where(array > 0, array, a * array), dtype)


def prelu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, slope: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of the rectifier with a learned slope.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient u of a loss with respect to the output.
    x : array_like, shape (..., D)
        Input.
    slope : array_like, shape (D,) or one that stretches to the shape of `x`
        Slopes.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dslope : ndarray, shape of `slope`
        Gradient of that loss with respect to `slope`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `dout` has not the shape of `x`, or `slope` does not stretch to it.

    See Also
    --------
    prelu_jvp : Forward mode.

    Notes
    -----
    .. math:: \pdv{L}{x} = u \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}, \qquad
       \pdv{L}{a} = \sum u \min(x, 0)

    The sum runs over everything that reads the slope, in float64. At the kink the derivative
    with respect
    to x is the slope, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import prelu_vjp
    >>> prelu_vjp([1.0, 1.0, 1.0], [-2.0, -3.0, 4.0], 0.25)
    (array([0.25, 0.25, 1.  ]), np.float64(-5.0))
    """
    dtype, [u, array, a] = as_floats({"dout": dout, "x": x, "slope": slope})
    wide = _stretched(a, array)
    check_shape("dout", u, array.shape)
    with np.errstate(all="ignore"):
        dx = np.where(array > 0, u, u * wide)
        dslope = unbroadcast(np.where(array > 0, 0.0, u * array), a.shape)
    return result(dx, dtype), result(dslope, dtype)


def prelu_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of the rectifier with a learned slope.

    Parameters
    ----------
    primals : tuple of array_like
        The input x and the slope a.
    tangents : tuple of array_like or None
        Their rates of change, of the same shapes; None is zero.

    Returns
    -------
    ndarray, shape of x
        Rate of change of the output.

    Raises
    ------
    TypeError
        If an array is not real or an argument is no tuple.
    ValueError
        If a tangent has not the shape of its primal, or the slope does not stretch to x.

    See Also
    --------
    prelu_vjp : Reverse mode.

    Notes
    -----
    For x > 0 it is :math:`\dot x`, else :math:`a \dot x + \dot a x`, by the product rule.

    Examples
    --------
    >>> from dlref.activations import prelu_jvp
    >>> prelu_jvp(([-2.0, 4.0], 0.25), ([1.0, 1.0], 1.0))
    array([-1.75,  1.  ])
    """
    dtype, [array, a], [dx, da] = as_tangents(primals, tangents, count=2)
    wide = _stretched(a, array)
    with np.errstate(all="ignore"):
        return result(np.where(array > 0, dx, wide * dx + da * array), dtype)


def _stretched(slope: FloatArray, x: FloatArray) -> FloatArray:
    try:
        return np.broadcast_to(slope, x.shape)
    except ValueError:
        msg = f"Argument 'slope' must stretch to the shape {x.shape} of 'x', not {slope.shape}."
        raise ValueError(msg) from None
