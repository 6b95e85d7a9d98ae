r"""Latent attention: keys and values are projected from a small vector, the only one cached."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_number,
    check_constant,
    check_given,
    check_multiple,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    result,
    shown,
    wrong_shape,
)
from .._core.pytree import displayed
from ..normalization import rms_norm, rms_norm_jvp, rms_norm_vjp
from ._block import Heads, as_heads, merge, split
from ._cache import KVCache
from ._scaled_dot_product import (
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
)

__all__ = [
    "LatentAttentionParams",
    "latent_attention",
    "latent_attention_jvp",
    "latent_attention_vjp",
]


@displayed
class LatentAttentionParams(NamedTuple):
    r"""
    Weights of latent attention.

    Parameters
    ----------
    w_dq : ndarray or None, shape (Rq, D)
        Projection down to the latent of the queries; None where ``w_uq`` acts on the tokens.
    q_norm : ndarray or None, shape (Rq,)
        Weight of the RMS norm of that latent; None exactly where ``w_dq`` is.
    w_uq : ndarray, shape (H (N + R), Rq) or (H (N + R), D)
        Projection up to the queries. Head h has N + R rows: N channels without a rotation, then R
        channels that are rotated.
    w_dkv : ndarray, shape (Rkv + R, D)
        Projection down: the latent of keys and values, then the rotated key that all heads share.
    kv_norm : ndarray, shape (Rkv,)
        Weight of the RMS norm of the latent.
    w_uk : ndarray, shape (H N, Rkv)
        Projection up to the keys without a rotation.
    w_uv : ndarray, shape (H V, Rkv)
        Projection up to the values.
    w_o : ndarray, shape (D_out, H V)
        Projection of the merged heads.

    See Also
    --------
    latent_attention : Takes them.
    AttentionParams : Of the usual attention.

    Notes
    -----
    In modules of DeepSeek-V2 and V3 they are ``q_a_proj``, ``q_a_layernorm``, ``q_b_proj``,
    ``kv_a_proj_with_mqa``, ``kv_a_layernorm``, ``kv_b_proj`` and ``o_proj``. ``kv_b_proj`` has the
    N rows of `w_uk` and the V rows of `w_uv` of one head, then of the next head.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import LatentAttentionParams
    >>> H, N, V, kv_b = 2, 1, 3, np.arange(8.0)[:, None]
    >>> rows = kv_b.reshape(H, N + V, 1)
    >>> w_uk, w_uv = rows[:, :N].reshape(H * N, 1), rows[:, N:].reshape(H * V, 1)
    >>> w_uk.ravel(), w_uv.ravel()
    (array([0., 4.]), array([1., 2., 3., 5., 6., 7.]))
    >>> params = LatentAttentionParams(
    ...     None, None, np.ones((2, 4)), np.ones((1, 4)), np.ones(1), w_uk, w_uv, np.ones((4, 6))
    ... )
    >>> params.w_uk.shape, params.w_dq
    ((2, 1), None)
    """

    w_dq: FloatArray | None
    q_norm: FloatArray | None
    w_uq: FloatArray
    w_dkv: FloatArray
    kv_norm: FloatArray
    w_uk: FloatArray
    w_uv: FloatArray
    w_o: FloatArray


def _as_params(name: str, params: Any) -> LatentAttentionParams:
    return LatentAttentionParams(
        *entries(name, params, len(LatentAttentionParams._fields)).values()
    )


def _labels(name: str) -> list[str]:
    return [f"{name}.{field}" for field in LatentAttentionParams._fields]


class _Attended(NamedTuple):
    """Queries, keys and values of all heads, or of the latents."""

    q: FloatArray
    k: FloatArray
    v: FloatArray


class _Layer:
    """The arguments, checked, in one dtype, and the forward pass up to the heads."""

    def __init__(
        self,
        names: tuple[str, str],
        x: npt.ArrayLike,
        params: Any,
        heads: Heads,
        scale: float | None,
        eps: float,
        **more: Any,
    ) -> None:
        fields, labels = _as_params(names[1], params), _labels(names[1])
        given = {n: p for n, p in zip(labels, fields, strict=True) if p is not None}
        for label in labels[2:]:
            check_given(label, given.get(label))
        extra = {n: a for n, a in more.items() if a is not None}
        self.dtype, found = as_floats({names[0]: x, **given, **extra}, work=np.float32)
        self.x, arrays = found[0], dict(zip(given, found[1:], strict=False))
        self.p = LatentAttentionParams(*(arrays.get(label) for label in labels))  # type: ignore[arg-type]
        self.more = dict(zip(extra, found[1 + len(given) :], strict=True))
        self.heads, self.norm = heads, {"eps": as_number("eps", eps, least=0)}
        check_ndim(names[0], self.x, 2)
        self._check(labels)
        self.N, self.R = len(self.p.w_uk) // heads.queries, len(self.p.w_dkv) - len(self.p.kv_norm)
        self.scale = 1 / math.sqrt(max(self.N + self.R, 1)) if scale is None else scale

    def _check(self, labels: list[str]) -> None:
        """Raise unless the weights fit the tokens and each other."""
        p, H, D = self.p, self.heads.queries, self.x.shape[-1]
        if (p.w_dq is None) != (p.q_norm is None):
            which, other = (0, 1) if p.w_dq is None else (1, 0)
            msg = f"Argument {labels[which]!r} must be given where {labels[other]} is, not None."
            raise TypeError(msg)
        low = D
        if p.w_dq is not None and p.q_norm is not None:
            check_pattern(labels[0], p.w_dq, ("Rq", D))
            low = len(p.w_dq)
            check_shape(labels[1], p.q_norm, (low,))
        check_pattern(labels[4], p.kv_norm, ("Rkv",))
        latent = len(p.kv_norm)
        check_pattern(labels[3], p.w_dkv, ("Rkv + R", D))
        rotated = len(p.w_dkv) - latent
        if rotated < 0:
            wrong_shape(labels[3], p.w_dkv, f"(Rkv + R, {D}) with Rkv = {latent}")
        for label, w in zip(labels[5:7], (p.w_uk, p.w_uv), strict=True):
            check_pattern(label, w, ("rows", latent))
            check_multiple(label, "a number of rows", len(w), H)
        check_shape(labels[2], p.w_uq, (len(p.w_uk) + H * rotated, low))
        check_pattern(labels[7], p.w_o, ("D_out", len(p.w_uv)))
        if self.heads.rope is not None:
            cos = self.heads.rope[0]
            if 2 * cos.shape[-1] != rotated:
                msg = f"Argument 'rope' must have tables of R / 2 = {rotated / 2:g} columns, "
                raise ValueError(msg + f"not {cos.shape[-1]}.")

    def run(self) -> None:
        """Compute the latents, and from them the queries."""
        p = self.p
        self.low = self.x
        if p.w_dq is not None and p.q_norm is not None:
            self.before_q = self.x @ p.w_dq.T
            self.low = rms_norm(self.before_q, p.q_norm, **self.norm)
        q = split(self.low @ p.w_uq.T, self.heads.queries)
        self.q_plain, self.q_turned = q[..., : self.N], self.heads.rotated(q[..., self.N :])
        down = self.x @ p.w_dkv.T
        self.before_kv = down[..., : len(p.kv_norm)]
        self.latent = rms_norm(self.before_kv, p.kv_norm, **self.norm)
        self.shared = self.heads.rotated(down[..., None, :, len(p.kv_norm) :])

    def expanded(self, latent: FloatArray, shared: FloatArray) -> _Attended:
        """Return queries, keys and values of all heads."""
        H = self.heads.queries
        keys = split(latent @ self.p.w_uk.T, H)
        common = np.broadcast_to(shared, (*keys.shape[:-1], self.R))
        q = np.concatenate([self.q_plain, self.q_turned], axis=-1)
        k = np.concatenate([keys, common], axis=-1)
        return _Attended(q, k, split(latent @ self.p.w_uv.T, H))

    def absorbed(self, latent: FloatArray, shared: FloatArray) -> _Attended:
        """Return queries that meet the latents themselves, which are keys and values of all."""
        w_uk = self.p.w_uk.reshape(self.heads.queries, self.N, -1)
        q = np.concatenate([self.q_plain @ w_uk, self.q_turned], axis=-1)
        one = latent[..., None, :, :]
        return _Attended(q, np.concatenate([one, shared], axis=-1), one)

    def read(self, averages: FloatArray) -> FloatArray:
        """Return the averages of the values, given the averages of the latents."""
        H = self.heads.queries
        w_uv = self.p.w_uv.reshape(H, -1, self.p.w_uv.shape[-1])
        return np.asarray(averages @ w_uv.swapaxes(-1, -2))


def latent_attention(
    x: npt.ArrayLike,
    params: LatentAttentionParams,
    *,
    num_heads: int,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    cache: KVCache | None = None,
    absorbed: bool = False,
    is_causal: bool = True,
    scale: float | None = None,
    eps: float = 1e-6,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Attend with keys and values that are projected from one small vector for each token.

    This is multi-head latent attention (MLA) of DeepSeek-V2 and V3. The cache keeps the small
    vector in place of the keys and values of all heads, and each head still has its own.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Tokens.
    params : LatentAttentionParams
        The weights. All widths follow from their shapes.
    num_heads : int
        Number H of heads.
    rope : tuple (cos, sin) of array_like or None
        Tables of :func:`dlref.positions.rope_tables`, shape (T, R / 2), for the positions of `x`.
        They rotate the last R channels of each query, and the key that all heads share.
    rope_interleaved : bool, default True
        Whether pairs of channels are neighbours, or else stand in two halves.
    cache : KVCache or None
        ``KVCache.empty(batch, 1, R, Rkv)``: its keys are the rotated shared keys of earlier tokens,
        and its values are their latents. The keys and latents of `x` are appended.
    absorbed : bool, default False
        Whether scores and averages are computed from the latents themselves. The numbers are the
        same but for rounding.
    is_causal : bool, default True
        Whether a token sees itself and earlier tokens only. S counts the cache.
    scale : float or None
        Factor of the scores; None is :math:`1 / \sqrt{N + R}`.
    eps : float, default 1e-6
        Epsilon of both norms.
    mask : array_like of bool or None
        True = attend; broadcasts to (..., H, T, S).

    Returns
    -------
    ndarray, shape (..., T, D_out)
        One vector for each token.

    Raises
    ------
    TypeError
        If an array is not real, a weight is None, `params` is not a tuple, or an option has the
        wrong type.
    ValueError
        If the shapes do not fit, or an option is out of range.

    See Also
    --------
    multi_head_attention : Keys and values are projected from the tokens.
    KVCache : Keeps the latents.

    Notes
    -----
    The latent of token j is :math:`\vec c_j`, of length :math:`R_{kv}`, much less than the keys and
    values of all heads together. With the rows :math:`\mat W_{UK}^{(h)}` of head h,

    .. math::

        \begin{pmatrix} \vec z_j \\ \vec t_j \end{pmatrix} = \mat W_{DKV}\, \vec x_j , \qquad
        \vec c_j = \operatorname{rms}(\vec z_j) , \qquad
        \vec k_{hj} = \mat W_{UK}^{(h)} \vec c_j , \qquad
        \vec v_{hj} = \mat W_{UV}^{(h)} \vec c_j .

    The queries have a latent of their own, which saves parameters and no cache:

    .. math::

        \begin{pmatrix} \vec q_{hi} \\ \vec r_{hi} \end{pmatrix} = \mat W_{UQ}^{(h)}
        \operatorname{rms}(\mat W_{DQ}\, \vec x_i) .

    A query has a part without position and a part that is rotated; the rotated key
    :math:`\mat R_j \vec t_j` is one for all heads. Both parts add up in the score, and the values
    are averaged as usual:

    .. math::

        s_{hij} = c \bigl( \vec q_{hi} \cdot \vec k_{hj} + (\mat R_i \vec r_{hi}) \cdot
        (\mat R_j \vec t_j) \bigr) , \qquad
        \vec o_{hi} = \sum_j p_{hij} \vec v_{hj} , \qquad
        \vec y_i = \mat W_O \begin{pmatrix} \vec o_{1i} \\ \vdots \\ \vec o_{Hi} \end{pmatrix} .

    **Absorption.** The projections up to keys and values can move to the other side of the dot
    product and of the average, because both are linear:

    .. math::

        \vec q_{hi} \cdot \bigl( \mat W_{UK}^{(h)} \vec c_j \bigr)
        = \bigl( \mat W_{UK}^{(h)\top} \vec q_{hi} \bigr) \cdot \vec c_j , \qquad
        \sum_j p_{hij}\, \mat W_{UV}^{(h)} \vec c_j
        = \mat W_{UV}^{(h)} \sum_j p_{hij}\, \vec c_j .

    Then all heads attend to the same latents, as in multi-query attention with keys of width
    :math:`R_{kv} + R` and values of width :math:`R_{kv}`, and the cache is never expanded. To
    decode one token with a long cache, that is much less work. For a whole text it is
    more, because the dot products are wider.

    **Why the rotated part is apart.** If the keys themselves were rotated, the score would be
    :math:`\vec q_{hi} \cdot \mat R_{j-i} \mat W_{UK}^{(h)} \vec c_j`. The rotation stands between
    the two weights and depends on j, so that nothing could be absorbed, and each step would have to
    project all earlier latents again.

    **Size of the cache**, in numbers for each token and layer, with the widths of DeepSeek-V3
    (H = 128, N = V = 128, R = 64, :math:`R_{kv}` = 512): latent attention
    :math:`R_{kv} + R` = 576; the same heads with a usual cache :math:`H (N + R + V)` = 40,960;
    grouped queries with 8 heads of keys :math:`2 \cdot 8 \cdot 128` = 2048; a single one 256.

    **Conventions.** The published models interleave the pairs of the rotated channels. With YaRN
    the scale is multiplied by the square of the attention factor: pass `scale`.

    The products with weights are formed in the dtype of the arguments, as are the products within
    attention.

    References
    ----------
    - :cite:t:`DeepSeekV2`, section 2.1
    - :cite:t:`DeepSeekV3`

    Examples
    --------
    Token by token with a cache of 3 + 2 numbers for each token, absorbed or not, the
    result is the same as in one pass:

    >>> import numpy as np
    >>> from dlref.attention import KVCache, LatentAttentionParams, latent_attention
    >>> from dlref.positions import rope_frequencies, rope_tables
    >>> rng = np.random.default_rng(0)  # H = 2, N = 4, R = 2, V = 5, Rq = 6, Rkv = 3, D = 8
    >>> shapes = (6, 8), (6,), (12, 6), (5, 8), (3,), (8, 3), (10, 3), (8, 10)
    >>> params = LatentAttentionParams(*(rng.normal(size=shape) for shape in shapes))
    >>> x = rng.normal(size=(4, 8))
    >>> def attend(start, stop, **options):
    ...     rope = rope_tables(np.arange(start, stop), rope_frequencies(2))
    ...     return latent_attention(x[start:stop], params, num_heads=2, rope=rope, **options)
    >>> for absorbed in (False, True):
    ...     cache = KVCache.empty((), 1, 2, 3, dtype=np.float64)
    ...     steps = [attend(t, t + 1, cache=cache, absorbed=absorbed) for t in range(4)]
    ...     print(np.allclose(np.concatenate(steps), attend(0, 4), rtol=1e-12))
    True
    True
    """
    direct = as_bool("absorbed", absorbed)
    heads = as_heads(num_heads, None, rope, rope_interleaved)
    if not isinstance(cache, KVCache | None):
        msg = f"Argument 'cache' must be a KVCache or None, not {shown(cache)}."
        raise TypeError(msg)
    layer = _Layer(("x", "params"), x, params, heads, scale, eps)
    layer.run()
    offset = 0 if cache is None else len(cache)
    latent, shared = layer.latent, layer.shared
    if cache is not None:
        shared, values = cache.append(shared, latent[..., None, :, :])
        latent = values[..., 0, :, :]
    at = (layer.absorbed if direct else layer.expanded)(latent, shared)
    out = scaled_dot_product_attention(
        *at, is_causal=is_causal, q_offset=offset, scale=layer.scale, mask=mask
    )
    out = layer.read(out) if direct else out
    return result(merge(out) @ layer.p.w_o.T, layer.dtype)


def latent_attention_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: LatentAttentionParams,
    *,
    num_heads: int,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    absorbed: bool = False,
    is_causal: bool = True,
    scale: float | None = None,
    eps: float = 1e-6,
    mask: npt.ArrayLike | None = None,
) -> tuple[FloatArray, LatentAttentionParams]:
    r"""
    Vector-Jacobian product (reverse mode) of latent attention.

    Parameters
    ----------
    dout : array_like, shape (..., T, D_out)
        Cotangent :math:`\vec u_i` of each output token.
    x, params, num_heads, rope, rope_interleaved : as in `latent_attention`
        The same.
    absorbed : bool, default False
        Has no effect on the gradient, which is computed with keys and values of all heads.
    is_causal, scale, eps, mask : as in `latent_attention`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., T, D)
        Gradient of the tokens.
    dparams : LatentAttentionParams
        Gradients of the weights, None where there is none.

    Notes
    -----
    :func:`scaled_dot_product_attention_vjp`, with the cotangents
    :math:`\mat W_O^\top \vec u_i`, gives for each head the gradients
    :math:`\vec g^q_{hi}` and :math:`\vec g^r_{hi}` of the two parts of a query,
    :math:`\vec g^k_{hj}` and :math:`\vec g^t_{hj}` of the two parts of a key, and
    :math:`\vec g^v_{hj}` of a value. All that is projected from a latent meets there again, and so
    do all heads:

    .. math::

        \pdv{L}{\vec c_j} = \sum_h \bigl( \mat W_{UK}^{(h)\top} \vec g^k_{hj}
            + \mat W_{UV}^{(h)\top} \vec g^v_{hj} \bigr) , \qquad
        \pdv{L}{\vec t_j} = \mat R_j^\top \sum_h \vec g^t_{hj} .

    The sum over heads in the second is easily missed: the shared key is one vector, though it is
    part of the keys of all heads. The weights have the gradients of a dense layer,

    .. math::

        \pdv{L}{\mat W_{UK}^{(h)}} = \sum_j \vec g^k_{hj}\, \vec c_j^\top , \qquad
        \pdv{L}{\mat W_{UV}^{(h)}} = \sum_j \vec g^v_{hj}\, \vec c_j^\top , \qquad
        \pdv{L}{\mat W_O} = \sum_i \vec u_i\, \vec o_i^\top ,

    and the latents pass through their norms by :func:`dlref.normalization.rms_norm_vjp`. With
    :math:`\vec g^z_j` before the norm, and the gradients :math:`\vec g_i` of the latents of the
    queries before their norm,

    .. math::

        \pdv{L}{\mat W_{DKV}} = \sum_j \begin{pmatrix} \vec g^z_j \\ \pdv{L}{\vec t_j} \end{pmatrix}
            \vec x_j^\top , \qquad
        \pdv{L}{\vec x_i} = \mat W_{DQ}^\top \vec g_i + \mat W_{DKV}^\top
            \begin{pmatrix} \vec g^z_i \\ \pdv{L}{\vec t_i} \end{pmatrix} .

    Examples
    --------
    The only token sees itself with weight 1, so its queries and keys have no gradient:

    >>> import numpy as np
    >>> from dlref.attention import LatentAttentionParams, latent_attention_vjp
    >>> one = np.ones((1, 1))
    >>> params = LatentAttentionParams(None, None, one, one, np.ones(1), one, 3 * one, 5 * one)
    >>> dx, dparams = latent_attention_vjp([[1.0]], [[2.0]], params, num_heads=1, eps=0.0)
    >>> dparams.w_uq, dparams.w_uk, dparams.w_uv, dparams.w_o
    (array([[0.]]), array([[0.]]), array([[5.]]), array([[3.]]))
    """
    as_bool("absorbed", absorbed)
    heads = as_heads(num_heads, None, rope, rope_interleaved)
    check_given("dout", dout)
    layer = _Layer(("x", "params"), x, params, heads, scale, eps, dout=dout)
    u, p = layer.more["dout"], layer.p
    check_shape("dout", u, (*layer.x.shape[:-1], len(p.w_o)))
    layer.run()
    at = layer.expanded(layer.latent, layer.shared)
    options: Any = {"is_causal": is_causal, "scale": layer.scale, "mask": mask}
    out = scaled_dot_product_attention(*at, **options)
    dq, dk, dv = scaled_dot_product_attention_vjp(split(u @ p.w_o, heads.queries), *at, **options)
    dx, grads = _gradients(layer, u, merge(out), dq, dk, dv)
    dparams = (None if g is None else result(g, layer.dtype) for g in grads)
    return result(dx, layer.dtype), LatentAttentionParams(*dparams)  # type: ignore[arg-type]


def _gradients(
    layer: _Layer, u: FloatArray, out: FloatArray, *of_heads: FloatArray
) -> tuple[FloatArray, tuple[FloatArray | None, ...]]:
    """Return the gradients of tokens and weights, given queries', keys' and values'."""
    p, heads, N, (dq, dk, dv) = layer.p, layer.heads, layer.N, of_heads
    dkeys, dvalues = merge(dk[..., :N]), merge(dv)
    dlatent = dkeys @ p.w_uk + dvalues @ p.w_uv
    dshared = heads.rotated_vjp(dk[..., N:].sum(-3, keepdims=True))[..., 0, :, :]
    dbefore, dkv_norm = rms_norm_vjp(dlatent, layer.before_kv, p.kv_norm, **layer.norm)
    ddown = np.concatenate([dbefore, dshared], axis=-1)
    dqueries = merge(np.concatenate([dq[..., :N], heads.rotated_vjp(dq[..., N:])], axis=-1))
    dx, dlow = ddown @ p.w_dkv, dqueries @ p.w_uq
    dw_dq = dq_norm = None
    if p.w_dq is None or p.q_norm is None:
        dx = dx + dlow
    else:
        dbefore_q, dq_norm = rms_norm_vjp(dlow, layer.before_q, p.q_norm, **layer.norm)
        dw_dq, dx = _outer(dbefore_q, layer.x), dx + dbefore_q @ p.w_dq
    grads = (
        dw_dq, dq_norm, _outer(dqueries, layer.low), _outer(ddown, layer.x), dkv_norm,
        _outer(dkeys, layer.latent), _outer(dvalues, layer.latent), _outer(u, out),
    )  # fmt: skip
    return dx, grads


def _outer(u: FloatArray, x: FloatArray) -> FloatArray:
    """Return the sum of the outer products of all tokens."""
    return np.asarray(u.reshape(-1, u.shape[-1]).T @ x.reshape(-1, x.shape[-1]))


def latent_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    num_heads: int,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    absorbed: bool = False,
    is_causal: bool = True,
    scale: float | None = None,
    eps: float = 1e-6,
    mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of latent attention.

    Parameters
    ----------
    primals : tuple (x, params)
        Tokens (..., T, D) and weights.
    tangents : tuple (dx, dparams)
        Tangents, of the same structure; None, also within dparams, is zero.
    num_heads, rope, rope_interleaved : as in `latent_attention`
        The same.
    absorbed : bool, default False
        Has no effect on the tangent, which is computed with keys and values of all heads.
    is_causal, scale, eps, mask : as in `latent_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, D_out)
        Tangent of the output.

    Notes
    -----
    Each projection has the product rule, a norm the tangent of
    :func:`dlref.normalization.rms_norm_jvp`, and a rotation rotates the tangent. So the keys and
    values have the tangents

    .. math::

        \dot{\vec k}_{hj} = \dot{\mat W}_{UK}^{(h)} \vec c_j + \mat W_{UK}^{(h)} \dot{\vec c}_j ,
        \qquad
        \dot{\vec v}_{hj} = \dot{\mat W}_{UV}^{(h)} \vec c_j + \mat W_{UV}^{(h)} \dot{\vec c}_j ,

    and :func:`scaled_dot_product_attention_jvp` gives the tangents of the averages.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import LatentAttentionParams, latent_attention_jvp
    >>> one = np.ones((1, 1))
    >>> params = LatentAttentionParams(None, None, one, one, np.ones(1), one, 3 * one, 5 * one)
    >>> moves = LatentAttentionParams(*6 * [None], one, None)
    >>> latent_attention_jvp(([[2.0]], params), (None, moves), num_heads=1, eps=0.0)
    array([[5.]])
    """
    as_bool("absorbed", absorbed)
    x, params = entries("primals", primals, 2).values()
    dx, dparams = entries("tangents", tangents, 2).values()
    moves = _as_params("tangents[1]", (None,) * 8 if dparams is None else dparams)
    extra = {"tangents[0]": dx, **dict(zip(_labels("tangents[1]"), moves, strict=True))}
    heads = as_heads(num_heads, None, rope, rope_interleaved)
    layer = _Layer(("primals[0]", "primals[1]"), x, params, heads, scale, eps, **extra)
    moving: list[Any] = []
    for name, point in zip(extra, (layer.x, *layer.p), strict=True):
        if point is None:
            check_constant(name, extra[name])
            moving.append(None)
        else:
            moving.append(layer.more.get(name, np.zeros(point.shape, point.dtype)))
            check_shape(name, moving[-1], point.shape)
    layer.run()
    at, dat = _pushed(layer, *moving)
    options: Any = {"is_causal": is_causal, "scale": layer.scale, "mask": mask}
    out = scaled_dot_product_attention(*at, **options)
    dout = scaled_dot_product_attention_jvp(tuple(at), tuple(dat), **options)
    return result(merge(dout) @ layer.p.w_o.T + merge(out) @ moving[-1].T, layer.dtype)


def _pushed(
    layer: _Layer, dx: Any, dw_dq: Any, dq_norm: Any, dw_uq: Any, dw_dkv: Any, dkv_norm: Any,
    dw_uk: Any, dw_uv: Any, _dw_o: Any,
) -> tuple[_Attended, _Attended]:  # fmt: skip
    """Return queries, keys and values of the heads, and their tangents."""
    p, heads, N, H = layer.p, layer.heads, layer.N, layer.heads.queries
    dlow = dx
    if p.w_dq is not None and p.q_norm is not None:
        moved = dx @ p.w_dq.T + layer.x @ dw_dq.T
        dlow = rms_norm_jvp((layer.before_q, p.q_norm), (moved, dq_norm), **layer.norm)
    dq = split(dlow @ p.w_uq.T + layer.low @ dw_uq.T, H)
    dq = np.concatenate([dq[..., :N], heads.rotated(dq[..., N:])], axis=-1)
    ddown = dx @ p.w_dkv.T + layer.x @ dw_dkv.T
    width = len(p.kv_norm)
    primals = layer.before_kv, p.kv_norm
    dlatent = rms_norm_jvp(primals, (ddown[..., :width], dkv_norm), **layer.norm)
    dkeys = split(dlatent @ p.w_uk.T + layer.latent @ dw_uk.T, H)
    dshared = heads.rotated(ddown[..., None, :, width:])
    dshared = np.broadcast_to(dshared, (*dkeys.shape[:-1], layer.R))
    dv = split(dlatent @ p.w_uv.T + layer.latent @ dw_uv.T, H)
    at = layer.expanded(layer.latent, layer.shared)
    return at, _Attended(dq, np.concatenate([dkeys, dshared], axis=-1), dv)
