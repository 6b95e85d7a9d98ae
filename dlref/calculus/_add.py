r"""Addition, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _add(_w: FloatArray, _x: FloatArray) -> tuple[float, float]:
    return 1.0, 1.0


def add_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise sum :math:`y = w + x`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast. An operand of fewer elements than
        the output is expanded: a scalar :math:`z` counts as :math:`z \vec{1}`.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        ``J_w[i, j]`` is :math:`\partial y_i / \partial w_j`.
    J_x : ndarray, shape ``out.shape + x.shape``
        ``J_x[i, j]`` is :math:`\partial y_i / \partial x_j`.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    add_vjp, add_jvp : The products with a vector, without forming a matrix.
    multiply_jacobian : Why element-wise Jacobians are diagonal.

    Notes
    -----
    :math:`y_i = w_i + x_i` holds :math:`w_j` only if :math:`i = j`, and then with
    slope one:

    .. math::

        \pdv{y_i}{w_j} = \pdv{y_i}{x_j} = \delta_{ij}
        \quad\Longrightarrow\quad J_w = J_x = I .

    **Scalar expansion.** For :math:`y = x + z` with one scalar :math:`z`, *every*
    output holds :math:`z`, so that :math:`\partial y_i / \partial z = 1` for all
    :math:`i`. The Jacobian with respect to :math:`z` is a column of ones, of shape
    ``(n,)`` if `z` is a scalar and ``(n, 1)`` if it is an array of one element.

    References
    ----------
    Element-wise Jacobians and scalar expansion are treated in :cite:t:`ParrHoward2018`.

    Examples
    --------
    The map itself is NumPy's; with the two vectors of the Jacobians below it gives

    >>> import numpy as np
    >>> np.add([2, 3, 4], [5, 6, 7])
    array([ 7,  9, 11])

    Both Jacobians of a sum of vectors are the identity:

    >>> from dlref.calculus import add_jacobian
    >>> J_w, J_x = add_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_w
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    >>> bool((J_w == J_x).all())
    True

    Adding a scalar :math:`z = 5` to :math:`x = (1, 2, 3)` gives :math:`(6, 7, 8)`, and raising
    :math:`z` raises them all equally:

    >>> J_x, J_z = add_jacobian([1, 2, 3], [5])
    >>> J_z
    array([[1.],
           [1.],
           [1.]])
    """
    return binary_jacobian(_add, w, x)


def add_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise sum.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `add_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u^\top J_w = \partial L / \partial w`.
    dx : ndarray, shape ``x.shape``
        :math:`u^\top J_x = \partial L / \partial x`.

    Notes
    -----
    .. math:: \pdv{L}{w_j} = \sum_i u_i\, \delta_{ij} = u_j , \qquad \pdv{L}{x_j} = u_j

    The Jacobian is the identity, and the cotangent is unchanged: a sum *copies* gradients. An
    operand that was broadcast is used by several outputs, so its gradient is the sum of their
    gradients, accumulated in float64. The gradient of a bias added to a batch is a sum over the
    batch.

    Examples
    --------
    The gradient of a bias is the sum over the batch:

    >>> import numpy as np
    >>> from dlref.calculus import add_vjp
    >>> dx, db = add_vjp(np.ones((4, 2)), np.zeros((4, 2)), [0.5, -0.5])
    >>> db
    array([4., 4.])
    """
    return binary_vjp(_add, dout, w, x)


def add_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise sum.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = w + x`, of any shapes that broadcast.
        Raises the same errors as `add_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = J_w \dot w + J_x \dot x = \dot w + \dot x`.

    Notes
    -----
    .. math:: \dot y = \dot w + \dot x

    The sum is linear, hence its own derivative: tangents add as the operands do, at any operands.

    Examples
    --------
    The tangent of the scalar reaches every output:

    >>> from dlref.calculus import add_jvp
    >>> add_jvp(([1, 2, 3], 5), (None, 1))
    array([1., 1., 1.])
    """
    return binary_jvp(_add, primals, tangents)
