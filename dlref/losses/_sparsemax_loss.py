r"""The sparsemax loss: cross-entropy's counterpart for probabilities that may be 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    check_shape,
    choice,
    in_float64,
    result,
)
from ..activations import sparsemax
from ._kernels.classes import class_of_each_row, moving_scores
from ._kernels.reduction import REDUCTIONS, reduced, seeds


class _Rows:
    """Checked arguments, and probabilities minus the target."""

    def __init__(
        self, names: tuple[str, str], scores: FloatArray, target: npt.ArrayLike, reduction: str
    ) -> None:
        y = class_of_each_row(names, scores, target)
        choice("reduction", reduction, REDUCTIONS)
        self.z, self.y, self.reduction = in_float64(scores), y, reduction
        self.p = sparsemax(self.z)
        own = y[..., None] == np.arange(scores.shape[-1])
        others = np.sum(np.where(own, 0.0, self.p), axis=-1, keepdims=True)  # 1 - p_y
        self.slopes = np.where(own, -others, self.p)

    def value(self) -> Any:
        right = np.take_along_axis(self.z, self.y[..., None], axis=-1)[..., 0]
        p_right = np.take_along_axis(self.p, self.y[..., None], axis=-1)[..., 0]
        below = (self.z.max(axis=-1) - right) - self.p.max(axis=-1)  # threshold - z_y
        beyond = np.where(p_right > 0.0, 0.0, below)
        return reduced(np.sum(self.slopes**2, axis=-1) / 2.0 + beyond, self.reduction)


def sparsemax_loss(
    scores: npt.ArrayLike, target: npt.ArrayLike, *, reduction: str = "mean"
) -> FloatArray:
    r"""
    Loss of classes whose gradient is sparsemax minus one-hot.

    Parameters
    ----------
    scores : array_like, shape (..., C)
        Scores :math:`z` of the classes.
    target : array_like, shape (...) of int
        The class :math:`y` of each row, from 0 to C - 1.
    reduction : str
        ``"mean"`` over the rows, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If `scores` is neither integer nor a real floating-point array, or `target` is not an
        integer array.
    ValueError
        If shapes do not fit, there are no classes, a class is out of range, or `reduction` is not
        known.

    See Also
    --------
    sparsemax_loss_grad : The derivative, with its derivation.
    dlref.activations.sparsemax : The probabilities.
    cross_entropy : The same for softmax.

    Notes
    -----
    Sparsemax gives :math:`p_j = \max(0, z_j - \tau)`, with the threshold :math:`\tau` for which
    the probabilities add up to 1. With the classes S whose scores exceed it,

    .. math:: \tau = \frac{1}{\abs S} \Bigl( \sum_{j \in S} z_j - 1 \Bigr) , \qquad
       \ell = -z_y + \frac12 \sum_{j \in S} (z_j^2 - \tau^2) + \frac12 .

    The logarithm of a probability of 0 is infinite, so cross-entropy cannot be used with
    sparsemax. This loss is the one whose gradient is again prediction minus truth. It is convex,
    and it is 0 exactly where the right score exceeds all others by 1, like the hinge loss.

    **Two classes.** For the lead :math:`t = z_y - z_j` of the right score, the loss is the
    classification loss of Huber's kind,

    .. math:: \ell = \begin{cases} 0 & t \ge 1 \\ \frac{(1 - t)^2}{4} & -1 < t < 1 \\
       -t & t \le -1 . \end{cases}

    **Numerics.** Inside S the scores are :math:`z_j = p_j + \tau`, and the probabilities add up to
    1, so the sum over S is :math:`\norm{\vec p}^2 + 2 \tau`. With the one-hot vector
    :math:`\vec e_y` and :math:`p_y = \max(0, z_y - \tau)`,

    .. math:: \ell = \frac12 \norm{\vec p - \vec e_y}^2 + \max(0,\, \tau - z_y) .

    The code uses this form. Both terms are at least 0, so nothing cancels, and
    :math:`\tau - z_y` comes from differences of scores.

    References
    ----------
    - :cite:t:`MartinsAstudillo2016`

    Examples
    --------
    A lead of 1, no lead, and a lead of -3 of the right score:

    >>> from dlref.losses import sparsemax_loss
    >>> sparsemax_loss([[1, 0], [0, 0], [-3, 0]], [0, 0, 0], reduction="none")
    array([0.  , 0.25, 3.  ])
    """
    dtype, (z,) = as_floats({"scores": scores}, work=np.float32)
    with np.errstate(all="ignore"):
        return result(np.asarray(_Rows(("scores", "target"), z, target, reduction).value()), dtype)


def sparsemax_loss_grad(
    scores: npt.ArrayLike, target: npt.ArrayLike, *, reduction: str = "mean"
) -> FloatArray:
    r"""
    Gradient of the sparsemax loss with respect to the scores.

    Parameters
    ----------
    scores, target : as in `sparsemax_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient, for the mean divided by the number of rows.

    Notes
    -----
    **The threshold.** As long as S does not change, :math:`\pdv{\tau}{z_j} = \frac{1}{\abs S}` for
    j in S, and 0 outside.

    **The sum.** It has :math:`\abs S` terms :math:`\tau^2`, so for j in S its derivative is
    :math:`z_j - \abs S\, \tau\, \pdv{\tau}{z_j} = z_j - \tau = p_j`, and outside it is
    :math:`0 = p_j`. With the first term of the loss,

    .. math:: \pdv{\ell}{z_j} = p_j - [j = y] .

    Where a class enters S, its score is :math:`\tau` and its probability 0, so the gradient is
    continuous: the loss has no kinks. Classes of probability 0 get no gradient at all.

    Examples
    --------
    >>> from dlref.losses import sparsemax_loss_grad
    >>> sparsemax_loss_grad([0.5, 0, -2], 0)
    array([-0.25,  0.25,  0.  ])
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    return sparsemax_loss_vjp(1.0, scores, target, reduction=reduction)


def sparsemax_loss_vjp(
    dout: npt.ArrayLike, scores: npt.ArrayLike, target: npt.ArrayLike, *, reduction: str = "mean"
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the sparsemax loss.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    scores, target, reduction : as in `sparsemax_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient of the scores. Classes have none.

    Notes
    -----
    With u for each row, for the mean divided by the number of rows,

    .. math:: \pdv{L}{z_j} = u\, (p_j - [j = y]) .

    Examples
    --------
    >>> from dlref.losses import sparsemax_loss_vjp
    >>> sparsemax_loss_vjp(4.0, [0.5, 0, -2], 1)
    array([ 3., -3.,  0.])
    """
    dtype, (u, z) = as_floats({"dout": dout, "scores": scores}, work=np.float32)
    with np.errstate(all="ignore"):
        rows = _Rows(("scores", "target"), z, target, reduction)
        each = seeds(in_float64(u), rows.y.shape, reduction)
        return result(each[..., None] * rows.slopes, dtype)


def sparsemax_loss_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the sparsemax loss.

    Parameters
    ----------
    primals : tuple (scores, target) of array_like
        Scores of shape (..., C), and classes of shape (...).
    tangents : tuple (dscores, None) of array_like or None
        Direction of the scores, of their shape; None is zero. Classes have none.
    reduction : as in `sparsemax_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math:: \dot\ell = \sum_j p_j\, \dot z_j - \dot z_y

    Examples
    --------
    A class of probability 0 may move freely:

    >>> from dlref.losses import sparsemax_loss_jvp
    >>> float(sparsemax_loss_jvp(([0.5, 0, -2], 0), ([0, 0, 7], None)))
    0.0
    """
    dtype, z, target, dz = moving_scores(primals, tangents)
    with np.errstate(all="ignore"):
        rows = _Rows(("primals[0]", "primals[1]"), z, target, reduction)
        terms = np.zeros(rows.y.shape)
        if dz is not None:
            check_shape("tangents[0]", dz, z.shape)
            terms = np.sum(rows.slopes * dz, axis=-1)
        return result(np.asarray(reduced(terms, reduction)), dtype)
