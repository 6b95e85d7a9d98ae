r"""Keys and values repeated for grouped heads of queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    as_integer,
    check_constant,
    check_ndim,
    check_shape,
    check_size,
    entries,
    result,
)


def repeat_kv(x: npt.ArrayLike, n: int) -> FloatArray:
    r"""
    Copy each head n times, so that each head of queries has its own keys.

    Parameters
    ----------
    x : array_like, shape (..., Hk, S, E)
        Keys or values.
    n : int
        Number of copies, at least 1: H / Hk.

    Returns
    -------
    ndarray, shape (..., n Hk, S, E)
        Copies of a head stand side by side.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `n` is not an integer.
    ValueError
        If `x` has fewer than 3 axes, or `n` is less than 1.

    See Also
    --------
    scaled_dot_product_attention : Shares keys among queries without copying them.

    Notes
    -----
    .. math:: y_{h} = x_{\lfloor h / n \rfloor} .

    This function defines grouped heads; it is not needed to compute them. Attention reads the same
    keys n times instead of copying them, which is the point of grouping: memory traffic and cache
    shrink to 1/n.

    References
    ----------
    - :cite:t:`Ainslie2023`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import repeat_kv, scaled_dot_product_attention
    >>> repeat_kv([[[1.0]], [[2.0]]], 2).ravel()
    array([1., 1., 2., 2.])
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.normal(size=(4, 3, 2)), rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2))
    >>> grouped = scaled_dot_product_attention(q, k, v)
    >>> copied = scaled_dot_product_attention(q, repeat_kv(k, 2), repeat_kv(v, 2))
    >>> bool(np.all(grouped == copied))
    True
    """
    n = as_integer("n", as_array("n", n), least=1)
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    check_ndim("x", x, 3)
    check_size(n=n, x=x.size)
    return result(np.repeat(x, n, axis=-3), dtype)


def repeat_kv_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, n: int) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of `repeat_kv`: a sum over the copies.

    Parameters
    ----------
    dout : array_like, shape (..., n Hk, S, E)
        Cotangent of the copies.
    x, n : as in `repeat_kv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., Hk, S, E)
        Gradient with respect to `x`.

    Notes
    -----
    **The differential.** A copy is linear: :math:`\dd y_{nh + m} = \dd x_h` for m = 0, …, n − 1.

    **The inner product.** :math:`\dd L = \sum_{h, m} u_{nh + m}\, \dd y_{nh + m}`.

    **The transpose.** An array that is read n times gets n gradients, which add up:

    .. math::

        \pdv{L}{x_h} = \sum_{m=0}^{n-1} u_{nh + m} .

    Examples
    --------
    >>> from dlref.attention import repeat_kv_vjp
    >>> repeat_kv_vjp([[[1.0]], [[2.0]]], [[[0.0]]], 2)
    array([[[3.]]])
    """
    n = as_integer("n", as_array("n", n), least=1)
    dtype, (dout, x) = as_floats({"dout": dout, "x": x})
    check_ndim("x", x, 3)
    *lead, heads, rows, width = x.shape
    check_shape("dout", dout, (*lead, n * heads, rows, width))
    with np.errstate(all="ignore"):
        return result(dout.reshape(*lead, heads, n, rows, width).sum(-3), dtype)


def repeat_kv_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of `repeat_kv`.

    Parameters
    ----------
    primals : tuple (x, n)
        Keys or values (..., Hk, S, E), and the number of copies.
        Raises the same errors as `repeat_kv`.
    tangents : tuple (dx, None)
        Tangent of `x`, None for zero; the number of copies does not vary.

    Returns
    -------
    ndarray, shape (..., n Hk, S, E)
        The tangent, repeated.

    Notes
    -----
    The map is linear in x:

    .. math::

        \dot y_h = \dot x_{\lfloor h / n \rfloor} .

    Examples
    --------
    >>> from dlref.attention import repeat_kv_jvp
    >>> repeat_kv_jvp(([[[0.0]]], 2), ([[[5.0]]], None)).ravel()
    array([5., 5.])
    """
    x, n = entries("primals", primals, 2).values()
    dx, dn = entries("tangents", tangents, 2).values()
    check_constant("tangents[1]", dn)
    tangent_arguments = {} if dx is None else {"tangents[0]": dx}
    dtype, (x, *rest) = as_floats({"primals[0]": x, **tangent_arguments}, work=np.float32)
    move = rest[0] if rest else np.zeros_like(x)
    check_shape("tangents[0]", move, x.shape)
    return result(repeat_kv(move, n), dtype)
