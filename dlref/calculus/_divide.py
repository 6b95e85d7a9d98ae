r"""Division, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _divide(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return 1 / x, -(w / x) / x  # x * x could overflow or underflow where the quotient does not


def divide_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise quotient :math:`y = w / x`.

    Parameters
    ----------
    w, x : array_like
        Dividend and divisor, of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        :math:`\operatorname{diag}(1 / x)` where nothing is broadcast.
    J_x : ndarray, shape ``out.shape + x.shape``
        :math:`\operatorname{diag}(-w / x^2)` where nothing is broadcast.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    divide_vjp, divide_jvp : The products with a vector, without forming a matrix.
    power_jacobian : The quotient is the product with :math:`x^{-1}`.

    Notes
    -----
    :math:`y_i x_i = w_i` for every :math:`i`. Differentiating both sides with respect to
    :math:`x_i` gives :math:`\frac{\partial y_i}{\partial x_i} x_i + y_i = 0`, hence

    .. math::

        \pdv{y_i}{w_i} = \frac{1}{x_i}, \qquad
        \pdv{y_i}{x_i} = -\frac{y_i}{x_i} = -\frac{w_i}{x_i^2} .

    The code divides twice instead of squaring: :math:`x_i^2` overflows and underflows
    where the quotient does not.

    **Special values.** A divisor of zero gives infinite slopes (NaN for :math:`0 / 0`),
    as in IEEE 754, without a warning.

    Examples
    --------
    The map itself is NumPy's; with the two vectors of the Jacobians below it gives

    >>> import numpy as np
    >>> np.divide([2, 3, 4], [5, 6, 7])
    array([0.4       , 0.5       , 0.57142857])

    >>> from dlref.calculus import divide_jacobian
    >>> J_w, J_x = divide_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_w.diagonal().round(8)
    array([0.2       , 0.16666667, 0.14285714])
    >>> J_x.diagonal().round(8)
    array([-0.08      , -0.08333333, -0.08163265])

    No square is formed, so nothing underflows here:

    >>> J_w, J_x = divide_jacobian([1e-200], [1e-200])
    >>> bool(abs(J_x[0, 0] / -1e200 - 1) < 1e-15)
    True
    """
    return binary_jacobian(_divide, w, x)


def divide_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise quotient.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `divide_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u / x`, summed over broadcast axes.
    dx : ndarray, shape ``x.shape``
        :math:`-u \odot w / x^2`, summed over broadcast axes.

    Notes
    -----
    **The differential.** From :math:`w = y x` follows :math:`\dd w = x\, \dd y + y\, \dd x`, hence

    .. math:: \dd y_j = \frac{\dd w_j - y_j\, \dd x_j}{x_j} .

    **The inner product.** :math:`\dd L = \sum_j u_j\, \dd y_j`.

    **The transpose.** Both Jacobians are diagonal and their own transposes:

    .. math:: \pdv{L}{w_j} = \frac{u_j}{x_j} , \qquad \pdv{L}{x_j} = -\frac{u_j\, w_j}{x_j^2}

    Given :math:`y = w / x`, :math:`\partial L / \partial x = -y \odot \partial L / \partial w`: the
    second gradient is the first one, times the output.

    Examples
    --------
    Scaling dividend and divisor by the same factor changes nothing, so the gradient is orthogonal
    to the point :math:`(w, x)`:

    >>> from dlref.calculus import divide_vjp
    >>> dw, dx = divide_vjp(1.0, 3.0, 4.0)
    >>> float(dw), float(dx)
    (0.25, -0.1875)
    >>> float(3 * dw + 4 * dx)
    0.0
    """
    return binary_vjp(_divide, dout, w, x)


def divide_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise quotient.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Dividend and divisor, of any shapes that broadcast.
        Raises the same errors as `divide_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = \dot w / x - w \odot \dot x / x^2`.

    Notes
    -----
    .. math:: \dot y_j = \frac{\dot w_j}{x_j} - \frac{w_j\, \dot x_j}{x_j^2}

    Where :math:`w_j` is not 0, dividing by :math:`y_j = w_j / x_j` shows that relative changes
    subtract:

    .. math:: \frac{\dot y}{y} = \frac{\dot w}{w} - \frac{\dot x}{x} .

    Examples
    --------
    Raising both by one percent leaves the quotient unchanged:

    >>> from dlref.calculus import divide_jvp
    >>> divide_jvp(([2, 3, 8], [4, 2, 1]), ([0.02, 0.03, 0.08], [0.04, 0.02, 0.01])).round(15)
    array([0., 0., 0.])
    """
    return binary_jvp(_divide, primals, tangents)
