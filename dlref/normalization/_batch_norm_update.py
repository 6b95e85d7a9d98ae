r"""Running statistics of batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_number, as_tangents, check_shape, result


def batch_norm_update(
    running: npt.ArrayLike, batch: npt.ArrayLike, *, momentum: float
) -> FloatArray:
    r"""
    Move a running statistic towards the statistic of the current batch.

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
        If an array is not real or `momentum` is not a number.
    ValueError
        If the shapes differ or `momentum` is not from 0 to 1.

    See Also
    --------
    batch_norm_inference : Normalizes with the running statistics.

    Notes
    -----
    With the momentum m, running statistic r and statistic s of the batch,

    .. math::

        r' = (1 - m)\, r + m\, s .

    Repeated from :math:`r_0`, the update is a weighted mean with weights that fade exponentially:

    .. math::

        r_t = (1 - m)^t r_0 + \sum_{k=1}^{t} m (1 - m)^{t - k} s_k .

    The weights sum to 1, and the past counts for some :math:`1/m` batches.

    **Two conventions.** *momentum* here is the weight of the *new* value, as in PyTorch (default
    0.1). ONNX and Keras give that name to the weight of the *old* one (0.9 and 0.99): pass 1 minus
    theirs. They differ in the variance, too: PyTorch updates its running variance with the unbiased
    variance of the batch, :math:`M / (M - 1)` times the biased one that normalized the same batch;
    ONNX and Keras use the biased one. This function takes whichever you pass.

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
    running, batch, momentum : as in `batch_norm_update`
        Raises the same errors.

    Returns
    -------
    drunning : ndarray, shape (C,)
        :math:`(1 - m) u`.
    dbatch : ndarray, shape (C,)
        :math:`m u`.

    Notes
    -----
    The update is linear:

    .. math::

        \pdv{L}{r} = (1 - m)\, u, \qquad \pdv{L}{s} = m\, u .

    Training does not differentiate through it; the running statistics are a record, not a
    parameter.

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
        Statistic gathered so far, and statistic of the batch; equal shapes.
    tangents : tuple of array_like or None
        Directions :math:`\dot r, \dot s`; None is zero.
    momentum : as in `batch_norm_update`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (C,)
        :math:`(1 - m)\, \dot r + m\, \dot s`.

    Notes
    -----
    The update is linear, so tangents are updated as statistics are:

    .. math::

        \dot r' = (1 - m)\, \dot r + m\, \dot s .

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
