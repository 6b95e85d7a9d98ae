r"""Direct preference optimization: a model is trained by pairs of answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, check_ndim, check_shape, choice
from ..activations import log_sigmoid, sigmoid
from ._kernels.smooth import Smooth

Curve = Callable[[FloatArray], FloatArray]


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)
    check_shape(names[0], arrays[0], (2, *arrays[0].shape[1:]))


KINDS = ("sigmoid", "hinge", "ipo")


def _logistic(smoothing: float) -> tuple[Curve, Curve]:
    def value(z: FloatArray) -> FloatArray:
        labels = (1.0 - smoothing, z), (smoothing, -z)
        # log_sigmoid may be infinite where a label has no share
        return np.asarray(-sum(share * log_sigmoid(x) for share, x in labels if share > 0.0))

    def slope(z: FloatArray) -> FloatArray:
        return np.asarray(smoothing * sigmoid(z) - (1.0 - smoothing) * sigmoid(-z))

    return value, slope


def _hinge() -> tuple[Curve, Curve]:
    def slope(z: FloatArray) -> FloatArray:
        return np.where(z < 1.0, -1.0, np.where(np.isnan(z), z, 0.0))

    return lambda z: np.maximum(1.0 - z, 0.0), slope


def _squared(beta: float) -> tuple[Curve, Curve]:
    """Return the square of the distance of h = z / beta from 1 / (2 beta), and its slope by z."""

    def distance(z: FloatArray) -> FloatArray:
        return np.asarray((z - 0.5) / beta)

    return lambda z: distance(z) ** 2, lambda z: distance(z) * (2.0 / beta)


@lru_cache(maxsize=16)  # a schedule may have another beta at every step
def _smooth(kind: str, beta: float, smoothing: float) -> Smooth:
    curves = {"hinge": _hinge(), "ipo": _squared(beta)}
    value, slope = curves.get(kind) or _logistic(smoothing)

    def margin(log_p: FloatArray, log_ref: FloatArray) -> FloatArray:
        gain = log_p - log_ref
        return np.asarray(beta * (gain[0] - gain[1]))

    def terms(log_p: FloatArray, log_ref: FloatArray) -> FloatArray:
        return value(margin(log_p, log_ref))

    def slopes(log_p: FloatArray, log_ref: FloatArray) -> tuple[FloatArray, ...]:
        of_first = beta * slope(margin(log_p, log_ref))
        both = np.stack([of_first, -of_first])
        return both, -both

    return Smooth(("log_p", "log_ref"), _check, terms, slopes, axis=0)


def _kind(kind: str, beta: float, label_smoothing: float) -> Smooth:
    choice("kind", kind, KINDS)
    smoothing = as_number("label_smoothing", label_smoothing, least=0.0, most=1.0)
    if smoothing > 0.0 and kind != "sigmoid":
        msg = f"Argument 'label_smoothing' must be 0 for the kind {kind!r}, not {smoothing:g}."
        raise ValueError(msg)
    return _smooth(kind, as_number("beta", beta, above=0.0), smoothing)


def dpo_loss(
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Loss of pairs of answers, one preferred to the other: logistic (DPO), hinge or squared (IPO).

    Language models are aligned with it in place of reinforcement learning: no reward is trained and
    nothing is drawn.

    Parameters
    ----------
    log_p : array_like, shape (2, ...)
        Log-probabilities of whole answers under the model: the sums over their tokens. First the
        chosen answers, then the rejected ones.
    log_ref : array_like, shape (2, ...)
        The same under the reference, the model before training.
    beta : float, default 0.1
        How strongly the model is held to the reference, greater than 0.
    kind : {"sigmoid", "hinge", "ipo"}
        Which function of the margin: the logistic loss of DPO, the hinge of SLiC, or the square of
        IPO, see below.
    label_smoothing : float, default 0.0
        Probability :math:`\epsilon` that a label is wrong (conservative DPO), from 0 to 1. Only for
        the kind "sigmoid".
    reduction : str
        ``"mean"`` over the pairs, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or an option is not a
        number.
    ValueError
        If the first axis does not have the length 2, the shapes differ, or an option is out of
        range or not known.

    See Also
    --------
    dpo_loss_grad : The derivative.
    binary_cross_entropy : The same loss of a logit.

    Notes
    -----
    With the gain of an answer over the reference, :math:`g = \log p - \log p_{ref}`,

    .. math:: z = \beta\, (g_1 - g_2) , \qquad
       \ell = -(1 - \epsilon) \log \sigma(z) - \epsilon \log \sigma(-z) .

    **Where it comes from.** Of all models p of the answers x, the one with the largest mean reward
    r minus :math:`\beta` times its divergence from the reference q is
    :math:`m \propto q\, e^{r / \beta}`. For with the sum Z of all :math:`q_x e^{r_x / \beta}`, the
    reward is :math:`r_x = \beta \log (m_x Z / q_x)`, and inserting it leaves

    .. math:: \sum_x p_x r_x - \beta \sum_x p_x \log \frac{p_x}{q_x}
       = \beta \log Z - \beta \sum_x p_x \log \frac{p_x}{m_x} ,

    where only the last divergence depends on p; it is least, 0, at p = m. Solved for the reward,
    :math:`r = \beta g + c`, with a constant c that depends on the prompt alone. The probability
    that the first answer is preferred is, in the model of Bradley and Terry,
    :math:`\sigma(r_1 - r_2) = \sigma(z)`: the constant cancels, and the loss is the cross-entropy
    of that probability.

    **Other kinds.** The logistic loss never reaches 0, so that pairs whose order is certain drive z
    to infinity, however large :math:`\beta` is. The hinge stops at z = 1, and the square pulls the
    difference of the gains to a finite value:

    .. math:: \ell^{hinge} = \max(0, 1 - z) , \qquad
       \ell^{ipo} = \Bigl( g_1 - g_2 - \frac{1}{2 \beta} \Bigr)^2 .

    **The implicit reward** is :math:`\beta g`. Only differences count: the loss falls as well if
    both answers become less probable, the rejected one faster. That happens in practice.

    **Conventions.** Sums over the tokens of an answer, not means (a mean is SimPO's or IPO's
    choice); the tokens of the prompt do not count. TRL's ``DPOTrainer`` has the same names as
    ``loss_type``; for "ipo" its log-probabilities are means over the tokens of an answer.

    References
    ----------
    - :cite:t:`Rafailov2023`
    - :cite:t:`Mitchell2023` on label smoothing
    - :cite:t:`AzarIPO2024` on IPO, :cite:t:`ZhaoSLiC2023` on the hinge

    Examples
    --------
    A model that equals its reference loses :math:`\log 2`. A pair whose gains differ by 10 loses
    :math:`\log(1 + e^{-1})`:

    >>> from dlref.losses import dpo_loss
    >>> dpo_loss(
    ...     [[-20.0, -15.0], [-30.0, -35.0]], [[-20.0, -20.0], [-30.0, -30.0]], reduction="none"
    ... )
    array([0.69314718, 0.31326169])

    The square has its least value where the gains differ by :math:`1 / (2 \beta)`:

    >>> dpo_loss([[0.0, 5.0, 9.0], [0.0] * 3], [[0.0] * 3] * 2, kind="ipo", reduction="none")
    array([25.,  0., 16.])
    """
    return _kind(kind, beta, label_smoothing).value((log_p, log_ref), reduction)


def dpo_loss_grad(
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the loss of preferences with respect to the model's log-probabilities.

    Parameters
    ----------
    log_p, log_ref, beta, kind, label_smoothing : as in `dpo_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (2, ...)
        Gradient, for the mean divided by the number of pairs.

    Notes
    -----
    The derivative of :math:`-\log \sigma(z)` is :math:`-\sigma(-z)`, so

    .. math:: \dv{\ell}{z} = \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) , \qquad
       \pdv{\ell}{\log p_1} = \beta \dv{\ell}{z} = -\pdv{\ell}{\log p_2} .

    A step raises the chosen answer as much as it lowers the rejected one. Without smoothing both
    are in proportion to :math:`\sigma(-z)`, the probability of the wrong order, so that pairs that
    are in order already have little effect; the gradient never vanishes, and z grows for ever.
    With smoothing the best z is :math:`\log \frac{1 - \epsilon}{\epsilon}`. The other kinds have

    .. math:: \dv{\ell^{hinge}}{z} = -[z < 1] , \qquad
       \dv{\ell^{ipo}}{z} = \frac2\beta \Bigl( g_1 - g_2 - \frac{1}{2 \beta} \Bigr) ,

    where the hinge has the slope 0 at its kink, as in PyTorch.

    Examples
    --------
    >>> from dlref.losses import dpo_loss_grad
    >>> dpo_loss_grad([[-20.0], [-30.0]], [[-20.0], [-30.0]], beta=0.5)
    array([[-0.25],
           [ 0.25]])
    """
    return _kind(kind, beta, label_smoothing).grad((log_p, log_ref), reduction)[0]


def dpo_loss_vjp(
    dout: npt.ArrayLike,
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of preferences.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    log_p, log_ref, beta, kind, label_smoothing, reduction : as in `dpo_loss`
        Raises the same errors.

    Returns
    -------
    dlog_p : ndarray, shape (2, ...)
        Gradient of the model's log-probabilities.
    dlog_ref : ndarray, shape (2, ...)
        Gradient of the reference's, the same with the opposite sign.

    Notes
    -----
    With u for each pair and the slope :math:`\ell'` by z, for the kind "sigmoid"
    :math:`\ell' = \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z)`,

    .. math:: \pdv{L}{\log p_k} = (-1)^{k - 1} u \beta\, \ell' , \qquad
       \pdv{L}{\log p_{ref, k}} = (-1)^k u \beta\, \ell' , \qquad k = 1, 2 .

    Examples
    --------
    >>> from dlref.losses import dpo_loss_vjp
    >>> dlog_p, dlog_ref = dpo_loss_vjp(2.0, [[0.0], [0.0]], [[0.0], [0.0]], beta=0.5)
    >>> dlog_p.ravel(), dlog_ref.ravel()
    (array([-0.5,  0.5]), array([ 0.5, -0.5]))
    """
    return _kind(kind, beta, label_smoothing).vjp(dout, (log_p, log_ref), reduction)


def dpo_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    beta: float = 0.1,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of preferences.

    Parameters
    ----------
    primals : tuple (log_p, log_ref) of array_like
        Log-probabilities, shape (2, ...).
    tangents : tuple of array_like or None
        Directions of the same shape; None is zero.
    beta, kind, label_smoothing, reduction : as in `dpo_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangents :math:`\dot g_k` of the gains, for the kind "sigmoid"

    .. math:: \dot\ell = \beta \bigl( \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) \bigr)
       (\dot g_1 - \dot g_2) .

    Examples
    --------
    >>> from dlref.losses import dpo_loss_jvp
    >>> zero, one = [[0.0], [0.0]], [[1.0], [1.0]]
    >>> float(dpo_loss_jvp((zero, zero), (one, None)))
    0.0
    """
    return _kind(kind, beta, label_smoothing).jvp(primals, tangents, reduction)
