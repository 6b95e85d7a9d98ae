"""Log-sum-exp, its gradient, Hessian and Jacobian products."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    Axis,
    FloatArray,
    as_floats,
    as_tangents,
    axes_back,
    check_ndim,
    check_shape,
    reduced_axes,
    result,
)
from .._core.jit import kernel
from .._math.elementary import log1p_pair, quotient, two_diff_error
from .._math.softmax_rows import dot, exponentials, run_on_rows
from ._softmax import softmax_jacobian


@kernel
def _logsumexp(start: int, stop: int, x: FloatArray, out: FloatArray, e: FloatArray) -> None:
    for r in range(start, stop):
        top, others, more = exponentials(x[r], e)
        value = top + log1p_pair(others, more)
        if np.isinf(top):  # inf - inf is NaN, but the sum is infinite or 0
            value = top
            scores = x[r]
            for i in range(scores.size):
                if np.isnan(scores[i]):
                    value = np.float64(scores[i])
        out[r] = value


@kernel
def _shares(
    start: int, stop: int, x: FloatArray, u: FloatArray, out: FloatArray, e: FloatArray
) -> None:
    for r in range(start, stop):
        _, others, more = exponentials(x[r], e)
        total, whole, to = 1.0 + others, np.float64(u[r]), out[r]
        lost = two_diff_error(1.0, -others) + more
        for i in range(to.size):
            to[i] = whole * quotient(e[i], total, lost)


@kernel
def _mean_rate(
    start: int, stop: int, x: FloatArray, v: FloatArray, out: FloatArray, e: FloatArray
) -> None:
    for r in range(start, stop):
        _, others, _ = exponentials(x[r], e)
        out[r] = dot(e, v[r]) / (1.0 + others)


def logsumexp(x: npt.ArrayLike, *, axis: int | tuple[int, ...] = -1) -> FloatArray:
    r"""
    Logarithm of the sum of exponentials, a smooth maximum.

    Parameters
    ----------
    x : array_like, shape (..., k)
        Scores.
    axis : int or tuple of ints, default -1
        The axes to sum over.

    Returns
    -------
    ndarray or scalar
        One value for each index of the other axes.

    Raises
    ------
    TypeError
        If `x` is not real or `axis` does not hold integers.
    ValueError
        If `x` has no such axis.

    See Also
    --------
    log_softmax : Scores minus this.
    logsumexp_grad : Softmax.

    Notes
    -----
    .. math::

        f(x) = \log \sum_{j=1}^k e^{x_j} = m + \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr)

    with the maximum :math:`m = x_a`. All exponents on the right are at most 0, hence

    .. math:: m \le f(x) \le m + \log k .

    Adding c to all scores adds c to f. It is convex, its Hessian being a covariance; in physics
    it is a free energy, in statistics the normalizer of a log-likelihood.

    **Error.** Largest error found: 2 ULP of the largest of the two terms and
    their sum. Where the result is near
    0 nothing better is possible, since it changes by as much when the scores are rounded.

    **Special values.** Over no scores, or -inf alone, -inf; with infinity among the scores,
    infinity. NaN stays NaN.

    References
    ----------
    - :cite:t:`Blanchard2021`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import logsumexp
    >>> np.exp(logsumexp(np.log([1, 2, 5])))
    np.float64(8.0)
    >>> (logsumexp([1000.0, 1000.0]) - 1000).round(6)
    np.float64(0.693147)
    >>> logsumexp(np.zeros((2, 3, 4)), axis=(0, 2)).round(6)
    array([2.079442, 2.079442, 2.079442])
    """
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    rows, kept = _flattened(axis, array)
    out = np.full(len(rows), -np.inf, array.dtype)
    run_on_rows(_logsumexp, rows, out)
    return result(out.reshape(kept), dtype)


def logsumexp_grad(x: npt.ArrayLike, *, axis: int | tuple[int, ...] = -1) -> FloatArray:
    r"""
    Gradient of log-sum-exp: softmax.

    Parameters
    ----------
    x, axis : as in `logsumexp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        For every score the derivative of the value it contributes to.

    See Also
    --------
    softmax : The same map, for one axis.

    Notes
    -----
    .. math:: \pdv{f}{x_i} = \frac{e^{x_i}}{\sum_j e^{x_j}} = s_i

    The gradient is a probability: raising all scores by c raises f by c.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import logsumexp_grad
    >>> logsumexp_grad(np.log([[1, 2], [5, 8]]), axis=(0, 1))
    array([[0.0625, 0.125 ],
           [0.3125, 0.5   ]])
    """
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    rows, _ = _flattened(axis, array)
    u = np.ones(len(rows), array.dtype)
    return result(_shared_out(u, rows, axis, array.shape), dtype)


def logsumexp_hessian(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Hessian of log-sum-exp: the Jacobian of softmax.

    Parameters
    ----------
    x : as in `logsumexp`
        Raises the same errors.
    axis : int, default -1
        The axis that is summed over.

    Returns
    -------
    ndarray, shape (..., k, k)
        One symmetric matrix for each index of the other axes.

    See Also
    --------
    softmax_jacobian : The derivation.

    Notes
    -----
    .. math::

        \frac{\partial^2 f}{\partial x_i \partial x_j} = \pdv{s_i}{x_j}
          = s_i (\delta_{ij} - s_j) .

    This is the covariance of the indicator of a class drawn with the probabilities s, therefore
    positive semidefinite: f is convex. Its trace, :math:`1 - \sum_i s_i^2`, is the chance that two
    draws differ.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import logsumexp_hessian
    >>> H = logsumexp_hessian(np.zeros(4))
    >>> np.linalg.eigvalsh(H).round(12) + 0.0
    array([0.  , 0.25, 0.25, 0.25])
    """
    return softmax_jacobian(x, axis=axis)


def logsumexp_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    axis: int | tuple[int, ...] = -1,
) -> FloatArray:
    r"""
    Forward mode of log-sum-exp: a mean of the tangents.

    Parameters
    ----------
    primals : array_like, shape (..., k)
        Scores.
    tangents : array_like, shape of `primals`, or None
        Tangent of the scores; None is zero.
    axis : as in `logsumexp`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the values.

    Notes
    -----
    .. math:: \dot f = \sum_i s_i v_i

    with the softmax s and the tangents v. It lies between the smallest and the largest tangent.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import logsumexp_jvp
    >>> logsumexp_jvp(np.log([1, 3]), [4.0, 8.0])
    np.float64(7.0)
    """
    dtype, [array], [v] = as_tangents(primals, tangents, count=1)
    (rows, kept), (rates, _) = _flattened(axis, array), _flattened(axis, v)
    out = np.zeros(len(rows), array.dtype)
    run_on_rows(_mean_rate, rows, rates, out)
    return result(out.reshape(kept), dtype)


def logsumexp_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: int | tuple[int, ...] = -1
) -> FloatArray:
    r"""
    Reverse mode of log-sum-exp: a gradient distributed in proportion to the softmax.

    Parameters
    ----------
    dout : array_like
        Gradient of a loss with respect to the values, of their shape.
    x, axis : as in `logsumexp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to the scores.

    Notes
    -----
    **The differential.** The gradient of the value is the softmax s, so

    .. math:: \dd f = \sum_i s_i\, \dd x_i .

    **The inner product.** The value is one number with one cotangent u, so
    :math:`\dd L = u\, \dd f`.

    **The transpose.** The factor of :math:`\dd x_i` is

    .. math:: \pdv{L}{x_i} = u\, s_i

    with the cotangent u of the value that score i contributes to. The gradients
    sum to u.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import logsumexp_vjp
    >>> logsumexp_vjp(8.0, np.log([1, 3]))
    array([2., 6.])
    """
    dtype, [u, array] = as_floats({"dout": dout, "x": x}, work=np.float32)
    rows, kept = _flattened(axis, array)
    check_shape("dout", u, kept)
    return result(_shared_out(u, rows, axis, array.shape), dtype)


def _flattened(axis: Axis, x: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
    """Return a matrix with one row per value, and the shape of the values."""
    if isinstance(axis, int):  # as it is by default
        check_ndim("x", x, 1)
    axes = reduced_axes(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i not in axes)
    kept = tuple(x.shape[i] for i in others)
    moved = np.ascontiguousarray(x.transpose(*others, *axes))
    return moved.reshape(math.prod(kept), math.prod(x.shape[i] for i in axes)), kept


def _shared_out(u: FloatArray, rows: FloatArray, axis: Axis, shape: tuple[int, ...]) -> FloatArray:
    """Return u times the softmax of the rows, in the shape that was flattened to them."""
    out = np.empty_like(rows)
    run_on_rows(_shares, rows, np.ascontiguousarray(u).ravel(), out)
    axes = reduced_axes(axis, len(shape))
    kept = (n for i, n in enumerate(shape) if i not in axes)
    return axes_back(out.reshape((*kept, *(shape[i] for i in axes))), axes)
