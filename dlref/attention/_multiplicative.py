r"""Multiplicative attention: a bilinear form compares query and key."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    result,
)
from .._math.dense import affine, affine_jvp, affine_vjp
from ._kernels.arguments import ScoreOptions, TangentOptions
from ._scaled_dot_product import (
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
)


def _check(names: tuple[str, ...], q: FloatArray, k: FloatArray, w: FloatArray) -> None:
    check_ndim(names[0], q, 2)
    check_ndim(names[1], k, 2)
    check_pattern(names[2], w, (q.shape[-1], k.shape[-1]))


def _transposed(w: FloatArray) -> FloatArray:
    return np.ascontiguousarray(w.T)


@overload
def multiplicative_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    *,
    q_offset: int = ...,
    scale: float = ...,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[ScoreOptions],
) -> FloatArray: ...
@overload
def multiplicative_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    *,
    q_offset: int = ...,
    scale: float = ...,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[ScoreOptions],
) -> Any: ...
def multiplicative_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    *,
    scale: float = 1.0,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Average of the values, weighted by a bilinear form of query and key (Luong).

    Parameters
    ----------
    q : array_like, shape (..., T, D)
        Queries; an axis of heads may stand before T.
    k : array_like, shape (..., S, E)
        Keys.
    v : array_like, shape (..., S, V)
        Values.
    w : array_like, shape (D, E)
        Matrix :math:`\mat W` of the form.
    scale : float, default 1.0
        Factor of the scores.
    mask, bias, is_causal, q_offset, window : as in `scaled_dot_product_attention`
        The same.
    softcap, sink, dropout, return_lse, return_weights : as in `scaled_dot_product_attention`
        The same.

    Returns
    -------
    ndarray, shape (..., T, V)
        Averages; a tuple with the log-sum-exp and the weights if requested.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    scaled_dot_product_attention : The form with :math:`\mat W = \mat I / \sqrt E`.
    additive_attention : A network in place of the form.

    Notes
    -----
    .. math::

        s_{ij} = c\, \vec q_i^\top \mat W \vec k_j, \qquad
        \vec o_i = \sum_j \frac{e^{s_{ij}}}{\sum_m e^{s_{im}}} \vec v_j ,

    with the scale c, 1 by default. The other options change the scores as in `attention_scores`.
    This is the score called *general* in the paper; *dot* is :math:`\mat W = \mat I`. Since
    :math:`\vec q^\top \mat W \vec k = (\mat W^\top \vec q) \cdot \vec k`, the code projects the
    queries and takes dot products, at T D E + T S E multiplications.

    **A head is such a form of low rank.** With projections of query and key, the score of a head is
    :math:`(\mat W_Q \vec x_i) \cdot (\mat W_K \vec x_j) = \vec x_i^\top
    (\mat W_Q^\top \mat W_K)\, \vec x_j`: a matrix of rank E in place of :math:`\mat W`.
    It need not be symmetric, so that i may attend to j and not j to i.

    References
    ----------
    - :cite:t:`Luong2015`

    Examples
    --------
    An antisymmetric form, with scores 9 and −9 off the diagonal and 0 on it: both tokens attend to
    the second one, the second to itself.

    >>> import numpy as np
    >>> from dlref.attention import multiplicative_attention
    >>> x, w = np.eye(2), [[0, 9], [-9, 0]]
    >>> multiplicative_attention(x, x, x, w).round(3)
    array([[0., 1.],
           [0., 1.]])
    """
    dtype, (q, k, v, w) = as_floats({"q": q, "k": k, "v": v, "w": w}, work=np.float32)
    _check(("q", "k", "w"), q, k, w)
    out = scaled_dot_product_attention(
        affine(q, _transposed(w)),
        k,
        v,
        scale=scale,
        mask=mask,
        bias=bias,
        is_causal=is_causal,
        q_offset=q_offset,
        window=window,
        softcap=softcap,
        sink=sink,
        dropout=dropout,
        return_lse=return_lse,
        return_weights=return_weights,
    )
    if isinstance(out, tuple):
        return tuple(result(each, dtype) for each in out)
    return result(out, dtype)


def multiplicative_attention_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    *,
    scale: float = 1.0,
    dlse: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of multiplicative attention.

    Parameters
    ----------
    dout : array_like, shape (..., T, V)
        Cotangent of the averages.
    q, k, v, w, scale : as in `multiplicative_attention`
        The same.
    dlse : as in `scaled_dot_product_attention_vjp`
        The same.
    mask, bias, is_causal, q_offset, window, softcap : as in `multiplicative_attention`
        The same.
    sink, dropout : as in `multiplicative_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k`, `v` and `w`, then of a bias and of sinks if given.

    Notes
    -----
    **The differential.** The projected query :math:`\vec r_i = \mat W^\top \vec q_i`, of length E,
    has

    .. math:: \dd \vec r_i = \mat W^\top \dd \vec q_i + \dd \mat W^\top \vec q_i .

    **The inner product.** :math:`\dd L = \sum_i \vec g_i \cdot \dd \vec r_i + \dots` with the
    gradient :math:`\vec g_i = \partial L / \partial \vec r_i`, which
    :func:`scaled_dot_product_attention_vjp` gives together with the gradients of keys and values,
    the dots.

    **The transpose.** The factors of the two differentials are

    .. math::

        \pdv{L}{\vec q_i} = \mat W \vec g_i, \qquad
        \pdv{L}{\mat W} = \sum_i \vec q_i\, \vec g_i^\top .

    Examples
    --------
    With one key there is nothing to choose, and the form has no gradient:

    >>> from dlref.attention import multiplicative_attention_vjp
    >>> grads = multiplicative_attention_vjp([[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]])
    >>> [float(grad[0, 0]) for grad in grads]
    [0.0, 0.0, 1.0, 0.0]
    """
    arguments = {"dout": dout, "q": q, "k": k, "v": v, "w": w}
    dtype, (dout, q, k, v, w) = as_floats(arguments, work=np.float32)
    _check(("q", "k", "w"), q, k, w)
    matrix = _transposed(w)
    dr, dk, dv, *rest = scaled_dot_product_attention_vjp(
        dout,
        affine(q, matrix),
        k,
        v,
        scale=scale,
        dlse=dlse,
        mask=mask,
        bias=bias,
        is_causal=is_causal,
        q_offset=q_offset,
        window=window,
        softcap=softcap,
        sink=sink,
        dropout=dropout,
    )
    dq, dmatrix, _ = affine_vjp(dr, q, matrix)
    return tuple(result(grad, dtype) for grad in (dq, dk, dv, _transposed(dmatrix), *rest))


@overload
def multiplicative_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: float = ...,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[TangentOptions],
) -> FloatArray: ...
@overload
def multiplicative_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: float = ...,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[TangentOptions],
) -> Any: ...
def multiplicative_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: float = 1.0,
    dbias: npt.ArrayLike | None = None,
    dsink: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    softcap: float | None = None,
    sink: npt.ArrayLike | None = None,
    dropout: npt.ArrayLike | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Jacobian-vector product (forward mode) of multiplicative attention.

    Parameters
    ----------
    primals : tuple (q, k, v, w) of array_like
        The operands, as in `multiplicative_attention`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    scale : as in `multiplicative_attention`
        The same.
    dbias, dsink : as in `scaled_dot_product_attention_jvp`
        The same.
    mask, bias, is_causal, q_offset, window : as in `multiplicative_attention`
        The same.
    softcap, sink, dropout, return_lse, return_weights : as in `multiplicative_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, V)
        Tangent of the averages; a tuple with the tangents of the log-sum-exp and the weights if
        requested.

    Notes
    -----
    With the projected queries :math:`\vec r_i = \mat W^\top \vec q_i`,

    .. math::

        \dot{\vec r}_i = \mat W^\top \dot{\vec q}_i + \dot{\mat W}^\top \vec q_i, \qquad
        \dot s_{ij} = c\, (\dot{\vec r}_i \cdot \vec k_j + \vec r_i \cdot \dot{\vec k}_j) .

    The rest is :func:`scaled_dot_product_attention_jvp`.

    Examples
    --------
    >>> from dlref.attention import multiplicative_attention_jvp
    >>> primals = [[1.0]], [[0.0], [0.0]], [[0.0], [1.0]], [[1.0]]
    >>> multiplicative_attention_jvp(primals, (None, [[0.0], [1.0]], None, None))
    array([[0.25]])
    """
    points = entries("primals", primals, 4)
    moves = {n: t for n, t in entries("tangents", tangents, 4).items() if t is not None}
    dtype, floats = as_floats({**points, **moves}, work=np.float32)
    q, k, v, w = floats[:4]
    _check(("primals[0]", "primals[1]", "primals[3]"), q, k, w)
    tangent_arguments = dict(zip(moves, floats[4:], strict=True))
    for i, point in enumerate((q, k, v, w)):
        if f"tangents[{i}]" in tangent_arguments:
            check_shape(f"tangents[{i}]", tangent_arguments[f"tangents[{i}]"], point.shape)
    dq, dk, dv, dw = (tangent_arguments.get(f"tangents[{i}]") for i in range(4))
    matrix = _transposed(w)
    dr = affine_jvp((q, matrix, None), (dq, None if dw is None else _transposed(dw), None))
    out = scaled_dot_product_attention_jvp(
        (affine(q, matrix), k, v),
        (dr, dk, dv),
        scale=scale,
        dbias=dbias,
        dsink=dsink,
        mask=mask,
        bias=bias,
        is_causal=is_causal,
        q_offset=q_offset,
        window=window,
        softcap=softcap,
        sink=sink,
        dropout=dropout,
        return_lse=return_lse,
        return_weights=return_weights,
    )
    if isinstance(out, tuple):
        return tuple(result(each, dtype) for each in out)
    return result(out, dtype)
