r"""Rows divided by their length, and both Jacobian products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_bool, as_number, as_tangents, check_ndim, result
from ._kernels.rows import operands, rows, rows_jvp, rows_vjp


def _as_rms(x: FloatArray, eps: float) -> tuple[FloatArray, float]:
    """Return the weight and eps with which RMS normalization is this map."""
    width = max(x.shape[-1], 1)
    return np.full(x.shape[-1], width**-0.5), eps / width


def _shorter(x: FloatArray, eps: float) -> FloatArray:
    """Return which rows are shorter than eps; one that underflows or overflows is either."""
    with np.errstate(all="ignore"):
        squares = np.einsum("...i,...i->...", x, x, dtype=np.float64)
        return np.asarray(np.sqrt(squares)[..., None] < eps)


def _or_divided(
    of_rows: Callable[[float], FloatArray], x: FloatArray, moved: FloatArray, eps: float
) -> FloatArray:
    """Return the rows of a form with eps = 0; where x is shorter than eps, moved / eps."""
    short = _shorter(x, eps)
    with np.errstate(all="ignore"):
        divided = moved / np.float64(eps)
    return np.where(short, divided, of_rows(0.0))


def l2_norm(x: npt.ArrayLike, *, eps: float = 1e-6, clamp: bool = False) -> FloatArray:
    r"""
    Divide each row by its Euclidean length.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Rows of features.
    eps : float, default 1e-6
        Added to the sum of squares, at least 0.
    clamp : bool, default False
        Whether `eps` is the least length instead, as in PyTorch's ``normalize``.

    Returns
    -------
    ndarray, shape of `x`
        Rows of length 1, or a little less where `eps` counts.

    Raises
    ------
    TypeError
        If `x` is not real, `eps` is not a number or `clamp` is not a bool.
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
    to the sum of squares. PyTorch's ``normalize`` divides by the length, but at least by 1e-12:
    that is ``clamp=True, eps=1e-12``, the division by :math:`\max(\norm{\vec x}, \epsilon)`. In
    float32 the results differ where a row is shorter than about :math:`10^3 \sqrt\epsilon`.

    **Special values.** Zeros stay 0 if :math:`\epsilon > 0`, else they give NaN.

    Examples
    --------
    >>> from dlref.normalization import l2_norm
    >>> l2_norm([3, 4], eps=0).round(15)
    array([0.6, 0.8])

    A row of length 1 loses a third of its length if eps is 1.25:

    >>> l2_norm([0.6, 0.8], eps=1.25).round(15)
    array([0.4       , 0.53333333])

    With a least length of 1 the first row has length 1, and the second one stays as it is:

    >>> l2_norm([[3.0, 4.0], [0.3, 0.4]], eps=1.0, clamp=True).round(15)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    eps, is_least = as_number("eps", eps, least=0), as_bool("clamp", clamp)
    dtype, x, _ = operands(x)

    def divided(eps: float) -> FloatArray:
        weight, small = _as_rms(x, eps)
        return rows(x, weight, None, small, about_mean=False)

    return result(_or_divided(divided, x, x, eps) if is_least else divided(eps), dtype)


def l2_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, eps: float = 1e-6, clamp: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the division by the length.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y`.
    x, eps, clamp : as in `l2_norm`
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
    a longer row has the same output, so no gradient points along it. With `clamp` that holds for
    rows that are not shorter than :math:`\epsilon`, and the map of shorter ones is linear, with the
    gradient :math:`\vec u / \epsilon`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import l2_norm_vjp
    >>> x = np.array([3.0, 4.0])
    >>> dx = l2_norm_vjp([25.0, 0.0], x, eps=0)
    >>> dx.round(12), bool(abs(dx @ x) < 1e-14)
    (array([ 3.2, -2.4]), True)
    """
    eps, is_least = as_number("eps", eps, least=0), as_bool("clamp", clamp)
    dtype, x, (u,) = operands(x, dout=dout)

    def pulled(eps: float) -> FloatArray:
        weight, small = _as_rms(x, eps)
        return rows_vjp(u, x, weight, small, about_mean=False)[0]

    return result(_or_divided(pulled, x, u, eps) if is_least else pulled(eps), dtype)


def l2_norm_jvp(
    primals: Any, tangents: Any, *, eps: float = 1e-6, clamp: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the division by the length.

    Parameters
    ----------
    primals : array_like, shape (..., D)
        Rows of features.
    tangents : array_like, shape of `primals`, or None
        Direction v; None is zero.
    eps, clamp : as in `l2_norm`
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
    eps, is_least = as_number("eps", eps, least=0), as_bool("clamp", clamp)
    dtype, [x], [v] = as_tangents(primals, tangents, count=1, work=np.float32)
    check_ndim("primals", x, 1)

    def pushed(eps: float) -> FloatArray:
        weight, small = _as_rms(x, eps)
        return rows_jvp(v, x, weight, None, None, small, about_mean=False)

    return result(_or_divided(pushed, x, v, eps) if is_least else pushed(eps), dtype)
