r"""The Kullback-Leibler divergence of two distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_tangents,
    check_ndim,
    check_shape,
    choice,
    result,
)
from .._core.jit import inline_fma, inline_strict, kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import Number, log, pair_sum
from ._kernels.reduction import REDUCTIONS, reduced, seeds

COST = 5  # nanoseconds, or elementary operations, a class


def _check(names: tuple[str, str], log_p: FloatArray, q: FloatArray, reduction: str) -> None:
    check_ndim(names[0], log_p, 1)
    check_shape(names[1], q, log_p.shape)
    choice("reduction", reduction, REDUCTIONS)


def _rows(elementwise: bool, *arrays: FloatArray) -> list[FloatArray]:
    """Return the arrays as they are, or with a row for each number."""
    return [a[..., None] for a in arrays] if as_bool("elementwise", elementwise) else [*arrays]


def _slope_of_q(log_p: FloatArray, q: FloatArray) -> FloatArray:
    return np.log(q) + 1.0 - log_p


@inline_fma
def _term(log_p: Number, q: Number) -> Number:
    return 0.0 if q == 0.0 else q * (log(q) - log_p)


@inline_strict
def _compensated_sum(terms: FloatArray) -> Number:
    """Add the terms up, and apart from them the errors of their additions."""
    total, lost = np.float64(0.0), np.float64(0.0)
    for i in range(terms.size):
        total, error = pair_sum(total, terms[i])
        lost += error
    return total + lost if abs(total) < np.inf else total


@kernel
def _values(
    start: int, stop: int, log_p: FloatArray, q: FloatArray, out: FloatArray, room: FloatArray
) -> None:
    """Write the divergence of each row."""
    for r in range(start, stop):
        for c in range(room.size):
            room[c] = _term(log_p[r, c], q[r, c])
        out[r] = _compensated_sum(room)


def kl_divergence(
    log_p: npt.ArrayLike, q: npt.ArrayLike, *, elementwise: bool = False, reduction: str = "mean"
) -> FloatArray:
    r"""
    Kullback-Leibler divergence of q from predicted p, :math:`\sum_c q_c \log (q_c / p_c)`.

    Parameters
    ----------
    log_p : array_like, shape (..., C)
        Logarithms of the predicted probabilities.
    q : array_like, shape (..., C)
        Probabilities themselves, at least 0, of the shape of `log_p`.
    elementwise : bool, default False
        Whether each class is a term of its own, as in PyTorch's ``kl_div``; otherwise a term is
        the sum over the classes.
    reduction : str
        ``"mean"`` over the terms, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...), or (..., C) if it is
        `elementwise`, in nats.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `elementwise` is not a
        bool.
    ValueError
        If `log_p` is a scalar, the shapes differ, or `reduction` is not known.

    See Also
    --------
    kl_divergence_grad : The derivative.
    cross_entropy : The same plus the entropy of q, from scores.

    Notes
    -----
    .. math::

        \ell = \sum_c q_c (\log q_c - \log p_c)
             = \underbrace{-\sum_c q_c \log p_c}_{\text{cross-entropy}}
             \; - \; \underbrace{\Bigl( -\sum_c q_c \log q_c \Bigr)}_{\text{entropy of } q} .

    It is never negative for distributions: over the classes with :math:`q_c > 0`, by
    :math:`\log x \le x - 1`, :math:`-\ell = \sum_c q_c \log (p_c / q_c) \le \sum_c (p_c - q_c) \le
    0`, and 0 only where p = q. It is not symmetric, and infinite where p is 0 and q is not. A class
    with :math:`q_c = 0` costs nothing, whatever :math:`\log p_c` is; a negative :math:`q_c` is NaN.

    The mean is over rows, of all axes but the last. PyTorch's ``kl_div`` has it for two axes as
    ``"batchmean"``, which divides by the length of the first axis, whatever the others are. Its
    ``"mean"`` divides by the number of classes, too, and its ``"none"`` does not add the classes:
    both are ``elementwise=True`` here. A single term may be negative.

    The terms have both signs. Where p is near q they cancel, while the value is of second order in
    q - p. In units of :math:`u = 2^{-53}`, the logarithm is off by at most 1.8 of its own size,
    difference and product by 1 each, and the sum, which is compensated, by 1: of any length, with
    :math:`\sum_c q_c \, (\abs{\log q_c} + \abs{\log p_c})` for the size, the error is at most
    :math:`5 u` times the size.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import kl_divergence
    >>> p, q = np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.5, 0.0])
    >>> float(kl_divergence(np.log(p), q) / np.log(2))  # in bits
    0.5

    The other way round it is infinite: q excludes the third class, p does not.

    >>> with np.errstate(divide="ignore"):
    ...     float(kl_divergence(np.log(q), p))
    inf

    The terms of the classes, in bits:

    >>> kl_divergence(np.log(p), q, elementwise=True, reduction="none") / np.log(2)
    array([0. , 0.5, 0. ])
    """
    dtype, (log_p, q) = as_floats({"log_p": log_p, "q": q})
    _check(("log_p", "q"), log_p, q, reduction)
    log_p, q = _rows(elementwise, log_p, q)
    rows, classes = math.prod(q.shape[:-1]), q.shape[-1]
    values = np.empty(rows)
    arrays = (as_carray(a).reshape(rows, classes) for a in (log_p, q))
    over_rows(with_workspace(_values, classes), rows, COST * classes, *arrays, values)
    with np.errstate(all="ignore"):
        return result(reduced(values.reshape(q.shape[:-1]), reduction), dtype)


def kl_divergence_grad(
    log_p: npt.ArrayLike, q: npt.ArrayLike, *, elementwise: bool = False, reduction: str = "mean"
) -> FloatArray:
    r"""
    Gradient of the Kullback-Leibler divergence with respect to the logarithms of p.

    Parameters
    ----------
    log_p, q, elementwise : as in `kl_divergence`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., C)
        :math:`-q_c`, for the mean divided by the number of terms.

    Notes
    -----
    One term contains :math:`\log p_c`, and it is linear in it. After a log-softmax of logits z,
    with the Jacobian :math:`\delta_{cj} - p_j`, the chain rule gives the gradient of the
    cross-entropy, since the entropy of q is a constant:

    .. math:: \pdv{\ell}{\log p_c} = -q_c , \qquad
       \pdv{\ell}{z_j} = -\sum_c q_c\, (\delta_{cj} - p_j) = p_j - q_j

    Examples
    --------
    Wherever p is, the gradient with respect to its logarithms is the same:

    >>> from dlref.losses import kl_divergence_grad
    >>> kl_divergence_grad([-1, -2], [0.25, 0.75])
    array([-0.25, -0.75])
    """
    dtype, (log_p, q) = as_floats({"log_p": log_p, "q": q})
    _check(("log_p", "q"), log_p, q, reduction)
    choice("reduction", reduction, REDUCTIONS[:2])
    shape = q.shape
    log_p, q = _rows(elementwise, log_p, q)
    with np.errstate(all="ignore"):
        u = seeds(np.ones(()), log_p.shape[:-1], reduction)
        return result((u[..., None] * -q).reshape(shape), dtype)


def kl_divergence_vjp(
    dout: npt.ArrayLike,
    log_p: npt.ArrayLike,
    q: npt.ArrayLike,
    *,
    elementwise: bool = False,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the Kullback-Leibler divergence.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of the shape of its terms for the reduction ``"none"``.
    log_p, q, elementwise, reduction : as in `kl_divergence`
        Raises the same errors.

    Returns
    -------
    dlog_p : ndarray, shape (..., C)
        :math:`-u q_c`.
    dq : ndarray, shape (..., C)
        :math:`u (\log q_c + 1 - \log p_c)`.

    Notes
    -----
    The product rule in :math:`q_c (\log q_c - \log p_c)` gives

    .. math:: \pdv{L}{\log p_c} = -u\, q_c , \qquad
       \pdv{L}{q_c} = u \Bigl( \log q_c - \log p_c + q_c\, \frac{1}{q_c} \Bigr)
         = u \Bigl( \log \frac{q_c}{p_c} + 1 \Bigr)

    u is `dout`, for the mean divided by the number of terms. The entries of q count as free
    numbers; along directions in which they keep their sum the constant 1 has no effect. At
    :math:`q_c = 0` the slope of the divergence is :math:`-\infty`: at first it falls as :math:`q_c`
    grows from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import kl_divergence_vjp
    >>> dlog_p, dq = kl_divergence_vjp(1, np.log([0.5, 0.5]), [0.5, 0.5])
    >>> dq  # at the minimum: the same for all
    array([1., 1.])
    """
    dtype, (dout, log_p, q) = as_floats({"dout": dout, "log_p": log_p, "q": q})
    _check(("log_p", "q"), log_p, q, reduction)
    shape = q.shape
    log_p, q = _rows(elementwise, log_p, q)
    with np.errstate(all="ignore"):
        u = seeds(dout, log_p.shape[:-1], reduction)[..., None]
        grads = u * -q, u * _slope_of_q(log_p, q)
        return result(grads[0].reshape(shape), dtype), result(grads[1].reshape(shape), dtype)


def kl_divergence_jvp(
    primals: Any, tangents: Any, *, elementwise: bool = False, reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the Kullback-Leibler divergence.

    Parameters
    ----------
    primals : tuple (log_p, q) of array_like
        Logarithms of the predicted probabilities, and probabilities, of shape (..., C).
    tangents : tuple (dlog_p, dq) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    elementwise, reduction : as in `kl_divergence`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the tangents :math:`v_c` of :math:`\log p_c` and :math:`\dot q_c` of :math:`q_c`:

    .. math:: \dot\ell = \sum_c \bigl( (\log q_c + 1 - \log p_c)\, \dot q_c - q_c\, v_c \bigr)

    Examples
    --------
    At p = q, a change of q that keeps its sum costs nothing to first order:

    >>> import numpy as np
    >>> from dlref.losses import kl_divergence_jvp
    >>> q = np.array([0.25, 0.75])
    >>> float(kl_divergence_jvp((np.log(q), q), (None, [0.5, -0.5])))
    0.0
    """
    dtype, (log_p, q), (dlog_p, dq) = as_tangents(primals, tangents, count=2)
    _check(("primals[0]", "primals[1]"), log_p, q, reduction)
    log_p, q, dlog_p, dq = _rows(elementwise, log_p, q, dlog_p, dq)
    with np.errstate(all="ignore"):
        moved = -q * dlog_p
        if tangents[1] is not None:  # zero, even where the slope is infinite
            moved = moved + _slope_of_q(log_p, q) * dq
        return result(reduced(np.sum(moved, axis=-1), reduction), dtype)
