r"""Negative log-likelihood of log-probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    check_shape,
    choice,
    result,
)
from ._kernels.classes import IntArray, as_classes, check_scores, class_weights, moving_scores
from ._kernels.reduction import REDUCTIONS, divided_sum


class _Picked(NamedTuple):
    """Checked arguments of the negative log-likelihood."""

    log_probs: FloatArray
    classes: IntArray  # 0 where a row is ignored
    weight: FloatArray  # of each row, 0 where it is ignored
    divisor: np.float64

    def losses(self, log_probs: FloatArray) -> FloatArray:
        chosen = np.take_along_axis(log_probs, self.classes[..., None], axis=-1)[..., 0]
        return np.where(self.weight != 0.0, -self.weight * chosen, 0.0)

    def reduced(self, losses: FloatArray, reduction: str) -> Any:
        if reduction == "none":
            return losses
        return divided_sum(losses, self.divisor if reduction == "mean" else np.float64(1.0))

    def grad(self, dout: FloatArray, reduction: str) -> FloatArray:
        check_shape("dout", dout, self.classes.shape if reduction == "none" else ())
        u = dout / (self.divisor if reduction == "mean" else np.float64(1.0))
        slope = np.where(self.weight != 0.0, -self.weight * u, 0.0)
        grad = np.zeros(self.log_probs.shape)
        np.put_along_axis(grad, self.classes[..., None], slope[..., None], axis=-1)
        return grad


def _picked(
    names: tuple[str, str],
    log_probs: FloatArray,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None,
    ignore_index: int,
) -> _Picked:
    check_scores(names[0], log_probs)
    y, valid = as_classes(names[1], target, log_probs, ignore_index)
    counts = True if valid is None else valid
    y = np.where(counts, y, 0)
    w = np.where(counts, class_weights(weight, log_probs.shape[-1])[y], 0.0)
    shape = log_probs.shape[:-1]
    return _Picked(log_probs, y.reshape(shape), w.reshape(shape), np.sum(w))


def nll(
    log_probs: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Negative log-likelihood of classes, :math:`\ell = -w_y \log p_y`.

    Parameters
    ----------
    log_probs : array_like, shape (..., C)
        Logarithms of probabilities, as `dlref.activations.log_softmax` returns them.
    target : array_like, shape (...) of int
        The class :math:`y` of each row, from 0 to C - 1.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each class; None is 1. It does not change the dtype.
    ignore_index : int
        A row with this class costs nothing and does not count.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...), in nats.

    Raises
    ------
    TypeError
        If `log_probs` is neither integer nor a real floating-point array, or `target` is not
        an integer array.
    ValueError
        If shapes do not fit, there are no classes, a class is out of range (the first such
        index is named), or `reduction` is not known.

    See Also
    --------
    cross_entropy : The same from scores, where exponentials and logarithms cancel.
    nll_grad : The derivative.

    Notes
    -----
    .. math::

        \ell_r = -w_{y_r} \log p_{r, y_r} , \qquad
        L = \frac{\sum_r \ell_r}{\sum_r w_{y_r}}

    One entry is picked from each row. The mean divides by the weights of the rows that are not
    ignored, as PyTorch does, so that weighting a class twice is the same as seeing it twice.

    **From maximum likelihood.** A model that gives an example of class y the probability
    :math:`p_y` gives N independent examples the likelihood :math:`\prod_r p_{r, y_r}`. A product of
    many numbers below 1 underflows, and its logarithm has its maximum at the same parameters:

    .. math:: \hat\theta = \arg\max_\theta \prod_{r=1}^{N} p_{r, y_r}(\theta)
       = \arg\min_\theta \frac1N \sum_{r=1}^{N} -\log p_{r, y_r}(\theta) .

    The mean negative log-likelihood is the loss with weights of 1.

    Nothing is normalized: that :math:`\sum_c p_c = 1` is the caller's responsibility, and without
    it the loss may be negative. A row of weight 0 costs 0 even at :math:`\log p_y = -\infty`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import nll
    >>> log_probs = np.log([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]])
    >>> nll(log_probs, [1, 0], reduction="none") / np.log(2)  # in bits
    array([2., 3.])

    Class 0 counts three times:

    >>> float(nll(log_probs, [1, 0], weight=[3, 1, 1]) / np.log(2))
    2.75
    """
    dtype, (log_probs,) = as_floats({"log_probs": log_probs})
    picked = _picked(("log_probs", "target"), log_probs, target, weight, ignore_index)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        return result(picked.reduced(picked.losses(log_probs), reduction), dtype)


def nll_grad(
    log_probs: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the negative log-likelihood with respect to the log-probabilities.

    Parameters
    ----------
    log_probs, target, weight, ignore_index : as in `nll`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        :math:`-w_y` in the place of the target, for the mean over its divisor; else 0.

    See Also
    --------
    cross_entropy_grad : The gradient through a log-softmax.

    Notes
    -----
    With :math:`l_c = \log p_c` as free numbers,

    .. math:: \pdv{\ell}{l_c} = -w_y\, \delta_{cy} .

    After a log-softmax, whose Jacobian is :math:`\pdv{l_c}{z_j} = \delta_{cj} - p_j`, this becomes

    .. math:: \pdv{\ell}{z_j} = -w_y (\delta_{yj} - p_j) = w_y (p_j - \delta_{yj}) ,

    softmax minus one-hot.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import nll_grad
    >>> nll_grad(np.log([[0.5, 0.5], [0.25, 0.75]]), [1, -100])
    array([[ 0., -1.],
           [ 0.,  0.]])
    """
    dtype, (log_probs,) = as_floats({"log_probs": log_probs})
    picked = _picked(("log_probs", "target"), log_probs, target, weight, ignore_index)
    choice("reduction", reduction, REDUCTIONS[:2])
    with np.errstate(all="ignore"):
        return result(picked.grad(np.ones(()), reduction), dtype)


def nll_vjp(
    dout: npt.ArrayLike,
    log_probs: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the negative log-likelihood.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    log_probs, target, weight, ignore_index, reduction : as in `nll`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        :math:`-u w_y` in the place of the target, else 0.

    Notes
    -----
    .. math:: \pdv{L}{\log p_c} = -u\, w_y\, \delta_{cy}

    The reverse of picking an entry is to put the cotangent there and 0 everywhere else; u is
    `dout`, for the mean divided by the sum of the weights. No value of `log_probs` matters.

    Examples
    --------
    >>> from dlref.losses import nll_vjp
    >>> nll_vjp([2, 3], [[-1, -2], [-3, -4]], [1, 0], reduction="none")
    array([[ 0., -2.],
           [-3.,  0.]])
    """
    dtype, (dout, log_probs) = as_floats({"dout": dout, "log_probs": log_probs})
    picked = _picked(("log_probs", "target"), log_probs, target, weight, ignore_index)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        return result(picked.grad(dout, reduction), dtype)


def nll_jvp(
    primals: Any,
    tangents: Any,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the negative log-likelihood.

    Parameters
    ----------
    primals : tuple (log_probs, target) of array_like
        Logarithms of probabilities (..., C) and classes (...).
    tangents : tuple (dlog_probs, None) of array_like or None
        Direction of the first; classes have none.
    weight, ignore_index, reduction : as in `nll`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangent v of the log-probabilities:

    .. math:: \dot\ell = -w_y\, v_y

    The loss is linear in the log-probabilities: its tangent is the loss of their tangents.

    Examples
    --------
    >>> from dlref.losses import nll, nll_jvp
    >>> log_probs, moved, y = [[-1.0, -2.0]], [[0.25, 0.5]], [1]
    >>> float(nll_jvp((log_probs, y), (moved, None))), float(nll(moved, y))
    (-0.5, -0.5)
    """
    dtype, log_probs, target, moved = moving_scores(primals, tangents)
    picked = _picked(("primals[0]", "primals[1]"), log_probs, target, weight, ignore_index)
    moved = np.zeros_like(log_probs) if moved is None else moved
    check_shape("tangents[0]", moved, log_probs.shape)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        return result(picked.reduced(picked.losses(moved), reduction), dtype)
