r"""
Softmax, its Jacobian and the two Jacobian products.

Let z be a row of scores with maximum m.  The exponentials of z - m are at most 1 and one of them
is 1, so their sum lies between 1 and the number of scores: nothing overflows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, FloatDType, as_floats, as_tangents, check_shape, result
from .._core.jit import kernel
from .._math.elementary import quotient, two_diff_error
from .._math.softmax_rows import as_rows_along, dot, exponentials, run_on_rows


@kernel
def _softmax(start: int, stop: int, x: FloatArray, out: FloatArray, e: FloatArray) -> None:
    for r in range(start, stop):
        _, others, more = exponentials(x[r], e)
        total = 1.0 + others
        s, lost = out[r], two_diff_error(1.0, -others) + more
        for i in range(s.size):
            s[i] = quotient(e[i], total, lost)


@kernel
def _product(
    start: int, stop: int, v: FloatArray, x: FloatArray, out: FloatArray, e: FloatArray
) -> None:
    for r in range(start, stop):
        _, others, _ = exponentials(x[r], e)
        total = 1.0 + others
        mean = dot(e, v[r]) / total
        change, to = v[r], out[r]
        for i in range(to.size):
            to[i] = quotient(e[i], total, 0.0) * (np.float64(change[i]) - mean)


def softmax(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Map scores to probabilities, by their exponentials.

    It is the last step of a classifier, and it makes the weights of attention.

    Parameters
    ----------
    x : array_like, shape (..., k)
        Scores.
    axis : int, default -1
        The axis of the scores that belong together.

    Returns
    -------
    ndarray, shape of `x`
        Probabilities; they sum to one along `axis`.

    Raises
    ------
    TypeError
        If `x` is not real or `axis` is not an integer.
    ValueError
        If `x` is a scalar or has no such axis.

    See Also
    --------
    softmax_jacobian : The derivative, with its derivation.
    log_softmax : Its logarithm, which underflows nowhere.
    hardmax : The limit of large scores.

    Notes
    -----
    Each probability is the exponential of its score, divided by the sum of all exponentials:

    .. math:: s_i = \frac{e^{x_i}}{\sum_j e^{x_j}}

    **Why the exponential.** It is positive for every score, and larger scores get larger
    probabilities, so the order is kept. Differences of scores become ratios of probabilities,
    :math:`s_i / s_j = e^{x_i - x_j}`: a score that is larger by :math:`\log 2` gets twice the
    probability. For two scores, :math:`s_1` is the sigmoid of :math:`x_1 - x_2`.

    **Temperature.** Dividing all scores by a temperature T before the softmax changes how far the
    probabilities are apart. For T → 0 the largest score gets all, which is :func:`hardmax` (several
    equal ones share it); for T → ∞ each of k scores gets 1/k. The name is from physics: at the
    temperature T, Boltzmann's distribution gives a state of energy E a probability proportional to
    :math:`e^{-E / T}`, in units where his constant is 1.

    **Shift invariance.** Multiplying numerator and denominator by :math:`e^{-c}` gives
    :math:`s(x - c \vec 1) = s(x)`. The code takes for c the maximum, so that no exponent is
    positive and the denominator lies between 1 and k :cite:p:`Blanchard2021`.

    **Maximum entropy.** Among all probabilities p, s maximizes
    :math:`\sum_i p_i x_i - \sum_i p_i \log p_i`: the derivative with respect to each :math:`p_i`
    must equal the same number, a Lagrange multiplier, because the probabilities add up to 1. This
    gives :math:`\log p_i = x_i + \text{const}`.

    **Error.** The rounding of :math:`x_i - c`, up to half a unit of a number as large as 700, would
    be a relative error of 256 to 512 units in the last place of :math:`s_i`. It is computed and
    added to the exponent. Largest error found: 2 ULP.

    **Special values.** A score of -inf has probability 0. Infinity, NaN, or -inf alone make
    NaN of all probabilities along the axis. An empty row gives an empty row.

    References
    ----------
    - :cite:t:`Blanchard2021`

    Examples
    --------
    Scores whose exponentials are 1, 2 and 5 have the sum 8:

    >>> import numpy as np
    >>> from dlref.activations import softmax
    >>> softmax(np.log([1, 2, 5]))
    array([0.125, 0.25 , 0.625])

    Dividing the scores by a *temperature* of 1/2 squares the exponentials, to 1, 4 and 25; dividing
    them by a temperature of 4 takes the fourth root of the exponentials:

    >>> softmax(np.log([1, 2, 5]) / 0.5) * 30
    array([ 1.,  4., 25.])
    >>> softmax(np.log([1, 2, 5]) / 4).round(3)
    array([0.271, 0.323, 0.406])

    Adding a number to all scores changes nothing, and a score of -inf has probability 0:

    >>> softmax([1000, 1000, -np.inf])
    array([0.5, 0.5, 0. ])

    With ``axis=0`` each column is a row of scores:

    >>> softmax([[0, 0], [0, np.log(3)]], axis=0)
    array([[0.5 , 0.25],
           [0.5 , 0.75]])
    """
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    [rows], back = as_rows_along(axis, array)
    out = np.empty_like(rows)
    run_on_rows(_softmax, rows, out)
    return result(back(out), dtype)


def softmax_jacobian(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Jacobian of softmax, one matrix per row of scores.

    Parameters
    ----------
    x, axis : as in `softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., k, k)
        ``J[..., i, j]`` is :math:`\partial s_i / \partial x_j`; the other axes come first.

    Notes
    -----
    Take logarithms, :math:`\log s_i = x_i - \log \sum_l e^{x_l}`, and differentiate with respect
    to :math:`x_j`:

    .. math::

       \frac{1}{s_i} \pdv{s_i}{x_j} = \delta_{ij} - \frac{e^{x_j}}{\sum_l e^{x_l}}
         = \delta_{ij} - s_j, \qquad\text{hence}\qquad
       J_{ij} = s_i (\delta_{ij} - s_j), \quad
       \mat{J} = \operatorname{diag}(\vec s) - \vec s \vec s^\top .

    J is symmetric. It is positive semidefinite, since
    :math:`\vec v^\top \mat J \vec v = \sum_i s_i v_i^2 - (\sum_i s_i v_i)^2` is the variance of
    v under s; it vanishes for constant v only: :math:`\mat{J} \vec 1 = 0` is the derivative of
    shift invariance.

    **Numerics.** On the diagonal :math:`s_i (1 - s_i)` cancels when one probability is near 1. The
    code adds up the other entries of the row, since the row sums to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax_jacobian
    >>> J = softmax_jacobian(np.log([1, 1, 2]))
    >>> J
    array([[ 0.1875, -0.0625, -0.125 ],
           [-0.0625,  0.1875, -0.125 ],
           [-0.125 , -0.125 ,  0.25  ]])
    >>> J @ np.ones(3)
    array([0., 0., 0.])
    """
    dtype, [array] = as_floats({"x": x})
    [rows], back = as_rows_along(axis, array)
    s = np.empty_like(rows)
    run_on_rows(_softmax, rows, s)
    s = np.moveaxis(back(s), axis, -1)
    jac = -s[..., :, None] * s[..., None, :]
    diagonal = np.arange(s.shape[-1])
    jac[..., diagonal, diagonal] = 0.0
    jac[..., diagonal, diagonal] = -jac.sum(-1)
    return result(jac, dtype)


def softmax_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, axis: int = -1
) -> FloatArray:
    r"""
    Forward mode of softmax: its Jacobian times a vector.

    Parameters
    ----------
    primals : array_like, shape (..., k)
        Scores.
    tangents : array_like, shape of `primals`, or None
        Tangent v of the scores; None is zero.
    axis : as in `softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `primals`
        Tangent of the probabilities, in time proportional to k.

    Notes
    -----
    .. math:: (\mat J \vec v)_i = \sum_j s_i (\delta_{ij} - s_j) v_j = s_i (v_i - \bar v),
       \qquad \bar v = \sum_j s_j v_j

    with the probabilities s and their Jacobian J of :func:`softmax_jacobian`. A probability grows
    if its score grows faster than the mean of all, weighted with the probabilities. The tangents
    sum to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax_jvp
    >>> softmax_jvp(np.log([1, 1, 2]), [1.0, 0.0, 2.0])
    array([-0.0625, -0.3125,  0.375 ])
    """
    dtype, [array], [v] = as_tangents(primals, tangents, count=1)
    return _times(v, array, axis, dtype)


def softmax_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Reverse mode of softmax: a row vector times its Jacobian.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient u of a loss with respect to the probabilities.
    x, axis : as in `softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to the scores.

    See Also
    --------
    log_softmax_vjp : Where the loss is a logarithm of the probabilities.

    Notes
    -----
    **The differential.** By :func:`softmax_jacobian`, each :math:`\dd x_i` is compared with the
    mean of all of them, weighted with the probabilities:

    .. math:: \dd s_i = \sum_j J_{ij}\, \dd x_j = s_i \Bigl( \dd x_i - \sum_j s_j\, \dd x_j \Bigr) .

    **The inner product.** The loss changes by :math:`\dd L = \sum_i u_i\, \dd s_i = \sum_{ij} u_i
    J_{ij}\, \dd x_j`.

    **The transpose.** The factor of :math:`\dd x_j` is the gradient. As J is symmetric, it is the
    differential with u in place of :math:`\dd \vec x`:

    .. math:: \pdv{L}{x_j} = \sum_i u_i J_{ij} = s_j \Bigl( u_j - \sum_i s_i u_i \Bigr)

    with the probabilities s and their Jacobian J. The gradient sums to zero along the axis. No
    entry is larger than :math:`s_j (1 - s_j)` times the spread of u, the largest u minus the
    smallest, so the gradient is nearly 0 where one probability is nearly 1.

    Examples
    --------
    For the loss :math:`L = s_1` it is the first row of the Jacobian:

    >>> import numpy as np
    >>> from dlref.activations import softmax_vjp
    >>> softmax_vjp([1, 0, 0], np.log([1, 1, 2]))
    array([ 0.1875, -0.0625, -0.125 ])
    """
    dtype, [u, array] = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_shape("dout", u, array.shape)
    return _times(u, array, axis, dtype)


def _times(v: FloatArray, x: FloatArray, axis: int, dtype: FloatDType) -> FloatArray:
    [changes, rows], back = as_rows_along(axis, v, x)
    out = np.empty_like(rows)
    run_on_rows(_product, changes, rows, out)
    return result(back(out), dtype)
