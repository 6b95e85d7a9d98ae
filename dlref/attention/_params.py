r"""The parameters of multi-head attention."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import FloatArray
from .._core.pytree import displayed


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
    q_norm : ndarray or None, shape (E,), (H E,) or (H, E)
        Weight of an RMS norm of the queries, of each head (Qwen3, Gemma 3) or of all heads at once
        (OLMo 2); or weights of layer norms, one a head (Command R+); None does not normalize.
    k_norm : ndarray or None, shape (E,), (Hk E,) or (Hk, E)
        The same for the keys.
    w_gate : ndarray or None, shape (H V, D)
        Projection to an output gate (Qwen3-Next): the merged heads are multiplied by its sigmoid.
    b_gate : ndarray or None, shape (H V,)
        Bias of the gate.
    sink : ndarray or None, shape (H,)
        Logit of each head that takes part in the softmax and has no value (gpt-oss).

    See Also
    --------
    multi_head_attention : Takes them.

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
    q_norm: FloatArray | None = None
    k_norm: FloatArray | None = None
    w_gate: FloatArray | None = None
    b_gate: FloatArray | None = None
    sink: FloatArray | None = None
