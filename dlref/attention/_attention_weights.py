r"""Attention weights: the softmax of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.arguments import Attention, jvp_arguments
from ._kernels.matrices import (
    matrix_cotangent,
    scores,
    scores_vjp,
    softmax_parts,
    weights_jvp,
)


def attention_weights(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Attention weights, as a matrix: the softmax of each row of scores.

    Parameters
    ----------
    q, k, mask, bias, is_causal, q_offset, window, scale : as in `scaled_dot_product_attention`
        The same.
    softcap, sink : as in `scaled_dot_product_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S) or (T, S)
        Weights; each row sums to 1 minus the share of the sink, or is 0 if all keys are hidden.

    See Also
    --------
    attention_entropy, attention_distance : Statistics of the weights.

    Notes
    -----
    .. math:: p_{ij} = \frac{e^{s_{ij}}}{e^{\sigma} + \sum_m e^{s_{im}}}

    with the scores of `attention_scores` and the sink :math:`\sigma` of the head, whose term
    is missing if there is none. The result has T S numbers per head; it is meant for inspection.

    **Equivariance.** Let :math:`\mat \Pi` be a permutation matrix, and let the tokens of
    self-attention be permuted, :math:`\mat Q \to \mat \Pi \mat Q` and
    :math:`\mat K \to \mat \Pi \mat K`. Then
    :math:`\mat S = c\, \mat Q \mat K^\top \to \mat \Pi \mat S \mat \Pi^\top`. The softmax acts
    on each row, whatever the order of its elements, so :math:`\mat P \to \mat \Pi \mat P \mat
    \Pi^\top` and :math:`\mat P \mat V \to \mat \Pi \mat P \mat \Pi^\top \mat \Pi \mat V
    = \mat \Pi (\mat P \mat V)`: the outputs are permuted like the tokens. This is not
    *invariance*; the scores do change places, and only a pooled output would not change.
    A causal mask does not commute with :math:`\mat \Pi`, so a decoder knows about order without
    any positional encoding.

    References
    ----------
    - :cite:t:`Vaswani2017`
    - :cite:t:`Kazemnejad2023`

    Examples
    --------
    The weights of a causal softmax over given scores:

    >>> import numpy as np
    >>> from dlref.attention import attention_weights
    >>> scores = np.random.RandomState(42).randn(5, 5)
    >>> weights = attention_weights(scores, np.eye(5), scale=1.0, is_causal=True)
    >>> weights.round(4)
    array([[1.    , 0.    , 0.    , 0.    , 0.    ],
           [0.1402, 0.8598, 0.    , 0.    , 0.    ],
           [0.2486, 0.248 , 0.5033, 0.    , 0.    ],
           [0.2106, 0.1342, 0.5061, 0.1491, 0.    ],
           [0.617 , 0.1137, 0.1524, 0.0343, 0.0827]])

    Permuted tokens have permuted weights, unless a mask depends on their order:

    >>> x, order = np.random.default_rng(0).normal(size=(4, 3)), [2, 0, 3, 1]
    >>> P, moved = attention_weights(x, x), attention_weights(x[order], x[order])
    >>> bool(np.allclose(moved, P)), bool(np.allclose(moved, P[order][:, order]))
    (False, True)
    >>> causal = attention_weights(x[order], x[order], is_causal=True)
    >>> bool(np.allclose(causal, attention_weights(x, x, is_causal=True)[order][:, order]))
    False
    """
    at = Attention(
        ("q", "k"), (q, k), mask, bias, is_causal, q_offset, window, scale, softcap, sink
    )
    return at.of_queries(softmax_parts(at, scores(at))[0], at.T, at.S)


def attention_weights_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the attention weights.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S) or (T, S)
        Cotangent :math:`u_{ij}` of the weights.
    q, k, mask, bias, is_causal, q_offset, window, scale, softcap : as in `attention_weights`
        The same.
    sink : as in `attention_weights`
        The same.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q` and `k`, then `bias` and `sink` if given, each of the shape of
        its operand.

    See Also
    --------
    attention_entropy_vjp : Gives a cotangent of the weights.

    Notes
    -----
    **The differential.** A row is a softmax: :math:`\dd p_{ij} = p_{ij} \bigl( \dd s_{ij} - \sum_m
    p_{im}\, \dd s_{im} \bigr)`.

    **The inner product.** :math:`\dd L = \sum_{ij} u_{ij}\, \dd p_{ij}`.

    **The transpose.** The Jacobian of a row,
    :math:`\operatorname{diag}(\vec p) - \vec p \vec p^\top`, is symmetric, so the scores of row i
    get

    .. math:: d_{ij} = p_{ij} \Bigl( u_{ij} - \sum_m p_{im} u_{im} \Bigr),

    which is the cotangent that `attention_scores_vjp` takes. The sink is one more score of the row.
    Its weight :math:`p_{i\sigma} = e^\sigma / (e^\sigma + \sum_m e^{s_{im}})` is not returned and
    so has the cotangent 0: :math:`\partial L / \partial \sigma = -\sum_i p_{i\sigma} \sum_m p_{im}
    u_{im}`.

    Examples
    --------
    Weights sum to 1, so a constant cotangent gives no gradient:

    >>> import numpy as np
    >>> from dlref.attention import attention_weights_vjp
    >>> dq, dk = attention_weights_vjp(np.ones((1, 2)), [[3.0]], [[5.0], [7.0]])
    >>> bool(np.all(abs(dq) < 1e-13)), bool(np.all(abs(dk) < 1e-13))
    (True, True)
    """
    at = Attention(
        ("q", "k"), (q, k), mask, bias, is_causal, q_offset, window, scale, softcap, sink,
        {"dout": dout},
    )  # fmt: skip
    moved = matrix_cotangent(at)
    p, share = softmax_parts(at, scores(at))
    with np.errstate(all="ignore"):
        terms = np.where(p == 0, 0, p * moved)
        means: FloatArray = np.sum(terms, axis=-1, keepdims=True, dtype=np.float64)
        moved = np.where(p == 0, 0, p * (moved - means)).astype(p.dtype)
        dsink = -np.sum(np.where(share == 0, 0, share * means[..., 0]), axis=-1)
    grads = scores_vjp(at, moved)
    return grads if sink is None else (*grads, at.sink_gradient(dsink))


def attention_weights_jvp(
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
    scale: float | None = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the attention weights.

    Parameters
    ----------
    primals : tuple (q, k) of array_like
        The operands, as in `attention_weights`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    dbias : array_like or None
        Tangent of `bias`, of its shape; None is zero.
    dsink : array_like or None, shape (H,)
        Tangent of `sink`; None is zero.
    mask, bias, is_causal, q_offset, window, scale, softcap, sink : as in `attention_weights`
        The same.

    Returns
    -------
    ndarray, shape (..., H, T, S) or (T, S)
        Tangent of each weight; without a sink each row sums to 0.

    Notes
    -----
    With the tangents :math:`\dot s_{ij}` of the scores, and with the sink as one more of them in
    the sum over m,

    .. math:: \dot p_{ij} = p_{ij} \Bigl( \dot s_{ij} - \sum_m p_{im} \dot s_{im} \Bigr) .

    Examples
    --------
    >>> from dlref.attention import attention_weights_jvp
    >>> attention_weights_jvp(([[1.0]], [[0.0], [0.0]]), (None, [[1.0], [0.0]]))
    array([[ 0.25, -0.25]])
    """
    at = jvp_arguments(
        2, primals, tangents, {"bias": dbias, "sink": dsink}, mask=mask, bias=bias,
        is_causal=is_causal, q_offset=q_offset, window=window, scale=scale, softcap=softcap,
        sink=sink,
    )  # fmt: skip
    return at.of_queries(weights_jvp(at), at.T, at.S)
