r"""Differential attention: the difference of two softmax maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_fits,
    check_given,
    check_ndim,
    check_shape,
    result,
)
from .._core.broadcasting import unbroadcast
from ._kernels.arguments import AttentionOptions
from ._scaled_dot_product import (
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
)

NAMES = ("q1", "k1", "q2", "k2", "v", "lam")


def _check(arrays: list[FloatArray], labels: list[str]) -> None:
    q1, k1, q2, k2, _, lam = arrays
    check_ndim(labels[0], q1, 2)
    check_shape(labels[2], q2, q1.shape)
    check_shape(labels[3], k2, k1.shape)
    check_fits(labels[5], lam, (*q1.shape[:-2], 1, 1), "..., H, 1, 1")


def differential_attention(
    q1: npt.ArrayLike,
    k1: npt.ArrayLike,
    q2: npt.ArrayLike,
    k2: npt.ArrayLike,
    v: npt.ArrayLike,
    lam: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
) -> FloatArray:
    r"""
    Attention with the difference of two maps of weights.

    Parameters
    ----------
    q1 : array_like, shape (..., H, T, E)
        Queries of the first map.
    k1 : array_like, shape (..., Hk, S, E)
        Keys of the first map.
    q2 : array_like, shape (..., H, T, E)
        Queries of the second map.
    k2 : array_like, shape (..., Hk, S, E)
        Keys of the second map.
    v : array_like, shape (..., Hk, S, V)
        Values, which both maps share.
    lam : array_like, shape () or (H, 1, 1)
        Factor :math:`\lambda` of the second map, of all heads or of each.
    mask, bias, is_causal, q_offset, window, scale, softcap : as in `scaled_dot_product_attention`
        Options of both maps. The bias is a constant.

    Returns
    -------
    ndarray, shape (..., H, T, V)
        The difference of both outputs.

    Raises
    ------
    TypeError
        If an array is not real, or an option has the wrong type.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    scaled_dot_product_attention : One map.
    dlref.normalization.rms_norm : The norm that the model applies to each head afterwards.

    Notes
    -----
    With the weights :math:`p^{(1)}` and :math:`p^{(2)}` of the two pairs of queries and keys,

    .. math:: \vec o_i = \sum_j \bigl( p^{(1)}_{ij} - \lambda\, p^{(2)}_{ij} \bigr) \vec v_j
       = \vec o^{(1)}_i - \lambda\, \vec o^{(2)}_i .

    A softmax gives every visible key a positive weight, and over a long text the many small ones
    add up. Where both maps give the same small weights, their difference is smaller: the name is
    from differential amplifiers, which cancel noise that is common to two inputs. The weights of a
    row sum to :math:`1 - \lambda` and may be negative. The right side shows that no kernel of its
    own is needed: two calls of any kernel for attention, with the same values.

    In the Differential Transformer :math:`\lambda` is learned through :math:`e^{\vec a_1 \cdot \vec
    b_1} - e^{\vec a_2 \cdot \vec b_2} + \lambda_0`, with :math:`\lambda_0 = 0.8 - 0.6 e^{-0.3 l}`
    in layer l (counted from 0), and each head is normalized and multiplied by
    :math:`1 - \lambda_0`.

    References
    ----------
    - :cite:t:`YeDong2024`, equation 1

    Examples
    --------
    The first map attends to the first key, the second to both alike:

    >>> from dlref.attention import differential_attention
    >>> q, zero, k = [[100.0]], [[0.0]], [[1.0], [0.0]]
    >>> differential_attention(q, k, zero, k, [[8.0], [4.0]], 0.5)
    array([[5.]])
    """
    options: AttentionOptions = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap,
    }  # fmt: skip
    given = dict(zip(NAMES, (q1, k1, q2, k2, v, lam), strict=True))
    dtype, arrays = as_floats(given)
    _check(arrays, list(NAMES))
    q1, k1, q2, k2, v, lam = arrays
    first = scaled_dot_product_attention(q1, k1, v, **options)
    second = scaled_dot_product_attention(q2, k2, v, **options)
    with np.errstate(all="ignore"):
        return result(first - _to_rows(lam, first) * second, dtype)


def _to_rows(lam: FloatArray, out: FloatArray) -> FloatArray:
    """Return the factor with at most as many axes as the output."""
    return lam.reshape(lam.shape[max(lam.ndim - out.ndim, 0) :])


def differential_attention_vjp(
    dout: npt.ArrayLike,
    q1: npt.ArrayLike,
    k1: npt.ArrayLike,
    q2: npt.ArrayLike,
    k2: npt.ArrayLike,
    v: npt.ArrayLike,
    lam: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of differential attention.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, V)
        Cotangent u of the output.
    q1, k1, q2, k2, v, lam : as in `differential_attention`
        The same.
    mask, bias, is_causal, q_offset, window, scale, softcap : as in `differential_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q1`, `k1`, `q2`, `k2`, `v` and `lam`, each of the shape of its
        operand.

    See Also
    --------
    scaled_dot_product_attention_vjp : The gradients of one map.

    Notes
    -----
    The differential of the difference is :math:`\dd \vec o^{(1)} - \lambda\, \dd \vec o^{(2)} -
    \vec o^{(2)} \dd \lambda`. So the first map gets the cotangent u, the second one gets
    :math:`-\lambda \vec u`, the gradient of the values is the sum of both, and

    .. math:: \pdv{L}{\lambda} = -\sum_{h, i} \vec u_{hi} \cdot \vec o^{(2)}_{hi} ,

    without the sum over heads if each head has its own factor.

    Examples
    --------
    >>> from dlref.attention import differential_attention_vjp
    >>> q, zero, k, v = [[100.0]], [[0.0]], [[1.0], [0.0]], [[8.0], [4.0]]
    >>> *_, dv, dlam = differential_attention_vjp([[1.0]], q, k, zero, k, v, 0.5)
    >>> dv.ravel(), dlam
    (array([ 0.75, -0.25]), np.float64(-6.0))
    """
    options: AttentionOptions = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap,
    }  # fmt: skip
    check_given("dout", dout)
    given = dict(zip(("dout", *NAMES), (dout, q1, k1, q2, k2, v, lam), strict=True))
    dtype, (u, *arrays) = as_floats(given)
    _check(arrays, list(NAMES))
    q1, k1, q2, k2, v, lam = arrays
    second = scaled_dot_product_attention(q2, k2, v, **options)
    check_shape("dout", u, second.shape)
    with np.errstate(all="ignore"):
        factor = _to_rows(lam, u)
        one = scaled_dot_product_attention_vjp(u, q1, k1, v, **options)
        two = scaled_dot_product_attention_vjp(-factor * u, q2, k2, v, **options)
        dlam = unbroadcast(-np.sum(u * second, axis=(-2, -1), keepdims=True), factor.shape)
        grads = (*one[:2], *two[:2], one[2] + two[2], dlam.reshape(lam.shape))
    return tuple(result(grad, dtype) for grad in grads)


def differential_attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    is_causal: bool = False,
    q_offset: int = 0,
    window: Any = None,
    scale: npt.ArrayLike | None = None,
    softcap: float | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of differential attention.

    Parameters
    ----------
    primals : tuple (q1, k1, q2, k2, v, lam) of array_like
        The operands, as in `differential_attention`.
    tangents : tuple of array_like or None
        Their tangents; None is zero.
    mask, bias, is_causal, q_offset, window, scale, softcap : as in `differential_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, V)
        Tangent of the output.

    Notes
    -----
    .. math:: \dot{\vec o}_i = \dot{\vec o}^{(1)}_i - \lambda\, \dot{\vec o}^{(2)}_i
       - \dot\lambda\, \vec o^{(2)}_i

    with the tangents of the two maps from :func:`scaled_dot_product_attention_jvp`.

    Examples
    --------
    >>> from dlref.attention import differential_attention_jvp
    >>> primals = [[100.0]], [[1.0], [0.0]], [[0.0]], [[1.0], [0.0]], [[8.0], [4.0]], 0.5
    >>> differential_attention_jvp(primals, (None, None, None, None, None, 1.0))
    array([[-6.]])
    """
    options: AttentionOptions = {
        "mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset, "window": window,
        "scale": scale, "softcap": softcap,
    }  # fmt: skip
    dtype, arrays, moves = as_tangents(primals, tangents, count=6)
    _check(arrays, [f"primals[{i}]" for i in range(6)])
    q1, k1, q2, k2, v, lam = arrays
    dq1, dk1, dq2, dk2, dv, dlam = moves
    one = scaled_dot_product_attention_jvp((q1, k1, v), (dq1, dk1, dv), **options)
    two = scaled_dot_product_attention_jvp((q2, k2, v), (dq2, dk2, dv), **options)
    second = scaled_dot_product_attention(q2, k2, v, **options)
    with np.errstate(all="ignore"):
        moved = one - _to_rows(lam, one) * two - _to_rows(dlam, one) * second
    return result(moved, dtype)
