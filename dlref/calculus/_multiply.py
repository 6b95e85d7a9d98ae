r"""Multiplication, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _multiply(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return x, w


def multiply_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise (Hadamard) product :math:`y = w \odot x`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        :math:`\operatorname{diag}(x)` where nothing is broadcast.
    J_x : ndarray, shape ``out.shape + x.shape``
        :math:`\operatorname{diag}(w)` where nothing is broadcast.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    multiply_vjp, multiply_jvp : The products with a vector, without forming a matrix.

    Notes
    -----
    **Why element-wise Jacobians are diagonal.** Let :math:`y_i = f(w_i, x_i)` for any
    scalar function :math:`f`. Output :math:`i` depends on element :math:`i` of each operand and on
    no other element, so

    .. math::

        \pdv{y_i}{w_j} = 0 \quad (i \ne j), \qquad
        \pdv{y_i}{w_i} = \pdv{f}{w}(w_i, x_i) .

    For :math:`f(w, x) = w x` the slopes are :math:`x_i` and :math:`w_i`:

    .. math:: J_w = \operatorname{diag}(x), \qquad J_x = \operatorname{diag}(w) .

    A product with a diagonal matrix is an element-wise product: :math:`n` multiplications instead
    of :math:`n^2`. This makes backpropagation through element-wise layers cheap, and is the reason
    why :func:`multiply_vjp` forms no matrix.

    **Scalar expansion.** For :math:`y = x z` with one scalar :math:`z`,
    :math:`\partial y_i / \partial x_j = z\, \delta_{ij}` and
    :math:`\partial y_i / \partial z = x_i`: a multiple of the identity and the column
    :math:`x`.

    References
    ----------
    Element-wise Jacobians and scalar expansion are treated in :cite:t:`ParrHoward2018`.

    Examples
    --------
    The map itself is NumPy's; with the two vectors of the Jacobians below it gives

    >>> import numpy as np
    >>> np.multiply([2, 3, 4], [5, 6, 7])
    array([10, 18, 28])

    Each operand is the other one's slope:

    >>> from dlref.calculus import multiply_jacobian
    >>> J_w, J_x = multiply_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_w
    array([[5., 0., 0.],
           [0., 6., 0.],
           [0., 0., 7.]])
    >>> J_x
    array([[2., 0., 0.],
           [0., 3., 0.],
           [0., 0., 4.]])

    Scaling :math:`x = (1, 2, 3)` by :math:`z = 5` to :math:`(5, 10, 15)`:

    >>> J_x, J_z = multiply_jacobian([1, 2, 3], [5])
    >>> J_x
    array([[5., 0., 0.],
           [0., 5., 0.],
           [0., 0., 5.]])
    >>> J_z
    array([[1.],
           [2.],
           [3.]])
    """
    return binary_jacobian(_multiply, w, x)


def multiply_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise product.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `multiply_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u \odot x`, summed over broadcast axes.
    dx : ndarray, shape ``x.shape``
        :math:`u \odot w`, summed over broadcast axes.

    Notes
    -----
    **The differential.** The product rule, at each place:

    .. math:: \dd y_i = x_i\, \dd w_i + w_i\, \dd x_i .

    **The inner product.** :math:`\dd L = \sum_i u_i\, \dd y_i`.

    **The transpose.** Both Jacobians are diagonal and their own transposes. The factor of
    :math:`\dd w_j` is

    .. math::

        \pdv{L}{w_j} = \sum_i u_i \pdv{y_i}{w_j} = \sum_i u_i x_i \delta_{ij} = u_j x_j .

    A product *swaps* its operands in the backward pass. Where :math:`w` is a scalar, all outputs
    contain it and the sum over :math:`i` remains: :math:`\partial L / \partial w = \sum_i u_i x_i`,
    accumulated in float64.

    **LayerScale.** Deep Transformers for images multiply what a block adds to its input by one
    learned number for each channel, which starts near 0: at first each block is nearly the
    identity, and the block's weights get a gradient that is as small as the scale. The gradient of
    the scale itself is summed over all tokens and is not small, so that the block grows.

    References
    ----------
    - :cite:t:`TouvronCaiT2021` on LayerScale

    Examples
    --------
    For :math:`L = \sum_i x_i z` with :math:`z = 5` the upstream gradient is all ones:

    >>> from dlref.calculus import multiply_vjp
    >>> dx, dz = multiply_vjp([1, 1, 1], [2, 3, 4], 5)
    >>> dx
    array([5., 5., 5.])
    >>> float(dz)
    9.0

    LayerScale, of two tokens and two channels:

    >>> scale, added = [0.001, 0.001], [[5.0, 7.0], [1.0, 2.0]]
    >>> dscale, dadded = multiply_vjp([[1.0, 1.0], [10.0, 1.0]], scale, added)
    >>> dscale
    array([15.,  9.])
    >>> dadded
    array([[0.001, 0.001],
           [0.01 , 0.001]])
    """
    return binary_vjp(_multiply, dout, w, x)


def multiply_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise product.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = w \odot x`, of any shapes that broadcast.
        Raises the same errors as `multiply_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = x \odot \dot w + w \odot \dot x`.

    Notes
    -----
    .. math:: \dot y = x \odot \dot w + w \odot \dot x

    The product rule. From :math:`(w + \epsilon \dot w)(x + \epsilon \dot x) = w x + \epsilon (x
    \dot w + w \dot x) + \epsilon^2 \dot w \dot x`, the term linear in :math:`\epsilon` is the
    derivative.

    Examples
    --------
    With equal operands and equal tangents, this is the slope of the square:

    >>> from dlref.calculus import multiply_jvp
    >>> x = [1, 2, 3]
    >>> multiply_jvp((x, x), ([1, 1, 1], [1, 1, 1]))
    array([2., 4., 6.])
    """
    return binary_jvp(_multiply, primals, tangents)
