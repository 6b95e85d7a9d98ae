r"""Batch normalization at inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, in_float64, result
from ._kernels.rows import jvp_arguments, operands


def batch_norm_inference(
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Batch normalization at inference, with the statistics gathered in training.

    Parameters
    ----------
    x : array_like, shape (..., C)
        Examples.
    mean : array_like, shape (C,)
        Mean :math:`\mu_c` of each channel.
    var : array_like, shape (C,)
        Variance :math:`\sigma_c^2` of each channel.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Normalized examples, independent of each other.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is not a number.
    ValueError
        If `x` is a scalar, another array does not have shape (C,), or `eps` is negative.

    See Also
    --------
    batch_norm : In training.
    batch_norm_update : Where `mean` and `var` come from.

    Notes
    -----
    The statistics are constants now, and the map of a channel is affine:

    .. math::

        y_{nc} = w_c \frac{x_{nc} - \mu_c}{\tau_c} + b_c
          = \frac{w_c}{\tau_c} x_{nc} + \Bigl( b_c - \frac{w_c \mu_c}{\tau_c} \Bigr),
        \qquad \tau_c = \sqrt{\sigma_c^2 + \epsilon} .

    Therefore it can be merged into the layer before it: the rows of that layer's matrix times
    :math:`w_c / \tau_c`, its bias :math:`a_c` replaced by
    :math:`b_c + (a_c - \mu_c) w_c / \tau_c`. The code takes the first form, because the second
    cancels where :math:`x` and :math:`\mu` are large and close. A variance below
    :math:`-\epsilon` gives NaN.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`

    Examples
    --------
    Merged into a matrix with two rows:

    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_inference
    >>> W, x = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([2.0, 1.0])
    >>> mean, var, w, b = np.array([[2, 1], [4, 16], [1, 2], [0, 1]])
    >>> batch_norm_inference(W @ x, mean, var, w, b, eps=0)
    array([1., 3.])
    >>> scale = w / np.sqrt(var)
    >>> (scale[:, None] * W) @ x + b - scale * mean
    array([1., 3.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, arrays = operands(x, mean=mean, var=var, weight=weight, bias=bias)
    z, _ = _standardized(x, arrays[0], arrays[1], eps)
    factor, offset = _affine(*arrays[2:])
    with np.errstate(all="ignore"):
        return result(z * factor + offset, dtype)


def _standardized(
    x: FloatArray, mean: FloatArray, var: FloatArray, eps: float
) -> tuple[FloatArray, FloatArray]:
    """Return the standardized x and 1 / tau, in float64."""
    with np.errstate(all="ignore"):
        scale = 1.0 / np.sqrt(var.astype(np.float64) + eps)
        return (x.astype(np.float64) - mean.astype(np.float64)) * scale, scale


def _affine(*arrays: Any) -> tuple[FloatArray | float, FloatArray | float]:
    weight, bias = (None if a is None else in_float64(a) for a in arrays)
    return 1.0 if weight is None else weight, 0.0 if bias is None else bias


def batch_norm_inference_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of batch normalization at inference.

    Parameters
    ----------
    dout : array_like, shape (..., C)
        Cotangent :math:`u = \partial L / \partial y`.
    x, mean, var, weight, bias, eps : as in `batch_norm_inference`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., C)
        :math:`u w / \tau`.
    dmean : ndarray, shape (C,)
        :math:`-\sum_n u_n w / \tau`.
    dvar : ndarray, shape (C,)
        :math:`-\sum_n u_n \hat x_n w / (2 \tau^2)`.
    dweight : ndarray, shape (C,)
        :math:`\sum_n u_n \hat x_n`. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum_n u_n`. Only if `bias` is given.

    See Also
    --------
    batch_norm_vjp : Where the statistics depend on `x`; the derivation of all terms.

    Notes
    -----
    With :math:`\hat x_{nc} = (x_{nc} - \mu_c) / \tau_c`,

    .. math::

        \pdv{L}{x_{nc}} &= \frac{w_c\, u_{nc}}{\tau_c}, &
        \pdv{L}{\mu_c} &= -\frac{w_c}{\tau_c} \sum_n u_{nc}, &
        \pdv{L}{\sigma_c^2} &= -\frac{w_c}{2 \tau_c^2} \sum_n u_{nc} \hat x_{nc}, \\
        \pdv{L}{w_c} &= \sum_n u_{nc} \hat x_{nc}, & \pdv{L}{b_c} &= \sum_n u_{nc} .

    The first path of :func:`batch_norm_vjp` alone leads to `x`; the other two end at the
    statistics. Joining them again, with :math:`\partial \mu / \partial x_m = 1/M` and
    :math:`\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M`, gives the gradient in training.

    Examples
    --------
    Training adds the path through the statistics:

    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_inference_vjp, batch_norm_vjp
    >>> x, u = np.array([[1.0], [3.0], [8.0]]), np.array([[1.0], [0.0], [0.0]])
    >>> mean, var = x.mean(0), x.var(0)
    >>> dx, dmean, dvar = batch_norm_inference_vjp(u, x, mean, var)
    >>> joined = dx + dmean / 3 + dvar * 2 * (x - mean) / 3
    >>> bool(np.allclose(joined, batch_norm_vjp(u, x), rtol=1e-13))
    True
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (u, mu, square, weight, bias) = operands(
        x, dout=dout, mean=mean, var=var, weight=weight, bias=bias
    )
    z, scale = _standardized(x, mu, square, eps)
    factor, _ = _affine(weight, None)
    u = in_float64(u)
    axes = tuple(range(x.ndim - 1))
    with np.errstate(all="ignore"):
        g = u * factor * scale
        grads = [g, -g.sum(axes), -0.5 * scale * (g * z).sum(axes)]
        if weight is not None:
            grads.append((u * z).sum(axes))
        if bias is not None:
            grads.append(u.sum(axes))
    return tuple(result(grad, dtype) for grad in grads)


def batch_norm_inference_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of batch normalization at inference.

    Parameters
    ----------
    primals : tuple (x, mean, var, weight, bias) of array_like
        Examples (..., C), statistics (C,), and factors and offsets (C,) or None.
    tangents : tuple of array_like or None
        Directions, each of the shape of its operand; None is zero.
    eps : as in `batch_norm_inference`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Tangent of the normalized examples.

    Notes
    -----
    From :math:`\hat x = (x - \mu) / \tau` with :math:`\tau = \sqrt{\sigma^2 + \epsilon}`, and
    :math:`\dot \tau = \dot{(\sigma^2)} / (2 \tau)`,

    .. math::

        \dot y = w \Bigl( \frac{\dot x - \dot \mu}{\tau}
           - \hat x \, \frac{\dot{(\sigma^2)}}{2 \tau^2} \Bigr) + \dot w \hat x + \dot b .

    Examples
    --------
    At :math:`\sigma = 1` a tangent 1 of the standard deviation is a tangent :math:`2 \sigma = 2` of
    the variance, and the tangent of the output is :math:`-\hat x / \sigma`:

    >>> from dlref.normalization import batch_norm_inference_jvp
    >>> primals, tangents = ([3.0], [0.0], [1.0], None, None), (None, None, [2.0], None, None)
    >>> batch_norm_inference_jvp(primals, tangents, eps=0)
    array([-3.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, v, arrays, rates = jvp_arguments(primals, tangents, count=5, needed=3)
    z, scale = _standardized(x, arrays[0], arrays[1], eps)
    factor, _ = _affine(arrays[2], None)
    dmean, dvar, dweight, dbias = (0.0 if r is None else in_float64(r) for r in rates)
    with np.errstate(all="ignore"):
        moved = (v - dmean) * scale - z * (0.5 * scale * scale * dvar)
        return result(moved * factor + z * dweight + dbias, dtype)
