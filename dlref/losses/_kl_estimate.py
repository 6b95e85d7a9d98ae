r"""Estimates of a Kullback-Leibler divergence from samples."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray, choice
from .._core.jit import inline_fma
from .._math.elementary import exp_excess, expm1
from ._kernels.reduction import Loss, Number, loss, loss_grad, loss_jvp, loss_vjp


@inline_fma
def _difference(log_p: Number, log_ref: Number, _: Number) -> Number:
    return log_p - log_ref


@inline_fma
def _difference_from_ref(log_p: Number, log_ref: Number, _: Number) -> Number:
    return log_ref - log_p


@inline_fma
def _constant_slope(_log_p: Number, _log_ref: Number, _: Number) -> Number:
    return 1.0


@inline_fma
def _minus_one(_log_p: Number, _log_ref: Number, _: Number) -> Number:
    return -1.0


@inline_fma
def _half_square(log_p: Number, log_ref: Number, _: Number) -> Number:
    rho = log_ref - log_p
    return 0.5 * rho * rho


@inline_fma
def _excess(log_p: Number, log_ref: Number, _: Number) -> Number:
    return exp_excess(log_ref - log_p)


@inline_fma
def _excess_slope(log_p: Number, log_ref: Number, _: Number) -> Number:
    return -expm1(log_ref - log_p)


@inline_fma
def _excess_slope_ref(log_p: Number, log_ref: Number, _: Number) -> Number:
    return expm1(log_ref - log_p)


NAMES = ("log_p", "log_ref")


KINDS = {
    "k1": Loss(_difference, _constant_slope, _minus_one, NAMES),
    "k2": Loss(_half_square, _difference, _difference_from_ref, NAMES),
    "k3": Loss(_excess, _excess_slope, _excess_slope_ref, NAMES),
}


def _kind(kind: str) -> Loss:
    choice("kind", kind, KINDS)
    return KINDS[kind]


def kl_estimate(
    log_p: npt.ArrayLike, log_ref: npt.ArrayLike, *, kind: str = "k3", reduction: str = "mean"
) -> FloatArray:
    r"""
    Estimate the divergence of a model from a reference by the tokens that it has drawn.

    Reinforcement learning of language models keeps the model near its start with it (PPO, GRPO):
    the sum over the vocabulary is never formed, only the probabilities of the drawn tokens.

    Parameters
    ----------
    log_p : array_like
        Logarithms of the probabilities of the drawn tokens under the model.
    log_ref : array_like, shape of `log_p`
        The same under the reference.
    kind : {"k1", "k2", "k3"}
        Which estimate, see below.
    reduction : str
        ``"mean"`` over all tokens, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The estimate in nats: a scalar, or for ``"none"`` an array of the shape of `log_p`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `kind` or `reduction` is not known.

    See Also
    --------
    kl_estimate_grad : The derivative, and the gradient that its mean estimates.
    kl_divergence : The sum over all classes.

    Notes
    -----
    For a token x drawn from the model p, and :math:`\rho = \log p_{ref}(x) - \log p(x)`,

    .. math:: k_1 = -\rho , \qquad k_2 = \tfrac12 \rho^2 , \qquad k_3 = e^\rho - 1 - \rho .

    **Bias and variance.** The mean of :math:`k_1` is the divergence by definition. It may be
    negative for a token, and its variance is large. If the model can draw all tokens that the
    reference can, the mean of :math:`e^\rho` is :math:`\sum_x p\, p_{ref} / p = 1`, so that
    :math:`k_3` adds a quantity whose mean is 0 to :math:`k_1`:

    .. math:: \E_p[k_1] = \E_p[k_3] = \sum_x p(x) \log \frac{p(x)}{p_{ref}(x)} .

    The estimate :math:`k_3` is never negative, because :math:`e^\rho \ge 1 + \rho`. Near
    :math:`\rho = 0` it varies little, because it is of second order, :math:`k_3 = \tfrac12 \rho^2
    + \tfrac16 \rho^3 + \dots`, and :math:`k_1` of first. :math:`k_2` is biased: it is right to
    second order in :math:`\rho` only. Where the reference has far more probability than the model,
    :math:`e^\rho` is large and rare, and :math:`k_3` can vary more than :math:`k_1`.

    **Numerics.** For small :math:`\rho`, both subtractions in :math:`e^\rho - 1 - \rho` cancel: at
    :math:`\rho = 10^{-9}` no digit is right, with ``expm1`` half of them, and at :math:`10^{-16}`
    none. Here the terms 1 and :math:`\rho` of the exponential's series are left out before it is
    added up.

    References
    ----------
    - :cite:t:`Schulman2020`
    - :cite:t:`ShaoGRPO2024` use :math:`k_3`

    Examples
    --------
    All tokens of a vocabulary of three, each weighted by its probability: the means of the
    estimates. The divergence is :math:`\tfrac14 \log 2`.

    >>> import numpy as np
    >>> from dlref.losses import kl_estimate
    >>> p, ref = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    >>> for kind in ("k1", "k2", "k3"):
    ...     print(
    ...         round(
    ...             float(p @ kl_estimate(np.log(p), np.log(ref), kind=kind, reduction="none")), 6
    ...         )
    ...     )
    0.173287
    0.18017
    0.173287
    """
    return loss(_kind(kind), log_p, log_ref, reduction)


def kl_estimate_grad(
    log_p: npt.ArrayLike, log_ref: npt.ArrayLike, *, kind: str = "k3", reduction: str = "mean"
) -> FloatArray:
    r"""
    Gradient of an estimate of the divergence with respect to the model's log-probabilities.

    Parameters
    ----------
    log_p, log_ref, kind : as in `kl_estimate`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape of `log_p`
        Gradient, for the mean divided by the number of tokens.

    Notes
    -----
    With :math:`\partial \rho / \partial \log p = -1`,

    .. math:: \dv{k_1}{\log p} = 1 , \qquad \dv{k_2}{\log p} = -\rho , \qquad
       \dv{k_3}{\log p} = 1 - e^\rho .

    **A good estimate need not have a good gradient.** The gradient of the divergence is
    :math:`\E_p[-\rho\, \nabla \log p]`, because the drawn tokens depend on the model, too. The
    gradient of :math:`k_2` is an unbiased estimate of it. The mean of the gradient
    of :math:`k_1` is :math:`\E_p[\nabla \log p] = 0`: as a loss it does nothing but add noise. The
    mean of the gradient of :math:`k_3`, :math:`\E_p[(1 - e^\rho) \nabla \log p] = -\sum_x p_{ref}
    \nabla \log p`, is the gradient of the divergence the other way round, :math:`\sum p_{ref} \log
    (p_{ref} / p)`; both agree to first order in :math:`\rho`.

    **Answers of several tokens.** All of this holds for one draw. In an answer, a token also
    changes which tokens follow, and the gradients of single tokens leave that out. Treat the whole
    answer as one draw: pass the *sum* of its log-probabilities, and the gradient of :math:`k_2` is
    unbiased again. The values need no such care: the sum of :math:`k_1` or of :math:`k_3` over the
    tokens of an answer is an unbiased estimate of the divergence of answers.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import kl_estimate_grad
    >>> for kind in ("k1", "k2", "k3"):
    ...     print(kl_estimate_grad([0.0, 0.0], [0.0, np.log(2.0)], kind=kind, reduction="sum"))
    [1. 1.]
    [ 0.         -0.69314718]
    [-0. -1.]
    """
    return loss_grad(_kind(kind), log_p, log_ref, reduction)


def kl_estimate_vjp(
    dout: npt.ArrayLike,
    log_p: npt.ArrayLike,
    log_ref: npt.ArrayLike,
    *,
    kind: str = "k3",
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of an estimate of the divergence.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the estimate: a scalar, or of the shape of `log_p` for ``"none"``.
    log_p, log_ref, kind, reduction : as in `kl_estimate`
        Raises the same errors.

    Returns
    -------
    dlog_p : ndarray, shape of `log_p`
        Gradient of the model's log-probabilities.
    dlog_ref : ndarray, shape of `log_p`
        Gradient of the reference's.

    Notes
    -----
    An estimate depends on the difference :math:`\rho` alone, so the two gradients are opposite.
    For :math:`k_3`, with u for each token,

    .. math:: \pdv{L}{\log p} = u\, (1 - e^\rho) , \qquad
       \pdv{L}{\log p_{ref}} = -u\, (1 - e^\rho) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import kl_estimate_vjp
    >>> kl_estimate_vjp(1.0, [0.0], [np.log(2.0)])
    (array([-1.]), array([1.]))
    """
    return loss_vjp(_kind(kind), dout, log_p, log_ref, reduction)


def kl_estimate_jvp(
    primals: Any, tangents: Any, *, kind: str = "k3", reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an estimate of the divergence.

    Parameters
    ----------
    primals : tuple (log_p, log_ref) of array_like
        Logarithms of probabilities.
    tangents : tuple of array_like or None
        Directions of the same shape; None is zero.
    kind, reduction : as in `kl_estimate`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the estimate, of its shape.

    Notes
    -----
    For :math:`k_3`, with :math:`\dot\rho` for the tangent of :math:`\rho`,

    .. math:: \dot k_3 = (e^\rho - 1)\, \dot\rho .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import kl_estimate_jvp
    >>> float(kl_estimate_jvp(([0.0], [np.log(2.0)]), ([3.0], None)))
    -3.0
    """
    return loss_jvp(_kind(kind), primals, tangents, reduction)
