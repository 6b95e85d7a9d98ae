"""The logarithm of softmax, its Jacobian and the two Jacobian products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, FloatDType, as_floats, as_tangents, check_shape, result
from .._core.jit import kernel
from .._math.elementary import log1p_pair, two_diff_error
from .._math.softmax_rows import added, as_rows_along, dot, exponentials, run_on_rows
from ._softmax import softmax


@kernel
def _log_softmax(start: int, stop: int, x: FloatArray, out: FloatArray, e: FloatArray) -> None:
    for r in range(start, stop):
        top, others, more = exponentials(x[r], e)
        rest = log1p_pair(others, more)
        scores, to = x[r], out[r]
        for i in range(to.size):
            value = np.float64(scores[i])
            d = value - top
            low = two_diff_error(value, top)
            to[i] = d - (rest - (low if d > -np.inf else 0.0))


@kernel
def _pushed(
    start: int, stop: int, v: FloatArray, x: FloatArray, out: FloatArray, e: FloatArray
) -> None:
    for r in range(start, stop):
        _, others, _ = exponentials(x[r], e)
        mean = dot(e, v[r]) / (1.0 + others)
        change, to = v[r], out[r]
        for i in range(to.size):
            to[i] = np.float64(change[i]) - mean


@kernel
def _pulled(
    start: int, stop: int, u: FloatArray, x: FloatArray, out: FloatArray, e: FloatArray
) -> None:
    for r in range(start, stop):
        _, others, _ = exponentials(x[r], e)
        pull, to = u[r], out[r]
        share = added(pull) / (1.0 + others)
        for i in range(to.size):
            to[i] = np.float64(pull[i]) - e[i] * share


def log_softmax(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Map scores to log-probabilities.

    Parameters
    ----------
    x : array_like, shape (..., k)
        Scores.
    axis : int, default -1
        The axis of the scores that belong together.

    Returns
    -------
    ndarray, shape of `x`
        Logarithms of the probabilities, at most 0.

    Raises
    ------
    TypeError
        If `x` is not real or `axis` is not an integer.
    ValueError
        If `x` is a scalar or has no such axis.

    See Also
    --------
    softmax : The probabilities.
    logsumexp : The number that is subtracted.

    Notes
    -----
    .. math:: \ell_i = \log s_i = x_i - \log \sum_j e^{x_j}

    with the softmax s. With the maximum m, attained at the index a,

    .. math:: \ell_i = (x_i - m) - \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr) ,

    a sum of two terms that are not positive: nothing cancels. The logarithm is taken by `log1p` of
    the sum of the *others*. If one probability is near 1, that sum is tiny and 1 plus it would
    round to 1: the logarithm of the softmax is then 0 while this one keeps all digits. Small
    probabilities do not underflow, their logarithms being moderate numbers.

    Largest error found: 1.8 ULP. A score of -inf has log-probability -inf. Infinity, NaN, or -inf
    alone make NaN along the axis.

    References
    ----------
    - :cite:t:`Blanchard2021`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_softmax, softmax
    >>> np.exp(log_softmax(np.log([1, 2, 5])))
    array([0.125, 0.25 , 0.625])

    Where softmax saturates, its logarithm does not:

    >>> print(np.log(softmax([40.0, 0.0]))[0], f"{log_softmax([40.0, 0.0])[0]:.4g}")
    0.0 -4.248e-18
    >>> log_softmax([1000.0, 0.0])
    array([    0., -1000.])
    """
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    [rows], back = as_rows_along(axis, array)
    out = np.empty_like(rows)
    run_on_rows(_log_softmax, rows, out)
    return result(back(out), dtype)


def log_softmax_jacobian(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Jacobian of log-softmax, one matrix per row of scores.

    Parameters
    ----------
    x, axis : as in `log_softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., k, k)
        ``J[..., i, j]`` is :math:`\partial \ell_i / \partial x_j`; the other axes come first.

    See Also
    --------
    softmax_jacobian : Each row of this one, times a probability.

    Notes
    -----
    From :math:`\ell_i = x_i - \log \sum_l e^{x_l}`, with the softmax s,

    .. math:: J_{ij} = \pdv{\ell_i}{x_j} = \delta_{ij} - s_j, \qquad
       \mat J = \mat I - \vec 1 \vec s^\top .

    Not symmetric. It is a projection, :math:`\mat J^2 = \mat J`, since
    :math:`\vec s^\top \vec 1 = 1`: it removes from scores the mean weighted with s.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_softmax_jacobian
    >>> J = log_softmax_jacobian(np.log([1, 1, 2]))
    >>> J
    array([[ 0.75, -0.25, -0.5 ],
           [-0.25,  0.75, -0.5 ],
           [-0.25, -0.25,  0.5 ]])
    >>> bool(np.allclose(J @ J, J))
    True
    """
    dtype, [array] = as_floats({"x": x})
    s = np.moveaxis(softmax(array, axis=axis), axis, -1)
    jac = np.repeat(-s[..., None, :], s.shape[-1], axis=-2)
    diagonal = np.arange(s.shape[-1])
    others = np.repeat(s[..., None, :], s.shape[-1], axis=-2)
    others[..., diagonal, diagonal] = 0.0
    jac[..., diagonal, diagonal] = others.sum(-1)  # 1 - s_i without cancellation
    return result(jac, dtype)


def log_softmax_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, axis: int = -1
) -> FloatArray:
    r"""
    Forward mode of log-softmax.

    Parameters
    ----------
    primals : array_like, shape (..., k)
        Scores.
    tangents : array_like, shape of `primals`, or None
        Tangent v of the scores; None is zero.
    axis : as in `log_softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `primals`
        Tangent of the log-probabilities.

    Notes
    -----
    .. math:: (\mat J \vec v)_i = v_i - \sum_j s_j v_j

    with the softmax s. The mean of the result, weighted with s, is zero:
    :math:`\sum_i s_i \dot\ell_i = \sum_i \dot s_i = 0`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_softmax_jvp
    >>> log_softmax_jvp(np.log([1, 1, 2]), [1.0, 0.0, 2.0])
    array([-0.25, -1.25,  0.75])
    """
    dtype, [array], [v] = as_tangents(primals, tangents, count=1)
    return _times(_pushed, v, array, axis, dtype)


def log_softmax_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Reverse mode of log-softmax.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient u of a loss with respect to the log-probabilities.
    x, axis : as in `log_softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to the scores.

    Notes
    -----
    **The differential.** With the softmax s,

    .. math:: \dd \ell_i = \dd x_i - \sum_j s_j\, \dd x_j .

    **The inner product.** In :math:`\dd L = \sum_i u_i\, \dd \ell_i`, the second term is the same
    for all i, and gets the factor :math:`\sum_i u_i`.

    **The transpose.** The Jacobian is not symmetric: its transpose subtracts a multiple of s in
    place of a mean. The factor of :math:`\dd x_j` is

    .. math:: \pdv{L}{x_j} = \sum_i u_i (\delta_{ij} - s_j) = u_j - s_j \sum_i u_i

    with the softmax s. For the cross-entropy :math:`L = -\ell_c` of a class c it is the well-known
    *softmax minus one-hot*, :math:`s_j - \delta_{cj}`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import log_softmax_vjp
    >>> log_softmax_vjp([0, 0, -1], np.log([1, 1, 2]))
    array([ 0.25,  0.25, -0.5 ])
    """
    dtype, [u, array] = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_shape("dout", u, array.shape)
    return _times(_pulled, u, array, axis, dtype)


def _times(
    function: Callable[..., None],
    v: FloatArray,
    x: FloatArray,
    axis: int,
    dtype: FloatDType,
) -> FloatArray:
    [changes, rows], back = as_rows_along(axis, v, x)
    out = np.empty_like(rows)
    run_on_rows(function, changes, rows, out)
    return result(back(out), dtype)
