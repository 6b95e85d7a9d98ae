r"""One neuron: a weighted sum, a bias, an activation; and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)
from ..activations._by_name import by_name


def _check(x: FloatArray, w: FloatArray, b: FloatArray, names: tuple[str, ...]) -> None:
    check_ndim(names[0], x, 1)
    check_shape(names[1], w, x.shape[-1:])
    check_shape(names[2], b, ())


def neuron(
    x: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike, *, activation: str = "relu"
) -> FloatArray:
    r"""
    Output of one neuron, :math:`a = f(\vec w \cdot \vec x + b)`.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input, or rows of inputs.
    w : array_like, shape (D,)
        Weights.
    b : array_like, shape ()
        Bias.
    activation : str
        Name of :math:`f`: an element-wise function of ``dlref.activations`` with its default
        options, or ``"identity"``, which leaves the affine map.

    Returns
    -------
    ndarray or scalar, shape (...)
        One output per row of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `x` is a scalar, `w` does not have the length of its last axis, `b` is not a scalar, or
        `activation` is not known.

    See Also
    --------
    neuron_grad : The gradient with respect to the weights and the bias.
    linear : Many neurons that read the same input, without activation.

    Notes
    -----
    The affine part, the *pre-activation*, is

    .. math:: z = \sum_{i=1}^{D} w_i x_i + b , \qquad a = f(z) .

    The default activation is the ReLU, :math:`f(z) = \max(z, 0)`.

    The inputs with the same z lie on a plane perpendicular to :math:`\vec w`: the plane
    :math:`z = 0` lies at the signed distance :math:`-b / \norm{\vec w}` from the origin. A ReLU
    neuron is 0 on one side of that plane and rises with slope :math:`\norm{\vec w}` on the other.

    **Error.** The sum is formed in float64 by BLAS. Its error is at most
    :math:`(D + 1)\, 2^{-53} (\sum_i \abs{w_i x_i} + \abs b)`, small relative to the terms, and
    relative to z only if the terms do not cancel.

    Examples
    --------
    The affine part alone, then the neuron, which returns a positive z unchanged:

    >>> from dlref.neurons import neuron
    >>> x, w, b = [1, 2, 3], [0.5, -1, 2], 0.1
    >>> float(neuron(x, w, b, activation="identity"))
    4.6
    >>> float(neuron(x, w, b))
    4.6

    The second of these inputs has z = −1.4, and the neuron is inactive:

    >>> neuron([[1, 2, 3], [1, 8, 3]], w, b)
    array([4.6, 0. ])
    """
    dtype, (x, w, b) = as_floats({"x": x, "w": w, "b": b})
    _check(x, w, b, ("x", "w", "b"))
    f = by_name(activation).map
    with np.errstate(all="ignore"):
        return result(f(np.asarray(x @ w + b)), dtype)


def neuron_grad(
    x: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike, *, activation: str = "relu"
) -> tuple[FloatArray, FloatArray]:
    r"""
    Gradient of a neuron's output with respect to the weights and the bias.

    Parameters
    ----------
    x, w, b, activation : as in `neuron`
        Raises the same errors.

    Returns
    -------
    da_dw : ndarray, shape (..., D)
        :math:`f'(z)\, \vec x`, one gradient per row of `x`.
    da_db : ndarray or scalar, shape (...)
        :math:`f'(z)`.

    See Also
    --------
    dlref.losses.neuron_squared_error_grad : The gradient of a loss of it.

    Notes
    -----
    Differentiate the pre-activation :math:`z = \sum_i w_i x_i + b` first:

    .. math::

        \pdv{z}{w_j} = \sum_i \pdv{w_i}{w_j}\, x_i = x_j , \qquad \pdv{z}{b} = 1 .

    The chain rule multiplies both by :math:`\dv{a}{z} = f'(z)`:

    .. math:: \pdv{a}{\vec w} = f'(z)\, \vec x , \qquad \pdv{a}{b} = f'(z) .

    For the ReLU, :math:`f'` is 0 or 1, and the cases are

    .. math::

        \pdv{a}{\vec w} = \begin{cases} \vec 0 & z \le 0 \\ \vec x & z > 0 , \end{cases}
        \qquad
        \pdv{a}{b} = \begin{cases} 0 & z \le 0 \\ 1 & z > 0 . \end{cases}

    At :math:`z = 0` the ReLU has no derivative: the slope is 0 on the left and 1 on the right. The
    value taken there is 0, as in PyTorch's ``relu`` and in ``jax.nn.relu``.

    Examples
    --------
    While the neuron is active its weight gradient is the input itself, whatever the
    weights are:

    >>> from dlref.neurons import neuron_grad
    >>> w, b = [0.5, -1, 2], 0.1
    >>> da_dw, da_db = neuron_grad([1, 2, 3], w, b)
    >>> da_dw
    array([1., 2., 3.])
    >>> float(da_db)
    1.0

    Where it is inactive the gradient is 0, and the weights do not learn.

    >>> neuron_grad([1, 8, 3], w, b)[0]
    array([0., 0., 0.])
    """
    dtype, (x, w, b) = as_floats({"x": x, "w": w, "b": b})
    _check(x, w, b, ("x", "w", "b"))
    slope = by_name(activation).deriv
    with np.errstate(all="ignore"):
        da_db = np.asarray(slope(np.asarray(x @ w + b)))
        return result(da_db[..., None] * x, dtype), result(da_db, dtype)


def neuron_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    w: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    activation: str = "relu",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of a neuron.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial a`, a number per row.
    x, w, b, activation : as in `neuron`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        :math:`\delta_n \vec w` with :math:`\delta_n = u_n f'(z_n)`, for each row n.
    dw : ndarray, shape (D,)
        :math:`\sum_n \delta_n \vec x_n`.
    db : scalar
        :math:`\sum_n \delta_n`.

    See Also
    --------
    linear_vjp : The same for a layer.

    Notes
    -----
    **The differential.** For a batch, whose rows are numbered by n, with
    :math:`z_n = \vec w \cdot \vec x_n + b` and the output :math:`a_n = f(z_n)`,

    .. math:: \dd a_n = f'(z_n)\, (\vec w \cdot \dd \vec x_n + \vec x_n \cdot \dd \vec w + \dd b) .

    **The inner product.** :math:`\dd L = \sum_n u_n\, \dd a_n`.

    **The transpose.** The factors of the differentials; all rows share :math:`\dd \vec w` and
    :math:`\dd b`, and each has its own :math:`\dd \vec x_n`:

    .. math::

        \pdv{L}{\vec x_n} = \delta_n \vec w , \quad
        \pdv{L}{\vec w} = \sum_n \delta_n \vec x_n , \quad \pdv{L}{b} = \sum_n \delta_n , \qquad
        \delta_n = u_n f'(z_n)

    The one number :math:`\delta_n = \partial L / \partial z_n` per row determines all gradients.
    The weights and the bias are used by all rows, so their gradients are sums over the rows; the
    input of a row is used by that row alone.

    Examples
    --------
    Only the first of two inputs makes the neuron active:

    >>> from dlref.neurons import neuron_vjp
    >>> dx, dw, db = neuron_vjp([10, 10], [[1, 2, 3], [1, 8, 3]], [0.5, -1, 2], 0.1)
    >>> dx
    array([[  5., -10.,  20.],
           [  0.,   0.,   0.]])
    >>> dw
    array([10., 20., 30.])
    >>> float(db)
    10.0
    """
    dtype, (dout, x, w, b) = as_floats({"dout": dout, "x": x, "w": w, "b": b})
    _check(x, w, b, ("x", "w", "b"))
    check_shape("dout", dout, x.shape[:-1])
    slope = by_name(activation).deriv
    with np.errstate(all="ignore"):
        delta = np.asarray(dout * slope(np.asarray(x @ w + b)))
        dx = delta[..., None] * w
        dw = delta.reshape(-1) @ x.reshape(delta.size, w.size)
        return result(dx, dtype), result(dw, dtype), result(np.sum(delta), dtype)


def neuron_jvp(primals: Any, tangents: Any, *, activation: str = "relu") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a neuron.

    Parameters
    ----------
    primals : tuple (x, w, b) of array_like
        Rows of inputs (..., D), weights (D,) and bias.
    tangents : tuple (dx, dw, db) of array_like or None
        Directions, each of the shape of its operand; None is zero.
    activation : as in `neuron`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot a = f'(z) (\dot{\vec w} \cdot \vec x + \vec w \cdot \dot{\vec x} + \dot b)`.

    Notes
    -----
    .. math:: \dot a = f'(z)\, (\dot{\vec w} \cdot \vec x + \vec w \cdot \dot{\vec x} + \dot b)

    The product rule for the pre-activation gives three terms, with the common factor
    :math:`f'(z)`.

    Examples
    --------
    Tangents of weights and bias that cancel in z: the tangent of the output is 0.

    >>> from dlref.neurons import neuron_jvp
    >>> x, w, b = [1.0, 2.0, 3.0], [0.5, -1.0, 2.0], 0.1
    >>> float(neuron_jvp((x, w, b), (None, [1.0, 1.0, 1.0], -6.0)))
    0.0
    """
    dtype, (x, w, b), (dx, dw, db) = as_tangents(primals, tangents, count=3)
    _check(x, w, b, ("primals[0]", "primals[1]", "primals[2]"))
    slope = by_name(activation).deriv
    with np.errstate(all="ignore"):
        dz = x @ dw + dx @ w + db
        return result(np.asarray(dz * slope(np.asarray(x @ w + b))), dtype)
