r"""Attention scores: scaled products of queries and keys, masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.arguments import Attention, jvp_arguments
from ._kernels.matrices import matrix_cotangent, scores, scores_jvp, scores_vjp


def attention_scores(
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
) -> FloatArray:
    r"""
    Matrix of scores, before the softmax.

    Parameters
    ----------
    q, k, mask, bias, is_causal, q_offset, window, scale : as in `scaled_dot_product_attention`
        The same.
    softcap : as in `scaled_dot_product_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S) or (T, S)
        Scores; −inf where a key is hidden.

    See Also
    --------
    attention_weights : Their softmax.

    Notes
    -----
    .. math::

        s_{ij} = a \tanh \Bigl( \frac{c\, \vec q_i \cdot \vec k_j}{a} \Bigr) + b_{ij}
        \quad \text{or} \quad -\infty ,

    with the scale c (None is :math:`1 / \sqrt E`), the cap a, and the bias :math:`b_{ij}`, 0 if
    there is none. Without a cap the first term is :math:`c\, \vec q_i \cdot \vec k_j`. The score is
    :math:`-\infty` where `mask` is False and, with :math:`p = i + \text{q\_offset}` for the place
    of query i among the keys, at the keys j > p if `is_causal`, and at those before
    :math:`p - \text{left}` or after :math:`p + \text{right}` if there is a `window`.

    The cap comes first: a bias of −inf has to stay −inf, and capping it would let a masked key
    through.

    **Why minus infinity.** A large negative number such as −1e9 is not a mask: in float16 it does
    not exist, a row in which all are masked becomes uniform (subtracting the maximum leaves 0
    everywhere), and added to scores in float64 it leaves their differences, so that the row is the
    softmax as if nothing were masked. −inf has weight 0 by itself; for rows without keys see
    `scaled_dot_product_attention`.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import attention_scores
    >>> q, k = [[2.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [3.0, 0.0]]
    >>> attention_scores(q, k, scale=0.5)
    array([[1., 3.],
           [1., 0.]])
    >>> attention_scores(q, k, scale=0.5, is_causal=True)
    array([[  1., -inf],
           [  1.,   0.]])

    Five tokens with random scores, under a causal mask:

    >>> raw = np.random.RandomState(42).randn(5, 5)  # scores, given by a legacy generator
    >>> raw[0].round(2)
    array([ 0.5 , -0.14, 0.65, 1.52, -0.23])
    >>> masked = attention_scores(raw, np.eye(5), scale=1.0, is_causal=True)
    >>> masked[1].round(2)
    array([-0.23, 1.58, -inf, -inf, -inf])
    """
    at = Attention(("q", "k"), (q, k), mask, bias, is_causal, q_offset, window, scale, softcap)
    return at.of_queries(scores(at), at.T, at.S)


def attention_scores_vjp(
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
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the scores.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S) or (T, S)
        Cotangent of the scores; where they are −inf it does not matter.
    q, k, mask, bias, is_causal, q_offset, window, scale, softcap : as in `attention_scores`
        The same.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q` and `k`, then `bias` if given, each of the shape of its
        operand.

    Notes
    -----
    Let :math:`u_{ij}` be the cotangent, set to 0 where the score is −∞, and :math:`t_{ij} =
    \tanh(c\, \vec q_i \cdot \vec k_j / a)`, or 0 without a cap.

    **The differential.** The cap has the slope :math:`1 - t_{ij}^2`, and the bias :math:`B_{ij}` is
    added last:

    .. math:: \dd s_{ij} = (1 - t_{ij}^2)\, c\, (\vec k_j \cdot \dd \vec q_i
       + \vec q_i \cdot \dd \vec k_j) + \dd B_{ij} .

    **The inner product.** :math:`\dd L = \sum_{ij} u_{ij}\, \dd s_{ij}`.

    **The transpose.** The bias gets :math:`u_{ij}`, summed up where it was broadcast. A query
    occurs in the scores of all keys, and a key in the scores of all queries:

    .. math::

        r_{ij} = (1 - t_{ij}^2)\, u_{ij}, \qquad
        \pdv{L}{\vec q_i} = c \sum_j r_{ij} \vec k_j, \qquad
        \pdv{L}{\vec k_j} = c \sum_i r_{ij} \vec q_i .

    Heads of queries that share a head of keys add their gradients up there.

    Examples
    --------
    >>> from dlref.attention import attention_scores_vjp
    >>> dq, dk = attention_scores_vjp([[1.0, 2.0]], [[3.0]], [[5.0], [7.0]], scale=1.0)
    >>> dq, dk.ravel()
    (array([[19.]]), array([3., 6.]))
    """
    at = Attention(
        ("q", "k"), (q, k), mask, bias, is_causal, q_offset, window, scale, softcap,
        extra={"dout": dout},
    )  # fmt: skip
    moved = matrix_cotangent(at)
    moved[scores(at) == -np.inf] = 0.0
    return scores_vjp(at, moved)


def attention_scores_jvp(
    primals: Any,
    tangents: Any,
    *,
    dbias: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the scores.

    Parameters
    ----------
    primals : tuple (q, k) of array_like
        The operands, as in `attention_scores`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    dbias : array_like or None
        Tangent of `bias`, of its shape; None is zero.
    mask, bias, is_causal, q_offset, window, scale, softcap : as in `attention_scores`
        The same.

    Returns
    -------
    ndarray, shape (..., H, T, S) or (T, S)
        Tangent of each score; 0 where it is −inf.

    Notes
    -----
    .. math::

        \dot s_{ij} = (1 - t_{ij}^2)\, c\,
            (\dot{\vec q}_i \cdot \vec k_j + \vec q_i \cdot \dot{\vec k}_j) + \dot b_{ij} ,

    with the slope :math:`1 - t_{ij}^2` of the cap as in `attention_scores_vjp`, where
    :math:`t_{ij} = 0` without a cap.

    Examples
    --------
    >>> from dlref.attention import attention_scores_jvp
    >>> attention_scores_jvp(([[3.0]], [[5.0]]), ([[1.0]], [[10.0]]), scale=1.0)
    array([[35.]])
    """
    at = jvp_arguments(
        2, primals, tangents, {"bias": dbias}, mask=mask, bias=bias, is_causal=is_causal,
        q_offset=q_offset, window=window, scale=scale, softcap=softcap,
    )  # fmt: skip
    return at.of_queries(scores_jvp(at, scores(at) == -np.inf), at.T, at.S)
