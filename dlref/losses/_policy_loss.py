r"""Losses of policies: tokens that a model has drawn, weighted by how good they were."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_mask,
    as_number,
    check_axes,
    check_constant,
    check_given,
    check_shape,
    choice,
    entries,
    result,
    wrong_shape,
)
from .._core.jit import inline_fma, kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import capped, exp, for_dtype, summed

BoolArray = npt.NDArray[np.bool_]
Number = Any  #: a float64
NAMES = ("log_p", "old", "advantage")


#: The ratio of each kind, and the first mean that is taken.
CHOICES = {
    "ppo": ("token", "token"),
    "grpo": ("token", "sequence"),
    "dr_grpo": ("token", "constant"),
    "gspo": ("sequence", "sequence"),
    "cispo": ("token", "token"),
}
LEVELS, MEANS = ("token", "sequence"), ("token", "sequence", "constant")


class _Options(NamedTuple):
    clip: float
    clip_high: float | None
    delta: float | None
    kind: str
    level: str | None
    mean: str | None
    mask: npt.ArrayLike | None


COST = 3  # nanoseconds, or elementary operations, a token


@inline_fma
def _bounded(ratio: Number, low: Number, high: Number) -> Number:
    return low if ratio < low else (high if ratio > high else ratio)


@inline_fma
def _times(x: Number, a: Number) -> Number:
    """Return x a, which is 0 where a is, even if x has overflowed."""
    return 0.0 if (a == 0.0) & (abs(x) == np.inf) else x * a


@inline_fma
def _fill(
    log_p: FloatArray,
    old: FloatArray,
    advantage: FloatArray,
    mask: BoolArray,
    length: Number,
    is_shared: bool,
    room: FloatArray,
) -> None:
    """Write the logarithms of the ratios of a sequence, or of its one ratio; then advantages."""
    logs = room[0]
    for t in range(logs.size):
        logs[t] = np.float64(log_p[t]) - np.float64(old[t]) if mask[t] else 0.0
    if is_shared:
        logs[:] = summed(logs) / length
    if advantage.size == 1:
        room[1, :] = np.float64(advantage[0])
        return
    for t in range(logs.size):
        room[1, t] = np.float64(advantage[t])


@kernel
def _gains(
    start: int,
    stop: int,
    log_p: FloatArray,
    old: FloatArray,
    advantage: FloatArray,
    mask: BoolArray,
    lengths: FloatArray,
    limits: tuple[float, float, float],
    is_shared: bool,
    is_constant: bool,
    sums: FloatArray,
    room: FloatArray,
) -> None:
    """Write the sum of the gains of each sequence."""
    (low, high, most), values = limits, room[0]
    for i in range(start, stop):
        m = mask[i]
        _fill(log_p[i], old[i], advantage[i], m, lengths[i], is_shared, room)
        for t in range(values.size):
            ratio, a = exp(capped(values[t])), room[1, t]
            bounded = _times(_bounded(ratio, low, high), a)
            free = _times(min(ratio, most), a)
            gain = bounded if free > bounded else free
            gain = _times(np.float64(log_p[i, t]), bounded) if is_constant else gain
            values[t] = gain if m[t] else 0.0
        sums[i] = summed(values)


@kernel
def _slopes(
    start: int,
    stop: int,
    log_p: FloatArray,
    old: FloatArray,
    advantage: FloatArray,
    mask: BoolArray,
    lengths: FloatArray,
    limits: tuple[float, float, float],
    is_shared: bool,
    is_constant: bool,
    factors: FloatArray,
    grad: FloatArray,
    room: FloatArray,
) -> None:
    """Write the slopes of all gains, times the factor of their sequence."""
    (low, high, most), values = limits, room[0]
    for i in range(start, stop):
        m, factor = mask[i], factors[i]
        _fill(log_p[i], old[i], advantage[i], m, lengths[i], is_shared, room)
        for t in range(values.size):
            ratio, a = exp(capped(values[t])), room[1, t]
            stops = ((a > 0.0) & (ratio > high)) | ((a < 0.0) & ((ratio < low) | (ratio > most)))
            slope = 0.0 if stops else _times(ratio, a)
            slope = _times(_bounded(ratio, low, high), a) if is_constant else slope
            values[t] = slope if m[t] else 0.0
        if is_shared & (not is_constant):  # every token moves the one ratio of its sequence
            values[:] = summed(values) / lengths[i]
        for t in range(values.size):
            grad[i, t] = factor * values[t] if m[t] else 0.0


def _limits(options: _Options) -> tuple[float, float, float]:
    """Return the least and the largest ratio of the clip, and the largest one of all."""
    low = high = as_number("clip", options.clip, least=0.0)
    if options.clip_high is not None:
        high = as_number("clip_high", options.clip_high, least=0.0)
    if options.delta is None:
        return 1.0 - low, 1.0 + high, np.inf
    if options.kind == "cispo":
        msg = "Argument 'delta' must be None for the kind 'cispo', which clips every ratio."
        raise ValueError(msg)
    return 1.0 - low, 1.0 + high, as_number("delta", options.delta, least=1.0 + high)


class _Tokens:
    """Checked arguments of the kernels, and the divisors of the mean."""

    def __init__(self, names: tuple[str, ...], arrays: list[FloatArray], options: _Options) -> None:
        log_p, old, advantage = arrays
        check_axes(names[0], log_p, 2)
        check_shape(names[1], old, log_p.shape)
        self.shape = G, T = log_p.shape
        if advantage.shape not in {(G, T), (G, 1)}:
            wrong_shape(names[2], advantage, f"(G, T) = {(G, T)} or (G, 1) = {(G, 1)}")
        choice("kind", options.kind, CHOICES)
        level, mean = CHOICES[options.kind]
        if options.level is not None:
            choice("level", level := options.level, LEVELS)
        if options.mean is not None:
            choice("mean", mean := options.mean, MEANS)
        mask: BoolArray = np.ones((G, T), bool)
        lengths = np.full(G, np.float64(T))
        if options.mask is not None:
            mask = as_mask("mask", options.mask, true="count")
            check_shape("mask", mask, (G, T))
            lengths = mask.sum(axis=1, dtype=np.float64)
        self.mask = mask
        counts = {"token": lengths.sum(), "sequence": np.float64(G), "constant": np.float64(G * T)}
        self.count = counts[mean]
        lengths = np.maximum(lengths, 1.0)
        self.dtype = log_p.dtype
        self.divisors = lengths if mean == "sequence" else np.ones(G)
        self.arguments = (
            *(as_carray(a) for a in (log_p, old, advantage)),
            np.array(mask, order="C"),
            *(lengths, _limits(options), level == "sequence", options.kind == "cispo"),
        )

    def _run(self, loop: Any, *outputs: FloatArray) -> None:
        over_rows(
            with_workspace(for_dtype(loop, self.dtype), 2, self.shape[1]),
            self.shape[0],
            COST * self.shape[1],
            *self.arguments,
            *outputs,
        )

    def loss(self) -> Any:
        """Return the loss; a mean over nothing is NaN."""
        sums = np.empty(self.shape[0])
        self._run(_gains, sums)
        return np.asarray(-np.sum(sums / self.divisors) / self.count)

    def pulled(self, dout: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
        """Return the gradient of the log-probabilities."""
        check_shape("dout", dout, ())
        grad = np.empty(self.shape, dtype)
        self._run(_slopes, -np.float64(dout) / (self.count * self.divisors), grad)
        return grad


def policy_loss(
    log_p: npt.ArrayLike,
    old: npt.ArrayLike,
    advantage: npt.ArrayLike,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    delta: float | None = None,
    kind: str = "ppo",
    level: str | None = None,
    mean: str | None = None,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Clipped loss of a policy: tokens of good answers become more probable, within limits.

    Language models learn from rewards with it (PPO, GRPO and their relatives). The tokens were
    drawn from the model of some steps ago, and the clip keeps the model near that one.

    Parameters
    ----------
    log_p : array_like, shape (G, T)
        Log-probabilities of the drawn tokens under the model: G sequences of T tokens.
    old : array_like, shape (G, T)
        The same under the model that drew them. A constant.
    advantage : array_like, shape (G, T) or (G, 1)
        Advantage :math:`A` of each token, or of each sequence. A constant.
    clip : float, default 0.2
        How far a ratio may fall below 1, :math:`\epsilon`.
    clip_high : float, optional
        How far a ratio may rise above 1, :math:`\epsilon_h`; `clip` by default.
    delta : float, optional
        Largest ratio of a bad token (dual clip), at least ``1 + clip_high``; no limit by default.
    kind : {"ppo", "grpo", "dr_grpo", "gspo", "cispo"}
        Which gain a token has, and the defaults of `level` and `mean`, see below.
    level : {"token", "sequence"}, optional
        Whether each token has a ratio, or the tokens of a sequence share one.
    mean : {"token", "sequence", "constant"}, optional
        The mean is over all tokens, over the tokens of each sequence and then over the sequences,
        or over all places, masked ones included.
    mask : array_like of bool, shape (G, T), optional
        Tokens that count. Others, the prompt and the padding, may hold any number.

    Returns
    -------
    scalar
        The loss.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `mask` is not boolean, or
        an option is not a number.
    ValueError
        If the shapes do not fit, `clip` or `clip_high` is negative, `delta` is less than
        ``1 + clip_high`` or given for CISPO, or a name is not known.

    See Also
    --------
    policy_loss_grad : The derivative, and where it is 0.
    kl_estimate : The term that holds the model near a reference.
    dpo_loss : Preferences without rewards.

    Notes
    -----
    With the ratio :math:`\rho_{it} = e^{\log p_{it} - \log p_{old, it}}` of token t of sequence i,
    the gain and the loss are

    .. math:: g_{it} = \min \bigl( \rho_{it} A_{it} ,\; \operatorname{clip}(\rho_{it},
       1 - \epsilon, 1 + \epsilon_h)\, A_{it} \bigr) , \qquad
       L = -\frac1N \sum_i \frac{1}{n_i} \sum_t g_{it} .

    Masked tokens are left out of all sums. With :math:`|o_i|` for the tokens of sequence i that
    count, the kinds are

    ===========  ============  ============  ==============  ===================
    kind         `level`       `mean`        :math:`n_i`     N
    ===========  ============  ============  ==============  ===================
    ``ppo``      token         token         1               :math:`\sum |o_i|`
    ``cispo``    token         token         1               :math:`\sum |o_i|`
    ``grpo``     token         sequence      :math:`|o_i|`   G
    ``dr_grpo``  token         constant      1               G T
    ``gspo``     sequence      sequence      :math:`|o_i|`   G
    ===========  ============  ============  ==============  ===================

    `level` and `mean` choose each of the two by itself: GSPO's ratio with DAPO's mean over tokens
    is ``level="sequence", mean="token"``.

    At the level of sequences, as in GSPO, all tokens of a sequence have one ratio, the geometric
    mean, and CISPO takes the clipped
    ratio as a constant factor (:math:`\operatorname{sg}`) of the log-probability:

    .. math:: \rho_i^{GSPO} = \exp \Bigl( \frac{1}{|o_i|} \sum_t (\log p_{it} - \log p_{old, it})
       \Bigr) , \qquad
       g_{it}^{CISPO} = \operatorname{sg} \bigl[ \operatorname{clip}(\rho_{it}, 1 - \epsilon,
       1 + \epsilon_h) \bigr]\, A_{it} \log p_{it} .

    **Where it comes from.** The mean reward J of a model p has the gradient :math:`\E_p[A\, \nabla
    \log p]`. For tokens x drawn from an older model it is the gradient of a mean of ratios,

    .. math:: \nabla \E_{old} \Bigl[ \frac{p(x)}{p_{old}(x)} A(x) \Bigr] = \E_{old} \Bigl[
       \frac{p(x)}{p_{old}(x)} A(x)\, \nabla \log p(x) \Bigr] = \E_p \bigl[ A(x)\, \nabla \log p(x)
       \bigr] ,

    and where p is the older model, all ratios are 1. For a text, whose tokens have a ratio each,
    the estimate holds near there only: the words before a token, and its advantage, still come from
    the older model. Nothing would stop a step from making a ratio of a good token huge; so the gain
    of a ratio above :math:`1 + \epsilon_h` is constant. The minimum keeps the clip one-sided: a
    ratio that has moved the wrong way still costs.

    **The dual clip.** The minimum bounds the gain of a bad token from one side only: if its ratio
    is large, because the model has moved towards it or an engine disagrees, the loss
    :math:`\rho\, |A|` and its gradient are as large. With `delta` the ratio in the first term is
    :math:`\min(\rho, \delta)`, so that such a token costs at most :math:`\delta\, |A|` and has no
    gradient beyond. For good tokens the clip at :math:`1 + \epsilon_h` has already decided.

    **Mean over tokens or sequences.** With ``grpo`` each sequence counts the same, so a token of
    a long answer counts less: wrong long answers are punished too little, and answers grow. With
    ``ppo`` each token counts the same, also called DAPO's or token-level loss. ``dr_grpo`` divides
    by G T, which is a constant if you pad all batches to one length T. With equal lengths and no
    mask the three are one number.

    **Conventions.** TRL calls `level` ``importance_sampling_level`` and has `delta` under the same
    name; verl calls it ``clip_ratio_c``, 3 by default. TRL's ``loss_type`` calls ``ppo``
    ``"bnpo"``; its ``dr_grpo`` has
    ``max_completion_length`` in place of T. Its CISPO clips from above only, at ``epsilon_high``
    itself, not at 1 plus it. A sequence without tokens that count adds 0, as there, but counts in
    G. If no token of the batch counts, ``ppo`` and ``cispo`` are NaN, with a gradient of 0, and 0
    in TRL. The advantage of GRPO is the reward minus the mean of the group, divided by its standard
    deviation (``dr_grpo`` does not divide); no gradient is returned for it.

    **Special values.** A token with an advantage of 0 gains 0 and has a gradient of 0, even if its
    ratio overflows. PyTorch's formula is NaN there, since it multiplies 0 by infinity. If the
    advantage is negative, the loss is infinite where the ratio overflows.

    References
    ----------
    - :cite:t:`SchulmanPPO2017`
    - :cite:t:`ShaoGRPO2024`
    - :cite:t:`LiuDrGRPO2025`
    - :cite:t:`ZhengGSPO2025`
    - :cite:t:`MiniMaxM1`
    - :cite:t:`YuDAPO2025` on `clip_high`
    - :cite:t:`YeDualClip2020` on the dual clip

    Examples
    --------
    A good and a bad sequence, each with tokens at half and at twice their old probability. The good
    token that doubled gains 1.2, not 2, and the bad one that was halved loses 0.8, not 0.5:

    >>> import numpy as np
    >>> from dlref.losses import policy_loss
    >>> log_p, old = np.log([[0.5, 2.0], [0.5, 2.0]]), np.zeros((2, 2))
    >>> for advantage in ([[1.0], [0.0]], [[0.0], [-1.0]]):
    ...     print(round(4 * float(policy_loss(log_p, old, advantage)), 12))
    -1.7
    2.8

    A sequence of one token and a sequence of three, where only the first is good:

    >>> same, mask = np.zeros((2, 3)), np.array([[True, False, False], [True, True, True]])
    >>> for kind in ("ppo", "grpo", "dr_grpo"):
    ...     print(round(float(policy_loss(same, same, [[6.0], [0.0]], kind=kind, mask=mask)), 12))
    -1.5
    -3.0
    -1.0

    A bad token whose ratio is 50 costs 50, or 3 with a dual clip:

    >>> for delta in (None, 3.0):
    ...     print(round(float(policy_loss(np.log([[50.0]]), [[0.0]], [[-1.0]], delta=delta)), 12))
    50.0
    3.0
    """
    given = dict(zip(NAMES, (log_p, old, advantage), strict=True))
    dtype, arrays = as_floats(given, work=np.float32)
    with np.errstate(all="ignore"):
        tokens = _Tokens(NAMES, arrays, _Options(clip, clip_high, delta, kind, level, mean, mask))
        return result(tokens.loss(), dtype)


def policy_loss_grad(
    log_p: npt.ArrayLike,
    old: npt.ArrayLike,
    advantage: npt.ArrayLike,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    delta: float | None = None,
    kind: str = "ppo",
    level: str | None = None,
    mean: str | None = None,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Gradient of the loss of a policy with respect to the log-probabilities.

    Parameters
    ----------
    log_p, old, advantage, clip, clip_high, delta, kind, level, mean, mask : as in `policy_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (G, T)
        Gradient; 0 where a token is masked.

    Notes
    -----
    The derivative of a ratio with respect to its logarithm is the ratio. With the bracket 1 where
    the condition holds and 0 elsewhere,

    .. math:: \pdv{L}{\log p_{it}} = -\frac{\rho_{it} A_{it}}{N n_i} \bigl( 1 - [A_{it} > 0]
       [\rho_{it} > 1 + \epsilon_h] - [A_{it} < 0][\rho_{it} < 1 - \epsilon]
       - [A_{it} < 0][\rho_{it} > \delta] \bigr) .

    **Where it stops.** The side of the clip depends on the sign of the advantage. A good token gets
    no gradient once its ratio is above :math:`1 + \epsilon_h`, a bad one once its ratio is below
    :math:`1 - \epsilon`. On the other side the minimum takes :math:`\rho A`, and the gradient pulls
    the token back. Exactly at a limit it is the gradient from inside, as in PyTorch. On the first
    step after drawing, all ratios are 1, no token is clipped, and the gradient is the plain
    policy gradient :math:`-A / (N n_i)`.

    **CISPO** has no such limit: every token keeps a gradient, whose factor is clipped,

    .. math:: \pdv{L}{\log p_{it}} = -\frac{A_{it}}{N n_i} \operatorname{clip}(\rho_{it},
       1 - \epsilon, 1 + \epsilon_h) .

    **GSPO** moves all tokens of a sequence alike. With one advantage :math:`A_i`,

    .. math:: \pdv{L}{\log p_{it}} = -\frac{\rho_i A_i}{N n_i} \bigl( 1 - [A_i > 0][\rho_i
       > 1 + \epsilon_h] - [A_i < 0][\rho_i < 1 - \epsilon] - [A_i < 0][\rho_i > \delta] \bigr) .

    Examples
    --------
    Ratios of one half, 1 and 2, for a good and for a bad sequence:

    >>> import numpy as np
    >>> from dlref.losses import policy_loss_grad
    >>> log_p, old = np.log([[0.5, 1.0, 2.0]] * 2), np.zeros((2, 3))
    >>> (6 * policy_loss_grad(log_p, old, [[1.0], [-1.0]])).round(12) + 0.0
    array([[-0.5, -1. ,  0. ],
           [ 0. ,  1. ,  2. ]])
    >>> (6 * policy_loss_grad(log_p, old, [[1.0], [-1.0]], kind="cispo")).round(12)
    array([[-0.8, -1. , -1.2],
           [ 0.8,  1. ,  1.2]])
    """
    return policy_loss_vjp(
        1.0, log_p, old, advantage, clip=clip, clip_high=clip_high, delta=delta, kind=kind,
        level=level, mean=mean, mask=mask,
    )  # fmt: skip


def policy_loss_vjp(
    dout: npt.ArrayLike,
    log_p: npt.ArrayLike,
    old: npt.ArrayLike,
    advantage: npt.ArrayLike,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    delta: float | None = None,
    kind: str = "ppo",
    level: str | None = None,
    mean: str | None = None,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of a policy.

    Parameters
    ----------
    dout : array_like, shape ()
        Cotangent u of the loss.
    log_p, old, advantage, clip, clip_high, delta, kind, level, mean, mask : as in `policy_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (G, T)
        Gradient of the log-probabilities; none is returned for the constants.

    Notes
    -----
    With the derivative :math:`g'_{it}` of a gain with respect to the logarithm of its ratio, and
    u for the loss,

    .. math:: \pdv{L}{\log p_{it}} = -\frac{u}{N n_i}\, g'_{it} , \qquad
       \pdv{L}{\log p_{it}} = -\frac{u}{N n_i} \frac{1}{|o_i|} \sum_s g'_{is} ,

    the second for one ratio of a sequence, in which each token has a share.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import policy_loss_vjp
    >>> policy_loss_vjp(4.0, np.zeros((1, 2)), np.zeros((1, 2)), [[1.0, -3.0]])
    array([[-2.,  6.]])
    >>> policy_loss_vjp(4.0, np.zeros((1, 2)), np.zeros((1, 2)), [[1.0, -3.0]], kind="gspo")
    array([[2., 2.]])
    """
    given = dict(zip(NAMES, (log_p, old, advantage), strict=True))
    dtype, (u, *arrays) = as_floats({"dout": dout, **given}, work=np.float32)
    with np.errstate(all="ignore"):
        tokens = _Tokens(NAMES, arrays, _Options(clip, clip_high, delta, kind, level, mean, mask))
        return result(tokens.pulled(u, arrays[0].dtype), dtype)


def policy_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    delta: float | None = None,
    kind: str = "ppo",
    level: str | None = None,
    mean: str | None = None,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of a policy.

    Parameters
    ----------
    primals : tuple (log_p, old, advantage) of array_like
        Log-probabilities and advantages.
    tangents : tuple (dlog_p, None, None) of array_like or None
        Direction of the first, of its shape; the constants have none.
    clip, clip_high, delta, kind, level, mean, mask : as in `policy_loss`
        Raises the same errors.

    Returns
    -------
    scalar
        Tangent of the loss.

    Notes
    -----
    With the tangent v of the logarithms of the ratios, or its mean over a sequence that shares a
    ratio,

    .. math:: \dot L = -\frac1N \sum_i \frac{1}{n_i} \sum_t g'_{it}\, v_{it} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import policy_loss_jvp
    >>> zero = np.zeros((1, 2))
    >>> float(policy_loss_jvp((zero, zero, [[1.0, -3.0]]), ([[2.0, 0.0]], None, None)))
    -1.0
    """
    points = entries("primals", primals, 3)
    directions = entries("tangents", tangents, 3)
    move = directions.pop("tangents[0]")
    for name, direction in directions.items():
        check_constant(name, direction)
    check_given("primals[0]", points["primals[0]"])
    moving = {} if move is None else {"tangents[0]": move}
    dtype, arrays = as_floats({**points, **moving})
    names = tuple(points)
    with np.errstate(all="ignore"):
        tokens = _Tokens(
            names, arrays[:3], _Options(clip, clip_high, delta, kind, level, mean, mask)
        )
        moved = arrays[3] if moving else np.zeros_like(arrays[0])
        check_shape("tangents[0]", moved, arrays[0].shape)
        grad = tokens.pulled(np.ones(()), np.float64)
        return result(np.sum(np.where(tokens.mask, grad * moved, 0.0)), dtype)
