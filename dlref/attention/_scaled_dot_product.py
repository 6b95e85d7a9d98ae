r"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    check_flags,
    check_shape,
)
from ._kernels import flash
from ._kernels.arguments import Attention, ScoreOptions, TangentOptions, jvp_arguments
from ._kernels.matrices import scores, softmax_parts, weights_jvp


@overload
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    q_offset: int = ...,
    scale: npt.ArrayLike | None = ...,
    indices: npt.ArrayLike | None = ...,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[ScoreOptions],
) -> FloatArray: ...
@overload
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    q_offset: int = ...,
    scale: npt.ArrayLike | None = ...,
    indices: npt.ArrayLike | None = ...,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[ScoreOptions],
) -> Any: ...
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    indices: npt.ArrayLike | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Average of the values, weighted by the softmax of query-key products.

    Parameters
    ----------
    q : array_like, shape (..., H, T, E) or (T, E)
        Queries.
    k : array_like, shape (..., Hk, S, E) or (S, E)
        Keys; H is a multiple of Hk, and consecutive heads of queries share a head of keys.
    v : array_like, shape (..., Hk, S, V) or (S, V)
        Values.
    mask : array_like of bool or None
        True where query i may attend to key j; it broadcasts to (..., H, T, S).
    bias : array_like or None
        Added to the scores; it broadcasts to (..., H, T, S). −inf masks.
    is_causal : bool, default False
        Whether query i sees only keys :math:`j \le i + \text{q\_offset}`.
    q_offset : int, default 0
        Position of query 0 among the keys, for `is_causal` and `window`.
    window : tuple (left, right) or None
        How many keys are seen before and after position i + q_offset; None or −1 is no bound.
    scale : float, array_like or None
        Factor c of the products; None is :math:`1 / \sqrt E`. An array broadcasts to
        (..., H, T, 1), with a factor for each query. It has no gradient.
    softcap : float or None
        Bound a of the products, by :math:`a \tanh(s / a)`, before bias and mask.
    sink : array_like or None, shape (H,)
        Logit of each head that takes part in the softmax but has no value. It is not scaled.
    dropout : array_like or None
        Factor of each weight, from :func:`dlref.transformer.dropout_mask`; it broadcasts to
        (..., H, T, S).
    indices : array_like of int or None
        Keys that each query may attend to, from :func:`select_keys` for instance; it broadcasts to
        (..., H, T, count). A negative one stands for no key, a repeated one counts once.
    return_lse : bool, default False
        Whether to return the log-sum-exp of each row of scores, sink included.
    return_weights : bool, default False
        Whether to return the matrix of weights.

    Returns
    -------
    out : ndarray, shape (..., H, T, V) or (T, V)
        Averages :math:`\vec o_i`.
    lse : ndarray, shape (..., H, T) or (T,)
        :math:`\ell_i = \log \sum_j e^{s_{ij}}`, where the sum has the term :math:`e^\sigma` of a
        sink, too; −inf for an empty row. Only if requested.
    weights : ndarray, shape (..., H, T, S) or (T, S)
        Weights :math:`p_{ij}`. Only if requested.

    Raises
    ------
    TypeError
        If an array is not real, `mask` is not boolean, or an option has the wrong type.
    ValueError
        If shapes do not fit in H, Hk, T, S, E or V, H is not a multiple of Hk, or an option is
        out of range.

    See Also
    --------
    scaled_dot_product_attention_vjp : Reverse mode, with the derivation.
    attention_weights : The weights alone, and the effect of a permutation.
    multi_head_attention : With the projections around it.

    Notes
    -----
    **Definition.** Every query is compared with every key by a dot product. A softmax over the keys
    turns these scores into weights, and the output is the average of the values with these
    weights:

    .. math::

        s_{ij} = \frac{\vec q_i \cdot \vec k_j}{\sqrt E}, \qquad
        p_{ij} = \frac{e^{s_{ij}}}{\sum_m e^{s_{im}}}, \qquad
        \vec o_i = \sum_j p_{ij} \vec v_j ,

    in matrices :math:`\mat O = \operatorname{softmax}(\mat Q \mat K^\top / \sqrt E)\, \mat V`. The
    weights are not negative and sum to 1: each output lies between the values. `attention_scores`
    explains masks, biases and caps, `attention_weights` a sink :math:`\sigma`.

    **Where q, k and v come from.** In *self-attention* all three are projections of one sequence;
    in *cross-attention* the queries are projections of the decoder's sequence, keys and values of
    the encoder's output. :func:`multi_head_attention` has the projections.

    **Why the square root.** Let the elements of query and key be independent with mean 0 and
    variance 1. Each product :math:`q_e k_e` has the mean 0 and the variance
    :math:`\E q_e^2 \E k_e^2 = 1`. The products are uncorrelated, so the variance of their sum is E.
    Without the factor the standard deviation of the scores is :math:`\sqrt E`. For large E the
    softmax of a row is then nearly one-hot, and its Jacobian
    :math:`\operatorname{diag}(\vec p) - \vec p \vec p^\top` nearly 0: almost no gradient reaches
    queries and keys. Divided by :math:`\sqrt E` the variance is 1 at any width.

    **A kernel smoother.** Averages with weights that fall with the distance of a query from a key
    are older. With a Gaussian of variance :math:`\sqrt E` the weights are the softmax of
    :math:`-\norm{\vec q_i - \vec k_j}^2 / (2 \sqrt E) = s_{ij} - \norm{\vec q_i}^2 / (2 \sqrt E) -
    \norm{\vec k_j}^2 / (2 \sqrt E)`. The second term is the same for all keys of a row and drops
    out of the softmax, and so does the third if all keys have the same length.

    **One pass in tiles.** The scores of T queries and S keys are never all in memory. For each tile
    of queries a loop runs over the tiles of keys, and keeps three things per query: the largest
    score so far m, the sum of exponentials :math:`z = \sum_j e^{s_j - m}`, and the average not yet
    divided, :math:`\vec a = \sum_j e^{s_j - m} \vec v_j`. They begin as −∞, 0 and
    :math:`\vec 0`. With m' for the largest score after a new tile, both sums are multiplied by the
    same factor before the tile is added:

    .. math::

        z \leftarrow e^{m - m'} z + \sum_{j\ \text{new}} e^{s_j - m'}, \qquad
        \vec a \leftarrow e^{m - m'} \vec a + \sum_{j\ \text{new}} e^{s_j - m'} \vec v_j ,

    because :math:`e^{s_j - m'} = e^{m - m'} e^{s_j - m}`. At the end :math:`\vec o = \vec a / z`
    and :math:`\ell = m + \log z`. The result equals the result for the whole row up to rounding,
    whatever the tiles are. No exponent is ever positive, so nothing overflows. A sink is a start
    with :math:`m = \sigma`, :math:`z = 1`, :math:`\vec a = 0`.

    Tiles hidden by causality or a window are skipped; tiles on the edge are masked. Beyond the
    inputs, memory is needed for the output, a copy of the queries times the scale, and 1.5 MB of
    tiles for each thread: for (1, 8, 16384, 64) in float32 twice 34 MB and the tiles, where a
    matrix of scores would take 8.6 GB.

    **Rows without keys.** If every key is masked, :math:`z = 0`. The output is then 0, the
    log-sum-exp −inf, and all gradients through the row are 0. Masked keys and values have no
    influence, not even NaN: where the weight is exactly 0, the value is ignored.

    **Dropout.** The factors :math:`m_{ij}` multiply the weights after the softmax,
    :math:`\vec o_i = \sum_j m_{ij} p_{ij} \vec v_j`. They are an input, so that a gradient check
    uses the same factors in every call. Log-sum-exp and weights are returned without them.

    **Grouped heads.** With H heads of queries and Hk of keys, H / Hk consecutive ones share keys
    and values, which are not copied. Hk = 1 is multi-query attention.

    **Numerics.** float64 is computed in float64, float32 (and the narrower types) in float32, with
    sums of weights over tiles in float64. The rounding error of a score is a *relative* error of
    its weight. So the error is a small number of machine epsilons times
    :math:`(1 + \max_{ij} \sum_e |q_{ie} k_{je}| / \sqrt E) \max_i \sum_j p_{ij} |v_j|`: large
    scores cost digits in any implementation that rounds them. The page :doc:`/accuracy` has the
    largest error found in these units. The bits do not depend on the number of threads.

    Cost: T S (E + V) multiplications and T S exponentials for each head; half of it if causal.

    **A softmax dilutes.** For a weight of 0.9 among S keys, a score must lie
    :math:`\log(9 (S - 1))` above the rest: 6.8 for 100 keys, 11.4 for 10,000. So the same scores
    give flatter weights over a longer text. Models that are trained on short texts multiply the
    scores by :math:`\log n` for n visible keys, or by Llama 4's
    :math:`1 + 0.1 \log(1 + \lfloor n / 8192 \rfloor)`: times :math:`1 / \sqrt E`, it is an array
    for `scale`.

    References
    ----------
    - :cite:t:`Vaswani2017`
    - :cite:t:`MilakovGimelshein2018`
    - :cite:t:`Dao2022`
    - :cite:t:`Ainslie2023`

    Examples
    --------
    By hand, with E = 4: the dot products are 0, 2 log 2 and 2 log 5, the scores half of that, and
    their exponentials 1, 2 and 5. So the weights are 1/8, 2/8 and 5/8, and the average of the
    values 8, 16 and 0 is 1 + 4 + 0:

    >>> import numpy as np
    >>> from dlref.attention import scaled_dot_product_attention
    >>> q, k = np.zeros((1, 4)), np.zeros((3, 4))
    >>> q[0, 0], k[:, 0] = 2, np.log([1, 2, 5])
    >>> scaled_dot_product_attention(q, k, [[8.0], [16.0], [0.0]])
    array([[5.]])

    A query that matches one of two keys returns the value of that key:

    >>> q, k, v = [[50.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]]
    >>> scaled_dot_product_attention(q, k, v).round(6)
    array([[1., 2.]])

    Equal scores give the mean of the values; under a causal mask, of those that are seen:

    >>> scaled_dot_product_attention(np.zeros((2, 2)), k, v, is_causal=True)
    array([[1., 2.],
           [2., 3.]])

    Two keys of a thousand match. The scores of the second query are multiplied by log 1000:

    >>> k = np.zeros((1000, 1))
    >>> k[:2] = 3.0
    >>> scaled_dot_product_attention([[1.0], [1.0]], k, k, scale=[[1.0], [np.log(1000)]]).round(2)
    array([[0.12],
           [3.  ]])

    Selected keys; a negative index is no key:

    >>> indices = [[0, 999], [-1, 1]]
    >>> scaled_dot_product_attention([[0.0], [0.0]], k, k, indices=indices)
    array([[1.5],
           [3. ]])

    For keys of the same length the weights are a Gaussian of the distances:

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.normal(size=(2, 3, 4))
    >>> k /= np.linalg.norm(k, axis=1, keepdims=True)
    >>> _, weights = scaled_dot_product_attention(q, k, k, return_weights=True)
    >>> w = np.exp(-np.sum((q[:, None] - k) ** 2, axis=-1) / (2 * 2))  # the root of 4 is 2
    >>> bool(np.allclose(weights, w / w.sum(axis=1, keepdims=True), rtol=1e-14))
    True

    A row with nothing to attend to gives 0, and a masked NaN has no effect:

    >>> k, v = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [np.nan, np.nan]]
    >>> mask = [[False, False], [True, False]]
    >>> scaled_dot_product_attention(np.ones((2, 2)), k, v, mask=mask)
    array([[0., 0.],
           [1., 2.]])

    A sentence of eleven tokens with random embeddings and projections, as a model has them before
    it has learned anything: the weights of "it" (number 7) are nearly equal, and say nothing yet.

    >>> rng = np.random.RandomState(42)  # the numbers of a legacy generator are given here
    >>> x = rng.randn(11, 4)
    >>> q, k, v = (x @ (0.5 * rng.randn(4, 4)) for _ in range(3))
    >>> out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    >>> weights[7].round(2)
    array([0.1 , 0.12, 0.1 , 0.07, 0.09, 0.08, 0.09, 0.1 , 0.1 , 0.07, 0.09])
    >>> out[7].round(4)
    array([ 0.1058, -0.0189, -0.3371, 0.0788])

    Another sentence of eight tokens, seen from its last:

    >>> rng = np.random.RandomState(42)
    >>> x = rng.randn(8, 4)
    >>> q, k, v = (x @ (0.5 * rng.randn(4, 4)) for _ in range(3))
    >>> out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    >>> weights[7].round(2)
    array([0.14, 0.32, 0.15, 0.02, 0.13, 0.1 , 0.07, 0.07])
    >>> out[7].round(4)
    array([-0.0595, 0.0966, -0.3482, -0.2296])
    """
    check_flags(return_lse=return_lse, return_weights=return_weights)
    at = Attention(
        ("q", "k", "v"), (q, k, v), mask, bias, is_causal, q_offset, window, scale, softcap, sink,
        dropout=dropout, indices=indices,
    )  # fmt: skip
    out, lse = at.attend()
    results = [at.of_queries(out, at.T, at.V)]
    if return_lse:
        results.append(at.of_queries(lse, at.T))
    if return_weights:
        results.append(at.of_queries(softmax_parts(at, scores(at))[0], at.T, at.S))
    return tuple(results) if len(results) > 1 else results[0]


@np.errstate(all="ignore")
def gradients(
    at: Attention,
    dout: FloatArray,
    dlse: FloatArray | None = None,
    known: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, ...]:
    """Return (dq, dk, dv), and the gradients of bias and sink; `known` as for `flash.vjp`."""
    dq, dk, dv, dbias, dsink = flash.vjp(
        at.queries(dout),
        dlse,
        at.q,
        at.k,
        at.v,
        at.sinks,
        at.spec,
        known,
    )
    dq *= dq.dtype.type(at.factor)
    grads = [
        at.of_queries(dq, at.T, at.E),
        at.of_keys(dk, at.S, at.E),
        at.of_keys(dv, at.S, at.V),
    ]
    if at.bias is not None:
        grads.append(at.bias_gradient(dbias))
    if at.sink is not None:
        grads.append(at.sink_gradient(dsink))
    return tuple(grads)


def scaled_dot_product_attention_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    dlse: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    indices: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of attention.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, V) or (T, V)
        Cotangent :math:`\vec u_i` of the averages.
    q, k, v : as in `scaled_dot_product_attention`
        The same.
    dlse : array_like or None, shape (..., H, T) or (T,)
        Cotangent :math:`u^\ell_i` of the log-sum-exp; None is zero.
    mask, bias, is_causal, q_offset, window, scale : as in `scaled_dot_product_attention`
        The same.
    softcap, sink, dropout, indices : as in `scaled_dot_product_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k` and `v`, then `bias` and `sink` if given, each of the
        shape of its operand.

    See Also
    --------
    attention_weights_vjp : For a cotangent of the weights.

    Notes
    -----
    **The differential.** With :math:`\vec o_i = \sum_j p_{ij} \vec v_j` and the scores
    :math:`s_{ij}`,

    .. math:: \dd \vec o_i = \sum_j (p_{ij}\, \dd \vec v_j + \vec v_j\, \dd p_{ij}) , \qquad
       \dd p_{ij} = p_{ij} \Bigl( \dd s_{ij} - \sum_m p_{im}\, \dd s_{im} \Bigr) .

    **The inner product.** :math:`\dd L = \sum_i \vec u_i \cdot \dd \vec o_i`.

    **The transpose.** From the output back, with :math:`d_{ij} = \partial L / \partial s_{ij}` for
    the gradient of a score:

    1. The values: :math:`\partial L / \partial \vec v_j = \sum_i p_{ij} \vec u_i`, and the
       weights: :math:`w_{ij} = \partial L / \partial p_{ij} = \vec u_i \cdot \vec v_j`.
    2. The softmax of row i, whose Jacobian :math:`\operatorname{diag}(\vec p) - \vec p \vec p^\top`
       is symmetric and is multiplied by :math:`\vec w`:

       .. math:: d_{ij} = p_{ij} \Bigl( w_{ij} - \sum_m p_{im} w_{im} \Bigr) .

    3. A score is the scale c times a dot product, so the queries and the keys get

       .. math::

           \pdv{L}{\vec q_i} = c \sum_j d_{ij} \vec k_j, \qquad
           \pdv{L}{\vec k_j} = c \sum_i d_{ij} \vec q_i .

    **One pass in tiles.** The sum of step 2 needs no weights. Exchange it with the dot product:

    .. math::

        \sum_m p_{im} w_{im} = \sum_m p_{im}\, \vec u_i \cdot \vec v_m
            = \vec u_i \cdot \sum_m p_{im} \vec v_m = \vec u_i \cdot \vec o_i =: D_i .

    It is one number per row, from the output that is already there. Without it, a row of weights
    would have to be complete before its first gradient, and tiles would be of no use. The
    log-sum-exp has the gradient :math:`\partial \ell_i / \partial s_{ij} = p_{ij}`, so its
    cotangent :math:`u^\ell_i` only shifts :math:`D_i`. All in all

    .. math::
        :label: attention-score-gradient

        d_{ij} = p_{ij} (w_{ij} - D_i + u^\ell_i), \qquad p_{ij} = e^{s_{ij} - \ell_i} .

    **Gradient with all options.** A bias is added to the score: it gets :math:`d_{ij}`, summed
    where it was broadcast. A cap a multiplies :math:`d_{ij}` in step 3 by its slope
    :math:`1 - t_{ij}^2` with :math:`t_{ij} = \tanh(c\, \vec q_i \cdot \vec k_j / a)`. With dropout,
    :math:`w_{ij}` is :math:`m_{ij}\, \vec u_i \cdot \vec v_j`, and
    :math:`\partial L / \partial \vec v_j = \sum_i m_{ij} p_{ij} \vec u_i`; the rest is the same. A
    sink is a score with the value 0, hence w = 0:
    :math:`\partial L / \partial \sigma = \sum_i e^{\sigma - \ell_i} (u^\ell_i - D_i)`.

    **Computation.** The forward pass leaves :math:`\vec o_i` and :math:`\ell_i`. The backward pass
    computes each tile of scores a second time, which is cheaper than to keep them: five products of
    tiles where the forward pass has two. Beyond inputs and gradients it needs as much memory as the
    forward pass; and where the batch has n < 8 heads of keys in all, the gradient of the queries is
    kept in up to ⌈8 / n⌉ parts, which threads form at the same time. Heads that share keys add
    their gradients up. Rows without keys and masked keys get 0, even where there is NaN.

    References
    ----------
    - :cite:t:`Dao2022`

    Examples
    --------
    Two equal keys: the values share the cotangent, and the query has no influence.

    >>> from dlref.attention import scaled_dot_product_attention_vjp
    >>> arguments = [[2.0]], [[1.0]], [[1.0], [1.0]], [[3.0], [5.0]]
    >>> dq, dk, dv = scaled_dot_product_attention_vjp(*arguments)
    >>> dq, dk.ravel(), dv.ravel()
    (array([[0.]]), array([-1., 1.]), array([1., 1.]))

    The gradient of the log-sum-exp with respect to a bias is the row of weights:

    >>> import numpy as np
    >>> from dlref.attention import attention_weights
    >>> rng = np.random.default_rng(0)
    >>> q, k, v, bias = (rng.normal(size=(3, 3)) for _ in range(4))
    >>> *_, dbias = scaled_dot_product_attention_vjp(0 * v, q, k, v, dlse=np.ones(3), bias=bias)
    >>> bool(np.allclose(dbias, attention_weights(q, k, bias=bias), rtol=1e-14))
    True
    """
    at = Attention(
        ("q", "k", "v"), (q, k, v), mask, bias, is_causal, q_offset, window, scale, softcap, sink,
        {"dout": dout} | ({} if dlse is None else {"dlse": dlse}), dropout,
        indices,
    )  # fmt: skip
    check_shape("dout", at.more["dout"], at.output_shape)
    of_lse = None
    if dlse is not None:
        check_shape("dlse", at.more["dlse"], at.output_shape[:-1])
        of_lse = at.queries(at.more["dlse"][..., None])[..., 0]
    return gradients(at, at.more["dout"], of_lse)


@overload
def scaled_dot_product_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: npt.ArrayLike | None = ...,
    indices: npt.ArrayLike | None = ...,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[TangentOptions],
) -> FloatArray: ...
@overload
def scaled_dot_product_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: npt.ArrayLike | None = ...,
    indices: npt.ArrayLike | None = ...,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[TangentOptions],
) -> Any: ...
def scaled_dot_product_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    dbias: npt.ArrayLike | None = None,
    dsink: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    indices: npt.ArrayLike | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Jacobian-vector product (forward mode) of attention.

    Parameters
    ----------
    primals : tuple (q, k, v) of array_like
        The operands, as in `scaled_dot_product_attention`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    dbias : array_like or None
        Tangent of `bias`, of its shape; None is zero.
    dsink : array_like or None, shape (H,)
        Tangent of `sink`; None is zero.
    mask, bias, is_causal, q_offset, window, scale : as in `scaled_dot_product_attention`
        The same.
    softcap, sink, dropout, indices : as in `scaled_dot_product_attention`
        The same.
    return_lse, return_weights : as in `scaled_dot_product_attention`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape (..., H, T, V) or (T, V)
        Tangent of the averages.
    dlse : ndarray, shape (..., H, T) or (T,)
        Tangent of the log-sum-exp, 0 for an empty row. Only if requested.
    dweights : ndarray, shape (..., H, T, S) or (T, S)
        Tangent of the weights. Only if requested.

    Notes
    -----
    With the tangents :math:`\dot s_{ij}` of the scores (see `attention_scores_jvp`) and their mean
    :math:`\mu_i = \sum_j p_{ij} \dot s_{ij}`, the tangent of the softmax is
    :math:`\dot p_{ij} = p_{ij} (\dot s_{ij} - \mu_i)`, and so

    .. math::

        \dot\ell_i = \mu_i, \qquad
        \dot{\vec o}_i = \sum_j p_{ij} \dot s_{ij} \vec v_j - \mu_i \vec o_i
            + \sum_j p_{ij} \dot{\vec v}_j .

    In tiles this would be six products where the map has two. But if the scores of whole rows are
    available, :math:`\mu_i` is known before the values are averaged, :math:`\vec o_i` is not
    needed, and the sum is the one of :math:`p_{ij} (\dot s_{ij} - \mu_i) \vec v_j + p_{ij}
    \dot{\vec v}_j`: five. So only a few queries are taken at once, as many as give 2 MB of scores
    and tangents, and at least eight, for each thread; keys and values are copied once. A sink is
    one more score with the value 0; it enters :math:`\mu_i`. Dropout multiplies :math:`p_{ij}` by
    :math:`m_{ij}` in both sums over values, and not in :math:`\mu_i`.

    Examples
    --------
    The second of two equal keys begins to match better:

    >>> from dlref.attention import scaled_dot_product_attention_jvp
    >>> primals = [[1.0]], [[0.0], [0.0]], [[0.0], [1.0]]
    >>> scaled_dot_product_attention_jvp(primals, (None, [[0.0], [1.0]], None))
    array([[0.25]])
    """
    check_flags(return_lse=return_lse, return_weights=return_weights)
    at = jvp_arguments(
        3, primals, tangents, {"bias": dbias, "sink": dsink}, mask=mask, bias=bias,
        is_causal=is_causal, q_offset=q_offset, window=window, scale=scale, softcap=softcap,
        sink=sink, dropout=dropout, indices=indices,
    )  # fmt: skip
    tangents = at.tangents, at.dsink, at.dbias
    out, lse = flash.jvp(at.q, at.k, at.v, at.sinks, at.spec, *tangents)
    results = [at.of_queries(out, at.T, at.V)]
    if return_lse:
        results.append(at.of_queries(lse, at.T))
    if return_weights:
        results.append(at.of_queries(weights_jvp(at), at.T, at.S))
    return tuple(results) if len(results) > 1 else results[0]
