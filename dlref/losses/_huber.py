r"""Huber's loss: squared near zero, absolute beyond."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from ._kernels.reduction import Loss, Number, loss, loss_grad, loss_jvp, loss_vjp


@inline_fma
def _huber(p: Number, t: Number, delta: Number) -> Number:
    e = p - t
    c = -delta if e < -delta else (delta if e > delta else e)
    return c * (e - 0.5 * c)


@inline_fma
def _cut(p: Number, t: Number, delta: Number) -> Number:
    e = p - t
    return -delta if e < -delta else (delta if e > delta else e)


@inline_fma
def _cut_target(p: Number, t: Number, delta: Number) -> Number:
    e = t - p
    return -delta if e < -delta else (delta if e > delta else e)


HUBER = Loss(_huber, _cut, _cut_target)


def huber(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Huber loss: half the squared error near 0, linear beyond :math:`\delta`.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    delta : float
        Error :math:`\delta > 0`, in the units of `pred`, at which the two pieces meet.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array, or `delta` is not
        a number.
    ValueError
        If the shapes differ, `delta` is not positive, or `reduction` is not known.

    See Also
    --------
    huber_grad : The derivative, with its derivation.
    squared_error, absolute_error : Its two pieces.

    Notes
    -----
    With the error :math:`e = p - t`,

    .. math::

        \ell = \begin{cases}
            \frac12 e^2 & \abs e \le \delta \\
            \delta \bigl( \abs e - \frac12 \delta \bigr) & \abs e > \delta .
        \end{cases}

    The constant :math:`-\frac12 \delta^2` joins the pieces without a jump, and their slopes
    agree as well: e and :math:`\delta \operatorname{sign} e` at :math:`\abs e = \delta`. With
    the error clipped to :math:`\pm\delta`, :math:`c`, both are :math:`c\,(e - \frac12 c)`,
    which is the formula used. Large :math:`\delta` gives half the squared error; small,
    :math:`\ell / \delta` is the absolute error.

    References
    ----------
    - :cite:t:`Huber1964`

    Examples
    --------
    >>> from dlref.losses import huber
    >>> huber([0.5, 1, 3, -10], [0, 0, 0, 0], reduction="none")
    array([0.125, 0.5  , 2.5  , 9.5  ])
    """
    delta = as_number("delta", delta, above=0)
    return loss(HUBER, pred, target, reduction, delta)


def huber_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the Huber loss with respect to the predictions: the clipped error.

    Parameters
    ----------
    pred, target, delta : as in `huber`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        The error between :math:`-\delta` and :math:`\delta`, for the mean divided by N.

    Notes
    -----
    Differentiate each piece:

    .. math::

        \pdv{\ell}{p} = \begin{cases} e & \abs e \le \delta \\
            \delta \operatorname{sign} e & \abs e > \delta \end{cases}
            \; = \; \min(\max(e, -\delta), \delta) .

    The gradient is continuous: unlike its relatives' this loss has no kink, only jumps of
    the second derivative at :math:`\abs e = \delta`. It is half the squared error whose
    gradient was clipped by value.

    Examples
    --------
    >>> from dlref.losses import huber_grad
    >>> huber_grad([0.5, 1, 3, -10], [0, 0, 0, 0], reduction="sum")
    array([ 0.5,  1. ,  1. , -1. ])
    """
    delta = as_number("delta", delta, above=0)
    return loss_grad(HUBER, pred, target, reduction, delta)


def huber_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the Huber loss.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred, target, delta, reduction : as in `huber`
        Raises the same errors.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`u\, c` with the error :math:`c` clipped to :math:`\pm\delta`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-u\, c`.

    Notes
    -----
    .. math::

        \pdv{L}{p} = u \min(\max(p - t, -\delta), \delta) , \qquad
        \pdv{L}{t} = -\pdv{L}{p}

    u is `dout`, for the mean divided by the number of elements. No gradient is larger
    than :math:`\abs u \delta`: the influence of a wrong label is bounded.

    Examples
    --------
    >>> from dlref.losses import huber_vjp
    >>> dpred, dtarget = huber_vjp([1, 1], [1.5, 1000], [1, 1], delta=2, reduction="none")
    >>> dpred
    array([0.5, 2. ])
    >>> dtarget
    array([-0.5, -2. ])
    """
    delta = as_number("delta", delta, above=0)
    return loss_vjp(HUBER, dout, pred, target, reduction, delta)


def huber_jvp(
    primals: Any, tangents: Any, *, delta: float = 1.0, reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the Huber loss.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    delta, reduction : as in `huber`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        :math:`c\, (\dot p - \dot t)`, reduced, with the error :math:`c` clipped.

    Notes
    -----
    .. math:: \dot\ell = \min(\max(p - t, -\delta), \delta)\, (\dot p - \dot t)

    The slope is continuous: it does not jump where the pieces meet.

    Examples
    --------
    >>> from dlref.losses import huber_jvp
    >>> huber_jvp(([1, 1.001], [0, 0]), ([3, 3], None), reduction="none")
    array([3., 3.])
    """
    delta = as_number("delta", delta, above=0)
    return loss_jvp(HUBER, primals, tangents, reduction, delta)
