r"""Connectionist temporal classification: a short text for a long recording, not aligned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_integer,
    as_integers,
    check_constant,
    check_ndim,
    check_pattern,
    check_range,
    check_shape,
    choice,
    entries,
    result,
)
from .._core.jit import inline_fma, kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import exp, log1p, summed
from ._kernels.classes import IntArray, check_scores
from ._kernels.reduction import REDUCTIONS, reduced, seeds

BoolArray = npt.NDArray[np.bool_]
Number = Any  #: a float64
COST = 5  # nanoseconds, or elementary operations, a place of the trellis


@inline_fma
def _log_sum(a: Number, b: Number, c: Number) -> Number:
    """Return the logarithm of a sum of three exponentials, -inf if all are 0."""
    high, low = (a, b) if a > b else (b, a)
    top, middle = (high, c) if high > c else (c, high)
    shift = top if top > -np.inf else 0.0
    # the largest is 1: without it the sum keeps its digits where nearly all paths are one
    return top + log1p(exp(middle - shift) + exp(low - shift))


@inline_fma
def _gather_labels(x: FloatArray, labels: IntArray, to: FloatArray) -> None:
    """Write the log-probability of each label at one step."""
    for s in range(labels.size):
        to[s] = np.float64(x[labels[s]])


@inline_fma
def _forward(
    x: FloatArray,
    labels: IntArray,
    skips: BoolArray,
    steps: int,
    alphas: FloatArray,
    emitted: FloatArray,
) -> Number:
    """
    Fill the rows of the trellis, one after the other in turn, and return the loss.

    Before each row stand two places that no path comes from.
    """
    count, rows = labels.size, alphas.shape[0]
    if steps == 0:
        return 0.0 if count == 1 else np.inf
    alphas[:, :2] = -np.inf
    first = alphas[0, 2:]
    first[:] = -np.inf
    for s in range(min(2, count)):
        first[s] = np.float64(x[0, labels[s]])
    for t in range(1, steps):
        _gather_labels(x[t], labels, emitted)
        old, new = alphas[(t - 1) % rows], alphas[t % rows, 2:]
        same, next_, after = old[2:], old[1:], old
        for s in range(count):
            skipped = after[s] if skips[s] else -np.inf
            new[s] = emitted[s] + _log_sum(same[s], next_[s], skipped)
    last = alphas[(steps - 1) % rows]
    return -_log_sum(last[count + 1], last[count], -np.inf)


@kernel
def _losses(
    start: int,
    stop: int,
    x: FloatArray,
    labels: IntArray,
    skips: BoolArray,
    steps: IntArray,
    counts: IntArray,
    losses: FloatArray,
    room: FloatArray,
) -> None:
    """Write the loss of each sequence."""
    for n in range(start, stop):
        width, wide = counts[n], counts[n] + 2
        alphas, emitted = room[: 2 * wide].reshape((2, wide)), room[2 * wide : 2 * wide + width]
        losses[n] = _forward(x[n], labels[n, :width], skips[n, :wide], steps[n], alphas, emitted)


@kernel
def _gradients(
    start: int,
    stop: int,
    x: FloatArray,
    labels: IntArray,
    skips: BoolArray,
    steps: IntArray,
    counts: IntArray,
    factors: FloatArray,
    undefined: float,
    grad: FloatArray,
    room: FloatArray,
) -> None:
    """Write the gradient of each loss, times a factor; `undefined` where the loss is infinite."""
    T, classes = grad.shape[1], grad.shape[2]
    totals, rest = room[:classes], room[classes:]
    for n in range(start, stop):
        width, wide = counts[n], counts[n] + 2
        label, skip = labels[n, :width], skips[n, :wide]
        alphas = rest[: T * wide].reshape((T, wide))
        others = rest[T * wide : (T + 3) * wide].reshape((3, wide))
        emitted, beta, ahead = others[0, :width], others[1, :width], others[2]
        loss = _forward(x[n], label, skip, steps[n], alphas, emitted)
        grad[n, :, :] = 0.0
        if loss == np.inf:  # the derivative is not defined
            grad[n, : steps[n]] = undefined
            continue
        ahead[:], totals[:], beta[:] = -np.inf, 0.0, -np.inf
        beta[max(0, width - 2) :] = 0.0
        for back in range(steps[n]):
            t = steps[n] - 1 - back
            if back > 0:
                _gather_labels(x[n, t + 1], label, emitted)
                for s in range(width):
                    ahead[s] = beta[s] + emitted[s]
                for s in range(width):
                    skipped = ahead[s + 2] if skip[s + 2] else -np.inf
                    beta[s] = _log_sum(ahead[s], ahead[s + 1], skipped)
            alpha = alphas[t, 2:]
            for s in range(width):  # in place of alpha: the share of the paths
                alpha[s] = exp(alpha[s] + beta[s] + loss)
            for s in range(width):
                totals[label[s]] += alpha[s]
            factor = -factors[n] / summed(alpha)  # which is 1 to rounding
            for k in range(classes):
                grad[n, t, k] = factor * totals[k]
                totals[k] = 0.0


class _Options(NamedTuple):
    blank: int
    lengths: npt.ArrayLike | None
    target_lengths: npt.ArrayLike | None
    zero_infinity: bool
    reduction: str


def _counts(name: str, value: npt.ArrayLike | None, batch: tuple[int, ...], most: int) -> IntArray:
    """Check lengths from 0 to `most`; None is the largest."""
    if value is None:
        return np.full(batch, most)
    lengths = as_integers(name, value)
    check_shape(name, lengths, batch)
    check_range(name, lengths, most + 1)
    return lengths


class _Sequences:
    """Checked arguments, and the labels with blanks around them."""

    def __init__(
        self, names: tuple[str, str], log_probs: FloatArray, targets: Any, options: _Options
    ) -> None:
        check_ndim(names[0], log_probs, 2)
        check_scores(names[0], log_probs)
        self.shape = log_probs.shape
        *batch, T, C = self.shape
        self.batch = tuple(batch)
        y = as_integers(names[1], targets)
        check_pattern(names[1], y, (*self.batch, "S"))
        S = y.shape[-1]
        self.blank = as_integer("blank", options.blank, least=0, most=C - 1)
        steps = _counts("lengths", options.lengths, self.batch, T)
        self.sizes = _counts("target_lengths", options.target_lengths, self.batch, S)
        self.zero_infinity = as_bool("zero_infinity", options.zero_infinity)
        choice("reduction", options.reduction, REDUCTIONS)
        self.is_mean = options.reduction == "mean"
        counted = np.arange(S) < self.sizes[..., None]
        wrong = counted & ((y < 0) | (y >= C) | (y == self.blank))
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            msg = (
                f"Argument {names[1]!r} must hold classes from 0 to {C - 1} other than "
                f"blank = {self.blank}, not {y[first]} at index {first}."
            )
            raise ValueError(msg)
        labels = np.full((*self.batch, 2 * S + 1), self.blank)
        labels[..., 1::2] = np.where(counted, y, self.blank)
        skips = np.zeros((*self.batch, 2 * S + 3), bool)  # two more, to which nothing skips
        skips[..., 3:-2:2] = labels[..., 3::2] != labels[..., 1:-2:2]
        self.count = int(np.prod(self.batch, dtype=np.int64))
        self.inside = (np.arange(T) < steps[..., None])[..., None]
        self.arguments = (
            as_carray(log_probs.reshape(self.count, T, C)),
            labels.reshape(self.count, 2 * S + 1),
            skips.reshape(self.count, 2 * S + 3),
            steps.reshape(-1),
            2 * self.sizes.reshape(-1) + 1,
        )

    def _run(self, loop: Any, *outputs: FloatArray | float) -> None:
        T, width = self.shape[-2], self.arguments[1].shape[1]
        over_rows(loop, self.count, COST * T * width, *self.arguments, *outputs)

    def losses(self) -> FloatArray:
        """Return the loss of each sequence; for a mean, divided by its length."""
        width = self.arguments[1].shape[1]
        losses = np.empty(self.count)
        self._run(with_workspace(_losses, 3 * (width + 2)), losses)
        if self.zero_infinity:
            losses[losses == np.inf] = 0.0
        return self._divided(losses.reshape(self.batch))

    def _divided(self, losses: FloatArray) -> FloatArray:
        return losses / np.maximum(self.sizes, 1) if self.is_mean else losses

    def pulled(self, dout: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
        """Return the gradient, given the cotangent of the loss of each sequence."""
        T, C = self.shape[-2:]
        grad = np.empty((self.count, T, C), dtype)
        room = C + (T + 3) * (self.arguments[1].shape[1] + 2)
        factors = np.array(self._divided(dout), np.float64, order="C").reshape(-1)
        undefined = 0.0 if self.zero_infinity else np.nan
        self._run(with_workspace(_gradients, room), factors, undefined, grad)
        return grad.reshape(self.shape)


def ctc_loss(
    log_probs: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    blank: int = 0,
    lengths: npt.ArrayLike | None = None,
    target_lengths: npt.ArrayLike | None = None,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Negative log-probability of a text, summed over all ways to align it with the time steps.

    Networks that hear speech or read handwriting are trained with it (CTC): the recording has more
    steps than the text has letters, and nobody knows which step belongs to which letter.

    Parameters
    ----------
    log_probs : array_like, shape (..., T, C)
        Logarithms of probabilities :math:`x_{tk}` of C classes at each of T steps, as
        `dlref.activations.log_softmax` returns them.
    targets : array_like of int, shape (..., S)
        The text :math:`l`: S classes, none of them the blank.
    blank : int, default 0
        The class that stands for no letter, :math:`b`.
    lengths : array_like of int, shape (...), optional
        Steps of each sequence, T by default. Later steps may hold any number.
    target_lengths : array_like of int, shape (...), optional
        Letters of each text, S by default. Later letters may hold any number.
    zero_infinity : bool, default False
        Whether an infinite loss counts as 0, with a gradient of 0. The mean still divides by all
        sequences.
    reduction : str
        ``"mean"``: each loss is divided by the length of its text, at least 1, and the mean is over
        the sequences; ``"sum"`` or ``"none"``, not divided.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` an array of shape (...). It is infinite if no
        path gives the text, unless `zero_infinity` is set.

    Raises
    ------
    TypeError
        If `log_probs` is neither integer nor a real floating-point array, an array of integers is
        not, or `zero_infinity` is not a bool.
    ValueError
        If shapes do not fit, a class, a length or `blank` is out of range, a text holds the blank,
        or `reduction` is not known.

    See Also
    --------
    ctc_loss_grad : The derivative, and how PyTorch's differs.
    nll : The loss if each step has a letter of its own.

    Notes
    -----
    A *path* :math:`\pi` has a class for every step. It becomes a text if equal neighbors are
    merged first and blanks are removed afterwards: :math:`B(aab\text{-}bb) = abb`, with a hyphen
    for the blank. The probability of a text is the sum over all paths that become it,

    .. math:: L = -\log \sum_{\pi :\, B(\pi) = l} \prod_t e^{x_{t \pi_t}} .

    **Forward.** There are far too many paths to list, but they share their beginnings. Put a blank
    before, between and after the letters: :math:`l' = (b, l_1, b, l_2, \dots, l_S, b)`. A path
    walks through these :math:`2S + 1` places. At each step it stays, goes to the next place, or
    skips a blank between two letters that differ. With :math:`\alpha_t(s)` for the logarithm of the
    sum over all beginnings of t steps that end at place s,

    .. math:: \alpha_t(s) = x_{t l'_s} + \log \bigl( e^{\alpha_{t-1}(s)} + e^{\alpha_{t-1}(s-1)}
       + [l'_s \ne b] [l'_s \ne l'_{s-2}]\, e^{\alpha_{t-1}(s-2)} \bigr) ,

    where a path begins at one of the first two places, :math:`\alpha_1(1) = x_{1b}` and
    :math:`\alpha_1(2) = x_{1 l_1}`, and all others have :math:`-\infty`, as do places before the
    first at any step. It ends at one of the last two:

    .. math:: L = -\log \bigl( e^{\alpha_T(2S+1)} + e^{\alpha_T(2S)} \bigr) .

    **Why logarithms.** A product of 1000 probabilities of 0.4 is smaller than any float64. The
    logarithm of a sum takes out the largest term: :math:`\log (e^a + e^b) = a + \log (1 + e^{b-a})`
    for :math:`a \ge b`.

    **Repeated letters** need a blank between them, or they would be merged. So a text needs as many
    steps as it has letters, and one more for each letter that equals the one before it. With fewer
    steps the sum has no term, and the loss is infinite. An empty text has one path, all blanks.

    **Cost.** :math:`O(T S)` in time. The loss keeps two rows of the trellis, the gradient all T.

    References
    ----------
    - :cite:t:`GravesCTC2006`

    Examples
    --------
    Two steps with two classes of probability 1/2: the paths ``aa``, ``a-`` and ``-a`` give the text
    ``a``, three of four. The text ``aa`` needs three steps, and has the path ``a-a`` alone:

    >>> import numpy as np
    >>> from dlref.losses import ctc_loss
    >>> half = np.log(np.full((3, 2), 0.5))
    >>> float(np.exp(-ctc_loss(half[:2], [1])).round(12))
    0.75
    >>> float(np.exp(-ctc_loss(half, [1, 1], reduction="sum")).round(12))
    0.125
    >>> float(ctc_loss(half[:2], [1, 1]))
    inf
    >>> float(ctc_loss(half[:2], [1, 1], zero_infinity=True))
    0.0
    """
    dtype, (x,) = as_floats({"log_probs": log_probs}, work=np.float32)
    options = _Options(blank, lengths, target_lengths, zero_infinity, reduction)
    sequences = _Sequences(("log_probs", "targets"), x, targets, options)
    with np.errstate(all="ignore"):
        return result(np.asarray(reduced(sequences.losses(), reduction)), dtype)


def ctc_loss_grad(
    log_probs: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    blank: int = 0,
    lengths: npt.ArrayLike | None = None,
    target_lengths: npt.ArrayLike | None = None,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the loss with respect to the log-probabilities.

    Parameters
    ----------
    log_probs, targets, blank, lengths, target_lengths, zero_infinity : as in `ctc_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., T, C)
        Gradient, 0 after the length of a sequence. It is NaN, as in PyTorch, for a sequence whose
        loss is infinite, and 0 with `zero_infinity`.

    Notes
    -----
    Every path has one factor :math:`e^{x_{t \pi_t}}` of step t. So the derivative of the sum with
    respect to :math:`x_{tk}` is the sum over the paths with :math:`\pi_t = k`. All ends after step
    t, from place s on, have the sum :math:`e^{\beta_t(s)}`, with :math:`\beta_T = 0` at the last
    two places, :math:`-\infty` at all others, and

    .. math:: \beta_t(s) = \log \bigl( e^{\beta_{t+1}(s) + x_{t+1, l'_s}} + e^{\beta_{t+1}(s+1) +
       x_{t+1, l'_{s+1}}} + [l'_{s+2} \ne b] [l'_{s+2} \ne l'_s]\, e^{\beta_{t+1}(s+2) + x_{t+1,
       l'_{s+2}}} \bigr) .

    A beginning and an end make a path. Divided by the sum over all paths, :math:`e^{-L}`, this is
    the probability that a path of the text has the class k at step t:

    .. math:: \gamma_t(k) = \sum_{s :\, l'_s = k} e^{\alpha_t(s) + \beta_t(s) + L} , \qquad
       \pdv{L}{x_{tk}} = -\gamma_t(k) , \qquad \sum_k \gamma_t(k) = 1 .

    It is the loss of soft targets :math:`\gamma`, which the model itself finds: the E-step of
    expectation-maximization.

    **Through a log-softmax.** With :math:`x_t` the log-softmax of logits :math:`z_t` and
    :math:`y_{tk} = e^{x_{tk}}`,

    .. math:: \pdv{L}{z_{tk}} = -\gamma_t(k) + y_{tk} \sum_j \gamma_t(j) = y_{tk} - \gamma_t(k) .

    **PyTorch** returns this last one as the gradient of ``log_probs``: :math:`e^{x_{tk}}` more
    than the derivative. Behind a log-softmax that does no harm. Its backward pass takes g to
    :math:`g - y \sum_j g_j`, so y itself becomes :math:`y - y = 0`, and :math:`y - \gamma` becomes
    :math:`y - \gamma`, since it adds up to 0. It is wrong where anything else produces
    ``log_probs``: compare a kernel of your own with finite differences, not with that gradient.

    Examples
    --------
    Of the three paths ``aa``, ``a-`` and ``-a``, two have the letter at the first step:

    >>> import numpy as np
    >>> from dlref.losses import ctc_loss_grad
    >>> 3 * ctc_loss_grad(np.log(np.full((2, 2), 0.5)), [1]).round(12)
    array([[-1., -2.],
           [-1., -2.]])
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    return ctc_loss_vjp(
        1.0,
        log_probs,
        targets,
        blank=blank,
        lengths=lengths,
        target_lengths=target_lengths,
        zero_infinity=zero_infinity,
        reduction=reduction,
    )


def ctc_loss_vjp(
    dout: npt.ArrayLike,
    log_probs: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    blank: int = 0,
    lengths: npt.ArrayLike | None = None,
    target_lengths: npt.ArrayLike | None = None,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of unaligned texts.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    log_probs, targets, blank, lengths, target_lengths, zero_infinity, reduction : see `ctc_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, C)
        Gradient of the log-probabilities.

    Notes
    -----
    With u for each of N sequences, and :math:`S_n` for the length of a text,

    .. math:: \pdv{L}{x_{tk}} = -u\, \gamma_t(k) , \qquad
       \pdv{L_{mean}}{x_{ntk}} = -\frac{u}{N \max(S_n, 1)}\, \gamma_{nt}(k) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import ctc_loss_vjp
    >>> half = np.log(np.full((3, 2), 0.5))
    >>> ctc_loss_vjp(2.0, half, [1, 1], reduction="sum").round(12)
    array([[-0., -2.],
           [-2., -0.],
           [-0., -2.]])
    """
    dtype, (u, x) = as_floats({"dout": dout, "log_probs": log_probs}, work=np.float32)
    options = _Options(blank, lengths, target_lengths, zero_infinity, reduction)
    sequences = _Sequences(("log_probs", "targets"), x, targets, options)
    with np.errstate(all="ignore"):
        each = seeds(u.astype(np.float64), sequences.batch, reduction)
        return result(sequences.pulled(each, x.dtype), dtype)


def ctc_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    blank: int = 0,
    lengths: npt.ArrayLike | None = None,
    target_lengths: npt.ArrayLike | None = None,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of unaligned texts.

    Parameters
    ----------
    primals : tuple (log_probs, targets) of array_like
        Log-probabilities (..., T, C) and texts (..., S).
    tangents : tuple (dlog_probs, None) of array_like or None
        Direction of the first; texts have none.
    blank, lengths, target_lengths, zero_infinity, reduction : as in `ctc_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangent v of the log-probabilities, the mean over the paths of the text:

    .. math:: \dot L = -\sum_{tk} \gamma_t(k)\, v_{tk} .

    Examples
    --------
    If all log-probabilities grow by 1, each path of two steps grows by 2:

    >>> import numpy as np
    >>> from dlref.losses import ctc_loss_jvp
    >>> half = np.log(np.full((2, 2), 0.5))
    >>> round(float(ctc_loss_jvp((half, [1]), (np.ones((2, 2)), None))), 12)
    -2.0
    """
    points, directions = entries("primals", primals, 2), entries("tangents", tangents, 2)
    targets = points.pop("primals[1]")
    check_constant("tangents[1]", directions.pop("tangents[1]"))
    moving = {name: tangent for name, tangent in directions.items() if tangent is not None}
    dtype, (x, *moved) = as_floats({**points, **moving}, work=np.float32)
    options = _Options(blank, lengths, target_lengths, zero_infinity, reduction)
    sequences = _Sequences(("primals[0]", "primals[1]"), x, targets, options)
    v = moved[0] if moved else np.zeros_like(x)
    check_shape("tangents[0]", v, x.shape)
    with np.errstate(all="ignore"):
        slopes = sequences.pulled(np.ones(sequences.batch), np.float64)
        terms = np.where(sequences.inside, slopes * v, 0.0).sum((-2, -1))
        return result(np.asarray(reduced(terms, reduction)), dtype)
