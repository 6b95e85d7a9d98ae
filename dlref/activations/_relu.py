r"""
ReLU: the positive part of its input, and its derivatives.

The derivative does not exist at a kink, but a program has to return a number. dlref returns the
same number as PyTorch, so that gradients can be compared everywhere. The docstrings state the
value, and the choice of JAX if it differs.
"""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp


@inline_fma
def _no_curvature(x: Number, *options: Number) -> Number:
    return 0.0 if x == x else x  # noqa: PLR0124  # NaN stays NaN


@inline_fma
def _relu(x: Number) -> Number:
    return 0.0 if x <= 0.0 else x


@inline_fma
def _relu_deriv(x: Number) -> Number:
    return 0.0 if x <= 0.0 else (1.0 if x > 0.0 else x)


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
    for :math:`c > 0`: a layer of such units can be rescaled without changing which units are
    active. Two of them restore the identity,
    :math:`x = \operatorname{relu}(x) - \operatorname{relu}(-x)`.

    No rounding takes place. NaN stays NaN, :math:`\operatorname{relu}(-0) = 0`.

    References
    ----------
    - :cite:t:`NairHinton2010`
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
    return forward(_relu, x)


def relu_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the rectified linear unit: a step.

    Parameters
    ----------
    x : as in `relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 where `x` is positive, else 0.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}

    The left derivative at 0 is 0, the right one is 1. Every number g between them is a
    *subgradient*, the slope of a line through 0 that stays below the curve:
    :math:`\operatorname{relu}(x) \ge g x` for all x if and only if :math:`0 \le g \le 1`. The
    value here is 0, as in PyTorch and JAX, hence a unit whose pre-activation is exactly 0 does not
    learn.

    Examples
    --------
    >>> from dlref.activations import relu_deriv
    >>> relu_deriv([-2.0, 0.0, 3.0])
    array([0., 0., 1.])
    """
    return forward(_relu_deriv, x)


def relu_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the rectified linear unit: zero wherever it exists.

    Parameters
    ----------
    x : as in `relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    The slope jumps by 1 at 0. The second derivative is a Dirac delta there, which no value at a
    point can express; the value given at 0 is 0.

    Examples
    --------
    >>> from dlref.activations import relu_deriv2
    >>> relu_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return forward(_no_curvature, x)


def relu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the rectified linear unit: a gate on the gradient.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `relu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    **The differential.** Write f for the ReLU and y for its output. Element by element,
    :math:`\dd y = f'(x)\, \dd x`.

    **The inner product.** :math:`\dd L = \sum u\, \dd y = \sum u f'(x)\, \dd x` over all elements.

    **The transpose.** The Jacobian is diagonal and its own transpose, so that the upstream gradient
    u is multiplied by the slope:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}

    The gradient passes where the input was positive and is lost elsewhere: the weights of a unit
    that is negative for every example receive no gradient at all and do not change (it is *dead*).
    Only layers below it can revive it, by changing its inputs.

    Examples
    --------
    >>> from dlref.activations import relu_vjp
    >>> relu_vjp([10.0, 20.0, 30.0], [-2.0, 0.0, 3.0])
    array([ 0.,  0., 30.])
    """
    return vjp(_relu_deriv, dout, x)


def relu_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the rectified linear unit.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `relu`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}\, \dot x

    A change of a negative input does not reach the output.

    Examples
    --------
    >>> from dlref.activations import relu_jvp
    >>> relu_jvp([-2.0, 3.0], [1.0, 1.0])
    array([0., 1.])
    """
    return jvp(_relu_deriv, primals, tangents)
