r"""Absolute error."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from ._kernels.reduction import Loss, Number, loss, loss_grad, loss_jvp, loss_vjp


@inline_fma
def _absolute(p: Number, t: Number, _: Number) -> Number:
    return abs(p - t)


@inline_fma
def _sign(p: Number, t: Number, _: Number) -> Number:
    e = p - t
    return 1.0 if e > 0.0 else (-1.0 if e < 0.0 else e)  # 0 or NaN


@inline_fma
def _sign_target(p: Number, t: Number, _: Number) -> Number:
    e = t - p
    return 1.0 if e > 0.0 else (-1.0 if e < 0.0 else e)


ABSOLUTE_ERROR = Loss(_absolute, _sign, _sign_target)


def absolute_error(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Absolute error, :math:`\ell = \abs{p - t}`.

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
    absolute_error_grad : The derivative, with its derivation.
    squared_error : Smooth, but drawn by outliers.
    huber : Smooth at 0 and linear far away.

    Notes
    -----
    .. math:: L = \frac1N \sum_n \abs{p_n - t_n}

    As a function of one constant prediction the sum :math:`\sum_n \abs{p - t_n}` is least at a
    *median* of the targets: there as many errors are positive as negative, and their sizes do not
    matter. It is the negative logarithm of a Laplace density, up to constants.

    Examples
    --------
    The best constant prediction for 0, 1 and 100 is 1; the squared error's is 33.7.

    >>> from dlref.losses import absolute_error
    >>> targets = [0, 1, 100]
    >>> [float(absolute_error([p] * 3, targets, reduction="sum")) for p in (0, 1, 2, 33)]
    [101.0, 100.0, 101.0, 132.0]
    """
    return loss(ABSOLUTE_ERROR, pred, target, reduction)


def absolute_error_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the absolute error with respect to the predictions.

    Parameters
    ----------
    pred, target : as in `absolute_error`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        :math:`\operatorname{sign}(p - t)`, for the mean divided by the number N of elements.

    Notes
    -----
    .. math::

        \pdv{\ell}{p} = \begin{cases} -1 & p < t \\ 0 & p = t \\ 1 & p > t . \end{cases}

    At :math:`p = t` the loss has a kink: every number of [-1, 1] is a subgradient. We take
    0, as in PyTorch's ``abs``; ``jax.numpy.abs`` takes 1. With 0 a perfect prediction gets
    no gradient.

    The gradient does not become smaller as the error shrinks: with a constant learning rate,
    descent ends in steps back and forth across the minimum.

    Examples
    --------
    >>> from dlref.losses import absolute_error_grad
    >>> absolute_error_grad([0, 1, 2], [1, 1, -100], reduction="sum")
    array([-1.,  0.,  1.])
    """
    return loss_grad(ABSOLUTE_ERROR, pred, target, reduction)


def absolute_error_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the absolute error.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred, target, reduction : as in `absolute_error`
        Raises the same errors.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`u \operatorname{sign}(p - t)`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-u \operatorname{sign}(p - t)`.

    Notes
    -----
    .. math::

        \pdv{L}{p} = u \operatorname{sign}(p - t) , \qquad
        \pdv{L}{t} = -u \operatorname{sign}(p - t)

    u is `dout`, for the mean divided by the number of elements. A NaN in either input makes
    both gradients of that element NaN.

    Examples
    --------
    >>> from dlref.losses import absolute_error_vjp
    >>> dpred, dtarget = absolute_error_vjp([1, 10], [3, 5], [2, 7], reduction="none")
    >>> dpred
    array([  1., -10.])
    """
    return loss_vjp(ABSOLUTE_ERROR, dout, pred, target, reduction)


def absolute_error_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the absolute error.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    reduction : as in `absolute_error`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        :math:`\operatorname{sign}(p - t) (\dot p - \dot t)`, reduced.

    Notes
    -----
    .. math:: \dot\ell = \operatorname{sign}(p - t)\, (\dot p - \dot t)

    Where p = t the loss does have one-sided derivatives, the size of the error's change; this
    rule says 0, the value that belongs to the subgradient taken.

    Examples
    --------
    >>> from dlref.losses import absolute_error_jvp
    >>> absolute_error_jvp(([3, 2], [0, 2]), ([5, 5], None), reduction="none")
    array([5., 0.])
    """
    return loss_jvp(ABSOLUTE_ERROR, primals, tangents, reduction)
