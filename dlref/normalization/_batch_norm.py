r"""Batch normalization: in training, in use, and the running statistics between the two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._channels import columns, columns_pull, columns_push
from .._standardize import moving, operands
from .._validate import (
    FloatArray,
    as_floats,
    as_number,
    as_tangents,
    check_shape,
    result,
)

__all__ = [
    "batch_norm",
    "batch_norm_inference",
    "batch_norm_inference_jvp",
    "batch_norm_inference_vjp",
    "batch_norm_jvp",
    "batch_norm_update",
    "batch_norm_update_jvp",
    "batch_norm_update_vjp",
    "batch_norm_vjp",
]


def _as_one_sample(x: FloatArray) -> FloatArray:
    """Merge all axes before the channels: (1, positions, channels)."""
    return x.reshape(1, math.prod(x.shape[:-1]), x.shape[-1])


def batch_norm(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Shift and scale each channel to mean 0 and variance 1 over the batch.

    Parameters
    ----------
    x : array_like, shape (..., C)
        A batch: every axis but the last is averaged over.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Normalized batch.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is no number.
    ValueError
        If `x` is a scalar, `weight` or `bias` has not the shape (C,), or `eps` is negative.

    See Also
    --------
    batch_norm_vjp : Reverse mode, with the derivation.
    batch_norm_inference : With statistics that are given.
    batch_norm_update : How those are gathered.
    layer_norm : Over the features of each example instead.

    Notes
    -----
    Let n run over the M elements of a channel, those of all examples and positions:

    .. math::

        \mu_c = \frac1M \sum_n x_{nc}, \qquad
        \sigma_c^2 = \frac1M \sum_n (x_{nc} - \mu_c)^2, \qquad
        y_{nc} = w_c \frac{x_{nc} - \mu_c}{\sqrt{\sigma_c^2 + \epsilon}} + b_c .

    It is layer normalization of the transposed matrix. What differs is what that means: the
    examples of a batch now depend on each other, so that a batch of one has output
    `bias`, and at the time of use, when there is no batch, other statistics must stand in.
    The variance is the biased one here (divided by M), in PyTorch and ONNX too.

    A bias added to `x` by the layer before has no effect, since the mean takes it away
    again, and neither has the scale of that layer's weights.

    **Numerics.** As in :func:`layer_norm`: differences from a guess of the mean are formed first,
    and their own mean, what the guess lacks, is taken off. The sums of all channels are formed
    side by side, in the order of memory. Arithmetic is in float64 for narrower inputs too, rounded
    once.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import batch_norm
    >>> batch_norm([[1, 10], [3, 10], [5, 40], [7, 40]], eps=0).round(4)
    array([[-1.3416, -1.    ],
           [-0.4472, -1.    ],
           [ 0.4472,  1.    ],
           [ 1.3416,  1.    ]])

    One example sees the others: only the last row of the input changes here.

    >>> batch_norm([[1.0], [3.0]], eps=0)[0], batch_norm([[1.0], [-3.0]], eps=0)[0]
    (array([-1.]), array([1.]))
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, bias) = operands(x, weight=weight, bias=bias)
    out = columns(_as_one_sample(x), max(x.shape[-1], 1), weight, bias, eps)
    return result(out.reshape(x.shape), dtype)


def batch_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of batch normalization.

    Parameters
    ----------
    dout : array_like, shape (..., C)
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like, shape (..., C)
        A batch.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    dx : ndarray, shape (..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum_n u_{nc} \hat x_{nc}`. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum_n u_{nc}`. Only if `bias` is given.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is no number.
    ValueError
        If `x` is a scalar, a shape does not fit, or `eps` is negative.

    See Also
    --------
    batch_norm_jvp : Forward mode.
    layer_norm_jacobian : The same Jacobian, for a row.

    Notes
    -----
    Channels do not mix, so take one and drop its index. Let :math:`g_n = w u_n` be what arrives
    at :math:`\hat x_n = (x_n - \mu) / \tau`, with :math:`\tau = \sqrt{\sigma^2 + \epsilon}`. The
    input acts along three paths: directly, through :math:`\mu`, and through
    :math:`\sigma^2`. Go through them backwards.

    1. To the variance, from :math:`\partial \tau / \partial \sigma^2 = 1 / (2 \tau)`:

       .. math::

           \pdv{L}{\sigma^2} = \sum_n g_n \pdv{\hat x_n}{\sigma^2}
             = - \sum_n g_n \frac{x_n - \mu}{2 \tau^3}
             = - \frac{1}{2 \tau^2} \sum_n g_n \hat x_n .

    2. To the mean: directly, and through the variance, where
       :math:`\partial \sigma^2 / \partial \mu = -\frac2M \sum_n (x_n - \mu) = 0`:

       .. math:: \pdv{L}{\mu} = - \frac1\tau \sum_n g_n .

    3. To the input, with :math:`\partial \mu / \partial x_m = 1/M` and
       :math:`\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M = 2 \tau \hat x_m / M`:

       .. math::

           \pdv{L}{x_m} = \frac{g_m}{\tau} + \frac1M \pdv{L}{\mu}
             + \frac{2 \tau \hat x_m}{M} \pdv{L}{\sigma^2}
             = \frac1\tau \bigl( g_m - \overline g - \hat x_m \, \overline{g \hat x} \bigr).

    A bar is the mean over the batch. The last two terms are projections, onto :math:`\vec 1` and
    onto :math:`\hat{\vec x}`: the gradients of a channel sum to 0 over the batch and (for
    :math:`\epsilon = 0`) have no correlation with the channel's values. Leaving them out, as if the
    statistics were constants, gives the vjp of :func:`batch_norm_inference`.

    `dout` and `x` are read twice, once for the sums and once for the result, as many
    channels at a time as in :func:`batch_norm`.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_vjp
    >>> x = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> u = np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> dx, dweight, dbias = batch_norm_vjp(u, x, [np.sqrt(5)], [0], eps=0)
    >>> dx
    array([[ 0.3],
           [-0.4],
           [-0.1],
           [ 0.2]])
    >>> dweight.round(4), dbias
    (array([-1.3416]), array([1.]))
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (u, weight, bias) = operands(x, dout=dout, weight=weight, bias=bias)
    channels = max(x.shape[-1], 1)
    dx, dweight, dbias = columns_pull(_as_one_sample(u), _as_one_sample(x), channels, weight, eps)
    grads = [result(dx.reshape(x.shape), dtype)]
    if weight is not None:
        grads.append(result(dweight, dtype))
    if bias is not None:
        grads.append(result(dbias, dtype))
    return tuple(grads) if len(grads) > 1 else grads[0]


def batch_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of batch normalization.

    Parameters
    ----------
    primals : tuple (x, weight, bias) of array_like
        A batch (..., C), and factors and offsets (C,) or None.
    tangents : tuple of array_like or None
        Directions :math:`v, \dot w, \dot b`, each of the shape of its operand; None is zero.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape (..., C)
        Rate of change of the normalized batch.

    Raises
    ------
    TypeError
        If an argument is no tuple, an entry no real array, or `eps` no number.
    ValueError
        If a shape does not fit, a missing operand has a tangent, or `eps` is negative.

    See Also
    --------
    batch_norm_vjp : Reverse mode, with the derivation.

    Notes
    -----
    The Jacobian of a channel is symmetric up to the weight, and with bars for means over the
    batch

    .. math::

        \dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n \, \overline{v \hat x} \bigr)
          + \dot w \hat x_n + \dot b .

    Examples
    --------
    Moving one example of two moves both: they stay at :math:`\pm 1` unless `eps` counts.

    >>> from dlref.normalization import batch_norm_jvp
    >>> x, v = [[1.0], [3.0]], [[1.0], [0.0]]
    >>> batch_norm_jvp((x, None, None), (v, None, None), eps=0)
    array([[0.],
           [0.]])
    >>> batch_norm_jvp((x, None, None), (v, None, None), eps=3)
    array([[ 0.1875],
           [-0.1875]])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, v, (weight, _), (dweight, dbias) = moving(primals, tangents, count=3)
    channels, merged = max(x.shape[-1], 1), _as_one_sample(x)
    out = columns_push(_as_one_sample(v), merged, channels, weight, dweight, dbias, eps)
    return result(out.reshape(x.shape), dtype)


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
    Batch normalization in use, with the statistics gathered in training.

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
        If an array is not real or `eps` is no number.
    ValueError
        If `x` is a scalar, another array has not the shape (C,), or `eps` is negative.

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
    z, _ = _given(x, arrays[0], arrays[1], eps)
    factor, offset = _affine(*arrays[2:])
    with np.errstate(all="ignore"):
        return result(z * factor + offset, dtype)


def _given(
    x: FloatArray, mean: FloatArray, var: FloatArray, eps: float
) -> tuple[FloatArray, FloatArray]:
    """Return the standardized x and 1 / tau, in float64."""
    with np.errstate(all="ignore"):
        scale = 1.0 / np.sqrt(var.astype(np.float64) + eps)
        return (x.astype(np.float64) - mean.astype(np.float64)) * scale, scale


def _affine(*arrays: Any) -> tuple[FloatArray | float, FloatArray | float]:
    weight, bias = (None if a is None else a.astype(np.float64) for a in arrays)
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
    Vector-Jacobian product (reverse mode) of batch normalization in use.

    Parameters
    ----------
    dout : array_like, shape (..., C)
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like, shape (..., C)
        Examples.
    mean : array_like, shape (C,)
        Mean of each channel.
    var : array_like, shape (C,)
        Variance of each channel.
    weight : array_like or None, shape (C,)
        Factor of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

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

    Raises
    ------
    TypeError
        If an array is not real or `eps` is no number.
    ValueError
        If `x` is a scalar, a shape does not fit, or `eps` is negative.

    See Also
    --------
    batch_norm_vjp : Where the statistics depend on `x`; the derivation of all terms.
    batch_norm_inference_jvp : Forward mode.

    Notes
    -----
    The first path of :func:`batch_norm_vjp` alone leads to `x`; the other two end at the
    statistics. Joining them again, with :math:`\partial \mu / \partial x_m = 1/M` and
    :math:`\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M`, gives the gradient in training.

    Examples
    --------
    The path through the statistics is what training adds:

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
    z, scale = _given(x, mu, square, eps)
    factor, _ = _affine(weight, None)
    u = u.astype(np.float64)
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
    Jacobian-vector product (forward mode) of batch normalization in use.

    Parameters
    ----------
    primals : tuple (x, mean, var, weight, bias) of array_like
        Examples (..., C), statistics (C,), and factors and offsets (C,) or None.
    tangents : tuple of array_like or None
        Directions, each of the shape of its operand; None is zero.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape (..., C)
        Rate of change of the normalized examples.

    Raises
    ------
    TypeError
        If an argument is no tuple, an entry no real array, or `eps` no number.
    ValueError
        If a shape does not fit, a missing operand has a tangent, or `eps` is negative.

    See Also
    --------
    batch_norm_inference_vjp : Reverse mode.

    Notes
    -----
    From :math:`\hat x = (x - \mu) / \tau` and
    :math:`\dot \tau = \dot{(\sigma^2)} / (2 \tau)`,

    .. math::

        \dot y = w \Bigl( \frac{\dot x - \dot \mu}{\tau}
           - \hat x \, \frac{\dot{(\sigma^2)}}{2 \tau^2} \Bigr) + \dot w \hat x + \dot b .

    Examples
    --------
    Doubling the standard deviation :math:`\sigma` at the rate 1 changes the variance at the
    rate 2, and the output at the rate :math:`-\hat x / \sigma`:

    >>> from dlref.normalization import batch_norm_inference_jvp
    >>> primals, tangents = ([3.0], [0.0], [1.0], None, None), (None, None, [2.0], None, None)
    >>> batch_norm_inference_jvp(primals, tangents, eps=0)
    array([-3.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, v, arrays, rates = moving(primals, tangents, count=5, needed=3)
    z, scale = _given(x, arrays[0], arrays[1], eps)
    factor, _ = _affine(arrays[2], None)
    dmean, dvar, dweight, dbias = (0.0 if r is None else r.astype(np.float64) for r in rates)
    with np.errstate(all="ignore"):
        moved = (v - dmean) * scale - z * (0.5 * scale * scale * dvar)
        return result(moved * factor + z * dweight + dbias, dtype)


def batch_norm_update(
    running: npt.ArrayLike, batch: npt.ArrayLike, *, momentum: float
) -> FloatArray:
    r"""
    Move a running statistic towards that of the present batch.

    Parameters
    ----------
    running : array_like, shape (C,)
        Mean or variance gathered so far.
    batch : array_like, shape (C,)
        Mean or variance of the batch.
    momentum : float
        Weight :math:`m` of the new value, from 0 to 1.

    Returns
    -------
    ndarray, shape (C,)
        :math:`(1 - m)\, r + m\, s`.

    Raises
    ------
    TypeError
        If an array is not real or `momentum` is no number.
    ValueError
        If the shapes differ or `momentum` is not from 0 to 1.

    See Also
    --------
    batch_norm_inference : What the statistics are for.

    Notes
    -----
    Repeated from :math:`r_0`, the update is a weighted mean with weights that fade exponentially:

    .. math::

        r_t = (1 - m)^t r_0 + \sum_{k=1}^{t} m (1 - m)^{t - k} s_k .

    The weights sum to 1, and the past counts for some :math:`1/m` batches.

    **Two conventions.** *momentum* here is the weight of the *new* value, as in PyTorch (default
    0.1). ONNX and Keras give that name to the weight of the *old* one (0.9 and 0.99): pass 1 minus
    theirs. They differ in the variance, too: PyTorch feeds its running variance with the
    unbiased variance of the batch, :math:`M / (M - 1)` times the biased one with which the
    same batch was normalized; ONNX and Keras with the biased one. This function takes
    whichever it is given.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_update
    >>> x = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> batch_norm_update(np.zeros(2), x.mean(0), momentum=0.25)
    array([0.5, 0.5])

    The variance as PyTorch keeps it, and as ONNX does with its momentum of 0.75:

    >>> batch_norm_update(np.ones(2), x.var(0, ddof=1), momentum=0.25)
    array([1.25, 2.75])
    >>> batch_norm_update(np.ones(2), x.var(0), momentum=1 - 0.75)
    array([1.  , 1.75])
    """
    m = as_number("momentum", momentum, least=0, most=1)
    dtype, (running, batch) = as_floats({"running": running, "batch": batch})
    check_shape("batch", batch, running.shape)
    with np.errstate(all="ignore"):
        return result((1 - m) * running + m * batch, dtype)


def batch_norm_update_vjp(
    dout: npt.ArrayLike, running: npt.ArrayLike, batch: npt.ArrayLike, *, momentum: float
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the update of a running statistic.

    Parameters
    ----------
    dout : array_like, shape (C,)
        Cotangent.
    running : array_like, shape (C,)
        Mean or variance gathered so far.
    batch : array_like, shape (C,)
        Mean or variance of the batch.
    momentum : float
        Weight :math:`m` of the new value, from 0 to 1.

    Returns
    -------
    drunning : ndarray, shape (C,)
        :math:`(1 - m) u`.
    dbatch : ndarray, shape (C,)
        :math:`m u`.

    Raises
    ------
    TypeError
        If an array is not real or `momentum` is no number.
    ValueError
        If the shapes differ or `momentum` is not from 0 to 1.

    See Also
    --------
    batch_norm_update : The map.
    batch_norm_update_jvp : Forward mode.

    Notes
    -----
    The update is linear. Training does not differentiate through it; the running statistics are
    a record, not a parameter.

    Examples
    --------
    >>> from dlref.normalization import batch_norm_update_vjp
    >>> batch_norm_update_vjp([4.0], [1.0], [2.0], momentum=0.25)
    (array([3.]), array([1.]))
    """
    m = as_number("momentum", momentum, least=0, most=1)
    dtype, (u, running, batch) = as_floats({"dout": dout, "running": running, "batch": batch})
    check_shape("batch", batch, running.shape)
    check_shape("dout", u, running.shape)
    with np.errstate(all="ignore"):
        return result((1 - m) * u, dtype), result(m * u, dtype)


def batch_norm_update_jvp(primals: Any, tangents: Any, *, momentum: float) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the update of a running statistic.

    Parameters
    ----------
    primals : tuple (running, batch) of array_like
        Statistic gathered so far, and that of the batch; equal shapes.
    tangents : tuple of array_like or None
        Directions :math:`\dot r, \dot s`; None is zero.
    momentum : float
        Weight :math:`m` of the new value, from 0 to 1.

    Returns
    -------
    ndarray, shape (C,)
        :math:`(1 - m)\, \dot r + m\, \dot s`.

    Raises
    ------
    TypeError
        If an argument is no tuple, an entry no real array, or `momentum` no number.
    ValueError
        If shapes differ or `momentum` is not from 0 to 1.

    See Also
    --------
    batch_norm_update : The map.
    batch_norm_update_vjp : Reverse mode.

    Notes
    -----
    A linear map is its own derivative: the update of the rates.

    Examples
    --------
    >>> from dlref.normalization import batch_norm_update_jvp
    >>> batch_norm_update_jvp(([1.0], [2.0]), ([4.0], [8.0]), momentum=0.25)
    array([5.])
    """
    m = as_number("momentum", momentum, least=0, most=1)
    dtype, (running, batch), (dr, ds) = as_tangents(primals, tangents, count=2)
    check_shape("primals[1]", batch, running.shape)
    with np.errstate(all="ignore"):
        return result((1 - m) * dr + m * ds, dtype)
