r"""
Linear attention: a product of features in place of the exponential.

Then the sums over keys can be taken first, and a state of fixed size summarizes the past.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_flags,
    check_ndim,
    check_pattern,
    check_shape,
    choice,
    result,
)

BLOCK = 64  #: positions whose products are formed as a matrix, under a causal mask


FEATURES = ("elu", "exp", "identity")


def _features(x: FloatArray, name: str) -> tuple[FloatArray, FloatArray]:
    """Return the features of queries or keys, and their slopes."""
    if name == "identity":
        return x, np.ones_like(x)
    low = np.exp(np.minimum(x, 0.0) if name == "elu" else x)
    if name == "exp":
        return low, low
    return np.where(x > 0.0, x + 1.0, low), np.where(x > 0.0, 1.0, low)


def _check(
    names: tuple[str, ...], q: FloatArray, k: FloatArray, v: FloatArray, is_causal: bool
) -> None:
    check_flags(is_causal=is_causal)
    check_ndim(names[0], q, 2)
    rows: int | str = q.shape[-2] if is_causal else "S"
    check_pattern(names[1], k, (*q.shape[:-2], rows, q.shape[-1]))
    check_pattern(names[2], v, (*k.shape[:-1], "V"))


def _swap(x: FloatArray) -> FloatArray:
    return np.swapaxes(x, -1, -2)


def _mixed(a: FloatArray, b: FloatArray, c: FloatArray, causal: bool, late: bool) -> FloatArray:
    """
    Return sums over j of (a_i . b_j) c_j, without the matrix of all products.

    Under a causal mask over j <= i, or, if `late`, over j >= i.
    """
    if not causal:
        return np.asarray(a @ (_swap(b) @ c))
    out = np.zeros((*a.shape[:-1], c.shape[-1]))
    state = np.zeros((*a.shape[:-2], b.shape[-1], c.shape[-1]))
    starts = range(0, a.shape[-2] if out.size else 0, BLOCK)  # nothing, for an empty batch
    for start in reversed(starts) if late else starts:
        rows = slice(start, start + BLOCK)
        ai, bi, ci = a[..., rows, :], b[..., rows, :], c[..., rows, :]
        near = ai @ _swap(bi)
        out[..., rows, :] = ai @ state + (np.triu(near) if late else np.tril(near)) @ ci
        state = state + _swap(bi) @ ci
    return out


def _with_ones(v: FloatArray, normalize: bool) -> FloatArray:
    """Append a channel of ones, whose sum is the denominator."""
    return np.concatenate([v, np.ones((*v.shape[:-1], 1))], axis=-1) if normalize else v


def _divided(sums: FloatArray, normalize: bool) -> FloatArray:
    if not normalize:
        return sums
    total = sums[..., -1:]
    return np.where(total == 0.0, 0.0, sums[..., :-1] / np.where(total == 0.0, 1.0, total))


def linear_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    feature_map: str = "elu",
    is_causal: bool = False,
    normalize: bool = True,
) -> FloatArray:
    r"""
    Attention whose weights are products of features, in time proportional to the length.

    Parameters
    ----------
    q : array_like, shape (..., T, E)
        Queries.
    k : array_like, shape (..., S, E)
        Keys.
    v : array_like, shape (..., S, V)
        Values.
    feature_map : {"elu", "exp", "identity"}, default "elu"
        Map :math:`\phi` of each element: ELU + 1, the exponential, or none.
    is_causal : bool, default False
        Whether query i sees the keys :math:`j \le i` only; then S must be T.
    normalize : bool, default True
        Whether to divide by the sum of the weights. Otherwise they are plain products.

    Returns
    -------
    ndarray, shape (..., T, V)
        Averages of the values.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `is_causal` or
        `normalize` is not a bool.
    ValueError
        If the shapes do not fit, or an option is unknown.

    See Also
    --------
    recurrent_linear_attention : The same as a recurrence, with forgetting and correcting.
    scaled_dot_product_attention : The softmax.

    Notes
    -----
    Softmax weights are :math:`e^{\vec q \cdot \vec k}` over their sum. Replace the
    exponential of a product by a product of positive features; the query then leaves the sum:

    .. math::

        \vec o_i = \frac{\sum_j \bigl( \phi(\vec q_i) \cdot \phi(\vec k_j) \bigr)\, \vec v_j}
            {\sum_j \phi(\vec q_i) \cdot \phi(\vec k_j)}
        = \frac{\phi(\vec q_i)^\top \bigl( \sum_j \phi(\vec k_j)\, \vec v_j^\top \bigr)}
            {\phi(\vec q_i)^\top \sum_j \phi(\vec k_j)} .

    The feature map :math:`\phi` acts on each element:

    .. math::

        \phi(x) = \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases} \quad (\text{"elu"}),
            \qquad
        \phi(x) = e^x \quad (\text{"exp"}), \qquad \phi(x) = x \quad (\text{"identity"}).

    The last is not positive, so its weights may be negative.

    The matrix in brackets is E × V and is the same for all queries. So the cost is (T + S) E V
    in place of T S (E + V): the order of multiplication, :math:`(\mat Q \mat K^\top) \mat V` or
    :math:`\mat Q (\mat K^\top \mat V)`, decides. The softmax forbids the second order, because
    it stands between the two products.

    With ``is_causal`` the sums run over :math:`j \le i`: a state that grows by one outer product
    per position, which makes it a recurrent network. The code takes 64 positions at a time, as a
    small matrix within the block and through the state before it.

    **Numerics.** The numerator and the denominator are computed together, with a channel of ones
    appended to the values, in float64. "exp" overflows where an element of a query or of a key, or
    the sum of the two, is above 709, and then gives NaN, or infinity if it is not normalized. A row
    whose weights sum to 0 gives 0, and gradients of 0.

    References
    ----------
    - :cite:t:`Katharopoulos2020`

    Examples
    --------
    Equal keys share their weight equally:

    >>> import numpy as np
    >>> from dlref.attention import linear_attention
    >>> linear_attention([[1.0]], [[2.0], [2.0]], [[0.0], [6.0]])
    array([[3.]])

    Under a causal mask the first position sees itself alone:

    >>> linear_attention(np.zeros((3, 1)), np.zeros((3, 1)), [[0.0], [6.0], [9.0]], is_causal=True)
    array([[0.],
           [3.],
           [5.]])

    Packed documents: :func:`recurrent_linear_attention` has `segment_ids`. Given features, and ones
    behind the values, it returns the numerator and the denominator:

    >>> from dlref.attention import recurrent_linear_attention
    >>> features, values = np.ones((4, 1)), np.array([[0.0, 1], [6, 1], [9, 1], [5, 1]])
    >>> sums, _ = recurrent_linear_attention(features, features, values, segment_ids=[0, 0, 1, 1])
    >>> sums[:, :1] / sums[:, 1:]
    array([[0.],
           [3.],
           [9.],
           [7.]])

    The exponential of 710 overflows, whatever the key is:

    >>> for query, key in [(400, 300), (400, 310), (710, -5)]:
    ...     linear_attention([[query]], [[key]], [[1]], feature_map="exp").item()
    1.0
    nan
    nan
    """
    dtype, (q, k, v) = as_floats({"q": q, "k": k, "v": v})
    _check(("q", "k", "v"), q, k, v, is_causal)
    choice("feature_map", feature_map, FEATURES)
    check_flags(normalize=normalize)
    with np.errstate(all="ignore"):
        (a, _), (b, _) = _features(q, feature_map), _features(k, feature_map)
        sums = _mixed(a, b, _with_ones(v, normalize), is_causal, late=False)
        return result(_divided(sums, normalize), dtype)


def linear_attention_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    feature_map: str = "elu",
    is_causal: bool = False,
    normalize: bool = True,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of linear attention.

    Parameters
    ----------
    dout : array_like, shape (..., T, V)
        Cotangent :math:`\vec u_i` of each average.
    q, k, v, feature_map, is_causal, normalize : as in `linear_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients of `q`, `k` and `v`, of their shapes.

    Notes
    -----
    Let :math:`\vec a_i = \phi(\vec q_i)` and :math:`\vec b_j = \phi(\vec k_j)` be the features,
    :math:`\vec c_j = (\vec v_j, 1)` a value with a one appended, and :math:`(\vec n_i, z_i) =
    \sum_j (\vec a_i \cdot \vec b_j)\, \vec c_j` numerator and denominator.

    **The differential.** The output is the quotient :math:`\vec o_i = \vec n_i / z_i`, so

    .. math:: \dd \vec o_i = \frac{\dd \vec n_i - \vec o_i\, \dd z_i}{z_i} .

    **The inner product.** :math:`\dd L = \sum_i \vec u_i \cdot \dd \vec o_i = \sum_i \vec g_i \cdot
    (\dd \vec n_i, \dd z_i)`.

    **The transpose.** Numerator and denominator get the cotangent

    .. math::

        \vec g_i = \Bigl( \frac{\vec u_i}{z_i},\; -\frac{\vec u_i \cdot \vec o_i}{z_i} \Bigr),

    or :math:`\vec g_i = (\vec u_i, 0)` if ``normalize`` is False, for then :math:`\vec o_i =
    \vec n_i`. The trilinear sum passes it to each of its three factors, as sums of the same kind:

    .. math::

        \pdv{L}{\vec a_i} = \sum_j (\vec g_i \cdot \vec c_j)\, \vec b_j, \qquad
        \pdv{L}{\vec b_j} = \sum_i (\vec c_j \cdot \vec g_i)\, \vec a_i, \qquad
        \pdv{L}{\vec c_j} = \sum_i (\vec b_j \cdot \vec a_i)\, \vec g_i .

    The gradient of :math:`\vec v_j` is the gradient of :math:`\vec c_j` without its last element.
    The features pass the other two on to queries and keys:

    .. math::

        \pdv{L}{\vec q_i} = \phi'(\vec q_i) \odot \pdv{L}{\vec a_i}, \qquad
        \pdv{L}{\vec k_j} = \phi'(\vec k_j) \odot \pdv{L}{\vec b_j} .

    Under a causal mask the first runs over :math:`j \le i`, the others over :math:`i \ge j`:
    a state that is carried from the end to the beginning. At an element 0, where ELU has the slope
    1 from both sides, there is no kink.

    Examples
    --------
    Features of the identity, not normalized: three plain products.

    >>> from dlref.attention import linear_attention_vjp
    >>> options = {"feature_map": "identity", "normalize": False}
    >>> grads = linear_attention_vjp([[1.0]], [[2.0]], [[3.0]], [[5.0]], **options)
    >>> [float(grad[0, 0]) for grad in grads]
    [15.0, 10.0, 6.0]
    """
    dtype, (u, q, k, v) = as_floats({"dout": dout, "q": q, "k": k, "v": v})
    _check(("q", "k", "v"), q, k, v, is_causal)
    choice("feature_map", feature_map, FEATURES)
    check_flags(normalize=normalize)
    check_shape("dout", u, (*q.shape[:-1], v.shape[-1]))
    with np.errstate(all="ignore"):
        (a, da), (b, db) = _features(q, feature_map), _features(k, feature_map)
        c = _with_ones(v, normalize)
        g = u
        if normalize:
            sums = _mixed(a, b, c, is_causal, late=False)
            out, z = _divided(sums, normalize), sums[..., -1:]
            g = np.concatenate([u, -np.sum(u * out, axis=-1, keepdims=True)], axis=-1)
            g = np.where(z == 0.0, 0.0, g / np.where(z == 0.0, 1.0, z))
        dq = da * _mixed(g, c, b, is_causal, late=False)
        dk = db * _mixed(c, g, a, is_causal, late=True)
        dv = _mixed(b, a, g, is_causal, late=True)[..., : v.shape[-1]]
    return result(dq, dtype), result(dk, dtype), result(np.ascontiguousarray(dv), dtype)


def linear_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    feature_map: str = "elu",
    is_causal: bool = False,
    normalize: bool = True,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of linear attention.

    Parameters
    ----------
    primals : tuple (q, k, v) of array_like
        The operands, as in `linear_attention`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    feature_map, is_causal, normalize : as in `linear_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, V)
        Tangent of the averages.

    Notes
    -----
    The product rule on the trilinear sum of `linear_attention_vjp`, with its symbols, then the
    quotient rule:

    .. math::

        (\dot{\vec n}_i, \dot z_i) = \sum_j \bigl(
            (\dot{\vec a}_i \cdot \vec b_j + \vec a_i \cdot \dot{\vec b}_j)\, \vec c_j
            + (\vec a_i \cdot \vec b_j)\, (\dot{\vec v}_j, 0) \bigr), \qquad
        \dot{\vec o}_i = \frac{\dot{\vec n}_i - \dot z_i \vec o_i}{z_i} .

    If ``normalize`` is False, :math:`\dot{\vec o}_i = \dot{\vec n}_i`. The tangents of the features
    are

    .. math::

        \dot{\vec a}_i = \phi'(\vec q_i) \odot \dot{\vec q}_i, \qquad
        \dot{\vec b}_j = \phi'(\vec k_j) \odot \dot{\vec k}_j .

    Examples
    --------
    Two equal keys: a tangent of the second value enters the average with weight 1/2.

    >>> from dlref.attention import linear_attention_jvp
    >>> primals = [[1.0]], [[2.0], [2.0]], [[0.0], [6.0]]
    >>> linear_attention_jvp(primals, (None, None, [[0.0], [1.0]]))
    array([[0.5]])
    """
    dtype, (q, k, v), (dq, dk, dv) = as_tangents(primals, tangents, count=3)
    _check(("primals[0]", "primals[1]", "primals[2]"), q, k, v, is_causal)
    choice("feature_map", feature_map, FEATURES)
    check_flags(normalize=normalize)
    with np.errstate(all="ignore"):
        (a, da), (b, db) = _features(q, feature_map), _features(k, feature_map)
        c, dc = _with_ones(v, normalize), np.zeros_like(v)
        dc = dv if not normalize else np.concatenate([dv, np.zeros((*v.shape[:-1], 1))], -1)
        moved = _mixed(da * dq, b, c, is_causal, late=False)
        moved += _mixed(a, db * dk, c, is_causal, late=False)
        moved += _mixed(a, b, dc, is_causal, late=False)
        if normalize:
            sums = _mixed(a, b, c, is_causal, late=False)
            z, out = sums[..., -1:], _divided(sums, normalize)
            rate = moved[..., :-1] - moved[..., -1:] * out
            moved = np.where(z == 0.0, 0.0, rate / np.where(z == 0.0, 1.0, z))
        return result(moved, dtype)
