r"""Kahneman-Tversky optimization: single answers, each desirable or not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_mask,
    as_number,
    as_tangents,
    check_constant,
    check_shape,
    choice,
    entries,
    result,
)
from ..activations import sigmoid
from ._kernels.reduction import REDUCTIONS, reduced, seeds


class _Options(NamedTuple):
    beta: float
    kl: float
    desirable_weight: float
    undesirable_weight: float
    reduction: str


class _Answers:
    """Checked arguments: the value of each answer, its weight, and its slope by the gain."""

    def __init__(
        self,
        names: tuple[str, ...],
        log_p: FloatArray,
        log_ref: FloatArray,
        desirable: npt.ArrayLike,
        options: _Options,
    ) -> None:
        check_shape(names[1], log_ref, log_p.shape)
        is_good = as_mask(names[2], desirable, true="desirable")
        check_shape(names[2], is_good, log_p.shape)
        beta = as_number("beta", options.beta, above=0.0)
        kl = as_number("kl", options.kl, least=0.0)
        good = as_number("desirable_weight", options.desirable_weight, least=0.0)
        bad = as_number("undesirable_weight", options.undesirable_weight, least=0.0)
        choice("reduction", options.reduction, REDUCTIONS)
        self.sign, self.weight = np.where(is_good, 1.0, -1.0), np.where(is_good, good, bad)
        self.beta, self.z = beta, beta * (np.subtract(log_p, log_ref, dtype=np.float64) - kl)

    def losses(self) -> FloatArray:
        return np.asarray(self.weight * sigmoid(-self.sign * self.z))

    def slopes(self) -> FloatArray:
        return np.asarray(-self.beta * self.sign * self.weight * sigmoid(self.z) * sigmoid(-self.z))


def kto_loss(
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    desirable: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kl: float = 0.0,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Loss of single answers that are desirable or undesirable (KTO).

    KTO aligns language models from thumbs up and thumbs down: no answer needs a partner, and the
    two kinds need not be equally many.

    Parameters
    ----------
    log_p : array_like, shape (...)
        Log-probabilities of whole answers under the model: the sums over their tokens.
    log_ref : array_like, shape (...)
        The same under the reference, the model before training.
    desirable : array_like of bool, shape (...)
        Whether each answer is desirable. A constant.
    beta : float, default 0.1
        How strongly the model is held to the reference, greater than 0.
    kl : float, default 0.0
        Reference point :math:`k`: an estimate of the divergence of the model from the reference, at
        least 0. A constant.
    desirable_weight, undesirable_weight : float, default 1.0
        Weights of the two kinds of answers, at least 0.
    reduction : str
        ``"mean"`` over the answers, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `desirable` is not boolean,
        or an option is not a number.
    ValueError
        If the shapes differ, or an option is out of range or not known.

    See Also
    --------
    kto_loss_grad : The derivative.
    dpo_loss : The loss of pairs.
    kl_estimate : Estimates of the divergence.

    Notes
    -----
    With the gain of an answer over the reference, :math:`g = \log p - \log p_{ref}`, the sign y of
    1 for a desirable answer and -1 for others, and the weight w of its kind,

    .. math:: z = \beta\, (g - k) , \qquad \ell = w\, (1 - \sigma(y z)) = w\, \sigma(-y z) .

    **Where it comes from.** Kahneman and Tversky found that people value gains and losses relative
    to a reference point, and that the value saturates on both sides. The logistic function of the
    implicit reward :math:`\beta g` has that shape, and the reference point is the mean reward of
    the model, :math:`\beta k`: an answer counts as a gain if it is better than the model's others.

    **The reference point** is estimated from answers to other prompts of the batch, as their mean
    gain, at least 0. No gradient flows through it, so it is an option here; every desirable answer
    that becomes more probable raises it in the next step.

    **Conventions.** TRL's ``KTOTrainer`` has the same names of the options.

    References
    ----------
    - :cite:t:`EthayarajhKTO2024`

    Examples
    --------
    At the reference point both kinds lose one half. A gain of :math:`10 \log 3` is z = log 3, whose
    logistic function is 3/4:

    >>> import numpy as np
    >>> from dlref.losses import kto_loss
    >>> log_p, zero = np.array([0.0, 10 * np.log(3), 10 * np.log(3)]), np.zeros(3)
    >>> kto_loss(log_p, zero, [True, True, False], reduction="none").round(12)
    array([0.5 , 0.25, 0.75])
    """
    options = _Options(beta, kl, desirable_weight, undesirable_weight, reduction)
    names = "log_p", "log_ref", "desirable"
    dtype, (x, ref) = as_floats({"log_p": log_p, "log_ref": log_ref}, work=np.float32)
    with np.errstate(all="ignore"):
        answers = _Answers(names, x, ref, desirable, options)
        return result(np.asarray(reduced(answers.losses(), reduction)), dtype)


def kto_loss_grad(
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    desirable: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kl: float = 0.0,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the loss of single answers with respect to the model's log-probabilities.

    Parameters
    ----------
    log_p, log_ref, desirable, beta, kl, desirable_weight, undesirable_weight : as in `kto_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (...)
        Gradient, for the mean divided by the number of answers.

    Notes
    -----
    The derivative of :math:`\sigma(z)` is :math:`\sigma(z)\, \sigma(-z)`, which is even, so

    .. math:: \pdv{\ell}{\log p} = -y\, w\, \beta\, \sigma(z)\, \sigma(-z) .

    It is largest at the reference point and vanishes on both sides. An answer that is far on the
    wrong side, because its label is wrong or because it is hard, has little effect; the gradient of
    :func:`dpo_loss_grad` is largest there.

    Examples
    --------
    >>> from dlref.losses import kto_loss_grad
    >>> kto_loss_grad([0.0, 0.0], [0.0, 0.0], [True, False], beta=0.5, reduction="sum")
    array([-0.125,  0.125])
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    return kto_loss_vjp(
        1.0, log_p, log_ref, desirable, beta=beta, kl=kl, desirable_weight=desirable_weight,
        undesirable_weight=undesirable_weight, reduction=reduction,
    )[0]  # fmt: skip


def kto_loss_vjp(
    dout: npt.ArrayLike,
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    desirable: npt.ArrayLike,
    *,
    beta: float = 0.1,
    kl: float = 0.0,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of single answers.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    log_p, log_ref, desirable : array_like
        As in `kto_loss`, which raises the same errors.
    beta, kl, desirable_weight, undesirable_weight, reduction : as in `kto_loss`
        Options.

    Returns
    -------
    dlog_p : ndarray, shape (...)
        Gradient of the model's log-probabilities.
    dlog_ref : ndarray, shape (...)
        Gradient of the reference's, the same with the opposite sign.

    Notes
    -----
    With u for each answer,

    .. math:: \pdv{L}{\log p} = -u\, y\, w\, \beta\, \sigma(z)\, \sigma(-z)
       = -\pdv{L}{\log p_{ref}} .

    Examples
    --------
    >>> from dlref.losses import kto_loss_vjp
    >>> kto_loss_vjp(8.0, [0.0], [0.0], [True], beta=0.5)
    (array([-1.]), array([1.]))
    """
    options = _Options(beta, kl, desirable_weight, undesirable_weight, reduction)
    names = "log_p", "log_ref", "desirable"
    given = {"dout": dout, "log_p": log_p, "log_ref": log_ref}
    dtype, (u, x, ref) = as_floats(given, work=np.float32)
    with np.errstate(all="ignore"):
        answers = _Answers(names, x, ref, desirable, options)
        grad = seeds(u.astype(np.float64), x.shape, reduction) * answers.slopes()
        return result(grad, dtype), result(-grad, dtype)


def kto_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    beta: float = 0.1,
    kl: float = 0.0,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of single answers.

    Parameters
    ----------
    primals : tuple (log_p, log_ref, desirable) of array_like
        Log-probabilities of shape (...), and the kinds of the answers.
    tangents : tuple (dlog_p, dlog_ref, None) of array_like or None
        Directions of the first two, of their shape; None is zero. The kinds have none.
    beta, kl, desirable_weight, undesirable_weight, reduction : as in `kto_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangent :math:`\dot g` of the gain,

    .. math:: \dot\ell = -y\, w\, \beta\, \sigma(z)\, \sigma(-z)\, \dot g .

    Examples
    --------
    >>> from dlref.losses import kto_loss_jvp
    >>> primals = [0.0], [0.0], [True]
    >>> float(kto_loss_jvp(primals, ([3.0], [1.0], None), beta=0.5))
    -0.25
    """
    points, moves = entries("primals", primals, 3), entries("tangents", tangents, 3)
    desirable = points.pop("primals[2]")
    check_constant("tangents[2]", moves.pop("tangents[2]"))
    dtype, (x, ref), (dx, dref) = as_tangents(
        tuple(points.values()), tuple(moves.values()), count=2, work=np.float32
    )
    options = _Options(beta, kl, desirable_weight, undesirable_weight, reduction)
    names = "primals[0]", "primals[1]", "primals[2]"
    with np.errstate(all="ignore"):
        answers = _Answers(names, x, ref, desirable, options)
        dgain = np.subtract(dx, dref, dtype=np.float64)
        return result(np.asarray(reduced(answers.slopes() * dgain, reduction)), dtype)
