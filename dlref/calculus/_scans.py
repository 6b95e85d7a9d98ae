r"""
Scans: sums, products and log-sum-exps of everything so far.

Each scan is a loop along a row that goes forward. A scan in reverse takes the row backward, and an
exclusive one leaves the last element out and begins with 0, 1 or -inf.
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
from .._core.jit import kernel
from .._core.threads import over_rows
from .._math.elementary import exp
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


# Kernels: rows, and arrays of their shape to fill


@kernel
def _sums(start: int, stop: int, x: FloatArray, y: FloatArray) -> None:
    for r in range(start, stop):
        total = 0.0
        for i in range(x.shape[1]):
            total += x[r, i]
            y[r, i] = total


@kernel
def _products(start: int, stop: int, x: FloatArray, y: FloatArray) -> None:
    for r in range(start, stop):
        product = 1.0
        for i in range(x.shape[1]):
            product *= x[r, i]
            y[r, i] = product


@kernel
def _products_back(start: int, stop: int, u: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        after = 0.0  # x_{j+1} s_{j+1}
        for j in range(x.shape[1] - 1, -1, -1):
            dx[r, j] = u[r, j] + after
            after = x[r, j] * dx[r, j]
        before = 1.0
        for j in range(x.shape[1]):
            dx[r, j] *= before
            before *= x[r, j]


@kernel
def _products_ahead(start: int, stop: int, x: FloatArray, v: FloatArray, dy: FloatArray) -> None:
    for r in range(start, stop):
        product, moved = 1.0, 0.0
        for i in range(x.shape[1]):
            moved = x[r, i] * moved + product * v[r, i]
            product *= x[r, i]
            dy[r, i] = moved


@kernel
def _exponentials(start: int, stop: int, x: FloatArray, top: FloatArray, z: FloatArray) -> None:
    """Write the largest element so far, m, and z, the sum of the exponentials of x - m."""
    for r in range(start, stop):
        m, total = -np.inf, 0.0
        for i in range(x.shape[1]):
            if x[r, i] > m:
                total = total * exp(m - x[r, i]) + 1.0
                m = x[r, i]
            elif m > -np.inf or np.isnan(x[r, i]):
                total += 1.0 if x[r, i] == m else exp(x[r, i] - m)
            top[r, i], z[r, i] = m, total


@kernel
def _exponentials_back(
    start: int,
    stop: int,
    u: FloatArray,
    x: FloatArray,
    top: FloatArray,
    z: FloatArray,
    dx: FloatArray,
) -> None:
    for r in range(start, stop):
        after = 0.0
        for j in range(x.shape[1] - 1, -1, -1):
            dx[r, j] = 0.0
            if z[r, j] != 0.0:  # else nothing but -inf comes before
                if j + 1 < x.shape[1]:
                    after *= exp(top[r, j] - top[r, j + 1])
                after += u[r, j] / z[r, j]
                dx[r, j] = exp(x[r, j] - top[r, j]) * after


@kernel
def _exponentials_ahead(
    start: int,
    stop: int,
    x: FloatArray,
    v: FloatArray,
    top: FloatArray,
    z: FloatArray,
    dy: FloatArray,
) -> None:
    for r in range(start, stop):
        moved = 0.0
        for i in range(x.shape[1]):
            dy[r, i] = 0.0
            if z[r, i] != 0.0:
                if i > 0:
                    moved *= exp(top[r, i - 1] - top[r, i])
                moved += exp(x[r, i] - top[r, i]) * v[r, i]
                dy[r, i] = moved / z[r, i]


# Scans of rows that go forward


def _over(rows_of: Callable[..., None], *rows: FloatArray, outs: int = 1) -> list[FloatArray]:
    """Return the arrays that a kernel writes, each of the shape of the rows."""
    out: list[FloatArray] = [np.empty(rows[0].shape) for _ in range(outs)]
    over_rows(rows_of, len(rows[0]), COST * rows[0].shape[1], *rows, *out)
    return out


def _sums_of(x: FloatArray) -> FloatArray:
    return _over(_sums, x)[0]


def _sums_ahead(_x: FloatArray, v: FloatArray) -> FloatArray:
    return _sums_of(v)


def _sums_back(u: FloatArray, _x: FloatArray) -> FloatArray:
    return _sums_of(u[:, ::-1])[:, ::-1]


def _logs_of(x: FloatArray) -> FloatArray:
    top, z = _over(_exponentials, x, outs=2)
    return np.where(z == 0, top, top + np.log(z))


def _logs_back(u: FloatArray, x: FloatArray) -> FloatArray:
    return _over(_exponentials_back, u, x, *_over(_exponentials, x, outs=2))[0]


def _logs_ahead(x: FloatArray, v: FloatArray) -> FloatArray:
    return _over(_exponentials_ahead, x, v, *_over(_exponentials, x, outs=2))[0]


# Axes and options


def _turned(rows: list[FloatArray], reverse: bool) -> list[FloatArray]:
    return [row[:, ::-1] if reverse else row for row in rows]


def _forward(
    scan: Callable[..., FloatArray],
    arrays: list[FloatArray],
    axis: int,
    reverse: bool,
    exclusive: bool,
    of_nothing: float = 0.0,
) -> FloatArray:
    """Return a scan, or its tangent; `of_nothing` is its first number if it is exclusive."""
    check_flags(reverse=reverse, exclusive=exclusive)
    rows, back = as_rows_along(axis, *arrays)
    rows = _turned(rows, reverse)
    with np.errstate(all="ignore"):
        y = np.full(rows[0].shape, of_nothing)
        if exclusive:
            y[:, 1:] = scan(*(row[:, :-1] for row in rows))
        else:
            y[:] = scan(*rows)
    return np.ascontiguousarray(back(np.ascontiguousarray(*_turned([y], reverse))))


def _backward(
    scan: Callable[..., FloatArray],
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> FloatArray:
    """Return the gradient of a scan; the last number of an exclusive one gets none."""
    dtype, (dout, x) = as_floats({"dout": dout, "x": x})
    check_flags(reverse=reverse, exclusive=exclusive)
    check_shape("dout", dout, x.shape)
    rows, back = as_rows_along(axis, dout, x)
    u, x = _turned(rows, reverse)
    with np.errstate(all="ignore"):
        dx = np.zeros(x.shape)
        if exclusive:
            dx[:, :-1] = scan(u[:, 1:], x[:, :-1])
        else:
            dx[:] = scan(u, x)
    out = back(np.ascontiguousarray(*_turned([dx], reverse)))
    return result(np.ascontiguousarray(out), dtype)


def _tangent(
    scan: Callable[..., FloatArray],
    primals: Any,
    tangents: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> FloatArray:
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1)
    return result(_forward(scan, [x, dx], axis, reverse, exclusive), dtype)


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
    dtype, (x,) = as_floats({"x": x})
    return result(_forward(_sums_of, [x], axis, reverse, exclusive), dtype)


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
    dtype, (x,) = as_floats({"x": x})
    scan = lambda x: _over(_products, x)[0]  # noqa: E731
    return result(_forward(scan, [x], axis, reverse, exclusive, 1.0), dtype)


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
    dtype, (x,) = as_floats({"x": x})
    return result(_forward(_logs_of, [x], axis, reverse, exclusive, -np.inf), dtype)


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
    return _backward(_sums_back, dout, x, axis, reverse, exclusive)


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
    scan = lambda u, x: _over(_products_back, u, x)[0]  # noqa: E731
    return _backward(scan, dout, x, axis, reverse, exclusive)


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
    return _backward(_logs_back, dout, x, axis, reverse, exclusive)


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
    return _tangent(_sums_ahead, primals, tangents, axis, reverse, exclusive)


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
    scan = lambda x, v: _over(_products_ahead, x, v)[0]  # noqa: E731
    return _tangent(scan, primals, tangents, axis, reverse, exclusive)


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
    return _tangent(_logs_ahead, primals, tangents, axis, reverse, exclusive)
