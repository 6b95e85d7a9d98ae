r"""Powers, element by element, in the base and in the exponent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _power(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    y = np.power(w, x)
    # y / w spares the rounding of x - 1, which a large log(w) would magnify; where y leaves
    # the normal range, w ** (x - 1) need not
    normal = np.isfinite(y) & (np.abs(y) >= np.finfo(np.float64).tiny) & (w != 0)
    by_w = x * np.where(normal, y / w, np.power(w, x - 1))
    by_x = np.where((w == 0) & (x >= 0), 0, y * np.log(w))
    return np.where(x == 0, 0, by_w), by_x


def power_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise power :math:`y = w^x`.

    Parameters
    ----------
    w, x : array_like
        Base and exponent, of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        :math:`\operatorname{diag}(x \odot w^{x - 1})` where nothing is broadcast.
    J_x : ndarray, shape ``out.shape + x.shape``
        :math:`\operatorname{diag}(w^x \odot \log w)` where nothing is broadcast.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    power_vjp, power_jvp : The products with a vector, without forming a matrix.

    Notes
    -----
    For :math:`w > 0` write :math:`y = e^{x \log w}`. The scalar chain rule gives

    .. math::

        \pdv{y}{x} = e^{x \log w} \log w = w^x \log w, \qquad
        \pdv{y}{w} = e^{x \log w}\, \frac{x}{w} = x\, w^{x - 1} .

    The code computes the latter as :math:`x\,(y / w)` wherever :math:`y` is a normal
    number: in :math:`w^{x - 1}` the difference
    :math:`x - 1` is rounded, and the error is multiplied by :math:`\log w`, which reaches
    700.

    **Special values.** :math:`w^0 = 1` for every base, so the slope in :math:`w` is 0 at
    :math:`x = 0`, at :math:`w = 0` too. For :math:`w = 0` and :math:`x > 0` the power
    is 0 for nearby exponents too: the slope in :math:`x` is 0. At :math:`w = x = 0` the
    power jumps and has no derivative; the value returned is 0, as in PyTorch. JAX's gradient for
    the base is NaN there.
    For :math:`w < 0` a real power exists only for rational exponents with an odd denominator.
    They are dense, but near each of them the power takes both signs, so that it has no slope in
    :math:`x`: that is NaN. The slope in :math:`w` is correct at integer :math:`x`.

    Examples
    --------
    The familiar :math:`(w^3)' = 3 w^2`, and :math:`(2^x)' = 2^x \log 2`:

    >>> import numpy as np
    >>> from dlref.calculus import power_jacobian
    >>> J_w, J_x = power_jacobian([1, 2, -4], 3)
    >>> J_w.diagonal()
    array([ 3., 12., 48.])
    >>> J_w, J_x = power_jacobian(2, [1, 2, 3])
    >>> (J_x.diagonal() / np.log(2)).round(12)
    array([2., 4., 8.])
    """
    return binary_jacobian(_power, w, x)


def power_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise power.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `power_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u \odot x \odot w^{x-1}`, summed over broadcast axes.
    dx : ndarray, shape ``x.shape``
        :math:`u \odot w^x \odot \log w`, summed over broadcast axes; NaN for a negative base.

    Notes
    -----
    .. math::

        \pdv{L}{w_j} = u_j\, x_j\, w_j^{x_j - 1} , \qquad
        \pdv{L}{x_j} = u_j\, w_j^{x_j} \log w_j

    An exponent shared by all elements, as in the generalized mean, is broadcast: its
    gradient :math:`\sum_i u_i\, w_i^x \log w_i` is accumulated in float64.

    Examples
    --------
    :math:`L = \tfrac12 \sum_i w_i^2` has gradient :math:`w`:

    >>> from dlref.calculus import power_vjp
    >>> dw, dx = power_vjp([0.5, 0.5, 0.5], [1, 2, 3], 2)
    >>> dw
    array([1., 2., 3.])
    """
    return binary_vjp(_power, dout, w, x)


def power_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise power.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Base and exponent of :math:`y = w^x`, of any shapes that broadcast.
        Raises the same errors as `power_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero, and then a negative
        base is no obstacle.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = x \odot w^{x-1} \odot \dot w + w^x \odot \log w \odot \dot x`.

    Notes
    -----
    .. math:: \dot y_j = x_j\, w_j^{x_j - 1}\, \dot w_j + w_j^{x_j} \log w_j\; \dot x_j

    Base and exponent that are equal, :math:`w = x = t`, give the derivative of
    :math:`t^t`: the sum of both slopes, :math:`t^t (1 + \log t)`. It vanishes at
    :math:`t = 1/e`, where :math:`t^t` is smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import power_jvp
    >>> t = np.exp(-1.0)
    >>> float(power_jvp((t, t), (1.0, 1.0)).round(12))
    0.0
    >>> power_jvp(([-3.0, 3.0], [2, 2]), ([1, 1], None))
    array([-6.,  6.])
    """
    return binary_jvp(_power, primals, tangents)
