r"""
Scans: sums, products and log-sum-exps of everything so far.

A kernel takes the elements of a row in the order of its scan: `_place` turns it around for a scan
in reverse.  An exclusive scan leaves out its last element, begins with 0, 1 or -inf, and writes
everything one place further on: it is `shift` = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_flags,
    check_shape,
    result,
)
from .._core.jit import inline_strict, kernel
from .._core.threads import over_rows, with_workspace
from .._math.elementary import exp, log
from .._math.softmax_rows import as_rows_along

__all__ = [  # noqa: RUF022  # in the order of the page
    "cumsum",
    "cumprod",
    "cumlogsumexp",
    "cumsum_vjp",
    "cumprod_vjp",
    "cumlogsumexp_vjp",
    "cumsum_jvp",
    "cumprod_jvp",
    "cumlogsumexp_jvp",
]

COST = 2.0  #: elementary operations an element


@inline_strict
def _place(k: int, n: int, reverse: bool) -> int:
    """Return where a row of n has the element that is number k of its scan."""
    return n - 1 - k if reverse else k


@kernel
def _sums(
    start: int, stop: int, x: FloatArray, shift: int, reverse: bool, y: FloatArray, room: FloatArray
) -> None:
    n = x.shape[1]
    for r in range(start, stop):
        total = np.float64(0.0)
        y[r, _place(0, n, reverse)] = total
        for k in range(n - shift):
            total += x[r, _place(k, n, reverse)]
            y[r, _place(k + shift, n, reverse)] = total


@kernel
def _products(
    start: int, stop: int, x: FloatArray, shift: int, reverse: bool, y: FloatArray, room: FloatArray
) -> None:
    n = x.shape[1]
    for r in range(start, stop):
        product = np.float64(1.0)
        y[r, _place(0, n, reverse)] = product
        for k in range(n - shift):
            product *= x[r, _place(k, n, reverse)]
            y[r, _place(k + shift, n, reverse)] = product


@kernel
def _products_back(
    start: int,
    stop: int,
    u: FloatArray,
    x: FloatArray,
    shift: int,
    reverse: bool,
    dx: FloatArray,
    room: FloatArray,
) -> None:
    n, sums = x.shape[1], room[0]
    for r in range(start, stop):
        after = np.float64(0.0)  # x_{j+1} s_{j+1}
        for k in range(n - shift - 1, -1, -1):
            sums[k] = u[r, _place(k + shift, n, reverse)] + after
            after = x[r, _place(k, n, reverse)] * sums[k]
        before = np.float64(1.0)
        dx[r, _place(n - 1, n, reverse)] = 0.0
        for k in range(n - shift):
            j = _place(k, n, reverse)
            dx[r, j] = before * sums[k]
            before *= x[r, j]


@kernel
def _products_ahead(
    start: int,
    stop: int,
    x: FloatArray,
    v: FloatArray,
    shift: int,
    reverse: bool,
    dy: FloatArray,
    room: FloatArray,
) -> None:
    n = x.shape[1]
    for r in range(start, stop):
        product, moved = np.float64(1.0), np.float64(0.0)
        dy[r, _place(0, n, reverse)] = 0.0
        for k in range(n - shift):
            j = _place(k, n, reverse)
            moved = x[r, j] * moved + product * v[r, j]
            product *= x[r, j]
            dy[r, _place(k + shift, n, reverse)] = moved


@kernel
def _exponentials(x: FloatArray, reverse: bool, top: FloatArray, z: FloatArray) -> None:
    """Write the largest element so far, m, and z, the sum of the exponentials of x - m."""
    n = x.size
    m, total = np.float64(-np.inf), np.float64(0.0)
    for k in range(n):
        value = np.float64(x[_place(k, n, reverse)])
        if value > m:
            total = total * exp(m - value) + 1.0
            m = value
        elif m > -np.inf or np.isnan(value):
            total += 1.0 if value == m else exp(value - m)
        top[k], z[k] = m, total


@kernel
def _log_sums(
    start: int, stop: int, x: FloatArray, shift: int, reverse: bool, y: FloatArray, room: FloatArray
) -> None:
    n, top, z = x.shape[1], room[0], room[1]
    for r in range(start, stop):
        _exponentials(x[r], reverse, top, z)
        y[r, _place(0, n, reverse)] = -np.inf
        for k in range(n - shift):
            logarithm = log(z[k])
            y[r, _place(k + shift, n, reverse)] = top[k] + (logarithm if z[k] != 0.0 else 0.0)


@kernel
def _log_sums_back(
    start: int,
    stop: int,
    u: FloatArray,
    x: FloatArray,
    shift: int,
    reverse: bool,
    dx: FloatArray,
    room: FloatArray,
) -> None:
    n, top, z = x.shape[1], room[0], room[1]
    for r in range(start, stop):
        _exponentials(x[r], reverse, top, z)
        after, later = np.float64(0.0), top[n - 1]
        dx[r, _place(n - 1, n, reverse)] = 0.0
        for k in range(n - shift - 1, -1, -1):
            j = _place(k, n, reverse)
            dx[r, j] = 0.0
            if z[k] != 0.0:  # else nothing but -inf comes before
                after *= exp(top[k] - later)
                after += u[r, _place(k + shift, n, reverse)] / z[k]
                dx[r, j] = exp(np.float64(x[r, j]) - top[k]) * after
            later = top[k]


@kernel
def _log_sums_ahead(
    start: int,
    stop: int,
    x: FloatArray,
    v: FloatArray,
    shift: int,
    reverse: bool,
    dy: FloatArray,
    room: FloatArray,
) -> None:
    n, top, z = x.shape[1], room[0], room[1]
    for r in range(start, stop):
        _exponentials(x[r], reverse, top, z)
        moved, earlier = np.float64(0.0), top[0]
        dy[r, _place(0, n, reverse)] = 0.0
        for k in range(n - shift):
            j, to = _place(k, n, reverse), _place(k + shift, n, reverse)
            dy[r, to] = 0.0
            if z[k] != 0.0:
                moved *= exp(earlier - top[k])
                moved += exp(np.float64(x[r, j]) - top[k]) * v[r, j]
                dy[r, to] = moved / z[k]
            earlier = top[k]


def _scanned(
    rows_of: Callable[..., None],
    arrays: list[FloatArray],
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> FloatArray:
    """Run a kernel on the rows along an axis, and return the array that it writes."""
    check_flags(reverse=reverse, exclusive=exclusive)
    rows, back = as_rows_along(axis, *arrays)
    out = np.empty_like(rows[0])
    count, n = out.shape
    if n:
        scan = with_workspace(rows_of, 2, n)
        over_rows(scan, count, COST * n, *rows, int(exclusive), reverse, out)
    return np.ascontiguousarray(back(out))


def _gradient(
    rows_of: Callable[..., None],
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> FloatArray:
    dtype, arrays = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_flags(reverse=reverse, exclusive=exclusive)
    check_shape("dout", arrays[0], arrays[1].shape)
    return result(_scanned(rows_of, arrays, axis, reverse, exclusive), dtype)


def _tangent(
    rows_of: Callable[..., None],
    primals: Any,
    tangents: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> FloatArray:
    dtype, (x,), (v,) = as_tangents(primals, tangents, count=1, work=np.float32)
    return result(_scanned(rows_of, [x, v], axis, reverse, exclusive), dtype)


def cumsum(
    x: npt.ArrayLike, *, axis: int = -1, reverse: bool = False, exclusive: bool = False
) -> FloatArray:
    r"""
    Sum of all elements so far.

    Parameters
    ----------
    x : array_like
        Numbers, with at least one axis.
    axis : int, default -1
        The axis that the scan runs along.
    reverse : bool
        Whether it runs from the last element to the first.
    exclusive : bool
        Whether each sum leaves its own element out; the first is then 0.

    Returns
    -------
    ndarray, shape ``x.shape``
        Sums, accumulated in float64.

    Raises
    ------
    TypeError
        If `x` is not real, `axis` is not an integer, or an option is not True or False.
    ValueError
        If `x` is a scalar or has no such axis.

    See Also
    --------
    cumsum_vjp, cumsum_jvp : The derivatives.
    cumprod, cumlogsumexp : The other scans.
    sum_grad : The last of the sums.

    Notes
    -----
    Each output is the sum of the elements up to its own place:

    .. math:: y_i = \sum_{j \le i} x_j

    The row of outputs is the product of a lower triangular matrix of ones and the row of elements;
    the matrix is never formed. The positions of packed documents are such sums, and so is the
    logarithm of the decay in linear attention.

    **All options.** With `exclusive` the sum is over :math:`j < i`, with `reverse` over
    :math:`j \ge i`, and with both over :math:`j > i`. The other scans have the same options.

    **Conventions.** If no axis is given, NumPy's ``cumsum`` and JAX's ``jnp.cumsum`` scan the
    flattened array; PyTorch requires an axis. ``jax.lax.cumsum`` has `reverse`, and TensorFlow's
    ``cumsum`` has both options.

    Examples
    --------
    >>> from dlref.calculus import cumsum
    >>> cumsum([1, 2, 3, 4])
    array([ 1.,  3.,  6., 10.])
    >>> cumsum([1, 2, 3, 4], exclusive=True)
    array([0., 1., 3., 6.])
    >>> cumsum([1, 2, 3, 4], reverse=True)
    array([10.,  9.,  7.,  4.])
    """
    dtype, arrays = as_floats({"x": x}, work=np.float32)
    return result(_scanned(_sums, arrays, axis, reverse, exclusive), dtype)


def cumprod(
    x: npt.ArrayLike, *, axis: int = -1, reverse: bool = False, exclusive: bool = False
) -> FloatArray:
    r"""
    Product of all elements so far.

    Parameters
    ----------
    x, axis, reverse : as in `cumsum`
        Raises the same errors.
    exclusive : bool
        Whether each product leaves its own element out; the first is then 1.

    Returns
    -------
    ndarray, shape ``x.shape``
        Products, computed in float64.

    See Also
    --------
    cumprod_vjp, cumprod_jvp : The derivatives.
    prod_grad : The last of the products.

    Notes
    -----
    Each output is the product of the elements up to its own place:

    .. math:: y_i = \prod_{j \le i} x_j

    Forget gates multiply in this way: a state that was written at time 0 has been multiplied by all
    gates up to time i. In diffusion, :math:`\bar\alpha_t` is the product of
    :math:`1 - \beta_s` up to t, and in rendering the transmittance is an exclusive product.

    Examples
    --------
    >>> from dlref.calculus import cumprod
    >>> cumprod([2, 3, 4])
    array([ 2.,  6., 24.])
    >>> cumprod([2, 3, 4], exclusive=True)
    array([1., 2., 6.])
    """
    dtype, arrays = as_floats({"x": x}, work=np.float32)
    return result(_scanned(_products, arrays, axis, reverse, exclusive), dtype)


def cumlogsumexp(
    x: npt.ArrayLike, *, axis: int = -1, reverse: bool = False, exclusive: bool = False
) -> FloatArray:
    r"""
    Log-sum-exp of all elements so far.

    Parameters
    ----------
    x, axis, reverse : as in `cumsum`
        Raises the same errors.
    exclusive : bool
        Whether each result leaves its own element out; the first is then -inf.

    Returns
    -------
    ndarray, shape ``x.shape``
        Log-sum-exps, which never decrease along the scan.

    See Also
    --------
    cumlogsumexp_vjp, cumlogsumexp_jvp : The derivatives.
    dlref.activations.logsumexp : The last of the results.

    Notes
    -----
    Each output is the logarithm of the sum of the exponentials up to its own place:

    .. math:: y_i = \log \sum_{j \le i} e^{x_j}

    It is :func:`cumsum` for numbers that are given by their logarithms, such as the probabilities
    of a long sequence. The denominators of a causal attention are such sums if all positions share
    one query.

    **Numerics.** No exponential overflows, because the scan carries two numbers, the largest
    element so far, :math:`m_i`, and the sum :math:`z_i` of the exponentials of :math:`x_j - m_i`. A
    new element that is larger rescales the sum, as in the online softmax:

    .. math::

        m_i = \max(m_{i-1}, x_i) , \qquad
        z_i = z_{i-1}\, e^{m_{i-1} - m_i} + e^{x_i - m_i} , \qquad y_i = m_i + \log z_i

    **Special values.** While every element is -inf, so is the result.

    Examples
    --------
    These are the logarithms of 1, 2 and 3, whose cumulative sums are 1, 3 and 6:

    >>> import numpy as np
    >>> from dlref.calculus import cumlogsumexp
    >>> np.exp(cumlogsumexp(np.log([1, 2, 3]))).round(12)
    array([1., 3., 6.])

    The exponentials of these elements would overflow:

    >>> (cumlogsumexp([1000, 1000, 1000]) - 1000).round(6)
    array([0.      , 0.693147, 1.098612])
    """
    dtype, arrays = as_floats({"x": x}, work=np.float32)
    return result(_scanned(_log_sums, arrays, axis, reverse, exclusive), dtype)


def cumsum_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the cumulative sum.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x, axis, reverse, exclusive : as in `cumsum`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        The cumulative sum of `dout` in the other direction.

    Notes
    -----
    **The differential.** Each sum is linear: :math:`\dd y_i = \sum_{j \le i} \dd x_j`.

    **The inner product.** :math:`\dd L = \sum_i u_i\, \dd y_i = \sum_i \sum_{j \le i} u_i\,
    \dd x_j`.

    **The transpose.** The element j occurs in its own sum and in all later ones:

    .. math:: \pdv{L}{x_j} = \sum_{i \ge j} u_i

    The transpose of a lower triangular matrix of ones is an upper triangular one: the backward pass
    of a scan is a scan in reverse.

    Examples
    --------
    In policy gradients a reward counts for every action before it, so the weights of the actions
    are a reversed sum of the rewards:

    >>> from dlref.calculus import cumsum_vjp
    >>> cumsum_vjp([1, 0, 5], [0, 0, 0])
    array([6., 5., 5.])
    """
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_flags(reverse=reverse, exclusive=exclusive)
    check_shape("dout", dout, x.shape)
    return result(_scanned(_sums, [dout], axis, not reverse, exclusive), dtype)


def cumprod_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the cumulative product.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x, axis, reverse, exclusive : as in `cumprod`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        The gradient, which is correct where elements are zero, too.

    Notes
    -----
    The element j occurs once in its own product and in all later ones; its slope is the product of
    the other factors:

    .. math:: \pdv{L}{x_j} = \sum_{i \ge j} u_i \prod_{j \ne k \le i} x_k

    The textbook formula divides a reversed sum of :math:`u_i y_i` by :math:`x_j`, which gives NaN
    at a zero. dlref splits the product at j instead. The factors before j are common to all terms,
    and the sum of the products of later factors obeys a recurrence that runs backward:

    .. math::

        \pdv{L}{x_j} = p_j\, s_j , \qquad p_j = \prod_{k < j} x_k , \qquad
        s_j = u_j + x_{j+1}\, s_{j+1}

    This takes three multiplications for each element and no division. Behind a zero every
    :math:`p_j` is zero, so the gradient is zero there. At the zero itself it usually is not.

    **Range.** A partial product that leaves the range of float64 makes the gradient infinite, zero
    or NaN; the result of :func:`prod_grad` does not depend on partial products.

    Examples
    --------
    The gradient of the zero is 12. A division would give NaN there:

    >>> from dlref.calculus import cumprod_vjp
    >>> cumprod_vjp([1, 1, 1], [2, 0, 5])
    array([ 1., 12.,  0.])
    """
    return _gradient(_products_back, dout, x, axis, reverse, exclusive)


def cumlogsumexp_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the cumulative log-sum-exp.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x, axis, reverse, exclusive : as in `cumlogsumexp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        The gradient.

    Notes
    -----
    The slope of each result is a softmax over the elements so far, because
    :math:`e^{x_j} / \sum_{k \le i} e^{x_k} = e^{x_j - y_i}`:

    .. math:: \pdv{L}{x_j} = \sum_{i \ge j} u_i\, e^{x_j - y_i}

    The exponentials of :math:`-y_i` alone may overflow. The code uses the largest element so far,
    :math:`m_i`, and :math:`z_i = e^{y_i - m_i}`, so that no exponent is positive:

    .. math::

        \pdv{L}{x_j} = e^{x_j - m_j}\, s_j , \qquad
        s_j = \frac{u_j}{z_j} + e^{m_j - m_{j+1}}\, s_{j+1}

    **Special values.** An element of -inf gets the gradient 0. If an element is +inf, its own
    gradient and the gradients before it are NaN.

    Examples
    --------
    The first result depends on the first element only; two equal elements share the second one:

    >>> from dlref.calculus import cumlogsumexp_vjp
    >>> cumlogsumexp_vjp([1, 1], [1000, 1000])
    array([1.5, 0.5])
    """
    return _gradient(_log_sums_back, dout, x, axis, reverse, exclusive)


def cumsum_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cumulative sum.

    Parameters
    ----------
    primals : array_like
        Numbers :math:`x`. Raises the same errors as `cumsum`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.
    axis, reverse, exclusive : as in `cumsum`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The cumulative sum of `tangents`.

    Notes
    -----
    .. math:: \dot y_i = \sum_{j \le i} \dot x_j

    The map is linear, so it is its own derivative.

    Examples
    --------
    >>> from dlref.calculus import cumsum_jvp
    >>> cumsum_jvp([5, 6, 7], [1, 0, 10])
    array([ 1.,  1., 11.])
    """
    dtype, _, tangent = as_tangents(primals, tangents, count=1, work=np.float32)
    return result(_scanned(_sums, tangent, axis, reverse, exclusive), dtype)


def cumprod_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cumulative product.

    Parameters
    ----------
    primals : array_like
        Factors :math:`x`. Raises the same errors as `cumprod`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.
    axis, reverse, exclusive : as in `cumprod`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``primals.shape``
        The tangent of each product.

    Notes
    -----
    The product rule for :math:`y_i = y_{i-1} x_i` is a recurrence, which runs forward with the
    products:

    .. math:: \dot y_i = x_i\, \dot y_{i-1} + y_{i-1}\, \dot x_i

    Before the first element y is 1 and its tangent 0.

    Examples
    --------
    The second product is 0 whatever the first factor is; only the tangent of the zero moves it:

    >>> from dlref.calculus import cumprod_jvp
    >>> cumprod_jvp([2, 0, 5], [1, 1, 0])
    array([ 1.,  2., 10.])
    """
    return _tangent(_products_ahead, primals, tangents, axis, reverse, exclusive)


def cumlogsumexp_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    axis: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cumulative log-sum-exp.

    Parameters
    ----------
    primals : array_like
        Numbers :math:`x`. Raises the same errors as `cumlogsumexp`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.
    axis, reverse, exclusive : as in `cumlogsumexp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``primals.shape``
        A weighted mean of the tangents so far.

    Notes
    -----
    The weights are the softmax of the elements so far:

    .. math:: \dot y_i = \sum_{j \le i} e^{x_j - y_i}\, \dot x_j

    This is causal attention with the same scores for every query. The code adds up
    :math:`e^{x_j - m_i}\, \dot x_j` as it adds up the denominator :math:`z_i`, and divides at the
    end.

    Examples
    --------
    Equal elements have equal weights, so the results are running means of the tangents:

    >>> from dlref.calculus import cumlogsumexp_jvp
    >>> cumlogsumexp_jvp([7, 7, 7, 7], [1, 3, 5, 7])
    array([1., 2., 3., 4.])
    """
    return _tangent(_log_sums_ahead, primals, tangents, axis, reverse, exclusive)
