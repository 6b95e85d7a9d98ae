r"""
Linear attention: a product of features in place of the exponential.

Then the sums over keys can be taken first, and a state of fixed size stands for all of the past.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._validate import (
    FloatArray,
    as_floats,
    as_number,
    as_tangents,
    check_constant,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    choice,
    entries,
    result,
)

__all__ = [
    "linear_attention",
    "linear_attention_jvp",
    "linear_attention_vjp",
    "recurrent_linear_attention",
    "recurrent_linear_attention_jvp",
    "recurrent_linear_attention_vjp",
]

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
    choice("is_causal", is_causal, (True, False))
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
    starts = range(0, a.shape[-2], BLOCK)
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
        Whether to divide by the sum of the weights. Without it they are just products.

    Returns
    -------
    ndarray, shape (..., T, V)
        Averages of the values.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit, or an option is none of those listed.

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

    The matrix in brackets is E × V and is the same for all queries. So the cost is (T + S) E V
    in place of T S (E + V): the order of multiplication, :math:`(\mat Q \mat K^\top) \mat V` or
    :math:`\mat Q (\mat K^\top \mat V)`, decides. The softmax forbids the second order, because
    it stands between the two products.

    With ``is_causal`` the sums run over :math:`j \le i`: a state that grows by one outer product
    per position, which makes it a recurrent network. The code takes 64 positions at a time, as a
    small matrix within the block and through the state before it.

    The numerator and the denominator are computed together, with a channel of ones appended to the
    values, in float64. "exp" overflows at 709. A row whose weights sum to 0 gives 0.

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
    """
    dtype, (q, k, v) = as_floats({"q": q, "k": k, "v": v})
    _check(("q", "k", "v"), q, k, v, is_causal)
    choice("feature_map", feature_map, FEATURES)
    choice("normalize", normalize, (True, False))
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
    q : array_like, shape (..., T, E)
        Queries.
    k : array_like, shape (..., S, E)
        Keys.
    v : array_like, shape (..., S, V)
        Values.
    feature_map : {"elu", "exp", "identity"}, default "elu"
        Map of each element.
    is_causal : bool, default False
        Whether query i sees the keys up to i only.
    normalize : bool, default True
        Whether the weights were divided by their sum.

    Returns
    -------
    tuple of ndarray
        Gradients of `q`, `k` and `v`, of their shapes.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit, or an option is none of those listed.

    See Also
    --------
    linear_attention_jvp : Forward mode.

    Notes
    -----
    Let :math:`\vec c_j = (\vec v_j, 1)` and
    :math:`(\vec n_i, z_i) = \sum_j (\vec a_i \cdot \vec b_j)\, \vec c_j` with the features a of
    queries and b of keys. The quotient :math:`\vec o_i = \vec n_i / z_i` has the
    cotangent

    .. math::

        \vec g_i = \Bigl( \frac{\vec u_i}{z_i},\; -\frac{\vec u_i \cdot \vec o_i}{z_i} \Bigr),

    and the trilinear sum hands it on to each of its three factors, as sums of the same kind:

    .. math::

        \pdv{L}{\vec a_i} = \sum_j (\vec g_i \cdot \vec c_j)\, \vec b_j, \qquad
        \pdv{L}{\vec b_j} = \sum_i (\vec c_j \cdot \vec g_i)\, \vec a_i, \qquad
        \pdv{L}{\vec c_j} = \sum_i (\vec b_j \cdot \vec a_i)\, \vec g_i .

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
    choice("normalize", normalize, (True, False))
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
        Their rates of change, each of the shape of its operand; None is zero.
    feature_map : {"elu", "exp", "identity"}, default "elu"
        Map of each element.
    is_causal : bool, default False
        Whether query i sees the keys up to i only.
    normalize : bool, default True
        Whether the weights are divided by their sum.

    Returns
    -------
    ndarray, shape (..., T, V)
        Rate of change of the averages.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry not real.
    ValueError
        If the shapes do not fit, or an option is none of those listed.

    See Also
    --------
    linear_attention_vjp : Reverse mode, with the notation.

    Notes
    -----
    The product rule on the trilinear sum, then the quotient rule:

    .. math::

        (\dot{\vec n}_i, \dot z_i) = \sum_j
            (\dot{\vec a}_i \cdot \vec b_j + \vec a_i \cdot \dot{\vec b}_j)\, \vec c_j
            + (\vec a_i \cdot \vec b_j)\, (\dot{\vec v}_j, 0), \qquad
        \dot{\vec o}_i = \frac{\dot{\vec n}_i - \dot z_i \vec o_i}{z_i} .

    Examples
    --------
    Two equal keys, and the second value moves: so does the average, half as fast.

    >>> from dlref.attention import linear_attention_jvp
    >>> primals = [[1.0]], [[2.0], [2.0]], [[0.0], [6.0]]
    >>> linear_attention_jvp(primals, (None, None, [[0.0], [1.0]]))
    array([[0.5]])
    """
    dtype, (q, k, v), (dq, dk, dv) = as_tangents(primals, tangents, count=3)
    _check(("primals[0]", "primals[1]", "primals[2]"), q, k, v, is_causal)
    choice("feature_map", feature_map, FEATURES)
    choice("normalize", normalize, (True, False))
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


NAMES = ("q", "k", "v", "decay", "beta", "state")


def _operands(
    labels: dict[str, Any], extra: dict[str, Any]
) -> tuple[Any, dict[str, FloatArray], list[FloatArray]]:
    """Check the operands of the recurrence, by name; absent ones get no entry."""
    given = {label: value for label, value in labels.items() if value is not None}
    for label in list(labels)[:3]:
        check_given(label, labels[label])
    dtype, found = as_floats({**given, **extra})
    arrays = dict(zip(given, found, strict=False))
    names = dict(zip(NAMES, labels, strict=True))
    q, k, v = (arrays[names[n]] for n in NAMES[:3])
    check_ndim(names["q"], q, 2)
    check_shape(names["k"], k, q.shape)
    check_pattern(names["v"], v, (*q.shape[:-1], "V"))
    if names["decay"] in arrays:
        g = arrays[names["decay"]]
        width = 1 if g.shape[-1:] == (1,) else q.shape[-1]
        check_shape(names["decay"], g, (*q.shape[:-1], width))
    if names["beta"] in arrays:
        check_shape(names["beta"], arrays[names["beta"]], q.shape[:-1])
    if names["state"] in arrays:
        check_shape(
            names["state"], arrays[names["state"]], (*q.shape[:-2], q.shape[-1], v.shape[-1])
        )
    return dtype, {n: arrays[names[n]] for n in NAMES if names[n] in arrays}, found[len(given) :]


def _first_state(x: dict[str, FloatArray]) -> FloatArray:
    shape = (*x["q"].shape[:-2], x["q"].shape[-1], x["v"].shape[-1])
    return x["state"] if "state" in x else np.zeros(shape)


def _kept(x: dict[str, FloatArray]) -> FloatArray | None:
    return np.exp(x["decay"])[..., None] if "decay" in x else None


def _apply(state: FloatArray, vector: FloatArray) -> FloatArray:
    """Return state' vector."""
    return np.asarray(np.einsum("...ev,...e->...v", state, vector))


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[..., :, None] * b[..., None, :]


def recurrent_linear_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Linear attention as a memory that is written to, forgets, and is corrected.

    Parameters
    ----------
    q, k : array_like, shape (..., T, E)
        Queries and keys, after their feature map.
    v : array_like, shape (..., T, V)
        Values.
    decay : array_like or None, shape (..., T, E) or (..., T, 1)
        Logarithm :math:`\vec g_t` of what is kept of the memory, at most 0 as a rule; for each row
        of it or for all alike. None keeps everything.
    beta : array_like or None, shape (..., T)
        Share :math:`\beta_t` of the error that is corrected (the delta rule). None adds the value
        without asking what is there.
    state : array_like or None, shape (..., E, V)
        Memory :math:`\mat S_0` before the first token; None is zero.
    scale : float, default 1.0
        Factor of the output.

    Returns
    -------
    out : ndarray, shape (..., T, V)
        What each query reads.
    state : ndarray, shape (..., E, V)
        Memory after the last token.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `scale` no number.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    linear_attention : The same sums, all positions at once.

    Notes
    -----
    The memory is a matrix that maps keys to values.

    .. math::

        \mat S'_t &= \operatorname{diag}(e^{\vec g_t})\, \mat S_{t-1}
            && \text{(forget)} \\
        \vec w_t &= \vec v_t \quad \text{or} \quad
            \beta_t \bigl( \vec v_t - \mat S_t'^\top \vec k_t \bigr)
            && \text{(what to write)} \\
        \mat S_t &= \mat S'_t + \vec k_t \vec w_t^\top, \qquad
        \vec o_t = c\, \mat S_t^\top \vec q_t
            && \text{(write, read)} .

    **Parallel and recurrent form are equal.** Without decay and beta,
    :math:`\mat S_t = \sum_{j \le t} \vec k_j \vec v_j^\top`, so
    :math:`\vec o_t = c \sum_{j \le t} (\vec k_j \cdot \vec q_t)\, \vec v_j`:
    causal linear attention, not normalized. A channel of ones in the values gives
    the denominator.

    **The delta rule.** :math:`\mat S'^\top \vec k` is what the memory answers to the key now. If
    the key has length 1 and :math:`\beta = 1`, it answers :math:`\vec v_t` after the step: a step
    of gradient descent on :math:`\tfrac12 \norm{\mat S^\top \vec k_t - \vec v_t}^2` with rate
    :math:`\beta`. Adding alone would answer with the sum of all values ever written.

    Cost: T E V multiplications, one state at a time. In float64.

    References
    ----------
    - :cite:t:`Katharopoulos2020`
    - :cite:t:`Yang2024`

    Examples
    --------
    Written twice under the same key: adding answers with the sum, correcting with the last.

    >>> import numpy as np
    >>> from dlref.attention import recurrent_linear_attention
    >>> key, values = np.ones((2, 1)), np.array([[5.0], [7.0]])
    >>> out, state = recurrent_linear_attention(key, key, values)
    >>> out.ravel()
    array([ 5., 12.])
    >>> out, state = recurrent_linear_attention(key, key, values, beta=np.ones(2))
    >>> out.ravel()
    array([5., 7.])
    """
    arguments = dict(zip(NAMES, (q, k, v, decay, beta, state), strict=True))
    dtype, x, _ = _operands(arguments, {})
    factor = as_number("scale", scale)
    with np.errstate(all="ignore"):
        out, states, _ = _run(x, factor)
    return result(out, dtype), result(np.array(states[-1]), dtype)


def _run(
    x: dict[str, FloatArray], factor: float
) -> tuple[FloatArray, list[FloatArray], list[FloatArray]]:
    """Return the output, all states from the first to the last, and what was written."""
    q, k, v, kept = x["q"], x["k"], x["v"], _kept(x)
    states, written, out = [_first_state(x)], [], np.empty(v.shape)
    for t in range(q.shape[-2]):
        faded = states[-1] if kept is None else kept[..., t, :, :] * states[-1]
        w = v[..., t, :]
        if "beta" in x:
            w = x["beta"][..., t, None] * (w - _apply(faded, k[..., t, :]))
        states.append(faded + _outer(k[..., t, :], w))
        written.append(w)
        out[..., t, :] = factor * _apply(states[-1], q[..., t, :])
    return out, states, written


def recurrent_linear_attention_vjp(
    dout: Any,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of recurrent linear attention.

    Parameters
    ----------
    dout : tuple (dout, dstate) of array_like
        Cotangents of the output (..., T, V) and of the last state (..., E, V).
    q, k : array_like, shape (..., T, E)
        Queries and keys.
    v : array_like, shape (..., T, V)
        Values.
    decay : array_like or None, shape (..., T, E) or (..., T, 1)
        Logarithm of what is kept.
    beta : array_like or None, shape (..., T)
        Share of the error that is corrected.
    state : array_like or None, shape (..., E, V)
        Memory before the first token.
    scale : float, default 1.0
        Factor of the output.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k`, `v`, then of `decay`, `beta` and `state` where
        given, each of the shape of its operand.

    Raises
    ------
    TypeError
        If `dout` is no tuple, an array not real, or `scale` no number.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    recurrent_linear_attention_jvp : Forward mode.

    Notes
    -----
    Backpropagation through time. Let :math:`\mat D` be the gradient of :math:`\mat S_t`, from what
    comes later; it starts as the cotangent of the last state. At each step, backwards:

    .. math::

        \mat D &\leftarrow \mat D + c\, \vec q_t \vec u_t^\top, \qquad
        \pdv{L}{\vec q_t} = c\, \mat S_t \vec u_t \\
        \vec d_t &= \mat D^\top \vec k_t, \qquad
        \pdv{L}{\vec k_t} = \mat D \vec w_t, \qquad
        \pdv{L}{\vec v_t} = \beta_t \vec d_t \\
        \pdv{L}{\beta_t} &= \vec d_t \cdot (\vec v_t - \mat S_t'^\top \vec k_t), \qquad
        \pdv{L}{\vec k_t} \mathrel{-}= \beta_t \mat S'_t \vec d_t, \qquad
        \mat D \leftarrow \mat D - \beta_t \vec k_t \vec d_t^\top \\
        \pdv{L}{g_{te}} &= e^{g_{te}} \sum_v D_{ev} S_{t-1,ev}, \qquad
        \mat D \leftarrow \operatorname{diag}(e^{\vec g_t})\, \mat D ,

    without the third line and with :math:`\beta_t = 1` if there is no beta. All T states are kept
    from the way forward.

    Examples
    --------
    What was written reaches the last state, faded by what came after:

    >>> import numpy as np
    >>> from dlref.attention import recurrent_linear_attention_vjp
    >>> ones, half = np.ones((3, 1)), np.full((3, 1), np.log(0.5))
    >>> grads = recurrent_linear_attention_vjp((0 * ones, [[1.0]]), ones, ones, ones, half)
    >>> grads[2].ravel()
    array([0.25, 0.5 , 1.  ])
    """
    arguments = dict(zip(NAMES, (q, k, v, decay, beta, state), strict=True))
    cotangents = entries("dout", dout, 2)
    dtype, x, [u, D] = _operands(arguments, cotangents)
    factor = as_number("scale", scale)
    check_shape("dout[0]", u, x["v"].shape)
    check_shape("dout[1]", D, (*x["q"].shape[:-2], x["q"].shape[-1], x["v"].shape[-1]))
    grads = {name: np.zeros(array.shape) for name, array in x.items()}
    q, k, v, kept = x["q"], x["k"], x["v"], _kept(x)
    with np.errstate(all="ignore"):
        _, states, written = _run(x, factor)
        for t in range(q.shape[-2] - 1, -1, -1):
            qt, kt, ut = q[..., t, :], k[..., t, :], u[..., t, :]
            D = D + factor * _outer(qt, ut)
            grads["q"][..., t, :] = factor * np.einsum("...ev,...v->...e", states[t + 1], ut)
            grads["k"][..., t, :] = np.einsum("...ev,...v->...e", D, written[t])
            d = _apply(D, kt)
            faded = states[t] if kept is None else kept[..., t, :, :] * states[t]
            if "beta" in x:
                beta_t = x["beta"][..., t, None]
                grads["beta"][..., t] = np.sum(d * (v[..., t, :] - _apply(faded, kt)), axis=-1)
                d = beta_t * d
                grads["k"][..., t, :] -= np.einsum("...ev,...v->...e", faded, d)
                D = D - _outer(kt, d)
            grads["v"][..., t, :] = d
            if kept is not None:
                slope = np.sum(D * faded, axis=-1)
                whole = x["decay"].shape[-1:] == (1,)
                grads["decay"][..., t, :] = slope.sum(-1, keepdims=True) if whole else slope
                D = kept[..., t, :, :] * D
        if "state" in grads:
            grads["state"] = np.array(D)
    return tuple(result(grad, dtype) for grad in grads.values())


def recurrent_linear_attention_jvp(
    primals: Any, tangents: Any, *, scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of recurrent linear attention.

    Parameters
    ----------
    primals : tuple (q, k, v, decay, beta, state) of array_like
        The operands, as in `recurrent_linear_attention`; the last three may be None.
    tangents : tuple of array_like or None
        Their rates of change, each of the shape of its operand; None is zero.
    scale : float, default 1.0
        Factor of the output.

    Returns
    -------
    dout : ndarray, shape (..., T, V)
        Rate of change of the output.
    dstate : ndarray, shape (..., E, V)
        Rate of change of the last state.

    Raises
    ------
    TypeError
        If an argument is no tuple, an array not real, or `scale` no number.
    ValueError
        If the shapes do not fit, or a missing operand has a tangent.

    See Also
    --------
    recurrent_linear_attention_vjp : Reverse mode.

    Notes
    -----
    The product rule on each line of the recurrence; the tangent of the state is carried along:

    .. math::

        \dot{\mat S}'_t &= \operatorname{diag}(e^{\vec g_t})
            (\dot{\mat S}_{t-1} + \operatorname{diag}(\dot{\vec g}_t)\, \mat S_{t-1}), \\
        \dot{\vec w}_t &= \dot\beta_t (\vec v_t - \mat S_t'^\top \vec k_t) + \beta_t
            (\dot{\vec v}_t - \dot{\mat S}_t'^\top \vec k_t - \mat S_t'^\top \dot{\vec k}_t), \\
        \dot{\mat S}_t &= \dot{\mat S}'_t + \dot{\vec k}_t \vec w_t^\top
            + \vec k_t \dot{\vec w}_t^\top, \qquad
        \dot{\vec o}_t = c\, (\dot{\mat S}_t^\top \vec q_t + \mat S_t^\top \dot{\vec q}_t) .

    Examples
    --------
    >>> from dlref.attention import recurrent_linear_attention_jvp
    >>> primals = [[2.0]], [[3.0]], [[5.0]], None, None, None
    >>> out, state = recurrent_linear_attention_jvp(primals, ([[1.0]],) + 5 * (None,))
    >>> out, state
    (array([[15.]]), array([[0.]]))
    """
    points = entries("primals", primals, 6)
    moves = entries("tangents", tangents, 6)
    for (_, point), (name, move) in zip(points.items(), moves.items(), strict=True):
        if point is None:
            check_constant(name, move)
    given = {name: move for name, move in moves.items() if move is not None}
    dtype, x, found = _operands(points, given)
    labels = dict(zip(moves, NAMES, strict=True))
    dx = {labels[name]: move for name, move in zip(given, found, strict=True)}
    for name, label in labels.items():
        if label in dx:
            check_shape(name, dx[label], x[label].shape)
    factor = as_number("scale", scale)
    with np.errstate(all="ignore"):
        return _push(x, {n: dx.get(n, np.zeros(a.shape)) for n, a in x.items()}, factor, dtype)


def _push(
    x: dict[str, FloatArray], dx: dict[str, FloatArray], factor: float, dtype: Any
) -> tuple[FloatArray, FloatArray]:
    """Carry the tangent of the state through time."""
    k, v, kept = x["k"], x["v"], _kept(x)
    _, states, written = _run(x, factor)
    moved = dx.get("state", np.zeros(states[0].shape))
    out = np.empty(v.shape)
    for t, w in enumerate(written):
        kt, dkt, faded = k[..., t, :], dx["k"][..., t, :], states[t]
        if kept is not None:
            moved = kept[..., t, :, :] * (moved + dx["decay"][..., t, :, None] * states[t])
            faded = kept[..., t, :, :] * states[t]
        dw = dx["v"][..., t, :]
        if "beta" in x:
            error = v[..., t, :] - _apply(faded, kt)
            dw = dx["beta"][..., t, None] * error + x["beta"][..., t, None] * (
                dw - _apply(moved, kt) - _apply(faded, dkt)
            )
        moved = moved + _outer(dkt, w) + _outer(kt, dw)
        read = _apply(moved, x["q"][..., t, :]) + _apply(states[t + 1], dx["q"][..., t, :])
        out[..., t, :] = factor * read
    return result(out, dtype), result(np.array(moved), dtype)
