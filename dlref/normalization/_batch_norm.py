r"""Batch normalization in training."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, result
from ._kernels.channels import columns, columns_jvp, columns_vjp
from ._kernels.rows import jvp_arguments, operands


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
        If an array is not real or `eps` is not a number.
    ValueError
        If `x` is a scalar, `weight` or `bias` does not have shape (C,), or `eps` is negative.

    See Also
    --------
    batch_norm_vjp : Reverse mode, with the derivation.
    batch_norm_inference : With statistics that are given.
    batch_norm_update : How those are gathered.
    layer_norm : Over the features of each example instead.

    Notes
    -----
    Let n run over the M elements of a channel, over all examples and positions:

    .. math::

        \mu_c = \frac1M \sum_n x_{nc}, \qquad
        \sigma_c^2 = \frac1M \sum_n (x_{nc} - \mu_c)^2, \qquad
        y_{nc} = w_c \frac{x_{nc} - \mu_c}{\sqrt{\sigma_c^2 + \epsilon}} + b_c .

    It is layer normalization of the transposed matrix. The consequences differ: the examples of a
    batch now depend on each other, and at inference, when there is no batch, other statistics must
    be used. With M = 1, one example without further positions, the output is `bias`. The variance
    is the biased one here (divided by M), in PyTorch and ONNX too.

    A bias added to `x` by the layer before has no effect, since subtracting the mean removes it.
    Nor does a positive factor of that layer's weights, as long as :math:`\epsilon` is small
    compared with the variance.

    **Why it helps.** The inputs of a layer change their distribution while the layers before it
    learn. The paper calls this *internal covariate shift* and wants to reduce it.
    :cite:t:`Santurkar2018` added a random shift after the normalization, and the networks trained
    as well; they found that the loss becomes smoother instead. Two effects can be computed. If the
    weights of the layer before grow by a factor, their gradient is divided by it, so that too large
    a step slows the next ones down; that allows larger learning rates. And the statistics of M
    elements are random, with a relative error of the order of :math:`1 / \sqrt M`: the output of an
    example changes with the others of its batch, a noise that can regularize.

    **Numerics.** As in :func:`layer_norm`: differences from the rounded mean are formed, and their
    own mean is subtracted; here for pieces of the batch, which are then combined
    (:cite:t:`Chan1983`). The sums of all channels are formed side by side, 64 rows at a time, and
    then added to totals, so that rounding errors do not add up over a long batch. Arithmetic is in
    float64 for narrower inputs too, rounded once.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`
    - :cite:t:`Santurkar2018`

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

    Ten times the batch is the same, a thousandth of it is lost in `eps`:

    >>> x = np.array([[1.0], [3.0]])
    >>> [batch_norm(factor * x)[1].round(2) for factor in (1, 10, 0.001)]
    [array([1.]), array([1.]), array([0.3])]

    Ten times the weights before it get a tenth of the gradient:

    >>> from dlref.normalization import batch_norm_vjp
    >>> rng = np.random.default_rng(0)
    >>> x, w, u = rng.normal(size=(6, 3)), rng.normal(size=(3, 1)), rng.normal(size=(6, 1))
    >>> dw, dw_of_ten = (x.T @ batch_norm_vjp(u, x @ (c * w), eps=0) for c in (1, 10))
    >>> (dw / dw_of_ten).T.round(6)
    array([[10., 10., 10.]])

    An example of value 1, in batches of 8 and of 128 with random others, varies by:

    >>> batches = (np.vstack([[1.0], rng.normal(size=(m - 1, 1))]) for m in [8, 128] * 1000)
    >>> outputs = np.array([batch_norm(batch)[0, 0] for batch in batches])
    >>> [float(np.std(outputs[start::2]).round(1)) for start in (0, 1)]
    [0.4, 0.1]
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, bias) = operands(x, weight=weight, bias=bias)
    out = columns(_as_one_sample(x), max(x.shape[-1], 1), weight, bias, eps)
    return result(out.reshape(x.shape), dtype)


@overload
def batch_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None = ..., bias: None = ..., *, eps: float = ...
) -> FloatArray: ...
@overload
def batch_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = ...,
    *,
    eps: float = ...,
) -> tuple[FloatArray, ...]: ...
@overload
def batch_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None, bias: npt.ArrayLike, *, eps: float = ...
) -> tuple[FloatArray, ...]: ...
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
    x, weight, bias, eps : as in `batch_norm`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum_n u_{nc} \hat x_{nc}`. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum_n u_{nc}`. Only if `bias` is given.

    See Also
    --------
    layer_norm_jacobian : The same Jacobian, for a row.

    Notes
    -----
    Channels do not mix, so take one and drop its index, and let
    :math:`\tau = \sqrt{\sigma^2 + \epsilon}`.

    **The differential.** The input acts on :math:`\hat x_n = (x_n - \mu) / \tau` along three paths:
    directly, through :math:`\mu`, and through :math:`\sigma^2`:

    .. math:: \dd \hat x_n = \frac1\tau \bigl( \dd x_n - \dd \mu \bigr)
       - \frac{\hat x_n}{2 \tau^2}\, \dd \sigma^2 , \qquad
       \dd y_n = w\, \dd \hat x_n + \hat x_n\, \dd w + \dd b .

    **The inner product.** :math:`\dd L = \sum_n u_n\, \dd y_n` over the batch. Weight and bias act
    on one channel each, and on all its examples, so

    .. math:: \pdv{L}{w} = \sum_n u_n \hat x_n , \qquad \pdv{L}{b} = \sum_n u_n .

    **The transpose.** Let :math:`g_n = w u_n` be the gradient that arrives at :math:`\hat x_n`. Go
    through the three paths backwards.

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
    dx, dweight, dbias = columns_vjp(_as_one_sample(u), _as_one_sample(x), channels, weight, eps)
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
    eps : as in `batch_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Tangent of the normalized batch.

    Notes
    -----
    The Jacobian of a channel is symmetric up to the weight. With :math:`\tau` and :math:`\hat x_n`
    of :func:`batch_norm_vjp`, and bars for means over the batch,

    .. math::

        \dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n \, \overline{v \hat x} \bigr)
          + \dot w \hat x_n + \dot b .

    Examples
    --------
    A tangent of one example of two changes both: they remain :math:`\pm 1` unless `eps` counts.

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
    dtype, x, v, (weight, _), (dweight, dbias) = jvp_arguments(primals, tangents, count=3)
    channels, merged = max(x.shape[-1], 1), _as_one_sample(x)
    out = columns_jvp(_as_one_sample(v), merged, channels, weight, dweight, dbias, eps)
    return result(out.reshape(x.shape), dtype)
