r"""A training step of batch normalization: the output, and the running statistics after it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    as_number,
    check_given,
    check_ndim,
    check_shape,
    entries,
    present,
    result,
)
from ._batch_norm import batch_norm, batch_norm_jvp, batch_norm_vjp
from ._batch_norm_update import batch_norm_update


class _Step(NamedTuple):
    dtype: FloatDType
    arrays: dict[str, FloatArray]
    momentum: float
    eps: float


def _step(given: dict[str, Any], momentum: Any, eps: Any) -> _Step:
    """Check the arguments: the first is a batch, others have a number for each channel."""
    m, eps = as_number("momentum", momentum, least=0, most=1), as_number("eps", eps, least=0)
    first, *_ = given
    for name in [*given][:3]:
        check_given(name, given[name])
    options = present(given)
    dtype, floats = as_floats(options)
    arrays = dict(zip(options, floats, strict=True))
    x = arrays[first]
    check_ndim(first, x, 2)
    for name, array in arrays.items():
        check_shape(
            name, array, x.shape if name in {first, "dout", "tangents[0]"} else x.shape[-1:]
        )
    rows = math.prod(x.shape[:-1])
    if rows < 2:
        msg = f"Argument {first!r} must have at least 2 values for each channel, not {rows}."
        raise ValueError(msg)
    return _Step(dtype, arrays, m, eps)


def batch_norm_train(
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Normalize a batch by its own statistics, and move the running statistics towards them.

    Parameters
    ----------
    x : array_like, shape (..., C)
        A batch, with at least two values for each channel.
    mean, var : array_like, shape (C,)
        Running mean and running variance before the step; 0 and 1 at the start of training.
    weight, bias : array_like or None, shape (C,)
        Factor and offset of each channel; None leaves it out.
    momentum : float, default 0.1
        Weight m of the new statistic, from 0 to 1.
    eps : float, default 1e-5
        Added to the variance of the batch, at least 0.

    Returns
    -------
    y : ndarray, shape (..., C)
        The normalized batch, as from :func:`batch_norm`.
    mean, var : ndarray, shape (C,)
        Running statistics after the step.

    Raises
    ------
    TypeError
        If an array is not real, or an option is not a number.
    ValueError
        If the shapes do not fit, a channel has fewer than two values, or an option is out of range.

    See Also
    --------
    batch_norm : The output alone.
    batch_norm_update : The move of a running statistic.
    batch_norm_inference : Normalizes with the running statistics.

    Notes
    -----
    With the M values :math:`x_n` of a channel, their mean :math:`\mu` and their biased variance
    :math:`\sigma^2 = \frac1M \sum_n (x_n - \mu)^2`,

    .. math::

        y_n = w\, \frac{x_n - \mu}{\sqrt{\sigma^2 + \epsilon}} + b , \qquad
        \mu_\text{run}' = (1 - m)\, \mu_\text{run} + m\, \mu , \qquad
        \sigma_\text{run}'^2 = (1 - m)\, \sigma_\text{run}^2 + m\, \frac{M}{M - 1}\, \sigma^2 .

    One step uses two variances. The output is divided by the root of the biased one, so that it has
    the variance 1, up to :math:`\epsilon`. The running statistic is an estimate for examples that
    are not in the batch, and :math:`M \sigma^2 / (M - 1)` is the unbiased one. With batches of 2 it
    is twice as large. Values lie closer to the mean of their own batch than to the mean of all, so
    with the biased one outputs would be larger by :math:`\sqrt2` at inference than in training.

    **Conventions.** The options are PyTorch's, whose layer changes its buffers in place; here they
    are returned. Keras, Flax and ONNX keep the biased variance, and call 1 - m the momentum (0.99,
    0.99 and 0.9). PyTorch's ``momentum=None``, a plain mean over the batches, is m = 1/t at step t.

    References
    ----------
    - :cite:t:`IoffeSzegedy2015`, Algorithm 2

    Examples
    --------
    The values 1 and 3 have the mean 2, the biased variance 1 and the unbiased variance 2:

    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_train
    >>> x = np.array([[1.0], [3.0]])
    >>> y, mean, var = batch_norm_train(x, [0.0], [1.0], momentum=0.25, eps=0)
    >>> y.ravel(), mean, var
    (array([-1.,  1.]), array([0.5]), array([1.25]))
    """
    given = {"x": x, "mean": mean, "var": var, "weight": weight, "bias": bias}
    dtype, arrays, m, eps = _step(given, momentum, eps)
    batch = arrays["x"]
    out = batch_norm(batch, arrays.get("weight"), arrays.get("bias"), eps=eps)
    axes = tuple(range(batch.ndim - 1))
    with np.errstate(all="ignore"):
        moved = (
            batch_norm_update(arrays["mean"], batch.mean(axes), momentum=m),
            batch_norm_update(arrays["var"], batch.var(axes, ddof=1), momentum=m),
        )
    return result(out, dtype), result(moved[0], dtype), result(moved[1], dtype)


def batch_norm_train_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the output of a training step.

    Parameters
    ----------
    dout : array_like, shape (..., C)
        Cotangent of the output y alone.
    x, mean, var, weight, bias, momentum, eps : as in `batch_norm_train`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight, dbias : ndarray, shape (C,)
        Gradients of the weight and of the bias, each only if it is given.

    See Also
    --------
    batch_norm_vjp : The derivation; the numbers are the same.

    Notes
    -----
    The output depends on the statistics of the batch and not on the running ones, so `mean`, `var`
    and `momentum` change nothing. The running statistics are a record: no framework differentiates
    through them, although their derivatives exist (:func:`batch_norm_update_vjp`). With the
    normalized value :math:`\hat x_n`, a bar for the mean over the batch and
    :math:`\tau = \sqrt{\sigma^2 + \epsilon}`,

    .. math:: \pdv{L}{x_n} = \frac w\tau \bigl( u_n - \overline u - \hat x_n\, \overline{u \hat x}
       \bigr) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_train_vjp
    >>> x, u = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> dx, dweight = batch_norm_train_vjp(u, x, [0.0], [1.0], [np.sqrt(5)], eps=0)
    >>> dx.ravel(), dweight.round(4)
    (array([ 0.3, -0.4, -0.1,  0.2]), array([-1.3416]))
    """
    given = {"x": x, "mean": mean, "var": var, "weight": weight, "bias": bias, "dout": dout}
    check_given("dout", dout)
    dtype, arrays, _, eps = _step(given, momentum, eps)
    of_batch = arrays["dout"], arrays["x"], arrays.get("weight"), arrays.get("bias")
    grads: Any = batch_norm_vjp(*of_batch, eps=eps)  # type: ignore[arg-type]
    if isinstance(grads, tuple):
        return tuple(result(grad, dtype) for grad in grads)
    return result(grads, dtype)


def batch_norm_train_jvp(
    primals: Any, tangents: Any, *, momentum: float = 0.1, eps: float = 1e-5
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the output of a training step.

    Parameters
    ----------
    primals : tuple (x, mean, var, weight, bias) of array_like
        As in `batch_norm_train`; the last two may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero. The tangents of `mean` and `var`
        do not reach the output.
    momentum, eps : as in `batch_norm_train`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., C)
        Tangent of the output y.

    Notes
    -----
    With :math:`\tau` and :math:`\hat x_n` of :func:`batch_norm_train_vjp`,

    .. math:: \dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n\, \overline{v \hat x}
       \bigr) + \dot w\, \hat x_n + \dot b .

    Examples
    --------
    A tangent of the bias is the tangent of the output:

    >>> from dlref.normalization import batch_norm_train_jvp
    >>> primals = [[1.0], [3.0]], [0.0], [1.0], None, [2.0]
    >>> batch_norm_train_jvp(primals, (None, None, None, None, [5.0]))
    array([[5.],
           [5.]])
    """
    given = entries("primals", primals, 5) | {
        name: move for name, move in entries("tangents", tangents, 5).items() if move is not None
    }
    dtype, arrays, _, eps = _step(given, momentum, eps)
    for k in (3, 4):
        if f"tangents[{k}]" in arrays and f"primals[{k}]" not in arrays:
            msg = f"Argument 'tangents[{k}]' must be None, as its primal is None, not an array."
            raise ValueError(msg)
    points = tuple(arrays.get(f"primals[{k}]") for k in (0, 3, 4))
    moves = tuple(arrays.get(f"tangents[{k}]") for k in (0, 3, 4))
    return result(batch_norm_jvp(points, moves, eps=eps), dtype)
