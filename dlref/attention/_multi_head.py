r"""Multi-head attention: projections and heads."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    check_constant,
    check_flags,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    present,
    result,
    shown,
)
from ._block import AttentionBlock, Heads, as_heads, check_attention_params
from ._cache import KVCache
from ._kernels.arguments import AttentionOptions, HeadOptions, TangentHeadOptions
from ._params import AttentionParams


def _params(arrays: list[FloatArray | None]) -> AttentionParams:
    return AttentionParams(*arrays)  # type: ignore[arg-type]  # the weights among them are given


def _as_params(name: str, params: Any) -> AttentionParams:
    """Return a tuple as parameters; fields after the biases may be left out."""
    most = len(AttentionParams._fields)
    if not isinstance(params, tuple | list):
        msg = f"Argument {name!r} must be a tuple of 8 to {most} arrays, not {shown(params)}."
        raise TypeError(msg)
    if not 8 <= len(params) <= most:
        msg = f"Argument {name!r} must be a tuple of 8 to {most} arrays, not of {len(params)}."
        raise ValueError(msg)
    return _params([*params])


class _Layer:
    """The arguments of multi-head attention, checked, in one dtype; `more` are other arrays."""

    def __init__(
        self,
        names: tuple[str, str, str],
        x_q: npt.ArrayLike,
        x_kv: npt.ArrayLike,
        params: Any,
        heads: Heads,
        sink: Any,
        **more: Any,
    ) -> None:
        fields = _as_params(names[2], params)
        labels = [f"{names[2]}.{field}" for field in AttentionParams._fields]
        given = {n: p for n, p in zip(labels, fields, strict=True) if p is not None}
        for label in labels[:4]:
            check_given(label, given.get(label))
        check_given("dout", more.get("dout", ()))
        tangent_arguments = present(more)
        self.dtype, floats = as_floats(
            {names[0]: x_q, names[1]: x_kv, **given, **tangent_arguments}, work=np.float32
        )
        self.x_q, self.x_kv = floats[:2]
        arrays = dict(zip(given, floats[2:], strict=False))
        self.params = _params([arrays.get(label) for label in labels])
        self.more = dict(zip(tangent_arguments, floats[2 + len(given) :], strict=True))
        self.heads = heads
        if self.params.sink is not None and sink is not None:
            msg = f"Argument 'sink' must be None where {names[2]}.sink is given."
            raise ValueError(msg)
        check_ndim(names[0], self.x_q, 2)
        check_pattern(names[1], self.x_kv, (*self.x_q.shape[:-2], "S", "D_kv"))
        widths = self.x_q.shape[-1], self.x_kv.shape[-1]
        check_attention_params(names[2], self.params, *widths, heads)
        if heads.rope is not None:
            check_pattern(names[1], self.x_kv, (*self.x_q.shape[:-1], "D_kv"))

    def block(
        self, cache: KVCache | None = None, **options: Unpack[AttentionOptions]
    ) -> AttentionBlock:
        """Run the block."""
        return AttentionBlock(self.x_q, self.x_kv, self.params, self.heads, cache, **options)


@overload
def multi_head_attention(
    x_q: npt.ArrayLike,
    x_kv: npt.ArrayLike,
    params: AttentionParams,
    *,
    cache: KVCache | None = ...,
    q_offset: int | None = ...,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[HeadOptions],
) -> FloatArray: ...
@overload
def multi_head_attention(
    x_q: npt.ArrayLike,
    x_kv: npt.ArrayLike,
    params: AttentionParams,
    *,
    cache: KVCache | None = ...,
    q_offset: int | None = ...,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[HeadOptions],
) -> Any: ...
def multi_head_attention(
    x_q: npt.ArrayLike,
    x_kv: npt.ArrayLike,
    params: AttentionParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    cache: KVCache | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int | None = None,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    norm_eps: float = 1e-6,
    norm_offset: float = 0.0,
    norm_after_rope: bool = False,
    clip_qkv: float | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Several attentions side by side, each on its own projection of the tokens.

    Parameters
    ----------
    x_q : array_like, shape (..., T, D)
        Tokens from which the queries are projected.
    x_kv : array_like, shape (..., S, D_kv)
        Tokens from which keys and values are projected: `x_q` itself in self-attention, others in
        cross-attention.
    params : AttentionParams
        Weights :math:`\mat W_Q` (H E, D), :math:`\mat W_K` (Hk E, D_kv), :math:`\mat W_V`
        (Hk V, D_kv), :math:`\mat W_O` (D_out, H V), their biases or None, and the options of a
        model: weights of norms, an output gate, sinks. The head width E follows from the shapes.
    num_heads : int
        Number H of heads of queries.
    num_kv_heads : int or None
        Number Hk of heads of keys and values, a divisor of H; None is H, 1 is multi-query.
    rope : tuple (cos, sin) of array_like or None
        Tables of :func:`dlref.positions.rope_tables`, shape (T, R / 2), for the positions of the
        rows of `x_q` and `x_kv`, which are then equally many. Queries and keys are rotated.
    rope_interleaved : bool, default True
        Whether pairs of channels are neighbors, or else stand in two halves.
    cache : KVCache or None
        Keys and values of earlier tokens. The keys and values of `x_kv` are appended to it.
    mask, bias, is_causal : as in `scaled_dot_product_attention`
        S counts the cache.
    q_offset : int or None
        Position of query 0 among the keys; None is the length of the cache, 0 without one.
    window, scale, softcap, sink, dropout : as in `scaled_dot_product_attention`
        The same.
    norm_eps : float, default 1e-6
        Epsilon of the norms of queries and keys, where `params` has their weights.
    norm_offset : float, default 0.0
        Added to these weights: 1 for models that learn the difference from 1.
    norm_after_rope : bool, default False
        Whether queries and keys are rotated before they are normalized, instead of after.
    clip_qkv : float or None
        Bound c of queries, keys and values, which are restricted to the interval from -c to c
        where queries and keys are about to be rotated; None is none.
    return_lse, return_weights : as in `scaled_dot_product_attention`
        The same.

    Returns
    -------
    ndarray, shape (..., T, D_out)
        One vector for each token of `x_q`; a tuple with the log-sum-exp (..., H, T) and the weights
        (..., H, T, S) if asked for.

    Raises
    ------
    TypeError
        If an array is not real, `params` is not a tuple, a weight None, or an option has the wrong
        type.
    ValueError
        If the shapes do not fit in H, Hk, T, S, E or V, H is not a multiple of Hk, an option
        is out of range, or there are sinks among the parameters and as an option.

    See Also
    --------
    scaled_dot_product_attention : One step of it.
    multi_head_attention_vjp, multi_head_attention_jvp : The derivatives.
    KVCache : Decoding token by token.

    Notes
    -----
    Project, split into heads, attend, merge, project:

    .. math::

        \vec q_{hi} = \mat W_Q^{(h)} \vec x_i + \vec b_Q^{(h)}, \qquad
        \vec o_{hi} = \sum_j p_{hij} \vec v_{hj}, \qquad
        \vec y_i = \mat W_O
            \begin{pmatrix} \vec o_{1, i} \\ \vdots \\ \vec o_{H, i} \end{pmatrix} + \vec b_O .

    :math:`\mat W_Q^{(h)}` are the E rows of head h: one product computes all heads, and the split
    is only another way to count the channels, (..., T, H E) as (..., H, T, E). Keys
    :math:`\vec k_{hj}` and values :math:`\vec v_{hj}` are projected likewise, by
    :math:`\mat W_K` and :math:`\mat W_V` from the tokens of `x_kv`; with fewer heads of keys,
    head h uses head :math:`\lfloor h H_k / H \rfloor`, counted from 0. The weights
    :math:`p_{hij}` are the :func:`attention_weights` for :math:`\vec q_{hi}` and
    :math:`\vec k_{hj}`.

    **Heads as subspaces.** Cut :math:`\mat W_O` into blocks of columns :math:`\mat W_O^{(h)}`.
    Without a bias of the values, and with as many heads of keys as of queries,

    .. math::

        \vec y_i = \vec b_O + \sum_h \sum_j p_{hij}\,
            \mat W_O^{(h)} \mat W_V^{(h)} \vec x_j ,

    a sum over heads. Each reads from the row space of its :math:`\mat W_V^{(h)}`, of dimension V at
    most, by its own pattern of attention, and writes to a space of the same dimension. A single
    head of width D has one pattern only: it must average what it reads. With E = D / H, the cost is
    the same as for one head of full width.

    **Positions.** Rotary tables rotate queries and keys after the projection, not values. A bias
    per distance is `bias`. Sinusoidal or learned positions are added to the tokens before.

    **Norms of queries and keys.** With weights :math:`\vec w^q` and :math:`\vec w^k` among the
    parameters, and the offset :math:`\delta`, every query is divided by its root mean square and
    then rotated,

    .. math::

        \hat{\vec q}_{hi} = \mat R_i \bigl( (\vec w^q + \delta) \odot \vec n_{hi} \bigr), \qquad
        \vec n_{hi} = \frac{\vec q_{hi}}{\rho_{hi}}, \qquad
        \rho_{hi} = \sqrt{\frac1E \sum_e q_{hie}^2 + \epsilon},

    and every key likewise, with :math:`\vec w^k`. Scores cannot run away in training any more: with
    weights of 1 no score exceeds :math:`\sqrt E` in size, whatever the projections. The order
    matters. A rotation leaves :math:`\rho` alone, but it mixes two channels that have different
    weights, so a model that was trained with the norm before the rotation (Qwen3, Gemma 3) computes
    something else with it after. A weight of H E (Hk E) numbers belongs to one norm of
    all heads together (OLMo 2): then :math:`\rho_i` is the same for all heads. A weight of H rows
    (Hk rows) belongs to layer norms (Command R+, StableLM 2 12B), and each head has a row of it:

    .. math::

        \hat{\vec q}_{hi} = \mat R_i \bigl( (\vec w^q_h + \delta) \odot
            \frac{\vec q_{hi} - \mu_{hi}}{\tau_{hi}} \bigr), \qquad
        \mu_{hi} = \frac1E \sum_e q_{hie}, \qquad
        \tau_{hi} = \sqrt{\frac1E \sum_e (q_{hie} - \mu_{hi})^2 + \epsilon} .

    **Bounds.** With `clip_qkv`, every number of the queries, the keys and the values is restricted
    to the interval from :math:`-c` to :math:`c`, after a norm and before the rotation,

    .. math::

        \tilde q_{hie} = \max ( -c, \min ( c, q_{hie} ) ), \qquad
        \tilde k_{hje} = \max ( -c, \min ( c, k_{hje} ) ), \qquad
        \tilde v_{hje} = \max ( -c, \min ( c, v_{hje} ) ) .

    DBRX and the first OLMo models were trained with c = 8, MPT for stories with c = 6. No score
    before its scale exceeds :math:`E c^2` then, but a number beyond the bound has no gradient. With
    `norm_after_rope` the bounds still come before the rotation, and so before the norm.

    **Output gate.** With :math:`\mat W_G`, a token decides how much of each channel it takes:

    .. math::

        \vec y_i = \mat W_O \bigl( \sigma(\mat W_G \vec x_i + \vec b_G) \odot \vec o_i \bigr)
            + \vec b_O .

    It lets a head be silent, which a softmax cannot be: its weights sum to 1. A **sink** does the
    same inside the softmax, with one logit for each head.

    **Cache.** The keys of token j depend, in a causal model, on the tokens up to j alone, so they
    never change when more are appended. Fed in chunks of any size, with the tables of their own
    positions, the tokens give the same as in one pass.

    The products with weights are formed in the dtype of the arguments, as are the products within
    attention.

    References
    ----------
    - :cite:t:`Vaswani2017`
    - :cite:t:`Shazeer2019`
    - :cite:t:`Ainslie2023`
    - :cite:t:`Henry2020` on norms of queries and keys
    - :cite:t:`Qiu2025` on the gate; :cite:t:`Xiao2024` on sinks

    Examples
    --------
    Two heads of width 1 that look at one channel each. In either head the score of a token with
    itself is 9 · 9 = 81, and with the other token −81, so each token attends to itself:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams, multi_head_attention
    >>> eye = np.eye(2)
    >>> params = AttentionParams(9 * eye, 9 * eye, eye, eye)
    >>> x = [[1.0, -1.0], [-1.0, 1.0]]
    >>> multi_head_attention(x, x, params, num_heads=2).round(6)
    array([[ 1., -1.],
           [-1., 1.]])

    As LLaMA attends, with four heads of queries, two of keys, and rotations. Fed token by token,
    with a cache and the tables of its own position, the result is the same as in one pass:

    >>> from dlref.attention import KVCache
    >>> from dlref.positions import rope_frequencies, rope_tables
    >>> rng = np.random.default_rng(0)
    >>> shapes = (8, 8), (4, 8), (4, 8), (8, 8)  # of queries, keys, values, output
    >>> params = AttentionParams(*(rng.normal(size=shape) for shape in shapes))
    >>> x, options = rng.normal(size=(3, 8)), {"num_heads": 4, "num_kv_heads": 2, "is_causal": True}
    >>> def attend(start, stop, cache=None):
    ...     rope = rope_tables(np.arange(start, stop), rope_frequencies(2))
    ...     part = x[start:stop]
    ...     return multi_head_attention(part, part, params, rope=rope, cache=cache, **options)
    >>> cache = KVCache.empty((), 2, 2, dtype=np.float64)
    >>> steps = [attend(t, t + 1, cache) for t in range(3)]
    >>> bool(np.allclose(np.concatenate(steps), attend(0, 3), rtol=1e-13)), len(cache)
    (True, 3)

    With norms, queries a thousand times as large attend as before:

    >>> normed = params._replace(q_norm=np.ones(2), k_norm=np.ones(2))
    >>> large = normed._replace(w_q=1000 * normed.w_q)
    >>> y, z = (multi_head_attention(x, x, p, norm_eps=0, **options) for p in (normed, large))
    >>> bool(np.allclose(y, z, rtol=1e-12))
    True
    """
    check_flags(return_lse=return_lse, return_weights=return_weights)
    norm = {"norm_eps": norm_eps, "norm_offset": norm_offset, "norm_after_rope": norm_after_rope}
    heads = as_heads(num_heads, num_kv_heads, rope, rope_interleaved, clip_qkv=clip_qkv, **norm)
    layer = _Layer(("x_q", "x_kv", "params"), x_q, x_kv, params, heads, sink)
    if not isinstance(cache, KVCache | None):
        msg = f"Argument 'cache' must be a KVCache or None, not {shown(cache)}."
        raise TypeError(msg)
    if q_offset is None:
        q_offset = 0 if cache is None else len(cache)
    block = layer.block(
        cache, mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window,
        scale=scale, softcap=softcap, sink=sink, dropout=dropout,
    )  # fmt: skip
    results = [result(block.out(), layer.dtype)]
    if return_lse:
        results.append(result(block.lse(), layer.dtype))
    if return_weights:
        results.append(result(block.weights(), layer.dtype))
    return tuple(results) if len(results) > 1 else results[0]


def multi_head_attention_vjp(
    dout: npt.ArrayLike,
    x_q: npt.ArrayLike,
    x_kv: npt.ArrayLike,
    params: AttentionParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    norm_eps: float = 1e-6,
    norm_offset: float = 0.0,
    norm_after_rope: bool = False,
    clip_qkv: float | None = None,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of multi-head attention.

    Parameters
    ----------
    dout : array_like, shape (..., T, D_out)
        Cotangent :math:`\vec u_i` of each output token.
    x_q, x_kv, params, num_heads, num_kv_heads, rope : as in `multi_head_attention`
        The same.
    rope_interleaved, mask, bias, is_causal, q_offset : as in `multi_head_attention`
        The same.
    window, scale, softcap, sink, dropout : as in `multi_head_attention`
        The same.
    norm_eps, norm_offset, norm_after_rope, clip_qkv : as in `multi_head_attention`
        Raises the same errors.

    Returns
    -------
    dx_q : ndarray, shape (..., T, D)
        Gradient of `x_q`. In self-attention the gradient of the tokens is dx_q + dx_kv.
    dx_kv : ndarray, shape (..., S, D_kv)
        Gradient of `x_kv`.
    dparams : AttentionParams
        Gradients of the parameters, None where there is none.
    dbias : ndarray
        Gradient of a bias. Only if one is given.
    dsink : ndarray, shape (H,)
        Gradient of the sinks. Only if they are given as an option; sinks among the parameters
        have theirs in `dparams`.

    See Also
    --------
    scaled_dot_product_attention_vjp : The derivation of its core.

    Notes
    -----
    **The differential.** Without norms and a gate,

    .. math::

        \dd \vec q_{hi} = \mat W_Q^{(h)}\, \dd \vec x_i + \dd \mat W_Q^{(h)}\, \vec x_i
            + \dd \vec b_Q^{(h)}, \qquad
        \dd \vec y_i = \mat W_O\, \dd \vec o_i + \dd \mat W_O\, \vec o_i + \dd \vec b_O ,

    likewise for keys and values. Here :math:`\vec o_i` is the column of all heads, of length H V,
    by which :math:`\mat W_O` is multiplied. Between the two stands attention, whose differential is
    in :func:`scaled_dot_product_attention_vjp`.

    **The inner product.** :math:`\dd L = \sum_i \vec u_i \cdot \dd \vec y_i`.

    **The transpose.** The transposes of the maps in reverse order, from the output to the tokens:

    1. Output projection:

       .. math::

           \pdv{L}{\mat W_O} = \sum_i \vec u_i\, \vec o_i^\top, \qquad
           \pdv{L}{\vec b_O} = \sum_i \vec u_i, \qquad
           \pdv{L}{\vec o_i} = \mat W_O^\top \vec u_i .

       The gradient of :math:`\vec o_i` is split among the heads again.
    2. :func:`scaled_dot_product_attention_vjp` gives the gradients of (rotated) queries, (rotated)
       keys and values, per head.
    3. The rotation is orthogonal, so its transpose rotates gradients by the negative angle; for
       queries, and likewise for keys,

       .. math::

           \vec g_{hi} = \mat R_i^\top \pdv{L}{(\mat R_i \vec q_{hi})} .

       With norms it arrives at the normalized queries or keys. Let :math:`\vec a_{hj} = (\vec w^k +
       \delta) \odot \vec g_{hj}`, and :math:`\vec n_{hj} = \vec k_{hj} / \rho_{hj}`. Then

       .. math::

           \pdv{L}{\vec w^k} = \sum_h \sum_j \vec n_{hj} \odot \vec g_{hj}, \qquad
           \pdv{L}{\vec k_{hj}} = \frac{1}{\rho_{hj}} \Bigl( \vec a_{hj} - \vec n_{hj}\,
               \frac{\vec n_{hj} \cdot \vec a_{hj}}{E} \Bigr) .

       Ports get the first wrong in two ways: :math:`\vec g_{hj}` is the gradient *after* it was
       rotated back, and the sum goes over all heads of keys and all tokens, since one weight
       serves them all. Each head of keys has collected the gradients of its H / Hk heads of
       queries before. Where each head has a layer norm, there is no sum over the heads, and
       :func:`dlref.normalization.layer_norm_vjp` gives the gradient of the keys.
    4. Merge the heads. With :math:`\vec g_i`, :math:`\vec g^k_i`, :math:`\vec g^v_i` for the merged
       gradients of queries, keys and values, of length H E, Hk E and Hk V, in self-attention,

       .. math::

           \pdv{L}{\mat W_Q} &= \sum_i \vec g_i\, \vec x_i^\top, \qquad
           \pdv{L}{\vec b_Q} = \sum_i \vec g_i, \\
           \pdv{L}{\vec x_i} &= \mat W_Q^\top \vec g_i + \mat W_K^\top \vec g^k_i + \mat W_V^\top
               \vec g^v_i .

       and likewise for the weights of keys and values. In cross-attention the first term of the sum
       is the gradient of `x_q`, and the other two add up to the gradient of `x_kv`.

    Bounds stand between a rotation and a norm, and pass the gradients of the numbers within them,
    of queries, keys and values alike:

    .. math::

        \pdv{L}{q_{hie}} = \begin{cases}
            g_{hie} & -c \le q_{hie} \le c \\
            0 & \text{otherwise}
        \end{cases}

    An output gate stands between 1 and 2. With :math:`\vec z_i = \mat W_G \vec x_i + \vec b_G` and
    :math:`\vec u'_i = \mat W_O^\top \vec u_i`,

    .. math::

        \pdv{L}{\vec o_i} = \sigma(\vec z_i) \odot \vec u'_i, \qquad
        \pdv{L}{\vec z_i} = \sigma(\vec z_i) \odot \sigma(-\vec z_i) \odot \vec o_i \odot \vec u'_i,

    and the gradients of :math:`\mat W_G`, :math:`\vec b_G` and `x_q` are as in a dense layer.

    The bias :math:`\vec b_K` shifts all scores of a row alike, in each head by
    :math:`c\, \vec q_i \cdot \vec b_K`, so its gradient is 0 up to rounding. Not so with a rotation
    (each key's bias is rotated by another angle), with `clip_qkv` (a number beyond the bound is not
    shifted), with `softcap` (the scores are shifted before tanh) or with `sink` (whose score is not
    shifted).

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    A single key has the weight 1, whatever the query is. The gradient flows through the value
    alone: 5 · 3 to the token, and 5 · 7 to the weight of the values.

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams, multi_head_attention_vjp
    >>> one = np.ones((1, 1))
    >>> params = AttentionParams(one, one, 3 * one, 5 * one)
    >>> dx_q, dx_kv, dparams = multi_head_attention_vjp(
    ...     [[1.0]], [[2.0]], [[7.0]], params, num_heads=1
    ... )
    >>> dx_q, dx_kv, dparams.w_v, dparams.b_v
    (array([[0.]]), array([[15.]]), array([[35.]]), None)
    """
    norm = {"norm_eps": norm_eps, "norm_offset": norm_offset, "norm_after_rope": norm_after_rope}
    heads = as_heads(num_heads, num_kv_heads, rope, rope_interleaved, clip_qkv=clip_qkv, **norm)
    layer = _Layer(("x_q", "x_kv", "params"), x_q, x_kv, params, heads, sink, dout=dout)
    check_shape("dout", layer.more["dout"], (*layer.x_q.shape[:-1], len(layer.params.w_o)))
    block = layer.block(
        mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window, scale=scale,
        softcap=softcap, sink=sink, dropout=dropout,
    )  # fmt: skip
    dx_q, dx_kv, dparams, *rest = block.vjp(layer.more["dout"])
    dparams = _params([None if g is None else result(g, layer.dtype) for g in dparams])
    grads = (result(g, layer.dtype) for g in rest)
    return result(dx_q, layer.dtype), result(dx_kv, layer.dtype), dparams, *grads


@overload
def multi_head_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[TangentHeadOptions],
) -> FloatArray: ...
@overload
def multi_head_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[TangentHeadOptions],
) -> Any: ...
def multi_head_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    dbias: npt.ArrayLike | None = None,
    dsink: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    norm_eps: float = 1e-6,
    norm_offset: float = 0.0,
    norm_after_rope: bool = False,
    clip_qkv: float | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Jacobian-vector product (forward mode) of multi-head attention.

    Parameters
    ----------
    primals : tuple (x_q, x_kv, params)
        Tokens of the queries (..., T, D), of the keys and values (..., S, D_kv), and the
        parameters.
    tangents : tuple (dx_q, dx_kv, dparams)
        Tangents, of the same structure; None, also within dparams, is zero.
    num_heads, num_kv_heads, rope, rope_interleaved : as in `multi_head_attention`
        The same.
    dbias : array_like or None
        Tangent of the option `bias`; None is zero.
    dsink : array_like or None, shape (H,)
        Tangent of the option `sink`; None is zero.
    mask, bias, is_causal, q_offset, window, scale : as in `multi_head_attention`
        The same.
    softcap, sink, dropout, norm_eps, norm_offset : as in `multi_head_attention`
        The same.
    norm_after_rope, clip_qkv, return_lse, return_weights : as in `multi_head_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, D_out)
        Tangent of the output; a tuple with the tangents of log-sum-exp and weights if asked for.

    Notes
    -----
    The steps of the forward pass in the same order. The projections have the product rule,

    .. math::

        \dot{\vec q}_i &= \dot{\mat W}_Q \vec x_i + \mat W_Q \dot{\vec x}_i + \dot{\vec b}_Q, \\
        \dot{\vec y}_i &= \dot{\mat W}_O \vec o_i + \mat W_O \dot{\vec o}_i + \dot{\vec b}_O,

    likewise for keys and values. A rotation rotates the tangent like the vector, a norm has the
    tangent of :func:`dlref.normalization.rms_norm_jvp`, a bound the one of
    :func:`dlref.calculus.clip_jvp`, a gate the product rule, and
    :func:`scaled_dot_product_attention_jvp` gives :math:`\dot{\vec o}_i` in between.

    Examples
    --------
    A tangent of the output bias is added to the output:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams, multi_head_attention_jvp
    >>> params = AttentionParams(*np.ones((4, 1, 1)), b_o=np.zeros(1))
    >>> moves = AttentionParams(None, None, None, None, b_o=np.ones(1))
    >>> primals = [[2.0]], [[7.0]], params
    >>> multi_head_attention_jvp(primals, (None, None, moves), num_heads=1)
    array([[1.]])
    """
    x_q, x_kv, params = entries("primals", primals, 3).values()
    dx_q, dx_kv, dparams = entries("tangents", tangents, 3).values()
    moves = _as_params("tangents[2]", (None,) * 8 if dparams is None else dparams)
    extra = {"tangents[0]": dx_q, "tangents[1]": dx_kv} | {
        f"tangents[2].{field}": move
        for field, move in zip(AttentionParams._fields, moves, strict=True)
    }
    norm = {"norm_eps": norm_eps, "norm_offset": norm_offset, "norm_after_rope": norm_after_rope}
    heads = as_heads(num_heads, num_kv_heads, rope, rope_interleaved, clip_qkv=clip_qkv, **norm)
    names = "primals[0]", "primals[1]", "primals[2]"
    layer = _Layer(names, x_q, x_kv, params, heads, sink, **extra)
    still = layer.x_q, layer.x_kv, *layer.params
    for name, point in zip(extra, still, strict=True):
        if point is None:
            check_constant(name, extra[name])
        elif name in layer.more:
            check_shape(name, layer.more[name], point.shape)
    block = layer.block(
        mask=mask, bias=bias, is_causal=is_causal, q_offset=q_offset, window=window, scale=scale,
        softcap=softcap, sink=sink, dropout=dropout,
    )  # fmt: skip
    dx_q, dx_kv, *dp = (layer.more.get(name) for name in extra)
    tangents = block.jvp(
        dx_q, dx_kv, _params(dp), dbias=dbias, dsink=dsink, return_lse=return_lse,
        return_weights=return_weights,
    )  # fmt: skip
    results = tuple(result(d, layer.dtype) for d in tangents)
    return results if len(results) > 1 else results[0]
