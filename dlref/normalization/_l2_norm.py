r"""Rows divided by their length, and both Jacobian products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, as_tangents, check_ndim, result
from ._kernels.rows import operands, rows, rows_jvp, rows_vjp

__all__ = ["l2_norm", "l2_norm_jvp", "l2_norm_vjp"]


def _as_rms(x: FloatArray, eps: float) -> tuple[FloatArray, float]:
    """Return the weight and eps with which RMS normalization is this map."""
    width = max(x.shape[-1], 1)
    return np.full(x.shape[-1], width**-0.5), eps / width


def l2_norm(x: npt.ArrayLike, *, eps: float = 1e-6) -> FloatArray:
    r"""
    Divide each row by its Euclidean length.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Rows of features.
    eps : float, default 1e-6
        Added to the sum of squares, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Rows of length 1, or a little less where `eps` counts.

    Raises
    ------
    TypeError
        If `x` is not real or `eps` is not a number.
    ValueError
        If `x` is a scalar or `eps` is negative.

    See Also
    --------
    l2_norm_vjp : The gradient, with its derivation.
    rms_norm : Divides by the root mean square, which is smaller by :math:`\sqrt D`.

    Notes
    -----
    .. math:: y_i = \frac{x_i}{\ell} , \qquad \ell = \sqrt{\sum_j x_j^2 + \epsilon}

    The dot product of two such rows is the cosine of the angle between them. Linear attention with
    the delta rule needs keys of length 1 (Gated DeltaNet, Qwen3-Next, Kimi Linear, which normalize
    queries, too): then the step
    :math:`\mat I - \beta \vec k \vec k^\top` has the eigenvalues 1 and :math:`1 - \beta`, which
    stay within -1 and 1 for every :math:`\beta` from 0 to 2.

    It is RMS normalization with the weight :math:`1 / \sqrt D` and
    :math:`\epsilon_\text{rms} = \epsilon / D`, which is how the code computes it.

    **Conventions.** Here, and in the kernels of flash-linear-attention, :math:`\epsilon` is added
    to the sum of squares. PyTorch's ``normalize`` divides by the length, but at least by 1e-12.
    In float32 the results differ where a row is shorter than about :math:`10^3 \sqrt\epsilon`.

    **Special values.** Zeros stay 0 if :math:`\epsilon > 0`, else they give NaN.

    Examples
    --------
    >>> from dlref.normalization import l2_norm
    >>> l2_norm([3, 4], eps=0).round(15)
    array([0.6, 0.8])

    A row of length 1 loses a third of its length if eps is 1.25:

    >>> l2_norm([0.6, 0.8], eps=1.25).round(15)
    array([0.4       , 0.53333333])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, _ = operands(x)
    weight, small = _as_rms(x, eps)
    return result(rows(x, weight, None, small, about_mean=False), dtype)


def l2_norm_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, eps: float = 1e-6) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the division by the length.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y`.
    x, eps : as in `l2_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Gradient with respect to `x`.

    Notes
    -----
    **The differential.** From :math:`\ell^2 = \vec x \cdot \vec x + \epsilon` follows
    :math:`\ell\, \dd \ell = \vec x \cdot \dd \vec x`, so
    :math:`\dd \ell = \vec y \cdot \dd \vec x`, and

    .. math::

        \dd \vec y = \frac{\dd \vec x}{\ell} - \frac{\vec x}{\ell^2}\, \dd \ell
            = \frac1\ell \bigl( \dd \vec x - \vec y\, (\vec y \cdot \dd \vec x) \bigr) .

    **The inner product.** The loss changes by

    .. math::

        \dd L = \vec u \cdot \dd \vec y = \frac1\ell \bigl( \vec u
            - \vec y\, (\vec y \cdot \vec u) \bigr) \cdot \dd \vec x .

    **The transpose.** The Jacobian is symmetric, and the factor of :math:`\dd \vec x` is

    .. math:: \pdv{L}{\vec x} = \frac1\ell \bigl( \vec u - \vec y\, (\vec y \cdot \vec u) \bigr) .

    For :math:`\epsilon = 0` it removes the component of u along the row:
    a longer row has the same output, so no gradient points along it.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import l2_norm_vjp
    >>> x = np.array([3.0, 4.0])
    >>> dx = l2_norm_vjp([25.0, 0.0], x, eps=0)
    >>> dx.round(12), bool(abs(dx @ x) < 1e-14)
    (array([ 3.2, -2.4]), True)
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (u,) = operands(x, dout=dout)
    weight, small = _as_rms(x, eps)
    dx, _, _ = rows_vjp(u, x, weight, small, about_mean=False)
    return result(dx, dtype)


def l2_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-6) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the division by the length.

    Parameters
    ----------
    primals : array_like, shape (..., D)
        Rows of features.
    tangents : array_like, shape of `primals`, or None
        Direction v; None is zero.
    eps : as in `l2_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the normalized rows.

    Notes
    -----
    The differential of :func:`l2_norm_vjp`, with the length :math:`\ell`:

    .. math:: \dot{\vec y} = \frac1\ell \bigl( \vec v - \vec y\, (\vec y \cdot \vec v) \bigr)

    Examples
    --------
    A tangent along the row changes nothing:

    >>> from dlref.normalization import l2_norm_jvp
    >>> l2_norm_jvp([3.0, 4.0], [4.0, -3.0], eps=0).round(15)
    array([ 0.8, -0.6])
    >>> l2_norm_jvp([3.0, 4.0], [3.0, 4.0], eps=0).round(15) + 0.0
    array([0., 0.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, [x], [v] = as_tangents(primals, tangents, count=1, work=np.float32)
    check_ndim("primals", x, 1)
    weight, small = _as_rms(x, eps)
    return result(rows_jvp(v, x, weight, None, None, small, about_mean=False), dtype)
