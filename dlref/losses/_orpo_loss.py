r"""Odds ratio preference optimization: pairs of answers without a reference."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, check_ndim, check_shape
from ..activations import log_sigmoid, sigmoid
from ._kernels.smooth import Smooth

LN2 = np.log(2.0)


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)
    check_shape(names[0], arrays[0], (2, *arrays[0].shape[1:]))


def _log_odds(log_p: FloatArray) -> FloatArray:
    """Return log p - log (1 - p), to all digits for probabilities near 0 and near 1."""
    near_one = np.log(-np.expm1(np.maximum(log_p, -LN2)))
    return np.asarray(log_p - np.where(log_p > -LN2, near_one, np.log1p(-np.exp(log_p))))


@lru_cache(maxsize=16)  # a schedule may have another beta at every step
def _smooth(beta: float) -> Smooth:
    def margin(log_p: FloatArray) -> FloatArray:
        odds = _log_odds(log_p)
        return np.asarray(odds[0] - odds[1])

    def terms(log_p: FloatArray) -> FloatArray:
        return np.asarray(-log_p[0] - beta * log_sigmoid(margin(log_p)))

    def slopes(log_p: FloatArray) -> tuple[FloatArray, ...]:
        wrong = beta * sigmoid(-margin(log_p))
        chosen, rejected = -np.expm1(log_p)  # 1 - p
        return (np.stack([-1.0 - wrong / chosen, wrong / rejected]),)

    return Smooth(("log_p",), _check, terms, slopes, axis=0)


def _weighted(beta: float) -> Smooth:
    """Return the loss of a checked weight."""
    return _smooth(as_number("beta", beta, least=0.0))


def orpo_loss(log_p: npt.ArrayLike, *, beta: float = 0.1, reduction: str = "mean") -> FloatArray:
    r"""
    Cross-entropy of chosen answers, and a logistic loss of the odds of pairs.

    ORPO trains on pairs of answers in one stage, without a reference: the first term is the usual
    fine-tuning on the chosen answers, the second one lowers the rejected answers.

    Parameters
    ----------
    log_p : array_like, shape (2, ...)
        Mean log-probabilities of the tokens of whole answers, below 0. First the chosen answers,
        then the rejected ones.
    beta : float, default 0.1
        Weight of the second term, at least 0.
    reduction : str
        ``"mean"`` over the pairs, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If `log_p` is neither integer nor a real floating-point array, or `beta` is not a number.
    ValueError
        If the first axis does not have the length 2, `beta` is negative, or `reduction` is not
        known.

    See Also
    --------
    orpo_loss_grad : The derivative.
    dpo_loss : The loss of a pair with a reference.

    Notes
    -----
    With :math:`p = e^{\log p}`, the geometric mean of the probabilities of the tokens, and the
    logarithm of its odds,

    .. math:: o = \log \frac{p}{1 - p} , \qquad z = o_1 - o_2 , \qquad
       \ell = -\log p_1 - \beta \log \sigma(z) .

    **Why odds.** Fine-tuning on chosen answers raises rejected ones too, since both are answers to
    the same question. The second term stands against that. Its ratio is of odds, not of
    probabilities: where both answers are unlikely, the two are nearly the same, and as p tends to 1
    the odds of the chosen answer grow without bound, so that the term fades there.

    **Conventions.** The paper calls :math:`\beta` λ, TRL's ``ORPOTrainer`` calls it ``beta``. Its
    first term is the mean over all tokens of the chosen answers of a batch; here each answer has
    its own mean, and counts the same whatever its length is.

    **Numerics.** :math:`\log (1 - p)` is :math:`\log(-\operatorname{expm1}(\log p))` for p above
    one half and :math:`\operatorname{log1p}(-p)` below, so that no digits are lost at either end.

    References
    ----------
    - :cite:t:`HongORPO2024`

    Examples
    --------
    A pair of equal answers of probability 1/2 loses :math:`\log 2` for the first term and
    :math:`\beta \log 2` for the second:

    >>> import numpy as np
    >>> from dlref.losses import orpo_loss
    >>> float(orpo_loss(np.log([0.5, 0.5]), beta=1.0) / np.log(2))
    2.0

    Odds of 3 and 1/3 have a ratio of 9, and :math:`\sigma(\log 9) = 9 / 10`:

    >>> loss = orpo_loss(np.log([0.75, 0.25]), beta=1.0)
    >>> float(np.exp(-loss).round(12))  # 3/4 times 9/10
    0.675
    """
    return _weighted(beta).value((log_p,), reduction)


def orpo_loss_grad(
    log_p: npt.ArrayLike, *, beta: float = 0.1, reduction: str = "mean"
) -> FloatArray:
    r"""
    Gradient of the loss of odds with respect to the log-probabilities.

    Parameters
    ----------
    log_p, beta : as in `orpo_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (2, ...)
        Gradient, for the mean divided by the number of pairs.

    Notes
    -----
    The logarithm of the odds has the derivative :math:`1 + \frac{p}{1 - p} = \frac{1}{1 - p}` by
    :math:`\log p`, and :math:`-\log \sigma(z)` has :math:`-\sigma(-z)`, so

    .. math:: \pdv{\ell}{\log p_1} = -1 - \beta\, \frac{\sigma(-z)}{1 - p_1} , \qquad
       \pdv{\ell}{\log p_2} = \beta\, \frac{\sigma(-z)}{1 - p_2} .

    Unlike the gradient of :func:`dpo_loss_grad`, the two do not cancel: the chosen answer is
    always raised by at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import orpo_loss_grad
    >>> orpo_loss_grad(np.log([0.5, 0.5]), beta=0.25).round(12)
    array([-1.25,  0.25])
    """
    return _weighted(beta).grad((log_p,), reduction)[0]


def orpo_loss_vjp(
    dout: npt.ArrayLike, log_p: npt.ArrayLike, *, beta: float = 0.1, reduction: str = "mean"
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of odds.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    log_p, beta, reduction : as in `orpo_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (2, ...)
        Gradient of the log-probabilities.

    Notes
    -----
    With u for each pair and the slopes of :func:`orpo_loss_grad`,

    .. math:: \pdv{L}{\log p_1} = -u \Bigl( 1 + \beta\, \frac{\sigma(-z)}{1 - p_1} \Bigr) , \qquad
       \pdv{L}{\log p_2} = u \beta\, \frac{\sigma(-z)}{1 - p_2} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import orpo_loss_vjp
    >>> orpo_loss_vjp(2.0, np.log([0.5, 0.5]), beta=0.25).round(12)
    array([-2.5,  0.5])
    """
    return _weighted(beta).vjp(dout, (log_p,), reduction)[0]


def orpo_loss_jvp(
    primals: Any, tangents: Any, *, beta: float = 0.1, reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of odds.

    Parameters
    ----------
    primals : array_like, shape (2, ...)
        Log-probabilities.
    tangents : array_like, shape of `primals`, or None
        Direction v; None is zero.
    beta, reduction : as in `orpo_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangents :math:`v_1, v_2` of the two log-probabilities,

    .. math:: \dot\ell = -v_1 - \beta\, \sigma(-z) \Bigl( \frac{v_1}{1 - p_1}
       - \frac{v_2}{1 - p_2} \Bigr) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import orpo_loss_jvp
    >>> float(orpo_loss_jvp(np.log([0.5, 0.5]), [1.0, 1.0], beta=0.25).round(12))
    -1.0
    """
    return _weighted(beta).jvp(primals, tangents, reduction)
