r"""Latent attention: keys and values are projected from a small vector, the only one cached."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_bool,
    as_floats,
    as_number,
    check_constant,
    check_given,
    check_ndim,
    check_shape,
    entries,
    present,
    result,
    shown,
)
from .._core.pytree import displayed
from ._block import Heads, as_heads
from ._cache import KVCache
from ._kernels.arguments import AttentionOptions
from ._latent import LatentBlock, check_latent_params


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


def _checked(
    names: tuple[str, str],
    x: npt.ArrayLike,
    params: Any,
    heads: Heads,
    extra: dict[str, Any],
) -> tuple[FloatDType, FloatArray, LatentAttentionParams, dict[str, FloatArray]]:
    """Return the dtype, tokens, weights and other arrays to compute with."""
    fields, labels = _as_params(names[1], params), _labels(names[1])
    given = {n: p for n, p in zip(labels, fields, strict=True) if p is not None}
    for label in labels[2:]:
        check_given(label, given.get(label))
    extra = present(extra)
    dtype, floats = as_floats({names[0]: x, **given, **extra}, work=np.float32)
    arrays = dict(zip(given, floats[1:], strict=False))
    p = LatentAttentionParams(*(arrays.get(label) for label in labels))  # type: ignore[arg-type]
    check_ndim(names[0], floats[0], 2)
    check_latent_params(labels, p, floats[0].shape[-1], heads)
    return dtype, floats[0], p, dict(zip(extra, floats[1 + len(given) :], strict=True))


def _heads(num_heads: int, rope: Any, rope_interleaved: bool, eps: float) -> Heads:
    """Check the options that say how channels are cut into heads, normalized and rotated."""
    return as_heads(
        num_heads, None, rope, rope_interleaved, norm_eps=as_number("eps", eps, least=0)
    )


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
        Whether pairs of channels are neighbors, or else stand in two halves.
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
        \vec y_i = \mat W_O \begin{pmatrix} \vec o_{1, i} \\ \vdots \\ \vec o_{H, i} \end{pmatrix} .

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

    **Conventions.** The published models interleave the pairs of the rotated channels. With YaRN by
    a factor s, DeepSeek multiplies the scale, and not the tables, by the square of
    :math:`0.1\, \text{mscale\_all\_dim} \log s + 1`: pass `scale`.

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
    heads = _heads(num_heads, rope, rope_interleaved, eps)
    if not isinstance(cache, KVCache | None):
        msg = f"Argument 'cache' must be a KVCache or None, not {shown(cache)}."
        raise TypeError(msg)
    dtype, x, p, _ = _checked(("x", "params"), x, params, heads, {})
    options: AttentionOptions = {"is_causal": is_causal, "scale": scale, "mask": mask}
    options["q_offset"] = 0 if cache is None else len(cache)
    return result(LatentBlock(x, p, heads, cache, absorbed=direct, **options).out(), dtype)


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

    Where the queries have no latent, :math:`\vec g_i` is the gradient of the token by way of
    :math:`\mat W_{UQ}`, and there is no :math:`\mat W_{DQ}`.

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
    heads = _heads(num_heads, rope, rope_interleaved, eps)
    check_given("dout", dout)
    dtype, x, p, more = _checked(("x", "params"), x, params, heads, {"dout": dout})
    check_shape("dout", more["dout"], (*x.shape[:-1], len(p.w_o)))
    block = LatentBlock(x, p, heads, is_causal=is_causal, scale=scale, mask=mask)
    dx_q, dx_kv, dp = block.vjp(more["dout"])
    dparams = (None if g is None else result(g, dtype) for g in dp)
    return result(dx_q + dx_kv, dtype), LatentAttentionParams(*dparams)  # type: ignore[arg-type]


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
    heads = _heads(num_heads, rope, rope_interleaved, eps)
    dtype, x, p, more = _checked(("primals[0]", "primals[1]"), x, params, heads, extra)
    moving: list[Any] = []
    for name, point in zip(extra, (x, *p), strict=True):
        if point is None:
            check_constant(name, extra[name])
            moving.append(None)
        else:
            moving.append(more.get(name, np.zeros(point.shape, point.dtype)))
            check_shape(name, moving[-1], point.shape)
    block = LatentBlock(x, p, heads, is_causal=is_causal, scale=scale, mask=mask)
    along, *dp = moving
    return result(block.jvp(along, along, LatentAttentionParams(*dp))[0], dtype)
