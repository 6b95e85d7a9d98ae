r"""Distillation: a model is trained by the probabilities of another one."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, check_ndim, choice
from ._kernels.divergence import divergence_slopes, divergence_values
from ._kernels.smooth import Smooth

KINDS = ("kl", "reverse", "jsd")
#: Beyond this temperature its square, or the square of a logit over it, may overflow or vanish.
HOTTEST = 1e100


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)


@lru_cache(maxsize=16)  # a schedule may have another temperature at every step
def _smooth(kind: str, beta: float, T: float) -> Smooth:
    terms = partial(divergence_values, kind, beta, T)
    slopes = partial(divergence_slopes, kind, beta, T)
    return Smooth(("logits", "teacher"), _check, terms, slopes, axis=-1)


def _kind(kind: str, beta: float, temperature: float) -> Smooth:
    choice("kind", kind, KINDS)
    weight = as_number("beta", beta, least=0.0, most=1.0)
    if kind == "jsd" and weight in (0.0, 1.0):
        kind = "kl" if weight == 0.0 else "reverse"
    T = as_number("temperature", temperature, least=1 / HOTTEST, most=HOTTEST)
    return _smooth(kind, weight, T)


def distillation_loss(
    logits: npt.ArrayLike,
    teacher: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    kind: str = "kl",
    beta: float = 0.5,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Divergence of a model's softened probabilities from its teacher's.

    Small models are trained with it to do as a large one does: the teacher's probabilities of wrong
    classes say more than a label.

    Parameters
    ----------
    logits : array_like, shape (..., C)
        Logits of the student.
    teacher : array_like, shape (..., C)
        Logits of the teacher.
    temperature : float, default 1.0
        Divisor T of both logits, from 1e-100 to 1e100.
    kind : {"kl", "reverse", "jsd"}
        Which divergence, see below.
    beta : float, default 0.5
        Weight :math:`\beta` of the teacher in the kind "jsd", from 0 to 1. The ends are the kinds
        "kl" (0) and "reverse" (1).
    reduction : str
        ``"mean"`` over the rows, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss in nats, times T²: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `temperature` is not a
        number.
    ValueError
        If `logits` is a scalar, the shapes differ, or an option is not known or out of range.

    See Also
    --------
    distillation_loss_grad : The derivative, and why T².
    kl_divergence : Of logarithms of probabilities.
    cross_entropy : The loss of a label.

    Notes
    -----
    With :math:`p = \operatorname{softmax}(z / T)` for the student and
    :math:`q = \operatorname{softmax}(t / T)` for the teacher,

    .. math::

        \text{kl:}\quad \ell &= T^2 \sum_c q_c \log \frac{q_c}{p_c} \\
        \text{reverse:}\quad \ell &= T^2 \sum_c p_c \log \frac{p_c}{q_c} \\
        \text{jsd:}\quad \ell &= T^2 \sum_c \Bigl( \beta\, q_c \log \frac{q_c}{m_c}
            + (1 - \beta)\, p_c \log \frac{p_c}{m_c} \Bigr) , \qquad
            m_c = \beta\, q_c + (1 - \beta)\, p_c .

    **Which direction.** The first is infinite where the student excludes a class that the teacher
    allows, so the student covers all of them, and spreads if it is too small for that. The second
    is infinite where the student allows a class that the teacher excludes: it settles for some.
    The third is finite always. With :math:`\beta = \tfrac12` it is the Jensen-Shannon divergence,
    at most :math:`T^2 \log 2`, and symmetric.

    **The ends of the weight.** As :math:`\beta` falls to 0, the third loss falls to 0 with it:
    divided by :math:`\beta` it tends to the kind "kl", and divided by :math:`1 - \beta` to
    "reverse" at the other end. GKD and its implementations therefore take those two *at* the ends,
    so that the loss jumps there; dlref does the same.

    **Conventions.** PyTorch's ``kl_div(log_p, q, reduction="batchmean")`` times T² is the first.
    Where a label counts too, a weighted sum with :func:`cross_entropy` at temperature 1 is usual.
    TRL's ``generalized_jsd_loss`` and Liger's JSD have the same `beta`, without the factor T².

    **Numerics.** The loss is of second order in p − q, and its terms have both signs. To the terms
    of "kl" the code adds :math:`p_c - q_c`, whose sum is 0, and its like to the others; then none
    is negative. Where no two logits differ by more than T, p and q are nearly the same, and the
    difference of their logarithms comes from the difference of the logits, which is divided by T
    afterwards: loss and gradient keep their digits at any temperature, however near the logits are.

    References
    ----------
    - :cite:t:`HintonVinyals2015`
    - :cite:t:`AgarwalGKD2023` on the direction, and on the third

    Examples
    --------
    A student that does not know yet, and a teacher that is sure to 3/4:

    >>> import numpy as np
    >>> from dlref.losses import distillation_loss
    >>> student, teacher = [0.0, 0.0], [np.log(3.0), 0.0]
    >>> for kind in ("kl", "reverse", "jsd"):
    ...     print(round(float(distillation_loss(student, teacher, kind=kind)), 6))
    0.130812
    0.143841
    0.033822

    The weight of the teacher, and both ends:

    >>> for beta in (0.0, 0.1, 0.9, 1.0):
    ...     print(round(float(distillation_loss(student, teacher, kind="jsd", beta=beta)), 6))
    0.130812
    0.011831
    0.012752
    0.143841

    At a high temperature it is nearly half the variance, over the classes, of the differences of
    the logits:

    >>> round(float(distillation_loss(student, teacher, temperature=100.0)), 4)
    0.1509
    >>> round(float(0.5 * np.var([np.log(3.0), 0.0])), 4)
    0.1509
    """
    return _kind(kind, beta, temperature).value((logits, teacher), reduction)


def distillation_loss_grad(
    logits: npt.ArrayLike,
    teacher: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    kind: str = "kl",
    beta: float = 0.5,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the loss of distillation with respect to the student's logits.

    Parameters
    ----------
    logits, teacher, temperature, kind, beta : as in `distillation_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        Gradient, for the mean divided by the number of rows.

    Notes
    -----
    The Jacobian of :math:`\log p` by z is :math:`(\delta_{cj} - p_j) / T`. With D for the
    divergence without the factor T²,

    .. math::

        \text{kl:}\quad \pdv{\ell}{z_c} &= T\, (p_c - q_c) \\
        \text{reverse:}\quad \pdv{\ell}{z_c} &= T\, p_c \Bigl( \log \frac{p_c}{q_c} - D \Bigr) \\
        \text{jsd:}\quad \pdv{\ell}{z_c} &= (1 - \beta)\, T\, p_c \Bigl( \log \frac{p_c}{m_c}
            - \sum_j p_j \log \frac{p_j}{m_j} \Bigr) .

    In the third the derivative through :math:`m_c` vanishes: it is
    :math:`-\sum_c \tfrac{\beta q_c + (1 - \beta) p_c}{m_c} \dd m_c = -\sum_c \dd m_c`, and the m
    add up to 1.

    **Why T².** For large T the probabilities are :math:`p_c \approx \tfrac1C (1 + (z_c - \bar z) /
    T)`, so that :math:`p_c - q_c` falls with 1/T, and the slope by the logits has another 1/T. The
    factor T² keeps the size of the gradient: without it the label would take over as T grows.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import distillation_loss_grad
    >>> distillation_loss_grad([0.0, 0.0], [np.log(3.0), 0.0])
    array([-0.25,  0.25])
    """
    return _kind(kind, beta, temperature).grad((logits, teacher), reduction)[0]


def distillation_loss_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    teacher: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    kind: str = "kl",
    beta: float = 0.5,
    reduction: str = "mean",
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of distillation.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    logits, teacher, temperature, kind, beta, reduction : as in `distillation_loss`
        Raises the same errors.

    Returns
    -------
    dlogits : ndarray, shape (..., C)
        Gradient of the student's logits.
    dteacher : ndarray, shape (..., C)
        Gradient of the teacher's logits, which training leaves alone.

    Notes
    -----
    With u for each row, the first gradient is u times the one of :func:`distillation_loss_grad`.
    Reversing the divergence exchanges student and teacher, so the second has the formulas of the
    other direction. For the kind "kl",

    .. math:: \pdv{L}{z_c} = u\, T\, (p_c - q_c) , \qquad
       \pdv{L}{t_c} = u\, T\, q_c \Bigl( \log \frac{q_c}{p_c} - D \Bigr) .

    Examples
    --------
    >>> from dlref.losses import distillation_loss_vjp
    >>> dlogits, dteacher = distillation_loss_vjp(1.0, [3.0, 1.0], [3.0, 1.0])
    >>> dlogits, dteacher
    (array([0., 0.]), array([0., 0.]))
    """
    return _kind(kind, beta, temperature).vjp(dout, (logits, teacher), reduction)


def distillation_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    temperature: float = 1.0,
    kind: str = "kl",
    beta: float = 0.5,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of distillation.

    Parameters
    ----------
    primals : tuple (logits, teacher) of array_like
        Logits, shape (..., C).
    tangents : tuple of array_like or None
        Directions of the same shape; None is zero.
    temperature, kind, beta, reduction : as in `distillation_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    For the kind "kl",

    .. math:: \dot\ell = T \sum_c \Bigl( (p_c - q_c)\, \dot z_c + q_c \Bigl( \log \frac{q_c}{p_c}
       - D \Bigr)\, \dot t_c \Bigr) .

    Examples
    --------
    A shift of all logits changes nothing:

    >>> import numpy as np
    >>> from dlref.losses import distillation_loss_jvp
    >>> moved = distillation_loss_jvp(([0.0, 0.0], [np.log(3.0), 0.0]), ([1.0, 1.0], None))
    >>> bool(abs(moved) < 1e-15)
    True
    """
    return _kind(kind, beta, temperature).jvp(primals, tangents, reduction)
