r"""The hinge loss: a margin is enough."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray, as_bool
from .._core.jit import inline_fma
from ._kernels.reduction import Loss, Number, loss, loss_grad, loss_jvp, loss_vjp


@inline_fma
def _hinge(p: Number, t: Number, squared: Number) -> Number:
    gap = 1.0 - t * p
    gap = 0.0 if gap <= 0.0 else gap  # a NaN stays
    return gap * gap if squared != 0.0 else gap


@inline_fma
def _rate(p: Number, t: Number, squared: Number) -> Number:
    """Return how fast the loss grows with the shortfall."""
    gap = 1.0 - t * p
    gap = 0.0 if gap <= 0.0 else gap
    if squared != 0.0:
        return 2.0 * gap
    return 1.0 if gap > 0.0 else gap


@inline_fma
def _hinge_slope(p: Number, t: Number, squared: Number) -> Number:
    rate = _rate(p, t, squared)
    return -t * rate if rate != 0.0 else 0.0


@inline_fma
def _hinge_target(p: Number, t: Number, squared: Number) -> Number:
    rate = _rate(p, t, squared)
    return -p * rate if rate != 0.0 else 0.0


HINGE = Loss(_hinge, _hinge_slope, _hinge_target)


def hinge(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    squared: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Hinge loss, :math:`\ell = \max(0, 1 - t p)`.

    Parameters
    ----------
    pred : array_like
        Scores :math:`p`, of any shape: their sign is the predicted class.
    target : array_like
        Classes :math:`t` as -1 or 1, of the shape of `pred`; other numbers scale the margin.
    squared : bool, default False
        Whether the shortfall is squared.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array, or `squared` is
        not True or False.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    hinge_grad : The derivative, with its derivation.
    binary_cross_entropy : Smooth, and never quite satisfied.

    Notes
    -----
    .. math:: \ell = \max(0,\, 1 - t p)

    The product :math:`t p` is the *margin*: positive where the sign is right. The loss is 0
    from a margin of 1 on, and never less than the number of errors: :math:`\ell \ge 1` where
    the sign is wrong. It is convex in p, which the number of errors is not.

    **Squared.** With `squared`, the loss has no kink, and a large shortfall weighs more:

    .. math:: \ell = \max(0,\, 1 - t p)^2

    Examples
    --------
    Right with a margin above 1, right with a margin below 1, wrong:

    >>> from dlref.losses import hinge
    >>> hinge([2, 0.25, -1], [1, 1, 1], reduction="none")
    array([0.  , 0.75, 2.  ])
    >>> hinge([2, 0.25, -1], [1, 1, 1], squared=True, reduction="none")
    array([0.    , 0.5625, 4.    ])
    """
    return loss(HINGE, pred, target, reduction, as_bool("squared", squared))


def hinge_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    squared: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the hinge loss with respect to the scores.

    Parameters
    ----------
    pred, target, squared : as in `hinge`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        Gradient; for the mean divided by N.

    Notes
    -----
    .. math::

        \pdv{\ell}{p} = \begin{cases} -t & t p < 1 \\ 0 & t p \ge 1 . \end{cases}

    At :math:`t p = 1` every number between :math:`-t` and 0 is a subgradient. We take 0, as in
    PyTorch if the loss is written with ``relu``; written with ``clamp(min=0)`` it takes :math:`-t`,
    and ``jax.numpy.maximum`` takes the middle.

    With `squared`, the slope of a shortfall is twice the shortfall:

    .. math:: \pdv{\ell}{p} = -2\, t \max(0,\, 1 - t p) .

    Examples beyond the margin contribute nothing to the gradient. A trained support vector machine
    depends only on the others and on those exactly at a margin of 1, its *support vectors*.

    Examples
    --------
    >>> from dlref.losses import hinge_grad
    >>> hinge_grad([2, 0.25, -1, 1], [1, 1, 1, 1], reduction="sum")
    array([ 0., -1., -1.,  0.])
    """
    return loss_grad(HINGE, pred, target, reduction, as_bool("squared", squared))


def hinge_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    squared: bool = False,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the hinge loss.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred, target, squared, reduction : as in `hinge`
        Raises the same errors.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        Gradient of the scores.
    dtarget : ndarray, shape ``pred.shape``
        Gradient of the classes.

    Notes
    -----
    .. math::

        \pdv{L}{p} = \begin{cases} -u t & t p < 1 \\ 0 & t p \ge 1 , \end{cases} \qquad
        \pdv{L}{t} = \begin{cases} -u p & t p < 1 \\ 0 & t p \ge 1 \end{cases}

    u is `dout`, for the mean divided by the number of elements. The loss depends on the
    product of score and target, so each is the other's slope. With `squared`,

    .. math:: \pdv{L}{p} = -2\, u\, t \max(0,\, 1 - t p) , \qquad
       \pdv{L}{t} = -2\, u\, p \max(0,\, 1 - t p)

    Examples
    --------
    >>> from dlref.losses import hinge_vjp
    >>> dpred, dtarget = hinge_vjp([10, 10], [0.5, 3], [-1, 1], reduction="none")
    >>> dpred
    array([10.,  0.])
    >>> dtarget
    array([-5.,  0.])
    """
    return loss_vjp(HINGE, dout, pred, target, reduction, as_bool("squared", squared))


def hinge_jvp(
    primals: Any, tangents: Any, *, squared: bool = False, reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the hinge loss.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    squared, reduction : as in `hinge`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math::

        \dot\ell = \begin{cases} -(t\, \dot p + p\, \dot t) & t p < 1 \\ 0 & t p \ge 1 \end{cases}

    The product rule for the margin t p, where that is below 1. With `squared`,

    .. math:: \dot\ell = -2 \max(0,\, 1 - t p)\, (t\, \dot p + p\, \dot t)

    Examples
    --------
    Scores and targets that change their signs together keep every margin:

    >>> from dlref.losses import hinge_jvp
    >>> float(hinge_jvp(([0.5], [1.0]), ([-1.0], [2.0])))
    0.0
    """
    return loss_jvp(HINGE, primals, tangents, reduction, as_bool("squared", squared))
