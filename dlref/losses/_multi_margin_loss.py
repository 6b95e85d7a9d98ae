r"""The hinge loss of several classes: each wrong score stays a margin below the right one."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import summed
from ._kernels.classes import IntArray, class_of_each_row, class_weights, moving_scores
from ._kernels.reduction import COST, REDUCTIONS, reduced, seeds


@kernel
def _rows(
    start: int,
    stop: int,
    x: FloatArray,
    y: IntArray,
    factor: FloatArray,
    margin: float,
    squared: bool,
    u: FloatArray,
    loss: FloatArray,
    grad: FloatArray,
    terms: FloatArray,
) -> None:
    wanted = grad.shape[0] > 0
    for r in range(start, stop):
        own = np.float64(x[r, y[r]])
        for c in range(terms.size):
            gap = (np.float64(x[r, c]) - own) + margin
            terms[c] = 0.0 if gap <= 0.0 or c == y[r] else gap  # a NaN stays
        if wanted:
            for c in range(terms.size):
                slope = 2.0 * terms[c] if squared else (1.0 if terms[c] > 0.0 else terms[c])
                terms[c] = u[r] * factor[r] * slope
                grad[r, c] = terms[c]
            grad[r, y[r]] = -summed(terms)
        else:
            for c in range(terms.size):
                terms[c] *= terms[c] if squared else 1.0
            loss[r] = factor[r] * summed(terms)


class _Options(NamedTuple):
    p: int
    margin: float
    weight: npt.ArrayLike | None
    reduction: str


class _Problem:
    """Checked arguments: scores as rows, and the factor of each row."""

    def __init__(
        self, names: tuple[str, str], scores: FloatArray, target: npt.ArrayLike, options: _Options
    ) -> None:
        y = class_of_each_row(names, scores, target)
        choice("p", options.p, (1, 2))
        self.margin = as_number("margin", options.margin)
        weight = class_weights(options.weight, scores.shape[-1]).astype(np.float64)
        choice("reduction", options.reduction, REDUCTIONS)
        self.shape, self.reduction, self.squared = y.shape, options.reduction, options.p == 2
        self.scores, self.y = as_carray(scores).reshape(-1, scores.shape[-1]), y.reshape(-1)
        self.factor = weight[self.y] / scores.shape[-1]

    def _run(self, u: FloatArray, loss: FloatArray, grad: FloatArray) -> None:
        rows, classes = self.scores.shape
        given = self.scores, self.y, self.factor, self.margin, self.squared
        step = with_workspace(_rows, classes)
        over_rows(step, rows, 3 * COST * classes, *given, u, loss, grad)

    def value(self) -> Any:
        loss = np.empty(len(self.y))
        self._run(np.empty(0), loss, np.empty((0, 0), self.scores.dtype))
        return reduced(loss.reshape(self.shape), self.reduction)

    def slopes(self, each: FloatArray) -> FloatArray:
        """Return the gradient of the scores, given the cotangent of each row's loss."""
        grad = np.empty_like(self.scores)
        self._run(np.ascontiguousarray(each, np.float64).reshape(-1), np.empty(0), grad)
        return grad.reshape(*self.shape, self.scores.shape[1])


def multi_margin_loss(
    scores: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Hinge loss of several classes, the loss of multi-class support vector machines.

    Parameters
    ----------
    scores : array_like, shape (..., C)
        Scores :math:`x` of the classes.
    target : array_like, shape (...) of int
        The class :math:`y` of each row, from 0 to C - 1.
    p : int, default 1
        Power of each shortfall, 1 or 2.
    margin : float, default 1.0
        Margin :math:`m` by which the right score must exceed each other one.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of the rows of each class; None is 1. It does not change the dtype.
    reduction : str
        ``"mean"`` over the rows, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If `scores` or `weight` is neither integer nor a real floating-point array, `target` is
        not an integer array, or `margin` is not a number.
    ValueError
        If shapes do not fit, there are no classes, a class is out of range, `p` is neither 1 nor
        2, or `reduction` is not known.

    See Also
    --------
    multi_margin_loss_grad : The derivative, with its derivation.
    hinge : The loss of two classes with one score.
    cross_entropy : Smooth, and never quite satisfied.

    Notes
    -----
    A wrong class j falls short by :math:`h_j`, and the loss of a row adds up the shortfalls:

    .. math:: h_j = \max(0,\, m - x_y + x_j) , \qquad
       \ell = \frac{w_y}{C} \sum_{j \ne y} h_j^p .

    The loss of a row is 0 if the right score exceeds each other one by the margin. If a row is
    classified wrongly, then :math:`x_j \ge x_y` for some j, and :math:`C \ell \ge w_y m^p`.

    **Conventions.** As in ``torch.nn.MultiMarginLoss``, the sum is divided by the number of
    classes, and the mean over the rows is not divided by the weights, unlike the mean of
    :func:`cross_entropy`. The assignments of Stanford's course CS231n do not divide by C.

    **Numerics.** The difference :math:`x_j - x_y` is taken before the margin is added, so that
    a common offset of the scores costs no digits of the margin.

    References
    ----------
    - :cite:t:`WestonWatkins1998`

    Examples
    --------
    Both wrong classes are too near in the first row; the second row has all of its margins:

    >>> from dlref.losses import multi_margin_loss
    >>> multi_margin_loss([[2, 1.5, 1.75], [0, 3, 1]], [0, 1], reduction="none") * 3
    array([1.25, 0.  ])

    CS231n's worked example: three scores for a picture of a cat, and the second is too large:

    >>> float(multi_margin_loss([3.2, 5.1, -1.7], 0) * 3)
    2.9
    """
    dtype, (x,) = as_floats({"scores": scores}, work=np.float32)
    with np.errstate(all="ignore"):
        options = _Options(p, margin, weight, reduction)
        return result(_Problem(("scores", "target"), x, target, options).value(), dtype)


def multi_margin_loss_grad(
    scores: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the hinge loss of several classes with respect to the scores.

    Parameters
    ----------
    scores, target, p, margin, weight : as in `multi_margin_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient, for the mean divided by the number of rows.

    Notes
    -----
    **The shortfalls.** A shortfall above 0 changes by :math:`\dd h_j = \dd x_j - \dd x_y`,
    another one does not change, so :math:`\dd (h_j^p) = g_j\, (\dd x_j - \dd x_y)` with

    .. math:: g_j = p\, h_j^{p - 1}\, [h_j > 0] .

    **The sum.** Each wrong score appears once, and the right score in every term with the opposite
    sign:

    .. math:: \pdv{\ell}{x_j} = \frac{w_y}{C}\, g_j , \qquad
       \pdv{\ell}{x_y} = -\frac{w_y}{C} \sum_{j \ne y} g_j .

    For p = 1 the right score is pulled once for each class that is too near. The gradient of a row
    adds up to 0, since a common offset of the scores changes nothing. At :math:`h_j = 0` every
    number between 0 and 1 is a subgradient for p = 1. We take 0, as in PyTorch.

    Examples
    --------
    >>> from dlref.losses import multi_margin_loss_grad
    >>> multi_margin_loss_grad([[2, 1.5, 1.75, 0]], [0]) * 4
    array([[-2.,  1.,  1.,  0.]])
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    options: Any = {"p": p, "margin": margin, "weight": weight, "reduction": reduction}
    return multi_margin_loss_vjp(1.0, scores, target, **options)


def multi_margin_loss_vjp(
    dout: npt.ArrayLike,
    scores: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the hinge loss of several classes.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    scores, target, p, margin, weight, reduction : as in `multi_margin_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient of the scores. Classes have none.

    Notes
    -----
    With u for each row, for the mean divided by the number of rows, and :math:`g_j` of
    :func:`multi_margin_loss_grad`,

    .. math:: \pdv{L}{x_j} = \frac{u\, w_y}{C}\, g_j , \qquad
       \pdv{L}{x_y} = -\frac{u\, w_y}{C} \sum_{j \ne y} g_j .

    Examples
    --------
    The slope of a squared shortfall is twice the shortfall, here 1/2:

    >>> from dlref.losses import multi_margin_loss_vjp
    >>> multi_margin_loss_vjp(2.0, [2, 1.5], 0, p=2)
    array([-1.,  1.])
    """
    dtype, (u, x) = as_floats({"dout": dout, "scores": scores}, work=np.float32)
    with np.errstate(all="ignore"):
        options = _Options(p, margin, weight, reduction)
        problem = _Problem(("scores", "target"), x, target, options)
        each = seeds(u.astype(np.float64), problem.shape, reduction)
        return result(problem.slopes(each), dtype)


def multi_margin_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the hinge loss of several classes.

    Parameters
    ----------
    primals : tuple (scores, target) of array_like
        Scores of shape (..., C), and classes of shape (...).
    tangents : tuple (dscores, None) of array_like or None
        Direction of the scores, of their shape; None is zero. Classes have none.
    p, margin, weight, reduction : as in `multi_margin_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With :math:`g_j` of :func:`multi_margin_loss_grad`,

    .. math:: \dot\ell = \frac{w_y}{C} \sum_{j \ne y} g_j\, (\dot x_j - \dot x_y) .

    Examples
    --------
    A common offset of the scores changes nothing:

    >>> from dlref.losses import multi_margin_loss_jvp
    >>> float(multi_margin_loss_jvp(([2, 1.5], 0), ([7, 7], None)))
    0.0
    """
    dtype, x, target, dx = moving_scores(primals, tangents)
    options = _Options(p, margin, weight, reduction)
    with np.errstate(all="ignore"):
        problem = _Problem(("primals[0]", "primals[1]"), x, target, options)
        terms = np.zeros(problem.shape)
        if dx is not None:
            check_shape("tangents[0]", dx, x.shape)
            terms = np.sum(problem.slopes(np.ones(problem.shape)) * dx, axis=-1)
        return result(np.asarray(reduced(terms, reduction)), dtype)
