"""
Formulas of attention.

Shapes are (..., H, T, E) for queries, (..., Hk, S, E) for keys and (..., Hk, S, V) for values: H
heads of T queries i, and Hk heads of S keys j, each shared by as many consecutive heads of queries.
A single head has no axis of heads. Scores are s, weights p, averages o, and the log-sum-exp of a
row of scores is lse. The gradient of a score is d. A mask is True where a query may attend.
"""

from typing import NamedTuple

import numpy as np

from .activations import sigmoid, sigmoid_vjp, softmax
from .calculus import clip, clip_vjp, sum_to_shape
from .neurons import as_rows, linear, linear_vjp
from .normalization import layer_norm, layer_norm_vjp, rms_norm, rms_norm_vjp
from .positions import apply_rope, apply_rope_vjp, offset_of_heads, offsets

# == shared


def outer_sum(u, x):
    """Sum of the outer products of all rows: the gradient of a matrix of weights."""
    return u.reshape(-1, u.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def dense_vjp(dout, x, weight, bias=None):
    """Backward pass of a dense layer, with None for a bias that is not there."""
    grads = linear_vjp(dout, x, weight, bias)
    return grads if bias is not None else (*grads, None)


def split_heads(x, heads):
    """Cut the channels of each token into heads: (..., T, H E) to (..., H, T, E)."""
    *lead, T, width = x.shape
    return np.swapaxes(x.reshape(*lead, T, heads, width // heads), -2, -3)


def merge_heads(x):
    """Put the heads of each token side by side: (..., H, T, E) to (..., T, H E)."""
    *lead, H, T, E = x.shape
    return np.swapaxes(x, -2, -3).reshape(*lead, T, H * E)


# == params


class AttentionParams(NamedTuple):
    """Weights and biases of multi-head attention; None leaves out."""

    w_q: np.ndarray
    w_k: np.ndarray
    w_v: np.ndarray
    w_o: np.ndarray
    b_q: np.ndarray = None
    b_k: np.ndarray = None
    b_v: np.ndarray = None
    b_o: np.ndarray = None
    q_norm: np.ndarray = None
    k_norm: np.ndarray = None
    w_gate: np.ndarray = None
    b_gate: np.ndarray = None
    sink: np.ndarray = None


# == masks


def key_offsets(T, S=None, q_offset=0):
    """Position of each key minus position of each query; a matrix for each of several offsets."""
    queries = np.arange(T)[:, None] + np.asarray(q_offset)[..., None, None]
    return np.arange(T if S is None else S) - queries


def causal_mask(T, S=None, *, q_offset=0):
    """
    A query sees itself and all earlier keys.

    >>> print(causal_mask(3).astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 1]]
    """
    return key_offsets(T, S, q_offset) <= 0


def window_mask(T, S, *, left, right, q_offset=0):
    """
    A query sees so many keys back and so many ahead; None and -1 are no limit.

    >>> print(window_mask(4, 4, left=1, right=0).astype(int))
    [[1 0 0 0]
     [1 1 0 0]
     [0 1 1 0]
     [0 0 1 1]]
    """
    r = key_offsets(T, S, q_offset)
    seen = np.full(r.shape, True)
    if left not in (None, -1):
        seen = seen & (r >= -left)
    if right not in (None, -1):
        seen = seen & (r <= right)
    return seen


def padding_mask(lengths, S):
    """
    The keys that are no padding, with axes for heads and queries.

    >>> mask = padding_mask([1, 3], 4)
    >>> print(mask[:, 0, 0].astype(int))
    [[1 0 0 0]
     [1 1 1 0]]
    """
    return np.arange(S) < np.asarray(lengths)[..., None, None, None]


def document_mask(ids, key_ids=None):
    """
    A query sees the keys of its own document.

    >>> print(document_mask([0, 0, 1, 1, 1]).astype(int))
    [[1 1 0 0 0]
     [1 1 0 0 0]
     [0 0 1 1 1]
     [0 0 1 1 1]
     [0 0 1 1 1]]
    """
    ids = np.asarray(ids)
    key_ids = ids if key_ids is None else np.asarray(key_ids)
    return ids[..., :, None] == key_ids[..., None, :]


def prefix_mask(T, prefix):
    """
    Causal, but everyone sees the prefix.

    >>> print(prefix_mask(4, 2).astype(int))
    [[1 1 0 0]
     [1 1 0 0]
     [1 1 1 0]
     [1 1 1 1]]
    """
    return causal_mask(T) | (np.arange(T) < prefix)


def chunk_mask(T, S=None, *, size, q_offset=0):
    """
    Causal within chunks of equal size.

    >>> print(chunk_mask(5, size=3).astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [1 1 1 0 0]
     [0 0 0 1 0]
     [0 0 0 1 1]]
    """
    r = key_offsets(T, S, q_offset)
    keys = np.arange(r.shape[-1])
    queries = keys - r
    return (r <= 0) & (keys // size == queries // size)


def tree_mask(parents):
    """
    A token sees itself and its ancestors.

    >>> print(tree_mask([-1, 0, 0, 1]).astype(int))
    [[1 0 0 0]
     [1 1 0 0]
     [1 0 1 0]
     [1 1 0 1]]
    """
    T = len(parents)
    mask = np.full((T, T), False)
    for i in range(T):
        j = i
        while j >= 0:
            mask[i, j] = True
            j = parents[j]
    return mask


def block_mask(blocks, *, size):
    """
    Each element of a mask of blocks, repeated in both directions.

    >>> blocks = np.array([[True, False], [True, True]])
    >>> print(block_mask(blocks, size=2).astype(int))
    [[1 1 0 0]
     [1 1 0 0]
     [1 1 1 1]
     [1 1 1 1]]
    """
    rows = np.repeat(blocks, size, axis=-2)
    return np.repeat(rows, size, axis=-1)


def allowed_pairs(T, S, *, mask=None, is_causal=False, q_offset=0, window=None, indices=None):
    """True where query i may attend to key j, by all options together."""
    seen = np.full((T, S), True)
    if is_causal:
        seen = seen & causal_mask(T, S, q_offset=q_offset)
    if window is not None:
        left, right = window
        seen = seen & window_mask(T, S, left=left, right=right, q_offset=q_offset)
    if mask is not None:
        seen = seen & mask
    if indices is not None:
        selected = np.any(indices[..., None] == np.arange(S), axis=-2)
        seen = seen & selected
    return seen


# == repeat_kv


def repeat_kv(x, n):
    """
    Copy each head of keys n times, copies side by side.

    >>> x = np.array([[[1.0]], [[2.0]]])
    >>> print(repeat_kv(x, 2).ravel())
    [1. 1. 2. 2.]
    """
    return np.repeat(x, n, axis=-3)


def repeat_kv_vjp(dout, x, n):
    """
    Backward pass: the cotangents of all copies of a head add up.

    >>> x = np.array([[[1.0]], [[2.0]]])
    >>> dout = np.array([[[1.0]], [[2.0]], [[3.0]], [[4.0]]])
    >>> print(repeat_kv_vjp(dout, x, 2).ravel())
    [3. 7.]
    """
    *lead, heads, rows, width = x.shape
    return np.sum(dout.reshape(*lead, heads, n, rows, width), axis=-3)


def queries_of_each_key(q, k):
    """How many heads of queries share a head of keys."""
    return q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1


def for_all_queries(k, q):
    """Keys or values with one head for each head of queries."""
    return repeat_kv(k, queries_of_each_key(q, k)) if q.ndim > 2 else k


def for_all_queries_vjp(dout, k, q):
    """Backward pass."""
    return repeat_kv_vjp(dout, k, queries_of_each_key(q, k)) if q.ndim > 2 else dout


# == attention_scores


def dot_product_scores(q, k):
    """
    Dot products of all queries and keys, divided by the root of their width.

    >>> q = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    >>> k = np.array([[1.0, 1.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    >>> print(dot_product_scores(q, k))
    [[1. 3.]
     [1. 0.]]
    """
    return q @ k.mT * q.shape[-1] ** -0.5


def dot_product_scores_vjp(dout, q, k):
    """
    Backward pass: the product rule, for all pairs.

    >>> q = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    >>> k = np.array([[1.0, 1.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    >>> dq, dk = dot_product_scores_vjp(np.array([[0.0, 1.0], [0.0, 0.0]]), q, k)
    >>> print(dq[0], dk[1])
    [1.5 0.  0.  0. ] [1. 0. 0. 0.]
    """
    scale = q.shape[-1] ** -0.5
    return scale * dout @ k, scale * dout.mT @ q


def scaled_products(q, k, scale=None):
    """Dot products with any scale, and of heads that share their keys."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return scale * (q @ for_all_queries(k, q).mT)


def attention_scores(
    q, k, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None,
    softcap=None,
):  # fmt: skip
    """
    Scaled products, capped, then biased, then masked.

    >>> q, k = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 0.0]])
    >>> print(attention_scores(q, k, scale=0.5, is_causal=True))
    [[  1. -inf]
     [  1.   0.]]
    """
    s = scaled_products(q, k, scale)
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    seen = allowed_pairs(
        *s.shape[-2:], mask=mask, is_causal=is_causal, q_offset=q_offset, window=window
    )
    return np.where(seen, s, -np.inf)


def score_gradients(d, q, k, *, bias=None, scale=None, softcap=None):
    """From the gradients d of the scores to queries, keys and bias."""
    r = d
    if softcap is not None:
        t = np.tanh(scaled_products(q, k, scale) / softcap)
        r = (1 - t * t) * d
    r = r * (q.shape[-1] ** -0.5 if scale is None else scale)
    dq = r @ for_all_queries(k, q)
    dk = for_all_queries_vjp(r.mT @ q, k, q)
    return (dq, dk) if bias is None else (dq, dk, sum_to_shape(d, bias.shape))


def attention_scores_vjp(
    dout, q, k, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None,
    softcap=None,
):  # fmt: skip
    """
    Backward pass: hidden pairs have no gradient.

    >>> q, k = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 0.0]])
    >>> dq, dk = attention_scores_vjp(np.ones((2, 2)), q, k, scale=0.5, is_causal=True)
    >>> print(dq)
    [[0.5 0.5]
     [2.  0.5]]
    >>> print(dk)
    [[1. 1.]
     [0. 1.]]
    """
    s = attention_scores(
        q, k, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap,
    )  # fmt: skip
    d = np.where(s == -np.inf, 0, dout)
    return score_gradients(d, q, k, bias=bias, scale=scale, softcap=softcap)


# == attention_weights


def dot_product_weights(q, k):
    """
    Softmax of each row of scores.

    >>> q, k = np.array([[1.0]]), np.log([[1.0], [2.0], [5.0]])
    >>> print(dot_product_weights(q, k))
    [[0.125 0.25  0.625]]
    """
    return softmax(dot_product_scores(q, k))


def dot_product_weights_vjp(dout, q, k):
    """
    Backward pass: of the softmax, then of the scores.

    >>> q, k = np.array([[1.0]]), np.log([[1.0], [2.0], [5.0]])
    >>> dq, dk = dot_product_weights_vjp(np.array([[1.0, 0.0, 0.0]]), q, k)
    >>> print(np.round(dq, 4), dk.ravel())
    [[-0.1474]] [ 0.109375 -0.03125  -0.078125]
    """
    p = dot_product_weights(q, k)
    d = p * (dout - np.sum(p * dout, axis=-1, keepdims=True))
    return dot_product_scores_vjp(d, q, k)


def weights_of_seen(s):
    """Softmax of each row of scores; a row that sees no key has weights 0."""
    m = np.max(s.real, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(m == -np.inf, 0, m))
    z = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(z == 0, 1, z)


def sinks_of_rows(sink, s):
    """The sink of each head, with axes for queries and keys."""
    return sink[:, None, None] if s.ndim > 2 else sink[:, None]


def weights_and_lse(s, sink=None):
    """The same with its log-sum-exp, and with a sink."""
    m = np.max(s.real, axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        sigma = sinks_of_rows(sink, s)
        m = np.maximum(m, sigma.real)
    m = np.where(m == -np.inf, 0, m)  # of a row without keys
    e = np.exp(s - m)
    z = np.sum(e, axis=-1, keepdims=True)
    if sink is not None:
        z = z + np.exp(sigma - m)
    empty = z == 0
    z = np.where(empty, 1, z)
    lse = np.where(empty, -np.inf, m + np.log(z))
    return e / z, lse[..., 0]


def sink_gradient(dlse, lse, sink):
    """Gradient of the sinks, given the cotangents of the log-sum-exp of each row."""
    rows = sink[:, None] if lse.ndim > 1 else sink
    share = np.where(lse == -np.inf, 0, np.exp(rows - lse))
    terms = (share * dlse).reshape(-1, len(sink), lse.shape[-1])
    return np.sum(terms, axis=(0, 2))


def attention_weights(
    q, k, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None,
    softcap=None, sink=None,
):  # fmt: skip
    """
    Softmax of each row of scores, with all options.

    >>> q, k, sink = np.array([[1.0]]), np.log([[1.0], [2.0]]), np.log([5.0])
    >>> print(attention_weights(q, k, sink=sink))
    [[0.125 0.25 ]]
    """
    s = attention_scores(
        q, k, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap,
    )  # fmt: skip
    p, _ = weights_and_lse(s, sink)
    return p


def attention_weights_vjp(
    dout, q, k, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None,
    softcap=None, sink=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> q, k, sink = np.array([[1.0]]), np.log([[1.0], [2.0]]), np.log([5.0])
    >>> dq, dk, dsink = attention_weights_vjp(np.ones((1, 2)), q, k, sink=sink)
    >>> print(dk.ravel(), dsink)
    [0.078125 0.15625 ] [-0.234375]
    """
    s = attention_scores(
        q, k, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap,
    )  # fmt: skip
    p, lse = weights_and_lse(s, sink)
    mean = np.sum(p * dout, axis=-1)
    d = p * (dout - mean[..., None])
    grads = score_gradients(d, q, k, bias=bias, scale=scale, softcap=softcap)
    return grads if sink is None else (*grads, sink_gradient(-mean, lse, sink))


# == scaled_dot_product


def attention(q, k, v):
    """
    Attention in three lines.

    >>> q, k = np.zeros((1, 4)), np.zeros((3, 4))
    >>> q[0, 0], k[:, 0] = 2, np.log([1, 2, 5])
    >>> v = np.array([[8.0], [16.0], [0.0]])
    >>> print(attention(q, k, v))
    [[5.]]
    """
    s = q @ k.mT * q.shape[-1] ** -0.5
    p = softmax(s)
    return p @ v


def attention_vjp(dout, q, k, v):
    """
    Backward pass of the three lines.

    >>> q, k = np.zeros((1, 4)), np.zeros((3, 4))
    >>> q[0, 0], k[:, 0] = 2, np.log([1, 2, 5])
    >>> v = np.array([[8.0], [16.0], [0.0]])
    >>> dq, dk, dv = attention_vjp(np.ones((1, 1)), q, k, v)
    >>> print(np.round(dq[0], 4))
    [-1.5617  0.      0.      0.    ]
    >>> print(dk[:, 0])
    [ 0.375  2.75  -3.125]
    >>> print(dv[:, 0])
    [0.125 0.25  0.625]
    """
    scale = q.shape[-1] ** -0.5
    p = softmax(scale * q @ k.mT)
    w = dout @ v.mT
    d = p * (w - np.sum(p * w, axis=-1, keepdims=True))
    return scale * d @ k, scale * d.mT @ q, p.mT @ dout


def masked_attention(q, k, v, mask):
    """
    With a mask: a hidden key has the weight 0, and a row without keys gives 0.

    >>> q, k, v = np.ones((2, 2)), np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> mask = np.array([[False, False], [True, False]])
    >>> print(masked_attention(q, k, v, mask))
    [[0. 0.]
     [1. 2.]]
    """
    s = np.where(mask, q @ k.mT * q.shape[-1] ** -0.5, -np.inf)
    return weights_of_seen(s) @ v


def flash_attention(q, k, v, tile=2):
    """
    One pass over tiles of keys, which also gives the log-sum-exp.

    >>> q, k = np.zeros((1, 4)), np.zeros((3, 4))
    >>> q[0, 0], k[:, 0] = 2, np.log([1, 2, 5])
    >>> v = np.array([[8.0], [16.0], [0.0]])
    >>> o, lse = flash_attention(q, k, v)
    >>> print(o, np.exp(lse))
    [[5.]] [[8.]]
    """
    m = np.full((len(q), 1), -np.inf, q.dtype)  # the largest score so far
    z = np.zeros((len(q), 1), q.dtype)
    a = np.zeros((len(q), v.shape[-1]), v.dtype)
    for j in range(0, len(k), tile):
        s = q @ k[j : j + tile].T * q.shape[-1] ** -0.5
        m_new = np.maximum(m, np.max(s, axis=-1, keepdims=True))
        fade = np.exp(m - m_new)
        e = np.exp(s - m_new)
        z = fade * z + np.sum(e, axis=-1, keepdims=True)
        a = fade * a + e @ v[j : j + tile]
        m = m_new
    return a / z, m + np.log(z)


def flash_attention_vjp(dout, q, k, v, tile=2):
    """
    Backward pass in tiles: the weights are computed again from the log-sum-exp.

    >>> q, k = np.zeros((1, 4)), np.zeros((3, 4))
    >>> q[0, 0], k[:, 0] = 2, np.log([1, 2, 5])
    >>> v = np.array([[8.0], [16.0], [0.0]])
    >>> dq, dk, dv = flash_attention_vjp(np.ones((1, 1)), q, k, v)
    >>> print(np.round(dq[0], 4))
    [-1.5617  0.      0.      0.    ]
    >>> print(dk[:, 0])
    [ 0.375  2.75  -3.125]
    >>> print(dv[:, 0])
    [0.125 0.25  0.625]
    """
    o, lse = flash_attention(q, k, v, tile)
    D = np.sum(dout * o, axis=-1, keepdims=True)
    scale = q.shape[-1] ** -0.5
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for j in range(0, len(k), tile):
        keys = slice(j, j + tile)
        p = np.exp(scale * q @ k[keys].T - lse)
        w = dout @ v[keys].T
        d = p * (w - D)
        dq = dq + scale * d @ k[keys]
        dk[keys] = scale * d.T @ q
        dv[keys] = p.T @ dout
    return dq, dk, dv


def masked_scores(q, k, mask, bias, is_causal, q_offset, window, scale, softcap, indices):
    """Scores, with the selected keys as part of the mask."""
    seen = allowed_pairs(q.shape[-2], k.shape[-2], mask=mask, indices=indices)
    return attention_scores(
        q, k, mask=seen, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap,
    )  # fmt: skip


def scaled_dot_product_attention(
    q, k, v, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None,
    softcap=None, sink=None, dropout=None, indices=None, return_lse=False, return_weights=False,
):  # fmt: skip
    """
    Averages of the values, with all options.

    >>> q, k, v = np.zeros((2, 2)), np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(scaled_dot_product_attention(q, k, v, is_causal=True))
    [[1. 2.]
     [2. 3.]]
    """
    s = masked_scores(q, k, mask, bias, is_causal, q_offset, window, scale, softcap, indices)
    p, lse = weights_and_lse(s, sink)
    kept = p if dropout is None else dropout * p
    out = kept @ for_all_queries(v, q)
    results = (out, *[lse] * return_lse, *[p] * return_weights)
    return results if len(results) > 1 else out


def scaled_dot_product_attention_vjp(
    dout, q, k, v, *, dlse=None, mask=None, bias=None, is_causal=False, q_offset=0, window=None,
    scale=None, softcap=None, sink=None, dropout=None, indices=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> q, k, v = np.zeros((2, 2)), np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> options = {"is_causal": True, "scale": 1.0}
    >>> dq, dk, dv = scaled_dot_product_attention_vjp(np.ones((2, 2)), q, k, v, **options)
    >>> print(dq)
    [[ 0.  0.]
     [-1.  1.]]
    >>> print(dv)
    [[1.5 1.5]
     [0.5 0.5]]
    """
    s = masked_scores(q, k, mask, bias, is_causal, q_offset, window, scale, softcap, indices)
    p, lse = weights_and_lse(s, sink)
    kept = p if dropout is None else dropout * p
    dv = for_all_queries_vjp(kept.mT @ dout, v, q)
    w = dout @ for_all_queries(v, q).mT
    w = w if dropout is None else dropout * w
    D = np.sum(p * w, axis=-1, keepdims=True)  # equal to the dot product of dout and the output
    of_row = -D if dlse is None else dlse[..., None] - D
    d = p * (w + of_row)
    dq, dk, *dbias = score_gradients(d, q, k, bias=bias, scale=scale, softcap=softcap)
    grads = dq, dk, dv, *dbias
    return grads if sink is None else (*grads, sink_gradient(of_row[..., 0], lse, sink))


# == additive


def additive_weights(q, k, w, u, vec, mask=None):
    """Hidden values of all pairs of tokens, and the weights."""
    hidden = np.tanh(linear(q, w)[..., :, None, :] + linear(k, u)[..., None, :, :])
    s = hidden @ vec
    s = s if mask is None else np.where(mask, s, -np.inf)
    return hidden, weights_of_seen(s)


def additive_attention(q, k, v, w, u, vec, *, mask=None, return_weights=False):
    """
    A small network compares query and key.

    >>> w, u, vec = np.array([[1, -1], [-1, -1]]), np.array([[1], [-1]]), np.array([8, 8])
    >>> q, k = np.array([[2.0, 3.0], [-2.0, 3.0]]), np.array([[2.0], [-2.0]])
    >>> v = np.array([[1.0], [0.0]])
    >>> print(np.round(additive_attention(q, k, v, w, u, vec), 3))
    [[1.]
     [0.]]
    """
    _, p = additive_weights(q, k, w, u, vec, mask)
    out = p @ v
    return (out, p) if return_weights else out


def additive_attention_vjp(dout, q, k, v, w, u, vec, *, mask=None):
    """
    Backward pass: queries add up over their keys, and keys over their queries.

    >>> q, k, v = np.array([[1.0]]), np.array([[-1.0], [-1.0]]), np.array([[1.0], [3.0]])
    >>> one, vec = np.ones((1, 1)), np.ones(1)
    >>> dq, dk, dv, *_ = additive_attention_vjp(one, q, k, v, one, one, vec)
    >>> print(dq.ravel(), dk.ravel(), dv.ravel())
    [0.] [-0.5  0.5] [0.5 0.5]
    """
    hidden, p = additive_weights(q, k, w, u, vec, mask)
    dv = p.mT @ dout
    dp = dout @ v.mT
    d = p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    dvec = d.ravel() @ as_rows(hidden)
    delta = d[..., None] * vec * (1 - hidden * hidden)
    dq, dw = linear_vjp(np.sum(delta, axis=-2), q, w)
    dk, du = linear_vjp(np.sum(delta, axis=-3), k, u)
    return dq, dk, dv, dw, du, dvec


# == multiplicative


def bilinear_attention(q, k, v, w):
    """
    A bilinear form compares query and key.

    >>> q = k = v = np.eye(2)
    >>> w = np.array([[0.0, np.log(3)], [0.0, 0.0]])
    >>> print(bilinear_attention(q, k, v, w))
    [[0.25 0.75]
     [0.5  0.5 ]]
    """
    p = softmax(q @ w @ k.mT)
    return p @ v


def bilinear_attention_vjp(dout, q, k, v, w):
    """
    Backward pass, for one sequence.

    >>> q = k = v = np.eye(2)
    >>> w = np.array([[0.0, np.log(3)], [0.0, 0.0]])
    >>> dq, dk, dv, dw = bilinear_attention_vjp(np.array([[1.0, 0.0], [0.0, 0.0]]), q, k, v, w)
    >>> print(dv)
    [[0.25 0.  ]
     [0.75 0.  ]]
    >>> print(dw)
    [[ 0.1875 -0.1875]
     [ 0.      0.    ]]
    """
    p = softmax(q @ w @ k.T)
    dp = dout @ v.T
    d = p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    return d @ k @ w.T, d.T @ q @ w, p.T @ dout, q.T @ d @ k


def multiplicative_attention(
    q, k, v, w, *, scale=1.0, mask=None, bias=None, is_causal=False, q_offset=0, window=None,
    softcap=None, sink=None, dropout=None, return_lse=False, return_weights=False,
):  # fmt: skip
    """
    Project the queries, then attend, with all options.

    >>> x, w = np.eye(2), np.array([[0, 9], [-9, 0]])
    >>> print(np.round(multiplicative_attention(x, x, x, w), 3))
    [[0. 1.]
     [0. 1.]]
    """
    return scaled_dot_product_attention(
        q @ w, k, v, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap, sink=sink, dropout=dropout, return_lse=return_lse,
        return_weights=return_weights,
    )  # fmt: skip


def multiplicative_attention_vjp(
    dout, q, k, v, w, *, scale=1.0, dlse=None, mask=None, bias=None, is_causal=False, q_offset=0,
    window=None, softcap=None, sink=None, dropout=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> x, w = np.eye(2), np.zeros((2, 2))
    >>> dout = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> *_, dv, dw = multiplicative_attention_vjp(dout, x, x, x, w)
    >>> print(dv)
    [[0.5 0. ]
     [0.5 0. ]]
    >>> print(dw)
    [[ 0.25 -0.25]
     [ 0.    0.  ]]
    """
    dr, dk, dv, *rest = scaled_dot_product_attention_vjp(
        dout, q @ w, k, v, dlse=dlse, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset,
        window=window, scale=scale, softcap=softcap, sink=sink, dropout=dropout,
    )  # fmt: skip
    dq = dr @ w.T
    dw = outer_sum(q, dr)
    return dq, dk, dv, dw, *rest


# == linear_attention


def linear_attention_by_sums(a, b, v):
    """
    Features a and b of queries and keys: first the sums over keys, then the queries.

    >>> a, b, v = np.array([[2.0]]), np.array([[1.0], [3.0]]), np.array([[8.0], [16.0]])
    >>> print(linear_attention_by_sums(a, b, v))
    [[14.]]
    """
    state = b.T @ v
    total = np.sum(b, axis=0)
    return a @ state / (a @ total)[:, None]


def causal_linear_attention(a, b, v):
    """
    A recurrent network: the state grows by one outer product for each token.

    >>> a, b, v = np.ones((3, 1)), np.ones((3, 1)), np.array([[0.0], [6.0], [9.0]])
    >>> print(causal_linear_attention(a, b, v).ravel())
    [0. 3. 5.]
    """
    state = np.zeros((b.shape[-1], v.shape[-1]), v.dtype)
    total = np.zeros(b.shape[-1], b.dtype)
    out = []
    for a_t, b_t, v_t in zip(a, b, v, strict=True):
        state = state + np.outer(b_t, v_t)
        total = total + b_t
        out.append(a_t @ state / (a_t @ total))
    return np.array(out)


def features(x, feature_map):
    """Features of queries or keys."""
    if feature_map == "elu":
        return np.where(x.real > 0, x + 1, np.exp(np.where(x.real > 0, 0, x)))
    return np.exp(x) if feature_map == "exp" else x


def features_deriv(x, feature_map):
    """Their slopes."""
    if feature_map == "elu":
        return np.where(x.real > 0, 1, np.exp(np.where(x.real > 0, 0, x)))
    return np.exp(x) if feature_map == "exp" else np.ones_like(x)


def linear_weights(a, b, is_causal):
    """Products of the features of queries and keys."""
    products = a @ b.mT
    return np.tril(products) if is_causal else products


def linear_attention(q, k, v, *, feature_map="elu", is_causal=False, normalize=True):
    """
    Products of features in place of exponentials of products.

    >>> q, k, v = np.zeros((3, 1)), np.zeros((3, 1)), np.array([[0.0], [6.0], [9.0]])
    >>> print(linear_attention(q, k, v, is_causal=True).ravel())
    [0. 3. 5.]
    """
    weights = linear_weights(features(q, feature_map), features(k, feature_map), is_causal)
    out = weights @ v
    if normalize:
        z = np.sum(weights, axis=-1, keepdims=True)
        out = np.where(z == 0, 0, out / np.where(z == 0, 1, z))
    return out


def linear_attention_vjp(dout, q, k, v, *, feature_map="elu", is_causal=False, normalize=True):
    """
    Backward pass: of the quotient, of the three factors, of the features.

    >>> q, k, v = np.array([[2.0]]), np.array([[3.0]]), np.array([[5.0]])
    >>> options = {"feature_map": "identity", "normalize": False}
    >>> print(*linear_attention_vjp(np.ones((1, 1)), q, k, v, **options))
    [[15.]] [[10.]] [[6.]]
    """
    a, b = features(q, feature_map), features(k, feature_map)
    weights = linear_weights(a, b, is_causal)
    g = dout
    dz = 0
    if normalize:
        z = np.sum(weights, axis=-1, keepdims=True)
        inverse = np.where(z == 0, 0, 1 / np.where(z == 0, 1, z))
        out = inverse * (weights @ v)
        g = inverse * dout
        dz = -np.sum(g * out, axis=-1, keepdims=True)
    dweights = g @ v.mT + dz
    dweights = np.tril(dweights) if is_causal else dweights
    da = dweights @ b
    db = dweights.mT @ a
    dv = weights.mT @ g
    return features_deriv(q, feature_map) * da, features_deriv(k, feature_map) * db, dv


# == recurrent_linear_attention


def delta_rule(q, k, v, beta):
    """
    One sequence without a decay: correct the answer to each key.

    >>> keys, values = np.ones((2, 1)), np.array([[5.0], [7.0]])
    >>> out, S = delta_rule(keys, keys, values, beta=np.ones(2))
    >>> print(out.ravel(), S)
    [5. 7.] [[7.]]
    """
    S = np.zeros((k.shape[-1], v.shape[-1]), v.dtype)
    out = []
    for q_t, k_t, v_t, beta_t in zip(q, k, v, beta, strict=True):
        error = v_t - S.T @ k_t
        S = S + beta_t * np.outer(k_t, error)
        out.append(S.T @ q_t)
    return np.array(out), S


def delta_rule_chunk(q, k, v, decay, beta, state):
    """
    All steps of a chunk at once: their updates solve a triangular system.

    >>> keys, values, zero = np.ones((2, 1)), np.array([[5.0], [7.0]]), np.zeros((1, 1))
    >>> out, S = delta_rule_chunk(keys, keys, values, np.zeros((2, 1)), np.ones(2), zero)
    >>> print(out.ravel(), S)
    [5. 7.] [[7.]]
    """
    C = len(q)
    c = np.cumsum(decay, axis=0)
    not_later = np.tri(C, dtype=bool)[:, :, None]
    fade = np.exp(np.where(not_later, c[:, None] - c, -np.inf))
    A = np.tril(np.einsum("te,tse,se->ts", k, fade, k), -1)
    P = np.einsum("te,tse,se->ts", q, fade, k)
    right = beta[:, None] * (v - (np.exp(c) * k) @ state)
    W = np.linalg.solve(np.eye(C, dtype=q.dtype) + beta[:, None] * A, right)
    out = (np.exp(c) * q) @ state + P @ W
    last = np.exp(c[-1])[:, None] * state + (np.exp(c[-1] - c) * k).T @ W
    return out, last


def rows_of_state(state, x):
    """The answer of the memory: the transposed state times a vector."""
    return np.einsum("...ev,...e->...v", state, x)


def outer(k, w):
    """The outer product of two vectors of the same sequence."""
    return k[..., :, None] * w[..., None, :]


def erased_at(t, S, a, b):
    """Read the memory with one key, and put the answer under another one."""
    return outer(b[..., t, :], rows_of_state(S, a[..., t, :]))


def of_document(t, S, segment_ids):
    """The memory before step t, or its gradient: 0 where a document begins."""
    if segment_ids is None or t == 0:
        return S
    begins = segment_ids[..., t] != segment_ids[..., t - 1]
    return np.where(begins[..., None, None], 0, S)


def recurrent_linear_attention(
    q, k, v, decay=None, beta=None, state=None, *,
    erase=None, scale=1.0, chunk=None, segment_ids=None,
):  # fmt: skip
    """
    Forget, correct, write, read.

    >>> keys, values = np.ones((2, 1)), np.array([[5.0], [7.0]])
    >>> out, S = recurrent_linear_attention(keys, keys, values)
    >>> print(out.ravel(), S)
    [ 5. 12.] [[12.]]
    >>> out, S = recurrent_linear_attention(keys, keys, values, segment_ids=np.array([0, 1]))
    >>> print(out.ravel(), S)
    [5. 7.] [[7.]]
    """
    *lead, T, E = q.shape
    S = np.zeros((*lead, E, v.shape[-1]), v.dtype) if state is None else state
    out = []
    for t in range(T):
        S = of_document(t, S, segment_ids)
        k_t, w = k[..., t, :], v[..., t, :]
        erased = 0 if erase is None else erased_at(t, S, *erase)
        if decay is not None:
            S = np.exp(decay[..., t, :])[..., None] * S
        if beta is not None:
            w = beta[..., t, None] * (w - rows_of_state(S, k_t))
        S = S + outer(k_t, w) + erased
        out.append(scale * rows_of_state(S, q[..., t, :]))
    return np.stack(out, axis=-2) if out else np.zeros_like(v), S


def states_before(k, v, decay, beta, state, erase, segment_ids):
    """The states before each step, and the last one; they still hold the document before."""
    states = [state]
    for t in range(k.shape[-2]):
        at = (..., slice(t, t + 1), slice(None))
        of_decay = None if decay is None else decay[at]
        of_beta = None if beta is None else beta[..., t : t + 1]
        keys = None if erase is None else [x[at] for x in erase]
        steps = k[at], k[at], v[at], of_decay, of_beta, of_document(t, state, segment_ids)
        _, state = recurrent_linear_attention(*steps, erase=keys)
        states.append(state)
    return states


def recurrent_linear_attention_vjp(
    dout, q, k, v, decay=None, beta=None, state=None, *,
    erase=None, scale=1.0, chunk=None, segment_ids=None,
):  # fmt: skip
    """
    Backward pass through time, with the states of all steps.

    >>> ones, decay = np.ones((3, 1)), np.full((3, 1), np.log(0.5))
    >>> dout = np.zeros((3, 1)), np.ones((1, 1))  # of the last state alone
    >>> dq, dk, dv, ddecay = recurrent_linear_attention_vjp(dout, ones, ones, ones, decay)
    >>> print(dv.ravel())
    [0.25 0.5  1.  ]
    """
    *lead, T, E = q.shape
    first = np.zeros((*lead, E, v.shape[-1]), v.dtype) if state is None else state
    S = states_before(k, v, decay, beta, first, erase, segment_ids)
    u, D = dout
    u = np.zeros_like(v) if u is None else u
    D = np.zeros_like(first) if D is None else D  # the gradient of the state after the step
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    ddecay = None if decay is None else np.zeros_like(decay)
    dbeta = None if beta is None else np.zeros_like(beta)
    derase = [] if erase is None else [np.zeros_like(x) for x in erase]
    for t in reversed(range(T)):
        q_t, k_t, v_t, u_t = q[..., t, :], k[..., t, :], v[..., t, :], u[..., t, :]
        dq[..., t, :] = scale * np.einsum("...ev,...v->...e", S[t + 1], u_t)
        D = D + scale * outer(q_t, u_t)
        before = of_document(t, S[t], segment_ids)
        faded = before if decay is None else np.exp(decay[..., t, :])[..., None] * before
        error = v_t if beta is None else v_t - rows_of_state(faded, k_t)
        rate = 1 if beta is None else beta[..., t, None]
        dw = rows_of_state(D, k_t)
        dk[..., t, :] = np.einsum("...ev,...v->...e", D, rate * error)
        dv[..., t, :] = rate * dw
        if beta is not None:
            dbeta[..., t] = np.sum(dw * error, axis=-1)
            dk[..., t, :] -= np.einsum("...ev,...v->...e", faded, rate * dw)
            D = D - outer(k_t, rate * dw)
        read = 0
        if erase is not None:
            a_t, b_t = (x[..., t, :] for x in erase)
            danswer = rows_of_state(D, b_t)
            derase[1][..., t, :] = np.einsum("...ev,...v->...e", D, rows_of_state(before, a_t))
            derase[0][..., t, :] = np.einsum("...ev,...v->...e", before, danswer)
            read = outer(a_t, danswer)
        if decay is not None:
            ddecay[..., t, :] = sum_to_shape(np.sum(D * faded, axis=-1), decay[..., t, :].shape)
            D = np.exp(decay[..., t, :])[..., None] * D
        D = of_document(t, D + read, segment_ids)
    grads = dq, dk, dv, ddecay, dbeta, None if state is None else D, *derase
    return tuple(grad for grad in grads if grad is not None)


# == merge_attention


def merge_attention(out, lse, *, axis=0):
    """
    Parts of one attention over disjoint keys: a softmax over the parts.

    >>> out, lse = np.array([[[8.0]], [[16.0]]]), np.log([[3.0], [1.0]])
    >>> merged, total = merge_attention(out, lse)
    >>> print(merged, np.exp(total))
    [[10.]] [4.]
    """
    w, merged = weights_and_lse(np.moveaxis(lse, axis, -1))
    o = np.moveaxis(out, axis, -2)
    return np.sum(w[..., None] * o, axis=-2), merged


def merge_attention_vjp(dout, out, lse, *, axis=0):
    """
    Backward pass: of the average, and of the log-sum-exp.

    >>> out, lse = np.array([[[8.0]], [[16.0]]]), np.log([[3.0], [1.0]])
    >>> dout, dlse = merge_attention_vjp((np.array([[4.0]]), np.array([0.0])), out, lse)
    >>> print(dout.ravel(), dlse.ravel())
    [3. 1.] [-6.  6.]
    """
    w, _ = weights_and_lse(np.moveaxis(lse, axis, -1))
    o = np.moveaxis(out, axis, -2)
    u, u_lse = dout
    u = np.zeros_like(o[..., 0, :]) if u is None else u
    u_lse = np.zeros_like(w[..., 0]) if u_lse is None else u_lse
    do = w[..., None] * u[..., None, :]
    along = np.sum(u[..., None, :] * o, axis=-1)
    mean = np.sum(w * along, axis=-1, keepdims=True)
    dlse = w * (along - mean + u_lse[..., None])
    return np.moveaxis(do, -2, axis), np.moveaxis(dlse, -1, axis)


# == forgetting_bias


def gates_between(S, q_offset, T):
    """Whether a gate, the last axis, stands after a key and not after a query."""
    T = S - q_offset if T is None else T
    later = offsets(T, S, offset_of_heads(q_offset))[..., None, :] <= 0
    return later & (np.arange(S) > np.arange(S)[:, None])


def forgetting_bias(log_forget, *, q_offset=0, T=None):
    """
    Sums of the logarithms of all forget gates after the key, up to the query.

    >>> bias = forgetting_bias(np.log([0.5, 0.5, 0.25, 0.5]))
    >>> print(np.exp(bias))
    [[1.     1.     1.     1.    ]
     [0.5    1.     1.     1.    ]
     [0.125  0.25   1.     1.    ]
     [0.0625 0.125  0.5    1.    ]]
    """
    between = gates_between(log_forget.shape[-1], q_offset, T)
    return np.sum(np.where(between, log_forget[..., None, None, :], 0), axis=-1)


def forgetting_bias_vjp(dout, log_forget, *, q_offset=0, T=None):
    """
    Backward pass: a gate is in the sums of all keys before it and all queries from it on.

    >>> log_forget = np.log([0.5, 0.5, 0.25])
    >>> dout = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [10.0, 100.0, 0.0]])
    >>> print(forgetting_bias_vjp(dout, log_forget))
    [  0.  11. 110.]
    """
    between = gates_between(log_forget.shape[-1], q_offset, T)
    grad = np.sum(np.where(between, dout[..., None], 0), axis=(-3, -2))
    return sum_to_shape(grad, log_forget.shape)


# == indexer_scores


def indexer_scores(q, k, w):
    """
    Weighted sums over heads of positive products.

    >>> q, k = np.array([[[1.0]], [[-1.0]]]), np.array([[3.0], [-5.0], [0.0]])
    >>> print(indexer_scores(q, k, np.array([[1.0, 2.0]])))
    [[ 3. 10.  0.]]
    """
    z = q @ k.mT[..., None, :, :]
    return np.einsum("...th,...hts->...ts", w, np.where(z.real > 0, z, 0))


def indexer_scores_vjp(dout, q, k, w):
    """
    Backward pass: only positive products have a gradient.

    >>> q, k = np.array([[[1.0]], [[-1.0]]]), np.array([[3.0], [-5.0], [0.0]])
    >>> dq, dk, dw = indexer_scores_vjp(np.ones((1, 3)), q, k, np.array([[1.0, 2.0]]))
    >>> print(dq.ravel(), dk.ravel(), dw)
    [  3. -10.] [ 1. -2.  0.] [[3. 5.]]
    """
    z = q @ k.mT[..., None, :, :]
    dw = np.einsum("...ts,...hts->...th", dout, np.where(z.real > 0, z, 0))
    g = np.where(z.real > 0, np.einsum("...ts,...th->...hts", dout, w), 0)
    dq = g @ k[..., None, :, :]
    dk = np.einsum("...hts,...hte->...se", g, q)
    return dq, dk, dw


def select_keys(scores, *, count, is_causal=True, q_offset=0):
    """
    The keys with the largest scores, the largest first; -1 where no further key is visible.

    >>> scores = np.array([[5.0, 9.0, 9.0], [5.0, 7.0, 9.0], [5.0, 7.0, 9.0]])
    >>> print(select_keys(scores, count=2))
    [[ 0 -1]
     [ 1  0]
     [ 2  1]]
    """
    seen = allowed_pairs(*scores.shape[-2:], is_causal=is_causal, q_offset=q_offset)
    seen = seen & (scores != -np.inf)
    rank = np.where(np.isnan(scores), np.inf, scores)
    rank = np.where(seen, rank, -np.inf)
    order = np.argsort(-rank, axis=-1, kind="stable")[..., :count]
    return np.where(np.take_along_axis(seen, order, axis=-1), order, -1)


# == differential_attention


def difference_of_attentions(q1, k1, q2, k2, v, lam):
    """
    Two attentions to the same values, one subtracted: common attention cancels.

    >>> q, zero = np.array([[100.0]]), np.array([[0.0]])
    >>> k, v = np.array([[1.0], [0.0]]), np.array([[8.0], [4.0]])
    >>> print(difference_of_attentions(q, k, zero, k, v, 0.5))
    [[5.]]
    """
    return attention(q1, k1, v) - lam * attention(q2, k2, v)


def difference_of_attentions_vjp(dout, q1, k1, q2, k2, v, lam):
    """
    Backward pass, for one head.

    >>> q, zero = np.array([[100.0]]), np.array([[0.0]])
    >>> k, v = np.array([[1.0], [0.0]]), np.array([[8.0], [4.0]])
    >>> *_, dv, dlam = difference_of_attentions_vjp(np.ones((1, 1)), q, k, zero, k, v, 0.5)
    >>> print(dv.ravel(), dlam)
    [ 0.75 -0.25] -6.0
    """
    dq1, dk1, dv1 = attention_vjp(dout, q1, k1, v)
    dq2, dk2, dv2 = attention_vjp(-lam * dout, q2, k2, v)
    dlam = -np.sum(dout * attention(q2, k2, v))
    return dq1, dk1, dq2, dk2, dv1 + dv2, dlam


def differential_attention(
    q1, k1, q2, k2, v, lam, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None,
    scale=None, softcap=None,
):  # fmt: skip
    """
    The difference, with all options.

    >>> q, zero = np.array([[100.0]]), np.array([[0.0]])
    >>> k, v = np.array([[1.0], [0.0]]), np.array([[8.0], [4.0]])
    >>> print(differential_attention(q, k, zero, k, v, 0.5))
    [[5.]]
    """
    options = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap,
    }  # fmt: skip
    first = scaled_dot_product_attention(q1, k1, v, **options)
    second = scaled_dot_product_attention(q2, k2, v, **options)
    return first - lam * second


def differential_attention_vjp(
    dout, q1, k1, q2, k2, v, lam, *, mask=None, bias=None, is_causal=False, q_offset=0, window=None,
    scale=None, softcap=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> q, zero = np.array([[100.0]]), np.array([[0.0]])
    >>> k, v = np.array([[1.0], [0.0]]), np.array([[8.0], [4.0]])
    >>> *_, dv, dlam = differential_attention_vjp(np.ones((1, 1)), q, k, zero, k, v, 0.5)
    >>> print(dv.ravel(), dlam)
    [ 0.75 -0.25] -6.0
    """
    options = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap,
    }  # fmt: skip
    dq1, dk1, dv1, *_ = scaled_dot_product_attention_vjp(dout, q1, k1, v, **options)
    dq2, dk2, dv2, *_ = scaled_dot_product_attention_vjp(-lam * dout, q2, k2, v, **options)
    second = scaled_dot_product_attention(q2, k2, v, **options)
    terms = np.sum(dout * second, axis=(-2, -1), keepdims=True)
    return dq1, dk1, dq2, dk2, dv1 + dv2, -sum_to_shape(terms, np.shape(lam))


# == cache


def append_to_cache(keys, values, k, v):
    """
    Keys and values of all tokens so far, of which earlier ones never change.

    >>> keys, values = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    >>> k, v = np.array([[5.0, 6.0]]), np.array([[7.0, 8.0]])
    >>> keys, values = append_to_cache(keys, values, k, v)
    >>> print(keys)
    [[1. 2.]
     [5. 6.]]
    >>> print(values)
    [[3. 4.]
     [7. 8.]]
    """
    return np.concatenate([keys, k], axis=-2), np.concatenate([values, v], axis=-2)


# == multi_head


def self_attention(x, w_q, w_k, w_v, w_o, heads):
    """
    All heads of one sequence at once: project, split, attend, merge, project.

    >>> x, eye = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(2)
    >>> print(np.round(self_attention(x, 9 * eye, 9 * eye, eye, eye, heads=2), 6))
    [[ 1. -1.]
     [-1.  1.]]
    """
    q, k, v = (split_heads(x @ w.T, heads) for w in (w_q, w_k, w_v))
    return merge_heads(attention(q, k, v)) @ w_o.T


def self_attention_vjp(dout, x, w_q, w_k, w_v, w_o, heads):
    """
    Backward pass: the transposes of the same steps in reverse order.

    >>> x, zero, eye = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2)), np.eye(2)
    >>> dout = np.array([[4.0, 0.0], [0.0, 0.0]])
    >>> dx, dw_q, dw_k, dw_v, dw_o = self_attention_vjp(dout, x, zero, zero, eye, eye, heads=2)
    >>> print(dx)
    [[2. 0.]
     [2. 0.]]
    """
    q, k, v = (split_heads(x @ w.T, heads) for w in (w_q, w_k, w_v))
    o = merge_heads(attention(q, k, v))
    do = split_heads(dout @ w_o, heads)
    dq, dk, dv = (merge_heads(g) for g in attention_vjp(do, q, k, v))
    dx = dq @ w_q + dk @ w_k + dv @ w_v
    return dx, dq.T @ x, dk.T @ x, dv.T @ x, dout.T @ o


def causal_self_attention(x, w_q, w_k, w_v, w_o, heads):
    """
    The same, where no token sees those after it.

    >>> x, zero, eye = np.array([[2.0, 0.0], [4.0, 6.0]]), np.zeros((2, 2)), np.eye(2)
    >>> print(causal_self_attention(x, zero, zero, eye, eye, heads=2))  # means so far
    [[2. 0.]
     [3. 3.]]
    """
    q, k, v = (split_heads(x @ w.T, heads) for w in (w_q, w_k, w_v))
    seen = np.tri(len(x), dtype=bool)
    return merge_heads(masked_attention(q, k, v, seen)) @ w_o.T


def cross_attention(x, memory, w_q, w_k, w_v, w_o, heads):
    """
    Queries from one sequence, keys and values from another.

    >>> x, memory = np.array([[1.0, -1.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> eye = np.eye(2)
    >>> print(np.round(cross_attention(x, memory, 9 * eye, 9 * eye, 5 * eye, eye, heads=2), 6))
    [[ 5. -5.]]
    """
    q = split_heads(x @ w_q.T, heads)
    k, v = (split_heads(memory @ w.T, heads) for w in (w_k, w_v))
    return merge_heads(attention(q, k, v)) @ w_o.T


def normalize_heads(z, weight, eps=1e-6, offset=0.0):
    """RMS norm of each head, or of all together by a longer weight; layer norms by a row a head."""
    if weight is None:
        return z
    if weight.ndim == 2:
        return (weight + offset)[:, None, :] * layer_norm(z, eps=eps)
    if len(weight) == z.shape[-1]:
        return rms_norm(z, weight, eps=eps, weight_offset=offset)
    return split_heads(rms_norm(merge_heads(z), weight, eps=eps, weight_offset=offset), z.shape[-3])


def normalize_heads_vjp(dout, z, weight, eps=1e-6, offset=0.0):
    """Backward pass, with the gradient of the weight."""
    if weight is None:
        return dout, None
    if weight.ndim == 2:
        dz = layer_norm_vjp((weight + offset)[:, None, :] * dout, z, eps=eps)
        products = dout * layer_norm(z, eps=eps)
        return dz, np.sum(products, axis=(*range(z.ndim - 3), z.ndim - 2))
    if len(weight) == z.shape[-1]:
        return rms_norm_vjp(dout, z, weight, eps=eps, weight_offset=offset)
    dz, dweight = rms_norm_vjp(
        merge_heads(dout), merge_heads(z), weight, eps=eps, weight_offset=offset
    )
    return split_heads(dz, z.shape[-3]), dweight


def tables_of_heads(rope):
    """Tables of sines and cosines, one for all heads of a sequence."""
    return [a[..., None, :, :] if a.ndim > 2 else a for a in rope]


def rotate_heads(z, rope, interleaved=True):
    """Rotate queries or keys by their positions."""
    if rope is None:
        return z
    cos, sin = tables_of_heads(rope)
    return apply_rope(z, cos, sin, interleaved=interleaved, rotary_dim=2 * cos.shape[-1])


def rotate_heads_vjp(dout, z, rope, interleaved=True):
    """Backward pass: rotate back."""
    if rope is None:
        return dout
    cos, sin = tables_of_heads(rope)
    return apply_rope_vjp(dout, z, cos, sin, interleaved=interleaved, rotary_dim=2 * cos.shape[-1])


def bound_heads(z, clip_qkv):
    """
    Queries, keys or values between the bounds, if there are any.

    >>> print(bound_heads(np.array([[-9.0, 2.0], [8.0, 8.5]]), clip_qkv=8.0))
    [[-8.  2.]
     [ 8.  8.]]
    """
    return z if clip_qkv is None else clip(z, min=-clip_qkv, max=clip_qkv)


def bound_heads_vjp(dout, z, clip_qkv):
    """Backward pass: a number beyond the bounds has no gradient."""
    return dout if clip_qkv is None else clip_vjp(dout, z, min=-clip_qkv, max=clip_qkv)


def prepare_heads(
    z, weight, *, rope, rope_interleaved, norm_eps, norm_offset, norm_after_rope, clip_qkv
):
    """Normalize and rotate queries or keys, in either order; bounds come before the rotation."""
    if norm_after_rope:
        z = rotate_heads(bound_heads(z, clip_qkv), rope, rope_interleaved)
        return normalize_heads(z, weight, norm_eps, norm_offset)
    z = normalize_heads(z, weight, norm_eps, norm_offset)
    return rotate_heads(bound_heads(z, clip_qkv), rope, rope_interleaved)


def prepare_heads_vjp(
    dout, z, weight, *, rope, rope_interleaved, norm_eps, norm_offset, norm_after_rope, clip_qkv
):
    """Backward pass, with the gradient of the weight."""
    if norm_after_rope:
        rotated = rotate_heads(bound_heads(z, clip_qkv), rope, rope_interleaved)
        dz, dweight = normalize_heads_vjp(dout, rotated, weight, norm_eps, norm_offset)
        dz = rotate_heads_vjp(dz, z, rope, rope_interleaved)
        return bound_heads_vjp(dz, z, clip_qkv), dweight
    normed = normalize_heads(z, weight, norm_eps, norm_offset)
    dz = rotate_heads_vjp(dout, normed, rope, rope_interleaved)
    dz = bound_heads_vjp(dz, normed, clip_qkv)
    return normalize_heads_vjp(dz, z, weight, norm_eps, norm_offset)


def multi_head_steps(x_q, x_kv, params, num_heads, num_kv_heads, preparation, options, cache=None):
    """All intermediate results by name; `preparation` are options of heads, `options` of scores."""
    p, H = params, num_heads
    Hk = H if num_kv_heads is None else num_kv_heads
    s = {}
    s["q"] = split_heads(linear(x_q, p.w_q, p.b_q), H)
    s["k"] = split_heads(linear(x_kv, p.w_k, p.b_k), Hk)
    s["v"] = split_heads(linear(x_kv, p.w_v, p.b_v), Hk)
    s["queries"] = prepare_heads(s["q"], p.q_norm, **preparation)
    s["keys"] = prepare_heads(s["k"], p.k_norm, **preparation)
    s["values"] = bound_heads(s["v"], preparation["clip_qkv"])
    if cache is not None:
        s["keys"], s["values"] = cache.append(s["keys"], s["values"])
    s["averages"], s["lse"], s["weights"] = scaled_dot_product_attention(
        s["queries"], s["keys"], s["values"], **options, return_lse=True, return_weights=True
    )
    s["merged"] = merge_heads(s["averages"])
    s["opened"] = s["merged"]
    if p.w_gate is not None:
        s["gate"] = linear(x_q, p.w_gate, p.b_gate)
        s["opened"] = sigmoid(s["gate"]) * s["merged"]
    s["out"] = linear(s["opened"], p.w_o, p.b_o)
    return s


def multi_head_gradients(dout, x_q, x_kv, params, s, preparation, options):
    """Backward pass through the steps, with the gradients of bias and sinks at the end."""
    p = params
    dmerged, dw_o, db_o = dense_vjp(dout, s["opened"], p.w_o, p.b_o)
    dx_gate = dw_gate = db_gate = None
    if p.w_gate is not None:
        dgate = sigmoid_vjp(dmerged * s["merged"], s["gate"])
        dx_gate, dw_gate, db_gate = dense_vjp(dgate, x_q, p.w_gate, p.b_gate)
        dmerged = sigmoid(s["gate"]) * dmerged
    daverages = split_heads(dmerged, s["queries"].shape[-3])
    dqueries, dkeys, dvalues, *rest = scaled_dot_product_attention_vjp(
        daverages, s["queries"], s["keys"], s["values"], **options
    )
    dq, dq_norm = prepare_heads_vjp(dqueries, s["q"], p.q_norm, **preparation)
    dk, dk_norm = prepare_heads_vjp(dkeys, s["k"], p.k_norm, **preparation)
    dx_q, dw_q, db_q = dense_vjp(merge_heads(dq), x_q, p.w_q, p.b_q)
    dx_k, dw_k, db_k = dense_vjp(merge_heads(dk), x_kv, p.w_k, p.b_k)
    dv = bound_heads_vjp(dvalues, s["v"], preparation["clip_qkv"])
    dx_v, dw_v, db_v = dense_vjp(merge_heads(dv), x_kv, p.w_v, p.b_v)
    dx_q = dx_q if dx_gate is None else dx_q + dx_gate
    dsink = None if p.sink is None else rest.pop()
    dparams = type(p)(
        w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o,
        q_norm=dq_norm, k_norm=dk_norm, w_gate=dw_gate, b_gate=db_gate, sink=dsink,
    )  # fmt: skip
    return dx_q, dx_k + dx_v, dparams, *rest


def multi_head_attention(
    x_q, x_kv, params, *, num_heads, num_kv_heads=None, rope=None, rope_interleaved=True,
    cache=None, mask=None, bias=None, is_causal=False, q_offset=None, window=None, scale=None,
    softcap=None, sink=None, dropout=None, norm_eps=1e-6, norm_offset=0.0, norm_after_rope=False,
    clip_qkv=None, return_lse=False, return_weights=False,
):  # fmt: skip
    """
    With norms, bounds, rotations, a cache, a gate, sinks, and all options of the scores.

    >>> from dlref.formulas.attention import AttentionParams
    >>> x, eye = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(2)
    >>> params = AttentionParams(9 * eye, 9 * eye, eye, eye)
    >>> print(np.round(multi_head_attention(x, x, params, num_heads=2), 6))
    [[ 1. -1.]
     [-1.  1.]]
    """
    if q_offset is None:
        q_offset = 0 if cache is None else len(cache)
    preparation = {
        "rope": rope, "rope_interleaved": rope_interleaved, "norm_eps": norm_eps,
        "norm_offset": norm_offset, "norm_after_rope": norm_after_rope, "clip_qkv": clip_qkv,
    }  # fmt: skip
    options = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap, "sink": params.sink if sink is None else sink,
        "dropout": dropout,
    }  # fmt: skip
    s = multi_head_steps(x_q, x_kv, params, num_heads, num_kv_heads, preparation, options, cache)
    names = ["out", *["lse"] * return_lse, *["weights"] * return_weights]
    results = tuple(s[name] for name in names)
    return results if len(results) > 1 else results[0]


def multi_head_attention_vjp(
    dout, x_q, x_kv, params, *, num_heads, num_kv_heads=None, rope=None, rope_interleaved=True,
    mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None, softcap=None,
    sink=None, dropout=None, norm_eps=1e-6, norm_offset=0.0, norm_after_rope=False, clip_qkv=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> from dlref.formulas.attention import AttentionParams
    >>> x_q, x_kv, one = np.array([[2.0]]), np.array([[7.0]]), np.ones((1, 1))
    >>> params = AttentionParams(w_q=one, w_k=one, w_v=3 * one, w_o=5 * one)
    >>> dx_q, dx_kv, dparams = multi_head_attention_vjp(one, x_q, x_kv, params, num_heads=1)
    >>> print(dx_q, dx_kv, dparams.w_v, dparams.w_o)
    [[0.]] [[15.]] [[35.]] [[21.]]
    """
    preparation = {
        "rope": rope, "rope_interleaved": rope_interleaved, "norm_eps": norm_eps,
        "norm_offset": norm_offset, "norm_after_rope": norm_after_rope, "clip_qkv": clip_qkv,
    }  # fmt: skip
    options = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap, "sink": params.sink if sink is None else sink,
        "dropout": dropout,
    }  # fmt: skip
    s = multi_head_steps(x_q, x_kv, params, num_heads, num_kv_heads, preparation, options)
    return multi_head_gradients(dout, x_q, x_kv, params, s, preparation, options)


# == latent_attention


class LatentAttentionParams(NamedTuple):
    """Weights of latent attention; without a latent of the queries, w_dq and q_norm are None."""

    w_dq: np.ndarray
    q_norm: np.ndarray
    w_uq: np.ndarray
    w_dkv: np.ndarray
    kv_norm: np.ndarray
    w_uk: np.ndarray
    w_uv: np.ndarray
    w_o: np.ndarray


def absorbed_latent_attention(x, w_dq, q_norm, w_uq, w_dkv, kv_norm, w_uk, w_uv, w_o, heads):
    """
    One causal sequence without a rotated part: all heads attend to the latents themselves.

    >>> x, eye, ones = np.array([[1.0, 1.0], [1.0, -1.0]]), np.eye(2), np.ones(2)
    >>> w_dq, q_norm, w_uq = np.array([[1.0, 0.0]]), np.ones(1), np.log([[3.0]])
    >>> w_uk = np.array([[0.0, 0.5]])
    >>> out = absorbed_latent_attention(x, w_dq, q_norm, w_uq, eye, ones, w_uk, eye, eye, heads=1)
    >>> print(np.round(out, 4))
    [[1.  1. ]
     [1.  0.5]]
    """
    q = split_heads(rms_norm(x @ w_dq.T, q_norm) @ w_uq.T, heads)
    c = rms_norm(x @ w_dkv.T, kv_norm)  # all that a cache keeps
    out = []
    for q_h, uk, uv in zip(q, np.split(w_uk, heads), np.split(w_uv, heads), strict=True):
        s = (q_h @ uk) @ c.T * len(uk) ** -0.5
        p = softmax(np.where(causal_mask(len(x)), s, -np.inf))
        out.append((p @ c) @ uv.T)
    return np.concatenate(out, axis=-1) @ w_o.T


def latent_widths(params, heads):
    """Widths of the two parts of a key: N channels without a rotation, R with one."""
    return len(params.w_uk) // heads, len(params.w_dkv) - len(params.kv_norm)


def latent_steps(x, params, heads, rope, rope_interleaved, eps):
    """Latents of queries and of keys and values, the parts of the queries, the shared key."""
    p, s = params, {}
    N, _ = latent_widths(p, heads)
    s["low"] = x
    if p.w_dq is not None:
        s["q_down"] = linear(x, p.w_dq)
        s["low"] = rms_norm(s["q_down"], p.q_norm, eps=eps)
    q = split_heads(linear(s["low"], p.w_uq), heads)
    s["q_plain"], s["q_turned"] = q[..., :N], rotate_heads(q[..., N:], rope, rope_interleaved)
    down = linear(x, p.w_dkv)
    s["kv_down"] = down[..., : len(p.kv_norm)]
    s["latent"] = rms_norm(s["kv_down"], p.kv_norm, eps=eps)
    shared = down[..., None, :, len(p.kv_norm) :]  # one key for all heads
    s["shared"] = rotate_heads(shared, rope, rope_interleaved)
    return s


def expanded_operands(s, params, heads, latent, shared):
    """Queries, keys and values of all heads."""
    keys = split_heads(linear(latent, params.w_uk), heads)
    shared = np.broadcast_to(shared, (*keys.shape[:-1], shared.shape[-1]))
    q = np.concatenate([s["q_plain"], s["q_turned"]], axis=-1)
    k = np.concatenate([keys, shared], axis=-1)
    v = split_heads(linear(latent, params.w_uv), heads)
    return q, k, v


def absorbed_operands(s, params, heads, latent, shared):
    """Queries that meet the latents, which are the keys and values of all heads."""
    w_uk = params.w_uk.reshape(heads, -1, params.w_uk.shape[-1])
    q = np.concatenate([s["q_plain"] @ w_uk, s["q_turned"]], axis=-1)
    v = latent[..., None, :, :]
    k = np.concatenate([v, shared], axis=-1)
    return q, k, v


def latent_forward(
    x, params, heads, rope, rope_interleaved, eps, options, cache=None, absorbed=False
):
    """The whole map, with the options of the scores."""
    s = latent_steps(x, params, heads, rope, rope_interleaved, eps)
    shared, latent = s["shared"], s["latent"]
    if cache is not None:
        shared, latents = cache.append(shared, latent[..., None, :, :])
        latent = latents[..., 0, :, :]
    operands = absorbed_operands if absorbed else expanded_operands
    q, k, v = operands(s, params, heads, latent, shared)
    averages = scaled_dot_product_attention(q, k, v, **options)
    if absorbed:  # averages of latents, from which the averages of values are projected
        w_uv = params.w_uv.reshape(heads, -1, params.w_uv.shape[-1])
        averages = averages @ w_uv.mT
    return linear(merge_heads(averages), params.w_o)


def latent_scale(params, heads, scale=None):
    """One over the root of the width of a key, of both its parts."""
    return sum(latent_widths(params, heads)) ** -0.5 if scale is None else scale


def latent_attention(
    x, params, *, num_heads, rope=None, rope_interleaved=True, cache=None, absorbed=False,
    is_causal=True, scale=None, eps=1e-6, mask=None,
):  # fmt: skip
    """
    Keys and values of all heads are projected from one small vector for each token.

    >>> from dlref.formulas.attention import LatentAttentionParams
    >>> x, eye, ones = np.array([[1.0, 1.0], [1.0, -1.0]]), np.eye(2), np.ones(2)
    >>> of_queries = np.array([[1.0, 0.0]]), np.ones(1), np.log([[3.0]])
    >>> params = LatentAttentionParams(*of_queries, eye, ones, np.array([[0.0, 0.5]]), eye, eye)
    >>> print(np.round(latent_attention(x, params, num_heads=1), 4))
    [[1.  1. ]
     [1.  0.5]]
    """
    options = {
        "mask": mask,
        "is_causal": is_causal,
        "q_offset": 0 if cache is None else len(cache),
        "scale": latent_scale(params, num_heads, scale),
    }
    return latent_forward(
        x, params, num_heads, rope, rope_interleaved, eps, options, cache, absorbed
    )


def latent_gradients(dout, x, params, heads, rope, rope_interleaved, eps, options):
    """Gradients of the tokens by way of queries and by way of latents, of weights, of a bias."""
    p = params
    N, _ = latent_widths(p, heads)
    s = latent_steps(x, p, heads, rope, rope_interleaved, eps)
    q, k, v = expanded_operands(s, p, heads, s["latent"], s["shared"])
    averages = scaled_dot_product_attention(q, k, v, **options)
    dmerged, dw_o = linear_vjp(dout, merge_heads(averages), p.w_o)
    daverages = split_heads(dmerged, heads)
    dq, dk, dv, *dbias = scaled_dot_product_attention_vjp(daverages, q, k, v, **options)

    dlatent_k, dw_uk = linear_vjp(merge_heads(dk[..., :N]), s["latent"], p.w_uk)
    dlatent_v, dw_uv = linear_vjp(merge_heads(dv), s["latent"], p.w_uv)
    dshared = np.sum(dk[..., N:], axis=-3, keepdims=True)  # it is part of the keys of all heads
    dshared = rotate_heads_vjp(dshared, s["shared"], rope, rope_interleaved)[..., 0, :, :]
    dkv_down, dkv_norm = rms_norm_vjp(dlatent_k + dlatent_v, s["kv_down"], p.kv_norm, eps=eps)
    ddown = np.concatenate([dkv_down, dshared], axis=-1)
    dx_kv, dw_dkv = linear_vjp(ddown, x, p.w_dkv)

    dq_turned = rotate_heads_vjp(dq[..., N:], s["q_turned"], rope, rope_interleaved)
    dqueries = merge_heads(np.concatenate([dq[..., :N], dq_turned], axis=-1))
    dx_q, dw_uq = linear_vjp(dqueries, s["low"], p.w_uq)
    dw_dq = dq_norm = None
    if p.w_dq is not None:
        dq_down, dq_norm = rms_norm_vjp(dx_q, s["q_down"], p.q_norm, eps=eps)
        dx_q, dw_dq = linear_vjp(dq_down, x, p.w_dq)

    dparams = type(p)(
        w_dq=dw_dq, q_norm=dq_norm, w_uq=dw_uq, w_dkv=dw_dkv, kv_norm=dkv_norm, w_uk=dw_uk,
        w_uv=dw_uv, w_o=dw_o,
    )  # fmt: skip
    return dx_q, dx_kv, dparams, *dbias


def latent_attention_vjp(
    dout, x, params, *, num_heads, rope=None, rope_interleaved=True, absorbed=False, is_causal=True,
    scale=None, eps=1e-6, mask=None,
):  # fmt: skip
    """
    Backward pass: the gradients of all projections and heads meet in the latents.

    >>> from dlref.formulas.attention import LatentAttentionParams
    >>> x, one = np.array([[2.0]]), np.ones((1, 1))
    >>> params = LatentAttentionParams(None, None, one, one, np.ones(1), one, 3 * one, 5 * one)
    >>> dx, dparams = latent_attention_vjp(one, x, params, num_heads=1, eps=0.0)
    >>> print(dparams.w_uk, dparams.w_uv, dparams.w_o)
    [[0.]] [[5.]] [[3.]]
    """
    scale = latent_scale(params, num_heads, scale)
    options = {"mask": mask, "is_causal": is_causal, "scale": scale}
    dx_q, dx_kv, dparams = latent_gradients(
        dout, x, params, num_heads, rope, rope_interleaved, eps, options
    )
    return dx_q + dx_kv, dparams


# == attention_entropy


def attention_entropy(weights):
    """
    Over how many keys a query spreads its attention; 0 log 0 is 0.

    >>> weights = np.array([[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0.25, 0.25, 0.25, 0.25]])
    >>> print(np.exp(attention_entropy(weights)))
    [1. 2. 4.]
    """
    logs = np.log(np.where(weights == 0, 1, weights))
    return -np.sum(weights * logs, axis=-1)


def attention_entropy_vjp(dout, weights):
    """
    Backward pass; a weight of 0 has no gradient.

    >>> weights = np.array([[np.exp(-2), np.exp(-3), 0.0]])
    >>> print(attention_entropy_vjp(np.ones(1), weights))
    [[1. 2. 0.]]
    """
    logs = np.log(np.where(weights == 0, 1, weights))
    return np.where(weights == 0, 0, -dout[..., None] * (logs + 1))


# == attention_distance


def attention_distance(weights, *, q_offset=0):
    """
    Mean distance between a query and the keys it attends to.

    >>> weights = np.full((4, 4), 0.25)
    >>> print(attention_distance(weights))
    [1.5 1.  1.  1.5]
    """
    r = np.abs(offsets(*weights.shape[-2:], q_offset))
    return np.sum(weights * r.astype(weights.dtype), axis=-1)


def attention_distance_vjp(dout, weights, *, q_offset=0):
    """
    Backward pass: a mean of distances has them as its slopes.

    >>> weights, dout = np.full((4, 4), 0.25), np.array([1.0, 0.0, 0.0, 0.0])
    >>> print(attention_distance_vjp(dout, weights)[0])
    [0. 1. 2. 3.]
    """
    r = np.abs(offsets(*weights.shape[-2:], q_offset))
    return dout[..., None] * r.astype(weights.dtype)


# == attention_shares


def special_places(T, S, q_offset=0):
    """True where key j is the first, the previous, or query i itself: (T, S, 3)."""
    r = offsets(T, S, q_offset)
    first = np.broadcast_to(np.arange(S) == 0, r.shape)
    return np.stack([first, r == -1, r == 0], axis=-1)


def attention_shares(weights, *, q_offset=0):
    """
    Weights of the first, of the previous, and of the own token.

    >>> weights = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> print(attention_shares(weights, q_offset=3))
    [[0.1 0.3 0.4]]
    """
    places = special_places(*weights.shape[-2:], q_offset)
    return np.einsum("...ij,ijn->...in", weights, places)


def attention_shares_vjp(dout, weights, *, q_offset=0):
    """
    Backward pass: a cotangent goes to the place that its share was read from.

    >>> weights, dout = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[1.0, 2.0, 4.0]])
    >>> print(attention_shares_vjp(dout, weights, q_offset=3))
    [[1. 0. 2. 4.]]
    """
    places = special_places(*weights.shape[-2:], q_offset)
    return np.einsum("...in,ijn->...ij", dout, places)


# == attention_rollout


def mixing_matrices(weights, residual):
    """How each layer mixes the tokens: itself by the residual, others by attention."""
    identity = np.eye(weights.shape[-1], dtype=weights.dtype)
    return residual * identity + (1 - residual) * np.mean(weights, axis=-3)


def products_of_layers(layers):
    """Products of the first 0, 1, 2, ... layers, the later ones on the left."""
    T = layers.shape[-1]
    products = [np.broadcast_to(np.eye(T, dtype=layers.dtype), layers.shape[1:])]
    for layer in layers:
        products.append(layer @ products[-1])
    return products


def attention_rollout(weights, *, residual=0.5):
    """
    Weights multiplied through the layers.

    >>> back = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> weights = np.array([[back], [back]])  # two layers with a head each
    >>> print(attention_rollout(weights))
    [[1.   0.   0.  ]
     [0.75 0.25 0.  ]
     [0.25 0.5  0.25]]
    """
    return products_of_layers(mixing_matrices(weights, residual))[-1]


def attention_rollout_vjp(dout, weights, *, residual=0.5):
    """
    Backward pass, from the last layer to the first.

    >>> weights, dout = np.ones((1, 1, 2, 2)), np.array([[2.0, 4.0], [6.0, 8.0]])
    >>> print(attention_rollout_vjp(dout, weights)[0, 0])
    [[1. 2.]
     [3. 4.]]
    """
    layers = mixing_matrices(weights, residual)
    before = products_of_layers(layers)
    share = (1 - residual) / weights.shape[-3]
    grads = np.zeros_like(weights)
    for l in reversed(range(len(layers))):
        dlayer = dout @ before[l].mT
        grads[l] = share * dlayer[..., None, :, :]  # each head alike
        dout = layers[l].mT @ dout
    return grads
