r"""Parts of one attention over disjoint keys, merged by their log-sum-exp."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_cotangents,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_shape,
    entries,
    present,
    result,
)
from ._kernels.merge import combined, pulled_back


def _parts(
    out: FloatArray, lse: FloatArray, axis: Any, label: str
) -> tuple[FloatArray, FloatArray, int]:
    """Check the parts; return their outputs and, in float64, log-sum-exps, the parts first."""
    check_ndim("out" if label == "lse" else "primals[0]", out, 2)
    check_shape(label, lse, out.shape[:-1])
    axis = as_integer("axis", axis, least=0, most=lse.ndim - 1)
    return np.moveaxis(out, axis, 0), np.moveaxis(lse, axis, 0).astype(np.float64), axis


def _weights(lse: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the share of each part, 0 where nothing counts, and the merged log-sum-exp."""
    top = lse.max(0, initial=-np.inf)
    shift = np.where(top == -np.inf, 0.0, top)
    e = np.exp(lse - shift)
    total = e.sum(0)
    return np.where(total == 0, 0.0, e / total), np.log(total) + shift


def merge_attention(
    out: npt.ArrayLike, lse: npt.ArrayLike, *, axis: int = 0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Merge the outputs of one attention that was computed over parts of its keys.

    Parameters
    ----------
    out : array_like, shape (P, ..., T, V)
        Output of each of P parts.
    lse : array_like, shape (P, ..., T)
        Log-sum-exp of the scores of each part, -inf for a part without keys.
    axis : int, default 0
        Axis of the parts, counted from the front; the same for both arrays.

    Returns
    -------
    out : ndarray, shape (..., T, V)
        Output over all keys; 0 where no part has keys.
    lse : ndarray, shape (..., T)
        Log-sum-exp over all keys.

    Raises
    ------
    TypeError
        If an array is not real or `axis` is not an integer.
    ValueError
        If the shapes do not fit, or there is no such axis.

    See Also
    --------
    scaled_dot_product_attention : Returns both with ``return_lse=True``.

    Notes
    -----
    Let :math:`K_p` be the keys of part p, :math:`\ell_p = \log \sum_{j \in K_p} e^{s_j}` and
    :math:`\vec o_p = \sum_{j \in K_p} e^{s_j - \ell_p} \vec v_j`. The sum over all keys is a sum
    over parts of sums, so

    .. math::

        \ell = \log \sum_p e^{\ell_p} , \qquad
        \vec o = \sum_p \sum_{j \in K_p} e^{s_j - \ell}\, \vec v_j
          = \sum_p w_p\, \vec o_p , \qquad w_p = e^{\ell_p - \ell} .

    It is a softmax over parts. The result is exact: attention over a million keys can be computed
    on several machines (ring attention), over pieces of a cache (flash-decoding), or over a shared
    prompt once for all its continuations (cascade attention), and be merged. The order does not
    matter, and merged parts can be merged again. Sinks belong to one part only.

    **Special values.** A part whose log-sum-exp is -inf does not count, whatever its output is; nor
    does one whose weight underflows to 0. Sums are accumulated in float64 and rounded once.

    References
    ----------
    - :cite:t:`LiuZaharia2023` on ring attention

    Examples
    --------
    The exponentials of one part add up to 3, of the other to 1: the shares are 3/4 and 1/4.

    >>> import numpy as np
    >>> from dlref.attention import merge_attention
    >>> out, lse = merge_attention([[[8.0]], [[16.0]]], np.log([[3.0], [1.0]]))
    >>> out, np.exp(lse).round(12)
    (array([[10.]]), array([4.]))

    The same as one attention over all keys:

    >>> from dlref.attention import scaled_dot_product_attention as attend
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 6, 4))
    >>> parts = [attend(q, k[keys], v[keys], return_lse=True) for keys in ([0, 3], [1, 2, 4, 5])]
    >>> out, lse = merge_attention(*map(np.stack, zip(*parts)))
    >>> bool(np.allclose(out, attend(q, k, v), rtol=0, atol=1e-15))
    True
    """
    dtype, (o, z) = as_floats({"out": out, "lse": lse}, work=np.float32)
    with np.errstate(all="ignore"):
        o, z, _ = _parts(o, z, axis, "lse")
        w, merged = _weights(z)
        return result(combined(w, o), dtype), result(merged, dtype)


def merge_attention_vjp(
    dout: Any, out: npt.ArrayLike, lse: npt.ArrayLike, *, axis: int = 0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the merge.

    Parameters
    ----------
    dout : tuple (dout, dlse) of array_like or None
        Cotangents of the merged output (..., T, V) and of the merged log-sum-exp (..., T); None is
        zero.
    out, lse, axis : as in `merge_attention`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape of `out`
        Gradient of the outputs of the parts.
    dlse : ndarray, shape of `lse`
        Gradient of their log-sum-exps; 0 for a part that does not count.

    Notes
    -----
    From :math:`w_p = e^{\ell_p - \ell}` and :math:`\sum_p w_p = 1`: the differentials are
    :math:`\dd \ell = \sum_p w_p\, \dd \ell_p` and
    :math:`\dd w_p = w_p (\dd \ell_p - \dd \ell)`. With them,

    .. math:: \dd \vec o = \sum_p w_p \bigl( \dd \vec o_p
       + (\vec o_p - \vec o)\, \dd \ell_p \bigr) .

    The inner product with the cotangents u of o and :math:`u^\ell` of :math:`\ell`, sorted by
    differentials:

    .. math:: \pdv{L}{\vec o_p} = w_p\, \vec u , \qquad
       \pdv{L}{\ell_p} = w_p \bigl( \vec u \cdot (\vec o_p - \vec o) + u^\ell \bigr) .

    A kernel that returns the parts without a gradient of the log-sum-exp gives wrong gradients of
    the scores, although its output is right.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import merge_attention_vjp
    >>> parts = [[[8.0]], [[16.0]]], np.log([[3.0], [1.0]])
    >>> dout, dlse = merge_attention_vjp(([[4.0]], [0.0]), *parts)
    >>> dout.ravel(), dlse.ravel()
    (array([3., 1.]), array([-6.,  6.]))
    """
    given = entries("dout", dout, 2)
    dtype, (o, z, *floats) = as_floats({"out": out, "lse": lse, **present(given)}, work=np.float32)
    with np.errstate(all="ignore"):
        o, z, axis = _parts(o, z, axis, "lse")
        w, merged = _weights(z)
        u, of_lse = as_cotangents(given, floats, (o.shape[1:], merged.shape), o.dtype)
        do, along = pulled_back(u, w, o)
        dl = np.where(w == 0, 0.0, w * (along - np.sum(w * along, 0) + of_lse))
    return result(np.moveaxis(do, 0, axis), dtype), result(np.moveaxis(dl, 0, axis), dtype)


def merge_attention_jvp(
    primals: Any, tangents: Any, *, axis: int = 0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of the merge.

    Parameters
    ----------
    primals : tuple (out, lse) of array_like
        The parts, as in `merge_attention`.
    tangents : tuple of array_like or None
        Their tangents; None is zero.
    axis : as in `merge_attention`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape (..., T, V)
        Tangent of the merged output.
    dlse : ndarray, shape (..., T)
        Tangent of the merged log-sum-exp.

    Notes
    -----
    The differentials of :func:`merge_attention_vjp`:

    .. math:: \dot{\vec o} = \sum_p w_p \bigl( \dot{\vec o}_p + (\vec o_p - \vec o)\, \dot\ell_p
       \bigr) , \qquad \dot\ell = \sum_p w_p\, \dot\ell_p .

    Since :math:`\vec o = \sum_p w_p\, \vec o_p`, the first is also the merge of the parts' tangents
    plus the sum of the parts, each times the tangent of its weight,
    :math:`\dot w_p = w_p (\dot\ell_p - \dot\ell)`, which is how it is computed.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import merge_attention_jvp
    >>> parts = np.array([[[8.0]], [[16.0]]]), np.log([[3.0], [1.0]])
    >>> merge_attention_jvp(parts, (None, [[0.0], [1.0]]))
    (array([[1.5]]), array([0.25]))
    """
    dtype, (o, z), (do, dl) = as_tangents(primals, tangents, count=2, work=np.float32)
    with np.errstate(all="ignore"):
        o, z, axis = _parts(o, z, axis, "primals[1]")
        w, _ = _weights(z)
        do, dl = np.moveaxis(do, axis, 0), np.moveaxis(dl, axis, 0)
        shifted = np.where(w == 0, 0.0, w * dl).sum(0)
        dw = np.where(w == 0, 0.0, w * (dl - shifted))
        moved = combined(np.concatenate([w, dw]), np.concatenate([do, o]))
    return result(moved, dtype), result(shifted, dtype)
