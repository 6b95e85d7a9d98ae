r"""The parameters of multi-head attention."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import FloatArray
from .._core.pytree import displayed

__all__ = ["AttentionParams"]


@displayed
class AttentionParams(NamedTuple):
    r"""
    Weights and biases of multi-head attention.

    Parameters
    ----------
    w_q : ndarray, shape (H E, D)
        Projection to the queries; the rows of head h are h E to (h + 1) E − 1.
    w_k : ndarray, shape (Hk E, D_kv)
        Projection to the keys.
    w_v : ndarray, shape (Hk V, D_kv)
        Projection to the values.
    w_o : ndarray, shape (D_out, H V)
        Projection of the merged heads.
    b_q, b_k, b_v, b_o : ndarray or None, shape (rows of the weight,)
        Biases, None where there is none.

    See Also
    --------
    multi_head_attention : What they are for.

    Notes
    -----
    Every weight has the layout (n_out, n_in) of :func:`dlref.neurons.linear` and of PyTorch, whose
    ``in_proj_weight`` is ``w_q``, ``w_k`` and ``w_v`` on top of each other.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> in_proj = np.arange(12.0).reshape(6, 2)
    >>> params = AttentionParams(*np.split(in_proj, 3), w_o=np.eye(2))
    >>> params.w_v, params.b_v
    (array([[ 8., 9.], [10., 11.]]), None)
    """

    w_q: FloatArray
    w_k: FloatArray
    w_v: FloatArray
    w_o: FloatArray
    b_q: FloatArray | None = None
    b_k: FloatArray | None = None
    b_v: FloatArray | None = None
    b_o: FloatArray | None = None
