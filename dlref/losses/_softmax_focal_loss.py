r"""The focal loss of several classes: cross-entropy that lets go of easy examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    check_shape,
    choice,
    result,
)
from ._cross_entropy import PLAIN, row_gradients, row_losses
from ._kernels.classes import as_classes, check_scores, class_weights, moving_scores
from ._kernels.reduction import REDUCTIONS, divided_sum


class _Rows:
    """Checked arguments, the cross-entropy b of each row, and its focus."""

    def __init__(
        self,
        names: tuple[str, str],
        logits: FloatArray,
        target: npt.ArrayLike,
        gamma: float,
        weight: npt.ArrayLike | None,
        ignore_index: int,
        reduction: str,
    ) -> None:
        check_scores(names[0], logits)
        y, valid = as_classes(names[1], target, logits, ignore_index)
        self.gamma = as_number("gamma", gamma, least=0.0)
        choice("reduction", reduction, REDUCTIONS)
        counts = np.ones(y.shape, bool) if valid is None else valid
        shape = logits.shape[:-1]
        self.logits, self.reduction = logits, reduction
        self.classes = np.where(counts, y, PLAIN.ignore_index).reshape(shape)
        w = class_weights(weight, logits.shape[-1]).astype(np.float64)
        self.weight = np.where(counts, w[np.where(counts, y, 0)], 0.0).reshape(shape)
        self.divisor = np.float64(np.count_nonzero(counts) if reduction == "mean" else 1)
        self.b = row_losses(logits, self.classes)
        self.focus = (-np.expm1(-self.b)) ** self.gamma

    def reduced(self, terms: FloatArray) -> Any:
        return terms if self.reduction == "none" else divided_sum(terms, self.divisor)

    def losses(self) -> FloatArray:
        return np.where(self.weight == 0.0, 0.0, self.weight * self.focus * self.b)

    def slopes(self) -> FloatArray:
        """Return the derivative of each row's loss by its cross-entropy."""
        b, ends = self.b, np.where(self.b == 0.0, 1.0, 0.0)  # the limits at 0 and at infinity
        inside = (b != 0.0) & (b != np.inf)
        ratio = np.divide(b, np.expm1(b), out=ends, where=inside)
        return np.asarray(self.weight * self.focus * (1.0 + self.gamma * ratio))

    def pulled(self, u: FloatArray) -> FloatArray:
        """Return the gradient of the logits, given the cotangent of the reduced loss."""
        check_shape("dout", u, self.b.shape if self.reduction == "none" else ())
        return row_gradients(u / self.divisor * self.slopes(), self.logits, self.classes)


def softmax_focal_loss(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    gamma: float = 2.0,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Focal loss of classes: cross-entropy with less weight on easy examples.

    Parameters
    ----------
    logits : array_like, shape (..., C)
        Logits :math:`\vec z` of C classes, or rows of logits.
    target : array_like, shape (...) of int
        The class :math:`y` of each row, from 0 to C - 1.
    gamma : float, default 2.0
        Focus :math:`\gamma`, at least 0: how strongly easy rows are weighed down. 0 is
        cross-entropy.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of the rows of each class; None is 1. It does not change the dtype.
    ignore_index : int
        A row with this class costs nothing and does not count.
    reduction : str
        ``"mean"`` over the rows that count, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If `logits` or `weight` is neither integer nor a real floating-point array, `target` is not
        an integer array, or `gamma` is not a number.
    ValueError
        If shapes do not fit, there are no classes, a class is out of range, `gamma` is negative,
        or `reduction` is not known.

    See Also
    --------
    softmax_focal_loss_grad : The derivative, with its derivation.
    sigmoid_focal_loss : Each class a question of its own.
    cross_entropy : The loss without a focus.

    Notes
    -----
    With the softmax p of the logits, the probability q of all wrong classes together, and the
    cross-entropy b of a row,

    .. math:: q = 1 - p_y , \qquad b = -\log p_y , \qquad \ell = w_y\, q^\gamma\, b .

    The focus :math:`q^\gamma` is small where the right class is nearly certain, so that rows which
    the model already classifies well hardly count, however many they are.

    **Conventions.** The mean divides by the number of rows that count, not by their weights, unlike
    the mean of :func:`cross_entropy`. Keras gives its ``CategoricalFocalCrossentropy`` one-hot
    targets.

    **Numerics.** Since :math:`p_y = e^{-b}`, the code computes :math:`q = 1 - e^{-b}` by expm1 from
    the cross-entropy, which has all of its digits where the right class is nearly certain.

    **Special values.** A row whose right class is impossible costs :math:`\infty`, unless its
    weight is zero.

    References
    ----------
    - :cite:t:`LinFocal2017`

    Examples
    --------
    The right class has the probability 1/4 and then 3/4, so the focus is 9/16 and 1/16:

    >>> import numpy as np
    >>> from dlref.losses import cross_entropy, softmax_focal_loss
    >>> logits, target = np.log([[1, 2, 1], [1, 6, 1]]), [0, 1]
    >>> loss = softmax_focal_loss(logits, target, reduction="none")
    >>> (loss / cross_entropy(logits, target, reduction="none")).round(12)
    array([0.5625, 0.0625])
    """
    dtype, (z,) = as_floats({"logits": logits}, work=np.float32)
    with np.errstate(all="ignore"):
        names = "logits", "target"
        rows = _Rows(names, z, target, gamma, weight, ignore_index, reduction)
        return result(np.asarray(rows.reduced(rows.losses())), dtype)


def softmax_focal_loss_grad(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    gamma: float = 2.0,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the focal loss of classes with respect to the logits.

    Parameters
    ----------
    logits, target, gamma, weight, ignore_index : as in `softmax_focal_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient; rows that are ignored are 0.

    Notes
    -----
    **By the cross-entropy.** The loss depends on the logits through b alone, since
    :math:`q = 1 - e^{-b}`. The product rule gives

    .. math:: \dv{q}{b} = e^{-b} = p_y , \qquad
       \dv{\ell}{b} = w_y \bigl( q^\gamma + \gamma\, q^{\gamma - 1}\, p_y\, b \bigr) .

    **Without a division by q.** From :math:`p_y / q = 1 / (e^b - 1)`,

    .. math:: f = \dv{\ell}{b} = w_y\, q^\gamma \Bigl( 1 + \frac{\gamma\, b}{e^b - 1} \Bigr) .

    The quotient of b and :math:`e^b - 1` falls from 1 to 0 as b grows, so nothing overflows or
    cancels.

    **By the logits.** The gradient of the cross-entropy is softmax minus one-hot, so

    .. math:: \pdv{\ell}{z_j} = f\, (p_j - [j = y]) .

    The focus leaves the direction of a row's gradient as it is and changes its length. For a row
    that is nearly right f is small; where the right class is unlikely, f may exceed the weight.

    Examples
    --------
    Two classes with equal logits: :math:`q = 1/2` and :math:`b = \log 2`.

    >>> import numpy as np
    >>> from dlref.losses import softmax_focal_loss_grad
    >>> grad = softmax_focal_loss_grad([0, 0], 1)
    >>> bool(np.allclose(grad * 8, [1 + 2 * np.log(2), -1 - 2 * np.log(2)], rtol=1e-15))
    True
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    options: Any = {"gamma": gamma, "weight": weight, "ignore_index": ignore_index}
    return softmax_focal_loss_vjp(1.0, logits, target, reduction=reduction, **options)


def softmax_focal_loss_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    gamma: float = 2.0,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the focal loss of classes.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    logits, target, gamma, weight, ignore_index, reduction : as in `softmax_focal_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient of the logits. Classes have none.

    Notes
    -----
    With u for each row, for the mean divided by the number of rows that count, and f of
    :func:`softmax_focal_loss_grad`,

    .. math:: \pdv{L}{z_j} = u\, f\, (p_j - [j = y]) .

    Examples
    --------
    Without a focus it is the backward pass of cross-entropy, softmax minus one-hot:

    >>> import numpy as np
    >>> from dlref.losses import softmax_focal_loss_vjp
    >>> softmax_focal_loss_vjp(2.0, np.log([1, 2, 5]), 2, gamma=0)
    array([ 0.25,  0.5 , -0.75])
    """
    dtype, (u, z) = as_floats({"dout": dout, "logits": logits}, work=np.float32)
    with np.errstate(all="ignore"):
        names = "logits", "target"
        rows = _Rows(names, z, target, gamma, weight, ignore_index, reduction)
        return result(rows.pulled(u.astype(np.float64)), dtype)


def softmax_focal_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    gamma: float = 2.0,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the focal loss of classes.

    Parameters
    ----------
    primals : tuple (logits, target) of array_like
        Logits of shape (..., C), and classes of shape (...).
    tangents : tuple (dlogits, None) of array_like or None
        Direction of the logits, of their shape; None is zero. Classes have none.
    gamma, weight, ignore_index, reduction : as in `softmax_focal_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With f of :func:`softmax_focal_loss_grad`,

    .. math:: \dot\ell = f\, \Bigl( \sum_j p_j\, \dot z_j - \dot z_y \Bigr) .

    Examples
    --------
    A common offset of the logits changes nothing:

    >>> from dlref.losses import softmax_focal_loss_jvp
    >>> float(softmax_focal_loss_jvp(([0, 0], 0), ([7, 7], None)))
    0.0
    """
    dtype, z, target, dz = moving_scores(primals, tangents)
    with np.errstate(all="ignore"):
        names = "primals[0]", "primals[1]"
        rows = _Rows(names, z, target, gamma, weight, ignore_index, reduction)
        terms = np.zeros(rows.b.shape)
        if dz is not None:
            check_shape("tangents[0]", dz, z.shape)
            terms = np.sum(row_gradients(rows.slopes(), z, rows.classes) * dz, axis=-1)
        return result(np.asarray(rows.reduced(terms)), dtype)
