r"""Squared error."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from ._kernels.reduction import Loss, Number, loss, loss_grad, loss_jvp, loss_vjp


@inline_fma
def _square(p: Number, t: Number, _: Number) -> Number:
    return (p - t) * (p - t)


@inline_fma
def _square_slope(p: Number, t: Number, _: Number) -> Number:
    return 2.0 * (p - t)


@inline_fma
def _square_target(p: Number, t: Number, _: Number) -> Number:
    return 2.0 * (t - p)


SQUARED_ERROR = Loss(_square, _square_slope, _square_target)


def squared_error(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Squared error, :math:`\ell = (p - t)^2`.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    squared_error_grad : The derivative, with its derivation.
    neuron_squared_error : The same for the output of a ReLU neuron.
    absolute_error, huber : Losses that outliers pull less.

    Notes
    -----
    The mean over N elements is

    .. math:: L = \frac1N \sum_{n} (p_n - t_n)^2 ,

    without the factor 1/2 that some texts put in front. As a function of one constant
    prediction it is least at the *mean* of the targets: :math:`\sum_n (p - t_n) = 0`.

    **Numerics.** The difference is formed first, in float64, so its relative error is one rounding;
    a difference beyond :math:`1.3 \cdot 10^{154}`, in float32 :math:`1.8 \cdot 10^{19}`, gives
    infinity.

    **From maximum likelihood.** If the targets are the predictions plus independent normal errors
    of mean 0 and variance :math:`\sigma^2`, the probability density of all targets is a product of
    normal densities, the *likelihood*. Minus its logarithm is the sum of squared errors, up to
    constants:

    .. math::

        -\log \prod_{n=1}^{N} \frac{1}{\sqrt{2 \pi}\, \sigma}\, e^{-(t_n - p_n)^2 / (2 \sigma^2)}
          = \frac{1}{2 \sigma^2} \sum_{n=1}^{N} (p_n - t_n)^2 + N \log (\sqrt{2 \pi}\, \sigma) .

    Examples
    --------
    >>> from dlref.losses import squared_error
    >>> float(squared_error([1, 2, 3], [1, 4, 6]))
    4.333
    >>> squared_error([1, 2, 3], [1, 4, 6], reduction="none")
    array([0., 4., 9.])
    """
    return loss(SQUARED_ERROR, pred, target, reduction)


def squared_error_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the squared error with respect to the predictions.

    Parameters
    ----------
    pred, target : as in `squared_error`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        :math:`2 (p - t)`, for the mean divided by the number N of elements.

    Notes
    -----
    With the error :math:`e = p - t`, whose derivative with respect to p is 1,

    .. math:: \pdv{\ell}{p} = 2 e\, \pdv{e}{p} = 2 (p - t) , \qquad \pdv{L}{p_n} = \frac2N e_n .

    The gradient of the mean needs the factor :math:`2 / N`. The difference :math:`p - t` alone is
    the gradient of :math:`\frac N2 L`: with it, the learning rate in effect grows with the batch.

    Examples
    --------
    The pull grows with the error, and an outlier outweighs the rest:

    >>> from dlref.losses import squared_error_grad
    >>> squared_error_grad([0, 0, 0, 0], [1, -1, 2, 100])
    array([ -0.5,   0.5,  -1. , -50. ])
    """
    return loss_grad(SQUARED_ERROR, pred, target, reduction)


def squared_error_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the squared error.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred, target, reduction : as in `squared_error`
        Raises the same errors.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`2 u (p - t)`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-2 u (p - t)`.

    Notes
    -----
    **The differential.** The squared error of an element, :math:`\ell = (p - t)^2`, has

    .. math:: \dd \ell = 2\, (p - t)\, (\dd p - \dd t) .

    **The inner product.** Let u be the upstream gradient of :math:`\ell`, one number for each
    element. Then :math:`\dd L = \sum u\, \dd \ell` over the elements. For the mean, u is `dout`
    divided by the number of elements; for the sum it is `dout`.

    **The transpose.** The Jacobian is diagonal and its own transpose:

    .. math:: \pdv{L}{p} = 2 u\, (p - t) , \qquad \pdv{L}{t} = -2 u\, (p - t)

    Predictions and targets enter as their difference only, so their gradients are opposite.

    Examples
    --------
    >>> from dlref.losses import squared_error_vjp
    >>> dpred, dtarget = squared_error_vjp([1, 10], [3, 5], [2, 2], reduction="none")
    >>> dpred
    array([ 2., 60.])
    >>> dtarget
    array([ -2., -60.])
    """
    return loss_vjp(SQUARED_ERROR, dout, pred, target, reduction)


def squared_error_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the squared error.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    reduction : as in `squared_error`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        :math:`2 (p - t) (\dot p - \dot t)`, reduced.

    Notes
    -----
    .. math:: \dot\ell = 2\, (p - t)\, (\dot p - \dot t)

    To first order the sum changes by twice the inner product of the error and its change; a
    change orthogonal to the error does not change it.

    Examples
    --------
    >>> from dlref.losses import squared_error_jvp
    >>> float(squared_error_jvp(([3, 4], [0, 0]), ([-4, 3], None)))
    0.0
    """
    return loss_jvp(SQUARED_ERROR, primals, tangents, reduction)
