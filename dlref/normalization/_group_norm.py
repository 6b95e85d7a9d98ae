r"""Group and instance normalization: statistics of one sample, over positions and channels."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

from .._channels import columns, columns_pull, columns_push
from .._standardize import moving, operands
from .._validate import FloatArray, as_integer, as_integers, as_number, check_shape, result

__all__ = [
    "group_norm",
    "group_norm_jvp",
    "group_norm_vjp",
    "instance_norm",
    "instance_norm_jvp",
    "instance_norm_vjp",
]


EACH = object()  #: as many groups as there are channels


def _count(name: str, groups: Any, channels: int) -> int:
    """Check that the channels can be shared among the groups; without channels there is one."""
    if groups is EACH:
        return max(channels, 1)
    array = as_integers(name, groups)
    check_shape(name, array, ())
    count = as_integer(name, array.item(), least=1)
    if channels % count:
        msg = f"Argument {name!r} must divide the number of channels {channels}, not {count}."
        raise ValueError(msg)
    return count


def _samples(x: FloatArray) -> FloatArray:
    """Merge the axes between samples and channels: (samples, positions, channels)."""
    positions = math.prod(x.shape[1:-1])
    return x.reshape(x.shape[0], positions, x.shape[-1])


def _norm(
    x: npt.ArrayLike,
    groups: Any,
    weight: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    eps: float,
) -> FloatArray:
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, bias) = operands(x, least=2, weight=weight, bias=bias)
    count = _count("groups", groups, x.shape[-1])
    return result(columns(_samples(x), count, weight, bias, eps).reshape(x.shape), dtype)


def _vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: Any,
    weight: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    eps: float,
) -> FloatArray | tuple[FloatArray, ...]:
    eps = as_number("eps", eps, least=0)
    dtype, x, (u, weight, bias) = operands(x, least=2, dout=dout, weight=weight, bias=bias)
    count = _count("groups", groups, x.shape[-1])
    dx, dweight, dbias = columns_pull(_samples(u), _samples(x), count, weight, eps)
    grads = [result(dx.reshape(x.shape), dtype)]
    if weight is not None:
        grads.append(result(dweight, dtype))
    if bias is not None:
        grads.append(result(dbias, dtype))
    return tuple(grads) if len(grads) > 1 else grads[0]


def _jvp(primals: Any, tangents: Any, eps: float, *, grouped: bool) -> FloatArray:
    eps = as_number("eps", eps, least=0)
    constant = (1,) if grouped else ()
    dtype, x, v, (weight, _), (dweight, dbias) = moving(
        primals, tangents, count=3 + grouped, least=2, constant=constant
    )
    count = _count("primals[1]", primals[1] if grouped else EACH, x.shape[-1])
    out = columns_push(_samples(v), _samples(x), count, weight, dweight, dbias, eps)
    return result(out.reshape(x.shape), dtype)


def group_norm(
    x: npt.ArrayLike,
    groups: int,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Shift and scale each group of channels of each sample to mean 0 and variance 1.

    Parameters
    ----------
    x : array_like, shape (N, ..., C)
        Samples, positions, channels.
    groups : int
        Number G of groups of C / G neighbouring channels each.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Normalized samples.

    Raises
    ------
    TypeError
        If an array is not real, `groups` is no integer, or `eps` no number.
    ValueError
        If `x` has fewer than two axes, `groups` does not divide C, a shape does not fit, or
        `eps` is negative.

    See Also
    --------
    group_norm_vjp : Reverse mode.
    instance_norm : As many groups as channels.
    layer_norm : One group, and no positions.

    Notes
    -----
    With the set :math:`S` of all (p, c) of one sample whose channel is in the same group as c, and
    :math:`m = \abs S` elements in it,

    .. math::

        \mu = \frac1m \sum_{S} x_{pc}, \qquad
        \sigma^2 = \frac1m \sum_{S} (x_{pc} - \mu)^2, \qquad
        y_{pc} = w_c \frac{x_{pc} - \mu}{\sqrt{\sigma^2 + \epsilon}} + b_c .

    No sample sees another, so that, unlike :func:`batch_norm`, it is the same map in training and
    in use, for any size of the batch. The weight belongs to a channel, the statistics to
    a group of them.

    ======================  ============================================
    statistics over         name
    ======================  ============================================
    batch, positions        :func:`batch_norm`
    features                :func:`layer_norm`
    positions, channels     :func:`group_norm`
    positions               :func:`instance_norm`
    ======================  ============================================

    Channels are last here; PyTorch and ONNX have them on the second axis.

    **Numerics.** As in :func:`batch_norm`, without positions as in :func:`layer_norm`. A group
    of equal numbers gives `bias`.

    References
    ----------
    - :cite:t:`WuHe2018`

    Examples
    --------
    Two groups of two channels, each with its own mean and variance:

    >>> from dlref.normalization import group_norm
    >>> group_norm([[1, 3, 10, 10]], 2)
    array([[-0.999995,  0.999995,  0.      ,  0.      ]])

    One group and no positions is layer normalization:

    >>> from dlref.normalization import layer_norm
    >>> x = [[1, 2, 3, 6], [0, 0, 1, 1]]
    >>> bool((group_norm(x, 1) == layer_norm(x)).all())
    True
    """
    return _norm(x, groups, weight, bias, eps)


def group_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: int,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of group normalization.

    Parameters
    ----------
    dout : array_like, shape (N, ..., C)
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like, shape (N, ..., C)
        Samples, positions, channels.
    groups : int
        Number of groups of neighbouring channels; no gradient.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    dx : ndarray, shape (N, ..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum u_{pc} \hat x_{pc}` over samples and positions. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum u_{pc}` over samples and positions. Only if `bias` is given.

    Raises
    ------
    TypeError
        If an array is not real, `groups` is no integer, or `eps` no number.
    ValueError
        If `x` has fewer than two axes, `groups` does not divide C, a shape does not fit, or
        `eps` is negative.

    See Also
    --------
    batch_norm_vjp, layer_norm_jacobian : The derivation, in two ways.
    group_norm_jvp : Forward mode.

    Notes
    -----
    With :math:`g_{pc} = w_c u_{pc}` and bars for means over the group,

    .. math::

        \pdv{L}{x_{pc}} = \frac1\tau \bigl( g_{pc} - \overline g
            - \hat x_{pc} \, \overline{g \hat x} \bigr).

    The weights differ within a group, so they must be multiplied in *before* the projections; in
    :func:`batch_norm_vjp`, where a channel has one weight, the order does not matter.

    References
    ----------
    - :cite:t:`WuHe2018`

    Examples
    --------
    In each group of a sample the gradients sum to zero:

    >>> import numpy as np
    >>> from dlref.normalization import group_norm_vjp
    >>> x, u = np.array([[1.0, 3, 4, 8, 8, 2]]), np.array([[1.0, 0, 0, 0, 0, 2]])
    >>> dx = group_norm_vjp(u, x, 2)
    >>> bool((abs(dx.reshape(2, 3).sum(1)) < 1e-15).all())
    True
    """
    return _vjp(dout, x, groups, weight, bias, eps)


def group_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of group normalization.

    Parameters
    ----------
    primals : tuple (x, groups, weight, bias)
        Samples (N, ..., C), the number of groups, and factors and offsets (C,) or None.
    tangents : tuple (dx, None, dweight, dbias) of array_like or None
        Directions :math:`v, \dot w, \dot b`, each of the shape of its operand; None is zero.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape (N, ..., C)
        Rate of change of the normalized samples.

    Raises
    ------
    TypeError
        If an argument is no tuple, an entry no real array, or `eps` no number.
    ValueError
        If a shape does not fit, a missing operand or `groups` has a tangent, the number of
        groups does not divide C, or `eps` is negative.

    See Also
    --------
    group_norm_vjp : Reverse mode.
    layer_norm_jacobian : The derivation.

    Notes
    -----
    With bars for means over the group,

    .. math::

        \dot y_{pc} = \frac{w_c}{\tau} \bigl( v_{pc} - \overline v
            - \hat x_{pc} \, \overline{v \hat x} \bigr) + \dot w_c \hat x_{pc} + \dot b_c .

    Examples
    --------
    Shifting one group moves nothing:

    >>> from dlref.normalization import group_norm_jvp
    >>> x, v = [[1.0, 3.0, 4.0, 8.0]], [[5.0, 5.0, 0.0, 0.0]]
    >>> group_norm_jvp((x, 2, None, None), (v, None, None, None))
    array([[0., 0., 0., 0.]])
    """
    return _jvp(primals, tangents, eps, grouped=True)


def instance_norm(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Shift and scale each channel of each sample to mean 0 and variance 1.

    Parameters
    ----------
    x : array_like, shape (N, ..., C)
        Samples, positions, channels.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Normalized samples.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is no number.
    ValueError
        If `x` has fewer than two axes, a shape does not fit, or `eps` is negative.

    See Also
    --------
    instance_norm_vjp : Reverse mode.
    group_norm : Fewer groups than channels.
    batch_norm : The same over all samples at once.

    Notes
    -----
    Mean and variance are taken over the P positions of one channel of one sample:

    .. math::

        \mu_{nc} = \frac1P \sum_p x_{npc}, \qquad
        \sigma_{nc}^2 = \frac1P \sum_p (x_{npc} - \mu_{nc})^2, \qquad
        y_{npc} = w_c \frac{x_{npc} - \mu_{nc}}{\sqrt{\sigma_{nc}^2 + \epsilon}} + b_c .

    It is :func:`group_norm` with one channel per group, and :func:`batch_norm` of a batch of
    one. Brightness and contrast of an image are a shift and a scale of its channels, so the
    result does not depend on them. Where there is one position only, as in x (N, C), the
    output is `bias`.

    References
    ----------
    - :cite:t:`Ulyanov2016`

    Examples
    --------
    Brightness and contrast of each sample go:

    >>> import numpy as np
    >>> from dlref.normalization import instance_norm
    >>> image = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> y = instance_norm(np.stack([image, 10 * image + 50]), eps=0)
    >>> bool(np.allclose(y[0], y[1], rtol=1e-15))
    True
    """
    return _norm(x, EACH, weight, bias, eps)


def instance_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of instance normalization.

    Parameters
    ----------
    dout : array_like, shape (N, ..., C)
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like, shape (N, ..., C)
        Samples, positions, channels.
    weight : array_like or None, shape (C,)
        Factor :math:`w_c` of each channel; None is 1.
    bias : array_like or None, shape (C,)
        Offset :math:`b_c` of each channel; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    dx : ndarray, shape (N, ..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum u_{npc} \hat x_{npc}` over samples and positions. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum u_{npc}` over samples and positions. Only if `bias` is given.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is no number.
    ValueError
        If `x` has fewer than two axes, a shape does not fit, or `eps` is negative.

    See Also
    --------
    batch_norm_vjp : The derivation, for one sample.
    instance_norm_jvp : Forward mode.

    Notes
    -----
    Sample by sample the formula of :func:`batch_norm_vjp`, with bars for means over the positions:

    .. math::

        \pdv{L}{x_{npc}} = \frac{w_c}{\tau_{nc}} \bigl( u_{npc} - \overline{u}_{nc}
            - \hat x_{npc} \, \overline{(u \hat x)}_{nc} \bigr).

    Weight and bias are shared by all samples, so their gradients are sums over the samples.

    References
    ----------
    - :cite:t:`Ulyanov2016`

    Examples
    --------
    One sample is a batch:

    >>> import numpy as np
    >>> from dlref.normalization import batch_norm_vjp, instance_norm_vjp
    >>> x, u = np.array([[1.0], [3.0], [8.0]]), np.array([[1.0], [0.0], [0.0]])
    >>> bool((instance_norm_vjp(u[None], x[None])[0] == batch_norm_vjp(u, x)).all())
    True
    """
    return _vjp(dout, x, EACH, weight, bias, eps)


def instance_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of instance normalization.

    Parameters
    ----------
    primals : tuple (x, weight, bias) of array_like
        Samples (N, ..., C), and factors and offsets (C,) or None.
    tangents : tuple of array_like or None
        Directions :math:`v, \dot w, \dot b`, each of the shape of its operand; None is zero.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape (N, ..., C)
        Rate of change of the normalized samples.

    Raises
    ------
    TypeError
        If an argument is no tuple, an entry no real array, or `eps` no number.
    ValueError
        If a shape does not fit, a missing operand has a tangent, or `eps` is negative.

    See Also
    --------
    instance_norm_vjp : Reverse mode.
    layer_norm_jacobian : The derivation.

    Notes
    -----
    With bars for means over the positions of one channel of one sample,

    .. math::

        \dot y = \frac{w}{\tau} \bigl( v - \overline v - \hat x \, \overline{v \hat x} \bigr)
            + \dot w \hat x + \dot b .

    Examples
    --------
    More brightness, more contrast: no change.

    >>> from dlref.normalization import instance_norm_jvp
    >>> x = [[[-1.0], [1.0], [-1.0], [1.0]]]
    >>> brighter = [[[1.0], [1.0], [1.0], [1.0]]]
    >>> instance_norm_jvp((x, None, None), (brighter, None, None), eps=0).ravel()
    array([0., 0., 0., 0.])
    >>> instance_norm_jvp((x, None, None), (x, None, None), eps=0).ravel()
    array([0., 0., 0., 0.])
    """
    return _jvp(primals, tangents, eps, grouped=False)
