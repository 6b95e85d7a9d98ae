r"""Instance normalization: statistics of one sample and channel, over positions."""

from __future__ import annotations

from typing import Any, overload

import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.groups import EACH, jvp, norm, vjp


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
        If an array is not real or `eps` is not a number.
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
    Brightness and contrast of each sample have no effect:

    >>> import numpy as np
    >>> from dlref.normalization import instance_norm
    >>> image = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> y = instance_norm(np.stack([image, 10 * image + 50]), eps=0)
    >>> bool(np.allclose(y[0], y[1], rtol=1e-15))
    True
    """
    return norm(x, EACH, weight, bias, eps)


@overload
def instance_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None = ..., bias: None = ..., *, eps: float = ...
) -> FloatArray: ...
@overload
def instance_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = ...,
    *,
    eps: float = ...,
) -> tuple[FloatArray, ...]: ...
@overload
def instance_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None, bias: npt.ArrayLike, *, eps: float = ...
) -> tuple[FloatArray, ...]: ...
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
    x, weight, bias, eps : as in `instance_norm`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (N, ..., C)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (C,)
        :math:`\sum u_{npc} \hat x_{npc}` over samples and positions. Only if `weight` is given.
    dbias : ndarray, shape (C,)
        :math:`\sum u_{npc}` over samples and positions. Only if `bias` is given.

    See Also
    --------
    batch_norm_vjp : The derivation, for one sample.

    Notes
    -----
    Sample by sample the formula of :func:`batch_norm_vjp`, with :math:`\tau_{nc} =
    \sqrt{\sigma_{nc}^2 + \epsilon}`, :math:`\hat x_{npc} = (x_{npc} - \mu_{nc}) / \tau_{nc}`, and
    bars for means over the positions:

    .. math::

        \pdv{L}{x_{npc}} = \frac{w_c}{\tau_{nc}} \bigl( u_{npc} - \overline{u}_{nc}
            - \hat x_{npc} \, \overline{(u \hat x)}_{nc} \bigr).

    Weight and bias are shared by all samples and positions:

    .. math:: \pdv{L}{w_c} = \sum_{n, p} u_{npc} \hat x_{npc} , \qquad
       \pdv{L}{b_c} = \sum_{n, p} u_{npc} .

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
    return vjp(dout, x, EACH, weight, bias, eps)


def instance_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of instance normalization.

    Parameters
    ----------
    primals : tuple (x, weight, bias) of array_like
        Samples (N, ..., C), and factors and offsets (C,) or None.
    tangents : tuple of array_like or None
        Directions :math:`v, \dot w, \dot b`, each of the shape of its operand; None is zero.
    eps : as in `instance_norm`
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
    For one channel of one sample, with :math:`\tau` and :math:`\hat x` of
    :func:`instance_norm_vjp`, and bars for means over the positions,

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
    return jvp(primals, tangents, eps, grouped=False)
