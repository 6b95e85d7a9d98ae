r"""Linear attention as a recurrence with a state of fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_cotangents,
    as_floats,
    as_integer,
    as_number,
    check_constant,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    present,
    result,
    tangents_by_name,
    wrong_shape,
)
from .._core.documents import beginnings, of_document
from ._kernels import delta_rule

NAMES = ("q", "k", "v", "decay", "beta", "state", "a", "b")


def _operands(
    labels: dict[str, Any], extra: dict[str, Any]
) -> tuple[Any, dict[str, FloatArray], list[FloatArray]]:
    """Check the operands of the recurrence, by name; absent ones get no entry."""
    given = present(labels)
    for label in list(labels)[:3]:
        check_given(label, labels[label])
    dtype, floats = as_floats({**given, **extra}, work=np.float32)
    arrays = dict(zip(given, floats, strict=False))
    names = dict(zip(NAMES, labels, strict=False))
    q, k, v = (arrays[names[n]] for n in NAMES[:3])
    check_ndim(names["q"], q, 2)
    check_shape(names["k"], k, q.shape)
    check_pattern(names["v"], v, (*q.shape[:-1], "V"))
    if names["decay"] in arrays:
        g, rows, E = arrays[names["decay"]], q.shape[:-1], q.shape[-1]
        if g.shape not in ((*rows, 1), (*rows, E)):
            wrong_shape(names["decay"], g, f"{(*rows, 1)} or {(*rows, E)}")
    if names["beta"] in arrays:
        check_shape(names["beta"], arrays[names["beta"]], q.shape[:-1])
    if names["state"] in arrays:
        check_shape(
            names["state"], arrays[names["state"]], (*q.shape[:-2], q.shape[-1], v.shape[-1])
        )
    if "a" in names and names["beta"] in arrays:
        msg = f"Argument {names['beta']!r} must be None where 'erase' is given, not an array."
        raise ValueError(msg)
    for label in list(labels)[6:]:
        check_given(label, labels[label])
        check_shape(label, arrays[label], q.shape)
    return (
        dtype,
        {n: arrays[name] for n, name in names.items() if name in arrays},
        floats[len(given) :],
    )


def _labels(inputs: tuple[Any, ...], erase: Any) -> dict[str, Any]:
    return {**dict(zip(NAMES, inputs, strict=False)), **_entries_of_pair("erase", erase)}


def _entries_of_pair(name: str, pair: Any) -> dict[str, Any]:
    return {} if pair is None else entries(name, pair, 2)


def _as_chunk(chunk: int | None) -> int | None:
    return None if chunk is None else as_integer("chunk", chunk, least=1)


def _by_heads(x: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the arrays with one axis in place of all before the steps."""
    batch = x["q"].ndim - 2
    count = math.prod(x["q"].shape[:-2])
    return {name: array.reshape(count, *array.shape[batch:]) for name, array in x.items()}


def recurrent_linear_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    erase: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    scale: float = 1.0,
    chunk: int | None = None,
    segment_ids: npt.ArrayLike | None = None,
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
        Logarithm :math:`\vec g_t` of the factor that decays the memory, usually at most 0; one for
        each row or one for all. None keeps everything.
    beta : array_like or None, shape (..., T)
        Share :math:`\beta_t` of the error that is corrected (the delta rule). None adds the value
        regardless of the memory's content.
    state : array_like or None, shape (..., E, V)
        Memory :math:`\mat S_0` before the first token; None is zero.
    erase : tuple (a, b) of array_like or None, shape (..., T, E) each
        Keys of their own for a correction of the memory: it is read with :math:`\vec a_t` before
        it decays, and the answer is added under :math:`\vec b_t`. Only without `beta`.
    scale : float, default 1.0
        Factor of the output.
    chunk : int or None
        Number of steps that are computed at once, at least 1; None is the width of the memory, but
        from 16 to 64. The result is the same but for rounding.
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and its memory begins empty. None is a single document.

    Returns
    -------
    out : ndarray, shape (..., T, V)
        Output of each query.
    state : ndarray, shape (..., E, V)
        Memory after the last token, of the last document.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `scale` is not a number, or
        ``chunk`` or an element of `segment_ids` is not an integer.
    ValueError
        If the shapes do not fit, ``chunk`` is less than 1, or both `beta` and `erase` are given.

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

    **The delta rule.** :math:`\mat S'^\top \vec k` is the current answer of the memory to the key.
    If the key has length 1 and :math:`\beta = 1`, it answers :math:`\vec v_t` after the step: a
    step of gradient descent on :math:`\tfrac12 \norm{\mat S^\top \vec k_t - \vec v_t}^2` with rate
    :math:`\beta`. Adding alone would answer with the sum of all values ever written under this key,
    and with a share of each value under a key that is not orthogonal to it.

    **Which arguments make which model.** The recurrence has many names. Without `beta`:

    - linear attention: no decay;
    - RetNet and lightning attention (MiniMax-01): a decay that is one constant for each head,
      :math:`\log(1 - 2^{-5-h})` in RetNet;
    - gated linear attention (GLA): a decay for each channel,
      :math:`\tfrac1{16} \log \sigma(\cdot)`;
    - the SSD layer of Mamba-2: the decay of a head is :math:`\Delta_t a` with a negative number a,
      k is its B, q its C, and v is :math:`\Delta_t \vec x_t`.

    With `beta`, queries and keys of length 1 (:func:`~dlref.normalization.l2_norm`) and `scale`
    :math:`1 / \sqrt E`:

    - DeltaNet: no decay;
    - Gated DeltaNet (Qwen3-Next): a decay for each head,
      :math:`-e^{a} \operatorname{softplus}(\cdot)`;
    - Kimi Delta Attention (KDA, Kimi Linear): a decay for each channel.

    **Own erase keys.** The delta rule removes the answer to the key under which it writes. With
    `erase`, a key :math:`\vec a_t` asks the memory before it decays, and the answer
    :math:`\vec r_t` is added under another key :math:`\vec b_t`. The transition of the memory is
    diagonal plus low rank (DPLR):

    .. math::

        \vec r_t &= \mat S_{t-1}^\top \vec a_t \\
        \mat S_t &= \operatorname{diag}(e^{\vec g_t})\, \mat S_{t-1} + \vec b_t \vec r_t^\top
            + \vec k_t \vec v_t^\top
            = \bigl( \operatorname{diag}(e^{\vec g_t}) + \vec b_t \vec a_t^\top \bigr)\,
            \mat S_{t-1} + \vec k_t \vec v_t^\top .

    The delta rule is :math:`\vec a_t = -e^{\vec g_t} \odot \vec k_t` and
    :math:`\vec b_t = \beta_t \vec k_t` with the values :math:`\beta_t \vec v_t`. The names of
    other choices:

    - IPLR (identity plus low rank): no decay; DPLR: a decay for each channel;
    - RWKV-7: :math:`\vec a_t = -\hat{\vec\kappa}_t` and
      :math:`\vec b_t = \hat{\vec\kappa}_t \odot \vec\alpha_t`, where
      :math:`\hat{\vec\kappa}` is the removal key of length 1 and :math:`\vec\alpha` the rate
      for each channel, which the paper calls a;
    - Comba: :math:`\vec a_t = -\vec k_t` and :math:`\vec b_t = \tilde\beta_t \vec k_t`, a decay
      for each head, and the values :math:`\beta_t \vec v_t`: rates of their own for removing and
      for writing;
    - Gated DeltaNet-2: :math:`\vec a_t = -e^{\vec g_t} \odot \vec\beta_t \odot \vec k_t` with an
      erase gate :math:`\vec\beta` for each channel of the keys, :math:`\vec b_t = \vec k_t`, and
      values times a write gate for each of their channels.

    **In chunks.** One step after the other is slow on any machine, because a product of a matrix
    and a vector reads the whole memory for each token. C steps at a time become products of
    matrices. Let :math:`\mat S_0` be the memory before the chunk and
    :math:`\vec c_t = \sum_{s \le t} \vec g_s` the sum of the logarithms since then. Unroll the
    first and the third line above:

    .. math:: \mat S_t = \operatorname{diag}(e^{\vec c_t})\, \mat S_0 + \sum_{j \le t}
       \operatorname{diag}(e^{\vec c_t - \vec c_j})\, \vec k_j \vec w_j^\top .

    Only the :math:`\vec w_j` are missing. Put :math:`\mat S'_t`, which has the same terms without
    j = t, into the second line, with the dot product that decays on its way,
    :math:`A_{tj} = \sum_e k_{te}\, e^{c_{te} - c_{je}}\, k_{je}` for j < t and 0 elsewhere:

    .. math:: \vec w_t = \beta_t \Bigl( \vec v_t - \mat S_0^\top (e^{\vec c_t} \odot \vec k_t)
       - \sum_{j < t} A_{tj} \vec w_j \Bigr) .

    Each :math:`\vec w_t` needs the earlier ones. But this is a system of linear equations, and its
    matrix is triangular with ones on the diagonal. With one row for each step,
    :math:`\mat B = \operatorname{diag}(\beta)` and
    :math:`\tilde{\mat K}` with the rows :math:`e^{\vec c_t} \odot \vec k_t`,

    .. math:: (\mat I + \mat B \mat A)\, \mat W = \mat B\, (\mat V - \tilde{\mat K} \mat S_0) .

    So the inverse is where the steps of the chunk depend on each other, and everything else is
    independent. (Without beta there is no system: W is V. Where nothing decays, the matrix
    :math:`\mat I - \mat K^\top (\mat I + \mat B \mat A)^{-1} \mat B \mat K` is the product of the C
    factors :math:`\mat I - \beta_t \vec k_t \vec k_t^\top`, the last one on the left: where all
    :math:`\vec v_t` are 0, both take every :math:`\mat S_0` to :math:`\mat S_C`, one
    through the recurrence and one through the system. It is the compact WY form of a product of
    reflections.) With :math:`P_{tj} = \sum_e q_{te}\, e^{c_{te} - c_{je}}\, k_{je}` for
    :math:`j \le t`, :math:`\tilde{\mat Q}` like :math:`\tilde{\mat K}`, and the rows
    :math:`e^{\vec c_C - \vec c_j} \odot \vec k_j` of :math:`\hat{\mat K}`, the output and the
    memory after the chunk are

    .. math:: \mat O = c\, (\tilde{\mat Q} \mat S_0 + \mat P \mat W) , \qquad
       \mat S_C = \operatorname{diag}(e^{\vec c_C})\, \mat S_0 + \hat{\mat K}^\top \mat W .

    With `erase` the answers are missing. The query of step t sees the memory after the step, and
    the key :math:`\vec a_t` sees it before the step. Let
    :math:`A_{tj} = \sum_e a_{te}\, e^{c_{t-1,e} - c_{je}}\, k_{je}` and
    :math:`H_{tj} = \sum_e a_{te}\, e^{c_{t-1,e} - c_{je}}\, b_{je}` for j < t, and let
    :math:`\bar{\mat A}` have the rows :math:`e^{\vec c_{t-1}} \odot \vec a_t`, where
    :math:`\vec c_0 = 0`. Unrolling gives a triangular system again,

    .. math:: (\mat I - \mat H)\, \mat R = \bar{\mat A}\, \mat S_0 + \mat A \mat V .

    **Packed documents.** In the first step of a document, :math:`\mat S_{t-1}` is 0 in all lines
    above. So each document has the outputs that it would have alone. The initial memory belongs to
    the first document, and the returned memory to the last one. A number that comes back later
    begins a new document.

    A decay of :math:`-\infty` in that step empties :math:`\mat S'_t`, too, and is the same for a
    finite memory without `erase`. But an erase key asks the memory before it decays, and would
    bring the answer of an earlier document into the new one. And a memory with a NaN keeps it when
    it is multiplied by 0. So the code ends a chunk wherever a document begins, in any row, and sets
    the memory of this row to 0. Then nothing else has to change in the formulas of a chunk.

    For a decay of one number for each head and no beta, :math:`\mat P` is masked attention with the
    weights :math:`e^{c_t - c_j}`: the duality of Mamba-2's SSD and attention. A chunk of 1 is the
    recurrence, a chunk of T is attention without a softmax, and all between are the same map.

    **Numerics.** :math:`e^{\vec c_t - \vec c_j}` must not be computed as a quotient of
    :math:`e^{\vec c_t}` and :math:`e^{\vec c_j}`: after a few steps with a decay of -80 both are 0.
    The code sums the decays between j and t alone. It splits each sum at the middle of the smallest
    block of 2, 4, 8, ... steps that holds both, so that the pairs of a block are one product of
    matrices. In float64, rounded once. If an input is not finite, a step is taken at a time, so
    that NaN reaches later steps only, and a decay of -inf clears the memory.

    Cost for each token: 3 E V multiplications to read the memory, for the correction and for the
    query, and to write it, and C (2 E + 2 V) for the pairs. Without beta nothing is read for a
    correction: E V and C (E + V) less. One state is kept at a time.

    References
    ----------
    - :cite:t:`Katharopoulos2020`
    - :cite:t:`Schlag2021` on the delta rule
    - :cite:t:`Yang2024` on the delta rule in chunks
    - :cite:t:`DaoGu2024` on the duality, :cite:t:`YangKautz2024` on Gated DeltaNet
    - :cite:t:`SunDong2023` on retention, :cite:t:`KimiLinear2025` on KDA
    - :cite:t:`PengRWKV2025` on RWKV-7

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

    Both steps are one chunk, a system of the equations :math:`w_1 = 5` and :math:`w_1 + w_2 = 7`:

    >>> np.linalg.solve([[1.0, 0.0], [1.0, 1.0]], values).ravel()
    array([5., 2.])
    >>> out, state = recurrent_linear_attention(key, key, values, beta=np.ones(2), chunk=1)
    >>> out.ravel()
    array([5., 7.])

    The delta rule as an erasure: the answer to the key is taken away under the same key.

    >>> out, state = recurrent_linear_attention(key, key, values, erase=(-key, key))
    >>> out.ravel()
    array([5., 7.])

    An erase key of its own moves an entry: the value 5 of the first key goes to the second.

    >>> first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    >>> out, state = recurrent_linear_attention(
    ...     second, second, [[0.0]], state=[[5.0], [0.0]], erase=(first, second - first)
    ... )
    >>> state.ravel()
    array([0., 5.])

    Two documents in one row. The memory of the second begins empty:

    >>> key, values = np.ones((4, 1)), [[5.0], [7.0], [1.0], [2.0]]
    >>> out, state = recurrent_linear_attention(key, key, values, segment_ids=[0, 0, 1, 1])
    >>> out.ravel(), state.ravel()
    (array([ 5., 12.,  1.,  3.]), array([3.]))
    """
    dtype, x, _ = _operands(_labels((q, k, v, decay, beta, state), erase), {})
    factor, size, heads = as_number("scale", scale), _as_chunk(chunk), _by_heads(x)
    begins = beginnings(segment_ids, x["q"].shape[:-1])
    out = np.empty(heads["v"].shape, heads["v"].dtype)
    with np.errstate(all="ignore"):
        last = delta_rule.forward(heads, factor, size, out, begins)
    shape = (*x["q"].shape[:-2], *last.shape[1:])
    return result(out.reshape(x["v"].shape), dtype), result(last.reshape(shape), dtype)


def recurrent_linear_attention_vjp(
    dout: Any,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    erase: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    scale: float = 1.0,
    chunk: int | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of recurrent linear attention.

    Parameters
    ----------
    dout : tuple (dout, dstate) of array_like or None
        Cotangents of the output (..., T, V) and of the last state (..., E, V); None is zero.
    q, k, v, decay, beta, state : as in `recurrent_linear_attention`
        The operands.
    erase, scale, chunk, segment_ids : as in `recurrent_linear_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k`, `v`, then of `decay`, `beta`, `state` and both arrays
        of `erase` where given, each of the shape of its operand.

    Notes
    -----
    Backpropagation through time. Let :math:`\vec u_t` be the cotangent of :math:`\vec o_t`, and
    :math:`\mat D`, of shape (E, V), the gradient of :math:`\mat S_t` from later steps; it starts as
    the cotangent of the last state. At each step, backwards:

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

    without the third line and with :math:`\beta_t = 1` if there is no beta. A decay that is one
    number for all rows gets the sum over e, and after the first step :math:`\mat D` is the gradient
    of the initial memory.

    **Own erase keys.** With `erase` the lines between the first and the last are

    .. math::

        \vec z_t &= \mat D^\top \vec b_t, \qquad
        \pdv{L}{\vec k_t} = \mat D \vec v_t, \qquad
        \pdv{L}{\vec v_t} = \mat D^\top \vec k_t \\
        \pdv{L}{\vec b_t} &= \mat D \vec r_t, \qquad
        \pdv{L}{\vec a_t} = \mat S_{t-1} \vec z_t ,

    since :math:`\vec z_t` is the gradient of the answer :math:`\vec r_t`. The answer reads the
    memory before it decays, so that :math:`\vec a_t \vec z_t^\top` is added to
    :math:`\mat D` after the last line.

    **In chunks.** Each product of matrices in :func:`recurrent_linear_attention` is transposed. Let
    U be the cotangents of the outputs of a chunk, one row for each step, D the gradient of its last
    memory, and :math:`\mat R = \mat V - \tilde{\mat K} \mat S_0` the right side. First come the
    gradients of the written rows and of the right side, :math:`\mat Z` times :math:`\mat B`:

    .. math::

        \pdv{L}{\mat W} = c\, \mat P^\top \mat U + \hat{\mat K} \mat D , \qquad
        \mat Z = (\mat I + \mat B \mat A)^{-\top} \pdv{L}{\mat W} , \qquad
        \pdv{L}{\mat V} = \mat B \mat Z .

    The differential of the system,
    :math:`(\mat I + \mat B \mat A)\, \dd \mat W = \dd \mat B\, (\mat R - \mat A \mat W) + \mat B\,
    \dd \mat R - \mat B\, \dd \mat A\, \mat W`, gives the others:

    .. math::

        \pdv{L}{\beta_t} &= \vec z_t \cdot (\mat R - \mat A \mat W)_t , \qquad
        \pdv{L}{\mat A} = -\mat B \mat Z \mat W^\top , \qquad
        \pdv{L}{\mat P} = c\, \mat U \mat W^\top \\
        \pdv{L}{\tilde{\mat K}} &= -\mat B \mat Z \mat S_0^\top , \qquad
        \pdv{L}{\tilde{\mat Q}} = c\, \mat U \mat S_0^\top , \qquad
        \pdv{L}{\hat{\mat K}} = \mat W \mat D^\top \\
        \pdv{L}{\mat S_0} &= \operatorname{diag}(e^{\vec c_C})\, \mat D
            + c\, \tilde{\mat Q}^\top \mat U - \tilde{\mat K}^\top \mat B \mat Z ,

    where A counts below the diagonal and P on it too. Without beta, A is 0 and B the identity. The
    gradient of a decay at step s adds up, over all pairs j < s <= t, the gradient of the pair times
    the pair, because :math:`c_{te} - c_{je}` is the sum of :math:`g_{se}` over these s, and an
    exponential is its own derivative; the memory before the chunk counts as an earlier j, and the
    memory after it as a later t. One state for each chunk is kept from the forward pass; the
    matrices of a chunk are computed again. With `erase` the system of the answers is transposed in
    the same way.

    **Packed documents.** In the first step of a document :math:`\mat S_{t-1}` is 0, so that the
    gradient of its decay is 0, too, and :math:`\mat D` becomes 0 after the step: nothing of it
    reaches the document before.

    Examples
    --------
    A written value reaches the last state, decayed by the later steps:

    >>> import numpy as np
    >>> from dlref.attention import recurrent_linear_attention_vjp
    >>> ones, half = np.ones((3, 1)), np.full((3, 1), np.log(0.5))
    >>> grads = recurrent_linear_attention_vjp((0 * ones, [[1.0]]), ones, ones, ones, half)
    >>> grads[2].ravel()
    array([0.25, 0.5 , 1.  ])
    """
    labels, given = _labels((q, k, v, decay, beta, state), erase), entries("dout", dout, 2)
    dtype, x, floats = _operands(labels, present(given))
    factor, size = as_number("scale", scale), _as_chunk(chunk)
    begins = beginnings(segment_ids, x["q"].shape[:-1])
    shapes = x["v"].shape, (*x["q"].shape[:-2], x["q"].shape[-1], x["v"].shape[-1])
    u, D = as_cotangents(given, floats, shapes, x["v"].dtype)
    heads = _by_heads(x)
    u = u.reshape(heads["v"].shape)
    D = D.reshape(len(u), *D.shape[-2:])
    grads = {n: np.empty(array.shape, array.dtype) for n, array in heads.items() if n != "state"}
    with np.errstate(all="ignore"):
        first = delta_rule.vjp(heads, u, D, factor, size, grads, begins)
    if "state" in x:
        grads["state"] = first
    return tuple(result(grads[name].reshape(x[name].shape), dtype) for name in x)


def recurrent_linear_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    erase: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    derase: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
    scale: float = 1.0,
    chunk: int | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of recurrent linear attention.

    Parameters
    ----------
    primals : tuple (q, k, v, decay, beta, state) of array_like
        The operands, as in `recurrent_linear_attention`; the last three may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    erase : tuple (a, b) of array_like or None
        As in `recurrent_linear_attention`.
    derase : tuple (da, db) of array_like or None
        Tangents of both arrays of `erase`; None is zero.
    scale, chunk, segment_ids : as in `recurrent_linear_attention`
        Raises the same errors. The tangents are computed step by step for every chunk.

    Returns
    -------
    dout : ndarray, shape (..., T, V)
        Tangent of the output.
    dstate : ndarray, shape (..., E, V)
        Tangent of the last state.

    Notes
    -----
    The product rule on each line of the recurrence; the tangent of the state is carried along.
    Without beta the second line is :math:`\dot{\vec w}_t = \dot{\vec v}_t`:

    .. math::

        \dot{\mat S}'_t &= \operatorname{diag}(e^{\vec g_t})
            (\dot{\mat S}_{t-1} + \operatorname{diag}(\dot{\vec g}_t)\, \mat S_{t-1}), \\
        \dot{\vec w}_t &= \dot\beta_t (\vec v_t - \mat S_t'^\top \vec k_t) + \beta_t
            (\dot{\vec v}_t - \dot{\mat S}_t'^\top \vec k_t - \mat S_t'^\top \dot{\vec k}_t), \\
        \dot{\mat S}_t &= \dot{\mat S}'_t + \dot{\vec k}_t \vec w_t^\top
            + \vec k_t \dot{\vec w}_t^\top, \qquad
        \dot{\vec o}_t = c\, (\dot{\mat S}_t^\top \vec q_t + \mat S_t^\top \dot{\vec q}_t) .

    With `erase` the tangent of the answer is
    :math:`\dot{\vec r}_t = \dot{\mat S}_{t-1}^\top \vec a_t + \mat S_{t-1}^\top \dot{\vec a}_t`,
    and the memory gets :math:`\dot{\vec b}_t \vec r_t^\top + \vec b_t \dot{\vec r}_t^\top` as
    well. In the first step of a document, memory and tangent are 0.

    Examples
    --------
    >>> from dlref.attention import recurrent_linear_attention_jvp
    >>> primals = [[2.0]], [[3.0]], [[5.0]], None, None, None
    >>> out, state = recurrent_linear_attention_jvp(primals, ([[1.0]],) + 5 * (None,))
    >>> out, state
    (array([[15.]]), array([[0.]]))
    """
    if erase is None:
        check_constant("derase", derase)
    keys = _entries_of_pair("erase", erase)
    moves = _entries_of_pair("derase", derase) or dict.fromkeys(
        ("derase[0]", "derase[1]")[: len(keys)]
    )
    names = NAMES[: 6 + len(keys)]
    dtype, x, dx = tangents_by_name(names, primals, tangents, _operands, (keys, moves))
    factor, _ = as_number("scale", scale), _as_chunk(chunk)
    begins = beginnings(segment_ids, x["q"].shape[:-1])
    moved = {name: dx.get(name, np.zeros(array.shape)) for name, array in x.items()}
    with np.errstate(all="ignore"):
        out, last = _pushed(_by_heads(x), _by_heads(moved), factor, begins)
    shape = (*x["q"].shape[:-2], *last.shape[1:])
    return result(out.reshape(x["v"].shape), dtype), result(last.reshape(shape), dtype)


def _pushed(
    x: dict[str, FloatArray],
    dx: dict[str, FloatArray],
    factor: float,
    begins: npt.NDArray[np.bool_] | None,
) -> tuple[FloatArray, FloatArray]:
    """Carry the state and its tangent through time; return the tangents of output and state."""
    zero = np.zeros((len(x["q"]), x["q"].shape[-1], x["v"].shape[-1]))
    state, moved = x.get("state", zero), dx.get("state", zero)
    out = np.empty(x["v"].shape)
    for t in range(x["q"].shape[1]):
        at, by = ({n: a[:, t].astype(float) for n, a in d.items() if n != "state"} for d in (x, dx))
        state, moved = (of_document(a, begins, t) for a in (state, moved))
        before, moved_before = state, moved
        if "decay" in at:
            kept = np.exp(at["decay"])[..., None]
            moved = kept * (moved + by["decay"][..., None] * state)
            state = kept * state
        w, dw = at["v"], by["v"]
        if "beta" in at:
            error, beta = w - _apply(state, at["k"]), at["beta"][:, None]
            dw = dw - _apply(moved, at["k"]) - _apply(state, by["k"])
            w, dw = beta * error, by["beta"][:, None] * error + beta * dw
        state = state + _outer(at["k"], w)
        moved = moved + _outer(by["k"], w) + _outer(at["k"], dw)
        if "a" in at:
            answer = _apply(before, at["a"])
            danswer = _apply(moved_before, at["a"]) + _apply(before, by["a"])
            state = state + _outer(at["b"], answer)
            moved = moved + _outer(by["b"], answer) + _outer(at["b"], danswer)
        out[:, t] = factor * (_apply(moved, at["q"]) + _apply(state, by["q"]))
    return out, np.array(moved)


def _apply(state: FloatArray, vector: FloatArray) -> FloatArray:
    """Return state' vector."""
    return np.asarray(np.einsum("nev,ne->nv", state, vector))


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[..., :, None] * b[..., None, :]
