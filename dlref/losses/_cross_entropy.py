r"""Cross-entropy of logits, fused with its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    as_number,
    check_constant,
    check_shape,
    choice,
    entries,
    result,
)
from .._core.jit import inline_reassoc, inline_strict, kernel
from .._core.specialize import specialize
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import fma, log1p_pair, pair_product, pair_sum, quotient, two_diff_error
from .._math.softmax_rows import exponentials, for_rows, sum_pair
from ._kernels.classes import IntArray, as_classes, check_scores, class_weights
from ._kernels.reduction import REDUCTIONS, divided_sum

COST = 3  # nanoseconds, or elementary operations, a logit


@inline_strict
def _minus_log(score: float, top: float, rest: float) -> tuple[float, float]:
    """
    Return minus the logarithm of a probability as a pair.

    `rest` is how far the log-sum-exp lies above the maximum `top`.
    """
    d = np.float64(score) - top
    low = two_diff_error(np.float64(score), top)
    value, lost = pair_sum(rest, -d)
    return value, lost - low if value < np.inf else 0.0


@inline_strict
def _share(smoothing: float, classes: float) -> tuple[float, float]:
    """Return the part of the target that smoothing gives to each class, as a pair."""
    small = smoothing / classes
    return small, fma(-small, classes, smoothing) / classes


@inline_reassoc
def _terms(z: FloatArray, q: FloatArray, top: float, rest: float, terms: FloatArray) -> float:
    """Write q times minus the logarithms of the probabilities; return their rounding errors."""
    low = np.float64(0.0)
    for c in range(z.size):
        term, lost = pair_product(q[c], 0.0, *_minus_log(z[c], top, rest))
        terms[c] = term if q[c] != 0.0 else 0.0
        low += lost if q[c] != 0.0 else 0.0
    return low


@inline_strict
def _expected(
    z: FloatArray, q: FloatArray, top: float, rest: float, terms: FloatArray
) -> tuple[float, float]:
    """Return the sum of q times minus the logarithms of the probabilities, as a pair."""
    lost = _terms(z, q, top, rest, terms)
    value, low = sum_pair(terms)
    return value, low + lost if np.isfinite(lost) else low


@inline_strict
def _row_loss(
    z: FloatArray,
    w: FloatArray,
    y: int,
    smoothing: float,
    top: float,
    rest: float,
    room: FloatArray,
) -> float:
    """Return the loss of a row, from products and sums in pairs, before z-loss."""
    share = _share(smoothing, np.float64(z.size))
    value, low = pair_product(*_expected(z, w, top, rest, room), *share)
    if w[y] != 0.0 and smoothing != 1.0:
        hard, hard_low = pair_product(1.0 - smoothing, two_diff_error(1.0, smoothing), w[y], 0.0)
        term, term_low = pair_product(hard, hard_low, *_minus_log(z[y], top, rest))
        value, lost = pair_sum(value, term)
        low += lost + term_low
    loss: float = value + low if np.isfinite(low) else value
    return loss


@inline_strict
def _masses(
    weight: float, total: float, total_low: float, smoothing: float, classes: float
) -> tuple[float, float, float]:
    """Return the target's mass at the class of this weight, at the others, and everywhere."""
    small, small_low = _share(smoothing, classes)
    hard, hard_low = pair_product(1.0 - smoothing, two_diff_error(1.0, smoothing), weight, 0.0)
    own, own_low = pair_product(small, small_low, weight, 0.0)
    own, lost = pair_sum(hard, own)
    own_low += lost + hard_low
    rest, rest_low = total - weight, two_diff_error(total, weight) + total_low
    rest, rest_low = pair_product(small, small_low, rest, rest_low)
    both, lost = pair_sum(own, rest)
    return own + own_low, rest + rest_low, both + (lost + own_low + rest_low)


@inline_strict
def _hard_loss(
    z: FloatArray,
    w: FloatArray,
    y: int,
    _smoothing: float,
    top: float,
    rest: float,
    _room: FloatArray,
) -> float:
    """Return the loss of a row without smoothing."""
    value, low = np.float64(0.0), np.float64(0.0)
    if w[y] != 0.0:
        value, low = pair_product(w[y], 0.0, *_minus_log(z[y], top, rest))
    return value + low if np.isfinite(low) else value


@inline_strict
def _hard_masses(
    weight: float, _total: float, _low: float, _smoothing: float, _classes: float
) -> tuple[float, float, float]:
    """Return the masses without smoothing: the other classes have none."""
    return weight, 0.0, weight


@inline_strict
def _no_sum(_w: FloatArray) -> tuple[float, float]:
    """`sum_pair`, where the sum of all weights is not needed."""
    return 0.0, 0.0


@kernel
def _class_rows(
    start: int,
    stop: int,
    z: FloatArray,
    y: IntArray,
    w: FloatArray,
    ignore: int,
    smoothing: float,
    zeta: float,
    u: FloatArray,
    loss: FloatArray,
    grad: FloatArray,
    room: FloatArray,
) -> None:
    classes, wanted = z.shape[1], grad.shape[0] > 0
    small = smoothing / classes
    total, total_low = sum_pair(w)
    e, terms = room[0], room[1]
    for r in range(start, stop):
        k = y[r]
        if k == ignore:
            loss[r] = 0.0
            if wanted:
                grad[r] = 0.0
            continue
        m, others, more = exponentials(z[r], e)
        rest = log1p_pair(others, more)
        pull = 2.0 * zeta * (m + rest)  # of z-loss, on the log-sum-exp
        loss[r] = _row_loss(z[r], w, k, smoothing, m, rest, terms) + zeta * (m + rest) * (m + rest)
        if wanted:
            s, lost = 1.0 + others, two_diff_error(1.0, -others) + more
            own, unlikely, mass = _masses(w[k], total, total_low, smoothing, np.float64(classes))
            slope = u[r] * (mass + pull)
            if small == 0.0:
                for c in range(classes):
                    grad[r, c] = slope * quotient(e[c], s, lost)
            else:
                for c in range(classes):
                    grad[r, c] = fma(slope, quotient(e[c], s, lost), -u[r] * (small * w[c]))
            if z[r, k] == m:  # its probability is 1 minus the others', which are known better
                missing = fma(-mass, quotient(others + more, s, lost), unlikely)
                grad[r, k] = u[r] * (missing + pull * quotient(1.0, s, lost))
            else:
                grad[r, k] = fma(slope, quotient(e[k], s, lost), -u[r] * own)


#: The rows of classes without smoothing, whose sums would take a third of the first call.
_hard_rows = specialize(
    _class_rows, {_row_loss: _hard_loss, _masses: _hard_masses, sum_pair: _no_sum}, "hard"
)


@kernel
def _probability_rows(
    start: int,
    stop: int,
    z: FloatArray,
    t: FloatArray,
    w: FloatArray,
    smoothing: float,
    zeta: float,
    u: FloatArray,
    loss: FloatArray,
    grad: FloatArray,
    target_grad: FloatArray,
    room: FloatArray,
) -> None:
    classes, wanted = z.shape[1], grad.shape[0] > 0
    e, q, terms = room[0], room[1], room[2]
    share = 1.0 - smoothing
    for r in range(start, stop):
        k = 0
        for c in range(classes):
            q[c] = w[c] * (share * t[r, c] + smoothing / classes)
            if t[r, c] > t[r, k]:
                k = c
        m, others, more = exponentials(z[r], e)
        rest = log1p_pair(others, more)
        pull = 2.0 * zeta * (m + rest)
        value, low = _expected(z[r], q, m, rest, terms)
        loss[r] = (value + low) + zeta * (m + rest) * (m + rest)
        if wanted:
            s, lost = 1.0 + others, two_diff_error(1.0, -others) + more
            mass, low = sum_pair(q)
            unlikely = (mass - q[k]) + (two_diff_error(mass, q[k]) + low)
            slope = u[r] * ((mass + low) + pull)
            for c in range(classes):
                grad[r, c] = fma(slope, quotient(e[c], s, lost), -u[r] * q[c])
                value, low = _minus_log(z[r, c], m, rest)
                part = w[c] * share
                target_grad[r, c] = u[r] * part * (value + low) if part != 0.0 else 0.0
            if z[r, k] == m:
                missing = fma(-mass, quotient(others + more, s, lost), unlikely)
                grad[r, k] = u[r] * (missing + pull * quotient(1.0, s, lost))


class _Options(NamedTuple):
    weight: npt.ArrayLike | None
    ignore_index: int
    label_smoothing: float
    z_loss: float
    reduction: str


class _Problem(NamedTuple):
    """Checked arguments: logits and targets as rows, and the divisor of a mean."""

    logits: FloatArray
    target: Any  # classes, or probabilities as rows
    weight: FloatArray
    ignore: int
    smoothing: float
    zeta: float
    shape: tuple[int, ...]  # of the rows
    divisor: np.float64

    @property
    def of_classes(self) -> bool:
        return bool(self.target.ndim == 1)

    def solve(
        self, u: FloatArray | None, dtype: npt.DTypeLike | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """
        Return the rows' losses and, given their cotangents, both gradients (or nothing).

        The gradients have the dtype of the logits unless another one is given.
        """
        rows, classes = self.logits.shape
        out = (0, classes) if u is None else self.logits.shape
        loss, grad = np.empty(rows), np.empty(out, dtype or self.logits.dtype)
        seed = np.empty(0) if u is None else np.ascontiguousarray(u, np.float64).reshape(rows)
        cost, given = COST * classes, self.logits.dtype
        if self.of_classes:
            step = for_rows(_class_rows if self.smoothing else _hard_rows, given)
            over_rows(with_workspace(step, 2, classes), rows, cost, *self[:6], seed, loss, grad)
            return loss.reshape(self.shape), grad, grad
        other, (z, t, w, _, *options) = np.empty_like(grad), self[:6]
        step = with_workspace(for_rows(_probability_rows, given), 3, classes)
        over_rows(step, rows, 2 * cost, z, t, w, *options, seed, loss, grad, other)
        return loss.reshape(self.shape), grad, other

    def seeds(self, dout: FloatArray, reduction: str) -> FloatArray:
        """Return the cotangent of each row's loss."""
        check_shape("dout", dout, self.shape if reduction == "none" else ())
        divisor = self.divisor if reduction == "mean" else np.float64(1.0)
        return np.broadcast_to(dout / divisor, self.shape)

    def reduced(self, losses: FloatArray, reduction: str) -> Any:
        """Reduce the rows' losses; a mean divides by the weights that count."""
        if reduction == "none":
            return losses
        return divided_sum(losses, self.divisor if reduction == "mean" else np.float64(1.0))


def are_classes(names: tuple[str, str], scores: npt.ArrayLike, target: npt.ArrayLike) -> bool:
    """Return whether the targets are classes, by their number of axes; check the scores' axes."""
    axes = as_array(names[0], scores).ndim
    return as_array(names[1], target).ndim != axes or axes == 0


def _rows_of(array: FloatArray) -> FloatArray:
    return as_carray(array).reshape(-1, array.shape[-1])


def _problem(
    names: tuple[str, str], logits: FloatArray, target: Any, options: _Options
) -> _Problem:
    check_scores(names[0], logits)
    smoothing = as_number("label_smoothing", options.label_smoothing, least=0, most=1)
    zeta = as_number("z_loss", options.z_loss, least=0)
    w = class_weights(options.weight, logits.shape[-1])
    if target.ndim == logits.ndim:
        check_shape(names[1], target, logits.shape)
        target, ignore = _rows_of(target), 0
        divisor = np.float64(target.shape[0])
    else:
        target, valid = as_classes(names[1], target, logits, options.ignore_index)
        ignore = int(options.ignore_index)
        counted = target if valid is None else target[valid]
        divisor = np.float64(counted.size)
        if options.weight is not None:
            with np.errstate(invalid="ignore"):  # a signaling NaN
                divisor = w[counted].sum()
    shape = logits.shape[:-1]
    return _Problem(_rows_of(logits), target, w, ignore, smoothing, zeta, shape, divisor)


#: Of rows that all count, each for itself.
PLAIN = _Options(None, -100, 0.0, 0.0, "none")


def row_losses(logits: FloatArray, classes: npt.NDArray[np.int64]) -> FloatArray:
    """Return the loss of each row, in float64, for logits that `as_floats` returned."""
    losses, _, _ = _problem(("logits", "target"), logits, classes, PLAIN).solve(None)
    return losses


def row_gradients(
    u: FloatArray,
    logits: FloatArray,
    classes: npt.NDArray[np.int64],
    dtype: npt.DTypeLike | None = None,
) -> FloatArray:
    """Return u times the gradients of the rows' losses, in the dtype of the logits or another."""
    _, grad, _ = _problem(("logits", "target"), logits, classes, PLAIN).solve(u, dtype)
    return grad.reshape(logits.shape)


def _arguments(
    logits: npt.ArrayLike, target: npt.ArrayLike, options: _Options, **dout: npt.ArrayLike
) -> tuple[FloatDType, list[FloatArray], _Problem]:
    """Return the dtype, the cotangent if there is one, and the problem."""
    logits, target = as_array("logits", logits), as_array("target", target)  # converted once
    given = {**dout, "logits": logits}
    if are_classes(("logits", "target"), logits, target):
        dtype, (*rest, z) = as_floats(given, work=np.float32)
        t: Any = target
    else:
        dtype, (*rest, z, t) = as_floats({**given, "target": target}, work=np.float32)
    return dtype, rest, _problem(("logits", "target"), z, t, options)


def cross_entropy(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Cross-entropy of the softmax of logits.

    Parameters
    ----------
    logits : array_like, shape (..., C)
        Scores :math:`\vec z` of C classes, or rows of scores; any real numbers.
    target : array_like, shape (...) of int, or (..., C)
        The class :math:`y` of each row, from 0 to C - 1; or, with as many axes as `logits`,
        a probability :math:`t_c` for each class.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each class; None is 1. It does not change the dtype.
    ignore_index : int
        A row with this class costs nothing and does not count. Classes only.
    label_smoothing : float
        Share :math:`\epsilon`, from 0 to 1, of the uniform distribution in the target.
    z_loss : float
        Factor :math:`\zeta \ge 0` of the squared log-sum-exp.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...), in nats.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or an option is of
        the wrong type.
    ValueError
        If shapes do not fit, there are no classes, a class is out of range (the first such
        index is named), or an option is out of range.

    See Also
    --------
    cross_entropy_grad : Softmax minus one-hot, derived.
    cross_entropy_value_and_grad : Loss and gradient in one pass.
    nll : The same for logarithms of probabilities.
    binary_cross_entropy : Two classes and one logit.

    Notes
    -----
    **Definition.** The scores of the classes are called *logits*. The softmax makes them a
    distribution :math:`p_c = e^{z_c} / \sum_j e^{z_j}`. The loss of a row is minus the logarithm of
    the probability of its class y:

    .. math:: \ell = -\log p_y = \log \sum_j e^{z_j} - z_y .

    The loss is 0 if the class has probability 1, and grows by :math:`\log 2` each time that
    probability halves. Exponentiated, the mean over the tokens of a text is the *perplexity*.

    **All options.** For a target that is a distribution t, and with the options,

    .. math::

        \ell = -\sum_c q_c \log p_c + \zeta\, \lambda^2 , \qquad
        \lambda = \log \sum_j e^{z_j} ,

    where :math:`q` is the target after smoothing :math:`\epsilon` and class weights
    :math:`w`,

    .. math:: q_c = w_c \Bigl( (1 - \epsilon)\, t_c + \frac{\epsilon}{C} \Bigr) ,

    and :math:`t_c = \delta_{cy}` for a class, which gives the first formula again: the
    negative log-likelihood of class y under the prediction p. :func:`nll` derives it from maximum
    likelihood. For a distribution t the loss is its entropy plus the
    :func:`KL divergence <kl_divergence>` of t from p, so it is least where p = t.

    **Label smoothing and z-loss.** Without smoothing no finite logits are optimal: the
    loss falls as :math:`z_y` grows. Smoothing :cite:p:`Szegedy2016` mixes the target with the
    uniform distribution, :math:`q = (1 - \epsilon) t + \epsilon / C`, so that the optimum is
    finite, :math:`z_i - z_j = \log (q_i / q_j)`. The term :math:`\zeta \lambda^2`, the z-loss
    :cite:p:`Chowdhery2023`, keeps the scores from drifting together, which does not change
    :math:`p`.

    **Mean.** For classes the sum is divided by :math:`\sum_r w_{y_r}`, over the rows that are not
    ignored; for probabilities by the number of rows, whatever the weights. That is PyTorch's rule.
    A mean over no rows is 0/0, NaN.

    **Which formula.** From :math:`\log p_c = z_c - \lambda`,

    .. math::

        \ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad
        \lambda = m + \log \sum_j e^{z_j - m} , \quad m = \max_j z_j ,

    in which nothing overflows. Where the target is the class with the maximum, the sum is 1
    plus the rest, and the code takes log1p of the rest: a loss of :math:`10^{-20}` comes out
    as such, where ``log(softmax)`` gives 0.

    **Special values.** A class of zero target probability may have the logit
    :math:`-\infty`; if its probability is not zero the loss is :math:`\infty`. A row with
    NaN, :math:`+\infty` or nothing but :math:`-\infty` is NaN, unless it is ignored.

    **Cost.** One maximum and one exponential per logit, and the memory of two rows.

    **Error.** A score 700 below the maximum has a rounding error that alone would be worth 512
    units in the last place of its exponential. The code computes that error and takes it into
    account. Largest error found in float64, in a search over rows of equal scores, of one score
    far ahead and of scores of many sizes: 2 ULP for the loss of a row, with and without label
    smoothing. Class weights add up to 0.3 ULP. In float32 the result is rounded once.

    References
    ----------
    Label smoothing is section 7 of :cite:t:`Szegedy2016`; the error of log-sum-exp is
    analyzed by :cite:t:`Blanchard2021`.

    Examples
    --------
    Scores with the exponentials 1, 1 and 2 have the probabilities 1/4, 1/4 and 1/2. Divided by log
    2, that is, in bits, the loss is 2 for class 0 and 1 for class 2:

    >>> import numpy as np
    >>> from dlref.losses import cross_entropy
    >>> z = np.log([1, 1, 2])
    >>> cross_entropy([z, z], [0, 2], reduction="none") / np.log(2)
    array([2., 1.])

    If all scores are equal, the loss is the logarithm of the number of classes for every
    target.

    >>> float(np.exp(cross_entropy([7, 7, 7, 7], 2)))
    4.0

    A confident row, right and wrong:

    >>> cross_entropy([[50, 0], [50, 0]], [0, 1], reduction="none")
    array([1.92874985e-22, 5.00000000e+01])

    A target of −100, the default of `ignore_index`, excludes the second row from the mean:

    >>> float(np.exp(cross_entropy(np.log([[1, 1], [9, 1]]), [0, -100])))
    2.0

    With probabilities the least possible loss is their entropy, reached where the softmax
    equals them:

    >>> t = np.array([0.5, 0.25, 0.25])
    >>> float(cross_entropy(np.log(t), t) / np.log(2))  # in bits
    1.5
    """
    options = _Options(weight, ignore_index, label_smoothing, z_loss, reduction)
    dtype, _, problem = _arguments(logits, target, options)
    choice("reduction", reduction, REDUCTIONS)
    losses, _, _ = problem.solve(None)
    with np.errstate(all="ignore"):
        return result(problem.reduced(losses, reduction), dtype)


def cross_entropy_value_and_grad(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Cross-entropy and its gradient with respect to the logits, in one pass.

    Parameters
    ----------
    logits, target, weight, ignore_index, label_smoothing, z_loss : as in `cross_entropy`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    loss : scalar
        As :func:`cross_entropy` returns it.
    dlogits : ndarray, shape (..., C)
        As :func:`cross_entropy_grad` returns it.

    See Also
    --------
    dlref.training.gradient_descent : Takes a function that returns such a pair.

    Notes
    -----
    With the symbols of :func:`cross_entropy` and :func:`cross_entropy_grad`:

    .. math::

        \ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad
        \pdv{\ell}{z_j} = (Q + 2 \zeta \lambda)\, p_j - q_j

    Loss and gradient need the same exponentials, and these are most of the work: computed together
    they cost hardly more than the loss. The exponentials of one row stay in the cache, so the
    logits are read from memory once and the gradient is written once.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import cross_entropy_value_and_grad
    >>> loss, dlogits = cross_entropy_value_and_grad(np.log([1, 2, 5]), 2)
    >>> float(np.exp(-loss))  # the softmax of class 2
    0.625
    >>> dlogits
    array([ 0.125,  0.25 , -0.375])
    """
    options = _Options(weight, ignore_index, label_smoothing, z_loss, reduction)
    dtype, _, problem = _arguments(logits, target, options)
    choice("reduction", reduction, REDUCTIONS[:2])
    with np.errstate(all="ignore"):
        losses, grad, _ = problem.solve(problem.seeds(np.ones(()), reduction))
        total = result(problem.reduced(losses, reduction), dtype)
    return total, result(grad.reshape(*problem.shape, grad.shape[-1]), dtype)


def cross_entropy_grad(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the cross-entropy with respect to the logits: softmax minus target.

    Parameters
    ----------
    logits, target, weight, ignore_index, label_smoothing, z_loss : as in `cross_entropy`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        :math:`\partial L / \partial \vec z`; rows that are ignored are 0.

    Notes
    -----
    With the log-sum-exp :math:`\lambda = \log \sum_j e^{z_j}`, the loss of a row is
    :math:`\ell = \lambda - z_y`. The gradient of :math:`\lambda` is the softmax, by the chain rule
    for the logarithm and the sum:

    .. math::

        \pdv{\lambda}{z_j} = \frac{1}{\sum_c e^{z_c}}\, \pdv{}{z_j} \sum_c e^{z_c}
                           = \frac{e^{z_j}}{\sum_c e^{z_c}} = p_j .

    The term :math:`-z_y` contributes −1 to the class y alone. With the one-hot vector
    :math:`\vec e_y`, which is 1 at y and 0 elsewhere, the result is **softmax minus one-hot**:

    .. math:: \pdv{\ell}{\vec z} = \vec p - \vec e_y .

    Its entries add up to 0, since a shift of all scores changes no probability. It never
    vanishes while p is wrong: the logarithm undoes the saturation of the softmax, which a
    squared error of p would not. In the mean over N rows, each row's gradient is divided by N.

    Prediction minus target is also the gradient of half the squared error. That is no accident: the
    same holds for every exponential family, with the negative log-likelihood as the loss and the
    natural parameters in place of :math:`\vec z`. The second derivatives are the first derivatives
    of a softmax, :math:`\operatorname{diag}(\vec p) - \vec p \vec p^\top`, a covariance matrix: the
    loss is convex in the scores.

    **Gradient with all options.** Let q be the target after smoothing and weighting,
    :math:`Q = \sum_c q_c` its sum, and :math:`\zeta` the factor of the z-loss, so that
    :math:`\ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2`. Then

    .. math::

        \pdv{\ell}{z_j} = \sum_c q_c (p_j - \delta_{cj}) + 2 \zeta \lambda\, p_j
                        = (Q + 2 \zeta \lambda)\, p_j - q_j .

    Without options :math:`Q = 1`, :math:`\zeta = 0`, and q is one-hot.

    **Which formula.** Near :math:`p_y = 1` the difference :math:`p_y - 1` would lose its digits;
    the code adds up the probabilities of the *other* classes,
    :math:`p_y - 1 = -\sum_{c \ne y} p_c`, where y has the largest score.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import cross_entropy_grad
    >>> cross_entropy_grad(np.log([1, 2, 5]), 2)  # softmax (1, 2, 5) / 8
    array([ 0.125,  0.25 , -0.375])

    The gradient is 0 where the softmax equals the target probabilities:

    >>> cross_entropy_grad(np.log([1, 1, 2]), [0.25, 0.25, 0.5])
    array([0., 0., 0.])

    Its Jacobian is the Jacobian of the softmax:

    >>> from dlref.activations import softmax_jacobian
    >>> z, step = np.log([1, 1, 2]), 1e-6 * np.eye(3)
    >>> up, down = (cross_entropy_grad(z + s, [2, 2, 2], reduction="sum") for s in (step, -step))
    >>> bool(np.allclose((up - down) / 2e-6, softmax_jacobian(z), rtol=0, atol=1e-9))
    True

    For a confident right answer the gradient is small and exact, not 0:

    >>> cross_entropy_grad([50, 0], 0)
    array([-1.92874985e-22,  1.92874985e-22])
    """
    options = _Options(weight, ignore_index, label_smoothing, z_loss, reduction)
    dtype, _, problem = _arguments(logits, target, options)
    choice("reduction", reduction, REDUCTIONS[:2])
    with np.errstate(all="ignore"):
        _, grad, _ = problem.solve(problem.seeds(np.ones(()), reduction))
    return result(grad.reshape(*problem.shape, grad.shape[-1]), dtype)


def cross_entropy_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> FloatArray | tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the cross-entropy.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    logits, target, weight, ignore_index, label_smoothing, z_loss : as in `cross_entropy`
        The same.
    reduction : as in `cross_entropy`
        Raises the same errors.

    Returns
    -------
    dlogits : ndarray, shape (..., C)
        :math:`u_r ((Q + 2 \zeta \lambda) \vec p - \vec q)` for each row r.
    dtarget : ndarray, shape (..., C)
        :math:`-u_r\, (1 - \epsilon)\, w_c \log p_c`. Only for target probabilities.

    Notes
    -----
    The gradient of each row r is multiplied by the upstream gradient :math:`u_r` of its loss. With
    all options, and the symbols q, Q and :math:`\zeta` of :func:`cross_entropy_grad`,

    .. math::

        \pdv{L}{z_j} = u_r \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr) , \qquad
        \pdv{L}{t_c} = u_r\, w_c (1 - \epsilon) (\lambda - z_c) .

    Without options the bracket is :math:`p_j - \delta_{jy}`. For the sum :math:`u_r` is `dout`
    itself, without a reduction its entry, and for the mean `dout` divided by the divisor of the
    mean. The loss is linear in the target. The C probabilities count as free numbers: nothing
    makes them add up to 1.

    Examples
    --------
    The gradient with respect to the probabilities, in bits, is the length of each class in a code
    for p:

    >>> import numpy as np
    >>> from dlref.losses import cross_entropy_vjp
    >>> logits, target = np.log([4, 2, 1, 1]), [0.25, 0.25, 0.25, 0.25]
    >>> dlogits, dtarget = cross_entropy_vjp(1 / np.log(2), logits, target)
    >>> dtarget
    array([1., 2., 3., 3.])
    """
    options = _Options(weight, ignore_index, label_smoothing, z_loss, reduction)
    dtype, (dout,), problem = _arguments(logits, target, options, dout=dout)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        _, *grads = problem.solve(problem.seeds(dout, reduction))
    dlogits, dtarget = (
        result(grad.reshape(*problem.shape, grad.shape[-1]), dtype) for grad in grads
    )
    return dlogits if problem.of_classes else (dlogits, dtarget)


def cross_entropy_jvp(
    primals: Any,
    tangents: Any,
    *,
    weight: npt.ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cross-entropy.

    Parameters
    ----------
    primals : tuple (logits, target) of array_like
        Scores (..., C), and classes (...) or probabilities (..., C).
    tangents : tuple (dlogits, dtarget) of array_like or None
        Directions, of the shapes of `primals`; None is zero, and the only tangent that
        classes can have.
    weight, ignore_index, label_smoothing, z_loss, reduction : as in `cross_entropy`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    For each row, before the reduction, with the symbols of :func:`cross_entropy_grad`:

    .. math::

        \dot\ell = \sum_j \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr)\, \dot z_j
          + \sum_c w_c (1 - \epsilon) (\lambda - z_c)\, \dot t_c

    The second sum is for target probabilities; classes have no tangent.

    Examples
    --------
    Without z-loss a common shift of all scores changes nothing; with it, :math:`\lambda` grows by
    the shift, and the loss by :math:`2 \zeta \lambda` times the shift:

    >>> import numpy as np
    >>> from dlref.losses import cross_entropy_jvp
    >>> logits, shift = [0.0, 0.0], [1.0, 1.0]
    >>> float(cross_entropy_jvp((logits, 0), (shift, None)))
    0.0
    >>> float(cross_entropy_jvp((logits, 0), (shift, None), z_loss=0.5) / np.log(2))
    1.0
    """
    options = _Options(weight, ignore_index, label_smoothing, z_loss, reduction)
    points, directions = entries("primals", primals, 2), entries("tangents", tangents, 2)
    names = ("primals[0]", "primals[1]")
    classes = are_classes(names, points[names[0]], points[names[1]])
    if classes:
        t: Any = as_array(names[1], points.pop(names[1]))
        check_constant("tangents[1]", directions.pop("tangents[1]"))
    moving = {name: tangent for name, tangent in directions.items() if tangent is not None}
    dtype, arrays = as_floats({**points, **moving})
    moved = dict(zip([*points, *moving], arrays, strict=True))
    problem = _problem(names, moved[names[0]], t if classes else moved[names[1]], options)
    choice("reduction", reduction, REDUCTIONS)
    _, *slopes = problem.solve(np.ones(problem.shape))
    with np.errstate(all="ignore"):
        losses = np.zeros(problem.shape)
        for name, slope in zip(("tangents[0]", "tangents[1]"), slopes, strict=True):
            if name in moving:
                check_shape(name, moved[name], moved[names[0]].shape)
                losses = losses + np.sum(slope.reshape(moved[name].shape) * moved[name], axis=-1)
        return result(problem.reduced(losses, reduction), dtype)
