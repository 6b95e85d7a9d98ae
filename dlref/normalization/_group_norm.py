r"""Group normalization: statistics of one sample, over positions and the channels of a group."""

from __future__ import annotations

from typing import Any, overload

import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.groups import jvp, norm, vjp


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
        Number G of groups of C / G neighboring channels each.
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
        If an array is not real, `groups` is not an integer, or `eps` is not a number.
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

    No sample depends on another, so that, unlike :func:`batch_norm`, it is the same map in training
    and at inference, for any size of the batch. The weight belongs to a channel, the statistics to
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
    return norm(x, groups, weight, bias, eps)


@overload
def group_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: int,
    weight: None = ...,
    bias: None = ...,
    *,
    eps: float = ...,
) -> FloatArray: ...
@overload
def group_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: int,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = ...,
    *,
    eps: float = ...,
) -> tuple[FloatArray, ...]: ...
@overload
def group_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: int,
    weight: None,
    bias: npt.ArrayLike,
    *,
    eps: float = ...,
) -> tuple[FloatArray, ...]: ...
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
    x : as in `group_norm`
        The same.
    groups : int
        Number of groups of neighboring channels; no gradient.
    weight, bias, eps : as in `group_norm`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (N, ..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum u_{pc} \hat x_{pc}` over samples and positions. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum u_{pc}` over samples and positions. Only if `bias` is given.

    See Also
    --------
    batch_norm_vjp, layer_norm_jacobian : The derivation, in two ways.

    Notes
    -----
    Let :math:`\tau = \sqrt{\sigma^2 + \epsilon}` and :math:`\hat x_{pc} = (x_{pc} - \mu) / \tau`
    for the group of channel c in one sample, with bars for means over the group.

    **The differential.** As for a row in :func:`layer_norm_vjp`,

    .. math:: \dd \hat x_{pc} = \frac1\tau \bigl( \dd x_{pc} - \overline{\dd x}
       - \hat x_{pc} \, \overline{\hat x\, \dd x} \bigr) , \qquad
       \dd y_{pc} = w_c\, \dd \hat x_{pc} + \hat x_{pc}\, \dd w_c + \dd b_c .

    **The inner product.** :math:`\dd L = \sum u_{npc}\, \dd y_{npc}`. A channel has the same weight
    and bias in every sample n and at every position p:

    .. math:: \pdv{L}{w_c} = \sum_{n, p} u_{npc} \hat x_{npc} , \qquad
       \pdv{L}{b_c} = \sum_{n, p} u_{npc} .

    **The transpose.** With :math:`g_{pc} = w_c u_{pc}`, and the symmetric Jacobian of
    :math:`\hat{\vec x}`,

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
    return vjp(dout, x, groups, weight, bias, eps)


def group_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of group normalization.

    Parameters
    ----------
    primals : tuple (x, groups, weight, bias)
        Samples (N, ..., C), the number of groups, and factors and offsets (C,) or None.
    tangents : tuple (dx, None, dweight, dbias) of array_like or None
        Directions :math:`v, \dot w, \dot b`, each of the shape of its operand; None is zero.
    eps : as in `group_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (N, ..., C)
        Tangent of the normalized samples.

    See Also
    --------
    layer_norm_jacobian : The derivation.

    Notes
    -----
    With :math:`\tau` and :math:`\hat x_{pc}` of :func:`group_norm_vjp`, and bars for means over the
    group,

    .. math::

        \dot y_{pc} = \frac{w_c}{\tau} \bigl( v_{pc} - \overline v
            - \hat x_{pc} \, \overline{v \hat x} \bigr) + \dot w_c \hat x_{pc} + \dot b_c .

    Examples
    --------
    Shifting one group changes nothing:

    >>> from dlref.normalization import group_norm_jvp
    >>> x, v = [[1.0, 3.0, 4.0, 8.0]], [[5.0, 5.0, 0.0, 0.0]]
    >>> group_norm_jvp((x, 2, None, None), (v, None, None, None))
    array([[0., 0., 0., 0.]])
    """
    return jvp(primals, tangents, eps, grouped=True)
