r"""Addition, subtraction, multiplication and division, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._broadcast import binary_jacobian, binary_jvp, binary_vjp
from .._validate import FloatArray

__all__ = [
    "add_jacobian",
    "add_jvp",
    "add_vjp",
    "divide_jacobian",
    "divide_jvp",
    "divide_vjp",
    "multiply_jacobian",
    "multiply_jvp",
    "multiply_vjp",
    "subtract_jacobian",
    "subtract_jvp",
    "subtract_vjp",
]


# The partial derivatives with respect to w and to x; all else follows from them.


def _add(_w: FloatArray, _x: FloatArray) -> tuple[float, float]:
    return 1.0, 1.0


def _subtract(_w: FloatArray, _x: FloatArray) -> tuple[float, float]:
    return 1.0, -1.0


def _multiply(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return x, w


def _divide(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return 1 / x, -(w / x) / x  # x * x could overflow or underflow where the quotient does not


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
    Both Jacobians of a sum of vectors are the identity:

    >>> import numpy as np
    >>> from dlref.calculus import add_jacobian
    >>> J_w, J_x = add_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_w
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    >>> bool((J_w == J_x).all())
    True

    Adding a scalar :math:`z = 5` to :math:`x = (1, 2, 3)` gives :math:`(6, 7, 8)`, and
    raising :math:`z` raises them all alike:

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
    w, x : array_like
        Operands of :math:`y = w + x`, of any shapes that broadcast.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u^\top J_w = \partial L / \partial w`.
    dx : ndarray, shape ``x.shape``
        :math:`u^\top J_x = \partial L / \partial x`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If the operands do not broadcast, or `dout` has not the shape of their sum.

    See Also
    --------
    add_jacobian : The derivation of :math:`J`.
    add_jvp : Forward mode.

    Notes
    -----
    :math:`J_w = I` hands the cotangent on unchanged: a sum *copies* gradients. An
    operand that was broadcast is read by several outputs, so its gradient is the sum of
    theirs, accumulated in float64: a bias added to a batch gathers the whole batch.

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
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = J_w \dot w + J_x \dot x = \dot w + \dot x`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the operands do not broadcast, or a tangent has not the shape of its operand.

    See Also
    --------
    add_jacobian : The derivation of :math:`J`.
    add_vjp : Reverse mode.

    Notes
    -----
    The sum is linear, hence its own derivative: tangents add as the operands do,
    wherever the operands are.

    Examples
    --------
    Moving only the scalar moves every output:

    >>> from dlref.calculus import add_jvp
    >>> add_jvp(([1, 2, 3], 5), (None, 1))
    array([1., 1., 1.])
    """
    return binary_jvp(_add, primals, tangents)


def subtract_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise difference :math:`y = w - x`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        :math:`I` where nothing is broadcast.
    J_x : ndarray, shape ``out.shape + x.shape``
        :math:`-I` where nothing is broadcast.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    subtract_vjp, subtract_jvp : The products with a vector, without forming a matrix.

    Notes
    -----
    From :math:`y_i = w_i - x_i`,

    .. math::

        \pdv{y_i}{w_j} = \delta_{ij}, \qquad \pdv{y_i}{x_j} = -\delta_{ij} .

    Entries off the diagonal are :math:`+0`: output :math:`i` does not read operand
    :math:`j` at all, so nothing is there to be negated.

    Examples
    --------
    >>> from dlref.calculus import subtract_jacobian
    >>> J_w, J_x = subtract_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_x
    array([[-1.,  0.,  0.],
           [ 0., -1.,  0.],
           [ 0.,  0., -1.]])
    """
    return binary_jacobian(_subtract, w, x)


def subtract_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise difference.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : array_like
        Operands of :math:`y = w - x`, of any shapes that broadcast.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u`, summed over what was broadcast.
    dx : ndarray, shape ``x.shape``
        :math:`-u`, summed over what was broadcast.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If the operands do not broadcast, or `dout` has not the shape of the difference.

    See Also
    --------
    subtract_jacobian : The derivation of :math:`J`.
    subtract_jvp : Forward mode.

    Notes
    -----
    The two gradients are opposite where nothing is broadcast. A loss of the residual
    :math:`w - x` therefore pushes prediction and target towards each other.

    Examples
    --------
    Subtracting the mean: the gradient of :math:`y = x - \mu` with respect to the one
    number :math:`\mu` gathers all outputs.

    >>> from dlref.calculus import subtract_vjp
    >>> dx, dmu = subtract_vjp([1, 2, 4], [3, 1, 2], 2)
    >>> float(dmu)
    -7.0
    """
    return binary_vjp(_subtract, dout, w, x)


def subtract_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise difference.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = w - x`, of any shapes that broadcast.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = \dot w - \dot x`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the operands do not broadcast, or a tangent has not the shape of its operand.

    See Also
    --------
    subtract_jacobian : The derivation of :math:`J`.
    subtract_vjp : Reverse mode.

    Notes
    -----
    Moving both operands alike, :math:`\dot w = \dot x`, leaves the difference where it
    is: :math:`J_w + J_x = 0`.

    Examples
    --------
    >>> from dlref.calculus import subtract_jvp
    >>> subtract_jvp(([2, 3, 4], [5, 6, 7]), ([1, 1, 1], [1, 1, 1]))
    array([0., 0., 0.])
    """
    return binary_jvp(_subtract, primals, tangents)


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
    scalar function :math:`f`. Output :math:`i` holds no other element than the
    :math:`i`-th of each operand, so

    .. math::

        \pdv{y_i}{w_j} = 0 \quad (i \ne j), \qquad
        \pdv{y_i}{w_i} = \pdv{f}{w}(w_i, x_i) .

    For :math:`f(w, x) = w x` the slopes are :math:`x_i` and :math:`w_i`:

    .. math:: J_w = \operatorname{diag}(x), \qquad J_x = \operatorname{diag}(w) .

    A product with a diagonal matrix is an element-wise product: :math:`n`
    multiplications instead of :math:`n^2`. This is what makes backpropagation through
    element-wise layers cheap, and why :func:`multiply_vjp` forms no matrix.

    **Scalar expansion.** For :math:`y = x z` with one scalar :math:`z`,
    :math:`\partial y_i / \partial x_j = z\, \delta_{ij}` and
    :math:`\partial y_i / \partial z = x_i`: a multiple of the identity and the column
    :math:`x`.

    References
    ----------
    Element-wise Jacobians and scalar expansion are treated in :cite:t:`ParrHoward2018`.

    Examples
    --------
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
    w, x : array_like
        Operands of :math:`y = w \odot x`, of any shapes that broadcast.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u \odot x`, summed over what was broadcast.
    dx : ndarray, shape ``x.shape``
        :math:`u \odot w`, summed over what was broadcast.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If the operands do not broadcast, or `dout` has not the shape of the product.

    See Also
    --------
    multiply_jacobian : The derivation, and why :math:`J` is diagonal.
    multiply_jvp : Forward mode.

    Notes
    -----
    .. math::

        \pdv{L}{w_j} = \sum_i u_i \pdv{y_i}{w_j} = \sum_i u_i x_i \delta_{ij} = u_j x_j .

    A product *swaps* its operands on the way back. Where :math:`w` is a scalar, all
    outputs hold it and the sum over :math:`i` stays: :math:`\partial L / \partial w =
    \sum_i u_i x_i`, accumulated in float64.

    Examples
    --------
    For :math:`L = \sum_i x_i z` with :math:`z = 5` the cotangent is all ones:

    >>> from dlref.calculus import multiply_vjp
    >>> dx, dz = multiply_vjp([1, 1, 1], [2, 3, 4], 5)
    >>> dx
    array([5., 5., 5.])
    >>> float(dz)
    9.0
    """
    return binary_vjp(_multiply, dout, w, x)


def multiply_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise product.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = w \odot x`, of any shapes that broadcast.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = x \odot \dot w + w \odot \dot x`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the operands do not broadcast, or a tangent has not the shape of its operand.

    See Also
    --------
    multiply_jacobian : The derivation of :math:`J`.
    multiply_vjp : Reverse mode.

    Notes
    -----
    The product rule. From :math:`(w + \varepsilon \dot w)(x + \varepsilon \dot x) =
    w x + \varepsilon (x \dot w + w \dot x) + \varepsilon^2 \dot w \dot x`, what is linear
    in :math:`\varepsilon` is the derivative.

    Examples
    --------
    With both operands equal and moving alike, this is the slope of the square:

    >>> from dlref.calculus import multiply_jvp
    >>> x = [1, 2, 3]
    >>> multiply_jvp((x, x), ([1, 1, 1], [1, 1, 1]))
    array([2., 4., 6.])
    """
    return binary_jvp(_multiply, primals, tangents)


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
    w, x : array_like
        Dividend and divisor, of any shapes that broadcast.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u / x`, summed over what was broadcast.
    dx : ndarray, shape ``x.shape``
        :math:`-u \odot w / x^2`, summed over what was broadcast.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If the operands do not broadcast, or `dout` has not the shape of the quotient.

    See Also
    --------
    divide_jacobian : The derivation of :math:`J`.
    divide_jvp : Forward mode.

    Notes
    -----
    With :math:`y = w / x` at hand, :math:`\partial L / \partial x = -y \odot
    \partial L / \partial w`: the second gradient is the first one, times the output.

    Examples
    --------
    Scaling dividend and divisor alike changes nothing, so the gradient is
    orthogonal to the point :math:`(w, x)`:

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
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = \dot w / x - w \odot \dot x / x^2`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the operands do not broadcast, or a tangent has not the shape of its operand.

    See Also
    --------
    divide_jacobian : The derivation of :math:`J`.
    divide_vjp : Reverse mode.

    Notes
    -----
    Divided by :math:`y`, the quotient rule says that relative changes subtract:

    .. math:: \frac{\dot y}{y} = \frac{\dot w}{w} - \frac{\dot x}{x} .

    Examples
    --------
    One per cent more of both leaves the quotient as it is:

    >>> from dlref.calculus import divide_jvp
    >>> divide_jvp(([2, 3, 8], [4, 2, 1]), ([0.02, 0.03, 0.08], [0.04, 0.02, 0.01])).round(15)
    array([0., 0., 0.])
    """
    return binary_jvp(_divide, primals, tangents)
