r"""Sparsemax, its Jacobian and the two Jacobian products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, FloatDType, as_floats, as_tangents, check_shape, result
from .._math.softmax_rows import as_rows_along


@np.errstate(all="ignore")
def _probabilities(x: FloatArray) -> FloatArray:
    """Return the sparsemax of each row of a matrix."""
    if not x.size:
        return np.zeros(x.shape)
    z = x - x.max(-1, keepdims=True)
    falling = -np.sort(-z, axis=-1)
    count = np.arange(1, z.shape[-1] + 1)
    total = np.cumsum(falling, axis=-1)
    size = np.sum(1.0 + count * falling > total, axis=-1, keepdims=True)
    last = np.maximum(size - 1, 0)  # a row of NaN has no support
    threshold = (np.take_along_axis(total, last, -1) - 1.0) / size
    return np.asarray(np.maximum(z - threshold, 0.0))


@np.errstate(all="ignore")
def _times(v: FloatArray, x: FloatArray, axis: int, dtype: FloatDType) -> FloatArray:
    """Return the product of v with the Jacobian, which is symmetric."""
    [v, x], back = as_rows_along(axis, v, x)
    p = _probabilities(x)
    support = ~(p <= 0.0)  # NaN counts, so that it stays
    inside = np.where(support, v, 0.0)
    mean = inside.sum(-1, keepdims=True) / support.sum(-1, keepdims=True)
    out = np.where(support, v - mean + 0.0 * p, 0.0)
    return result(back(out), dtype)


def sparsemax(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Map scores to the nearest probabilities; many of them are exactly 0.

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
    sparsemax_jacobian : The derivative, with its derivation.
    softmax : Never gives a probability of 0.
    hardmax : Gives 1 to the largest score.

    Notes
    -----
    It is the Euclidean projection of the scores onto the probability simplex:

    .. math:: \vec p = \operatorname*{argmin}_{\vec p \ge 0,\; \sum_i p_i = 1}
       \tfrac12 \norm{\vec p - \vec x}^2

    **The solution is a threshold.** Take a multiplier :math:`\tau` for the sum and multipliers
    :math:`\mu_i \ge 0` for the signs. A minimum has :math:`p_i - x_i + \tau - \mu_i = 0` and
    :math:`\mu_i p_i = 0`. Where :math:`p_i > 0`, :math:`\mu_i = 0` and :math:`p_i = x_i - \tau`;
    where :math:`p_i = 0`, :math:`x_i - \tau = -\mu_i \le 0`. Both cases in one line:

    .. math:: p_i = \max(x_i - \tau, 0) , \qquad \tau = \frac1{|S|} \Bigl( \sum_{i \in S} x_i - 1
       \Bigr) , \qquad S = \{ i : x_i > \tau \} .

    The second formula is the condition that the probabilities sum to one. It still contains the
    set S, called the support. The support holds the largest scores: sort them,
    :math:`x_{(1)} \ge x_{(2)} \ge \dots`; its size is the largest k whose last member is above the
    threshold that k members make,

    .. math:: |S| = \max \Bigl\{ k : 1 + k\, x_{(k)} > \sum_{j \le k} x_{(j)} \Bigr\} .

    For the inequality says that 1 exceeds the sum of :math:`x_{(j)} - x_{(k)}` over the j up to k,
    which starts at 0 and never falls as k grows: it holds up to some k and for no larger one. With
    the threshold :math:`\tau_k` that k members make, it also says :math:`x_{(k)} > \tau_k`, and its
    failure for k + 1, after :math:`x_{(k+1)}` is subtracted on both sides, that
    :math:`x_{(k+1)} \le \tau_k`. So at the largest k exactly the first k scores are above their own
    threshold.

    **Compared with softmax.** Only differences of scores matter for both. For two scores,
    :math:`p_1` is :math:`\tfrac12 (1 + x_1 - x_2)`, clipped at 0 and 1: a hard sigmoid in place of
    the sigmoid. A score that is behind the largest one by 1 or more gets nothing, so a temperature
    decides how many scores share the probability.

    **Numerics.** The largest score is subtracted first. The map costs as much as sorting a
    row. It is computed in float64 and rounded once.

    **Special values.** A score of -inf has probability 0. Infinity, NaN, or -inf alone make NaN of
    all probabilities along the axis. An empty row gives an empty row.

    References
    ----------
    - :cite:t:`MartinsAstudillo2016`, Algorithm 1

    Examples
    --------
    Of four scores two share the probability; the threshold is (1 + 0.5 - 1) / 2 = 0.25:

    >>> import numpy as np
    >>> from dlref.activations import softmax, sparsemax
    >>> x = np.array([1.0, 0.5, 0.0, -1.0])
    >>> sparsemax(x)
    array([0.75, 0.25, 0.  , 0.  ])
    >>> softmax(x).round(2)
    array([0.47, 0.29, 0.17, 0.06])

    Probabilities are their own projection, and a temperature of 1/4 leaves one winner:

    >>> sparsemax([0.75, 0.25, 0.0])
    array([0.75, 0.25, 0.  ])
    >>> sparsemax(x / 0.25)
    array([1., 0., 0., 0.])
    """
    dtype, [array] = as_floats({"x": x})
    [rows], back = as_rows_along(axis, array)
    return result(back(_probabilities(rows)), dtype)


def sparsemax_jacobian(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Jacobian of sparsemax, one matrix per row of scores.

    Parameters
    ----------
    x, axis : as in `sparsemax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., k, k)
        ``J[..., i, j]`` is :math:`\partial p_i / \partial x_j`; the other axes come first.

    Notes
    -----
    Let the support S stay as it is under a small change, which holds if no score equals the
    threshold. With :math:`s_i = 1` for i in S and 0 elsewhere, :math:`p_i = s_i (x_i - \tau)`, and
    the threshold changes as the mean of the scores in S does:

    .. math::

       \dd \tau = \frac1{|S|} \sum_{j \in S} \dd x_j , \qquad
       J_{ij} = s_i \Bigl( \delta_{ij} - \frac{s_j}{|S|} \Bigr) , \qquad
       \mat J = \operatorname{diag}(\vec s) - \frac{\vec s \vec s^\top}{|S|} .

    It is the matrix that subtracts the mean, restricted to the support: symmetric, a projection
    (:math:`\mat J^2 = \mat J`) of rank :math:`|S| - 1`. Softmax has :math:`\vec s` replaced by its
    probabilities.

    **Ties.** A score equal to the threshold has the probability 0 and counts as outside of S.

    Examples
    --------
    >>> from dlref.activations import sparsemax_jacobian
    >>> J = sparsemax_jacobian([1.0, 0.5, 0.0])
    >>> J
    array([[ 0.5, -0.5,  0. ],
           [-0.5,  0.5,  0. ],
           [ 0. ,  0. ,  0. ]])
    >>> (J @ J == J).all()
    np.True_
    """
    dtype, [array] = as_floats({"x": x})
    [rows], back = as_rows_along(axis, array)
    p = np.moveaxis(back(_probabilities(rows)), axis, -1)
    s = np.where(p > 0.0, 1.0, 0.0 * p)
    count = np.maximum(s.sum(-1)[..., None, None], 1.0)
    return result(
        s[..., :, None] * np.eye(s.shape[-1]) - s[..., :, None] * s[..., None, :] / count, dtype
    )


def sparsemax_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, axis: int = -1
) -> FloatArray:
    r"""
    Forward mode of sparsemax: its Jacobian times a vector.

    Parameters
    ----------
    primals : array_like, shape (..., k)
        Scores.
    tangents : array_like, shape of `primals`, or None
        Tangent v of the scores; None is zero.
    axis : as in `sparsemax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `primals`
        Tangent of the probabilities.

    Notes
    -----
    .. math:: (\mat J \vec v)_i = s_i (v_i - \bar v) , \qquad
       \bar v = \frac1{|S|} \sum_{j \in S} v_j

    with the support S and its indicator s of :func:`sparsemax_jacobian`. The probability of a score
    outside of the support does not move, however its score does.

    Examples
    --------
    >>> from dlref.activations import sparsemax_jvp
    >>> sparsemax_jvp([1.0, 0.5, 0.0], [4.0, 2.0, 9.0])
    array([ 1., -1.,  0.])
    """
    dtype, [array], [v] = as_tangents(primals, tangents, count=1)
    return _times(v, array, axis, dtype)


def sparsemax_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    Reverse mode of sparsemax: a row vector times its Jacobian.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient u of a loss with respect to the probabilities.
    x, axis : as in `sparsemax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to the scores.

    Notes
    -----
    The differential of the loss is :math:`\vec u^\top \mat J\, \dd \vec x`. The Jacobian of
    :func:`sparsemax_jacobian` is symmetric, so its transpose is the same map:

    .. math:: \pdv{L}{x_j} = s_j (u_j - \bar u) , \qquad \bar u = \frac1{|S|} \sum_{i \in S} u_i

    A score outside of the support gets no gradient at all, not even a small one. With softmax every
    score gets one. So a wrong score that lost its place in the support can only come back when the
    others fall.

    Examples
    --------
    >>> from dlref.activations import sparsemax_vjp
    >>> sparsemax_vjp([4.0, 2.0, 9.0], [1.0, 0.5, 0.0])
    array([ 1., -1.,  0.])
    """
    dtype, [u, array] = as_floats({"dout": dout, "x": x})
    check_shape("dout", u, array.shape)
    return _times(u, array, axis, dtype)
