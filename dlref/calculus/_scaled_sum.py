r"""Sum of a vector times a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_shape, result


def _check_one_element(name: str, z: FloatArray) -> None:
    if z.size != 1:
        msg = f"Argument {name!r} must have exactly one element, not shape {z.shape}."
        raise ValueError(msg)


def scaled_sum_grad(x: npt.ArrayLike, z: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the scaled sum :math:`y = \sum_i x_i z` for one scalar :math:`z`.

    Parameters
    ----------
    x : array_like
        Array of any shape; the sum is over all its elements.
    z : array_like, one element
        The scale.

    Returns
    -------
    gx : ndarray, shape ``x.shape``
        :math:`z` in every element.
    gz : ndarray or scalar, shape ``z.shape``
        :math:`\sum_i x_i`, accumulated in float64.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `z` does not have exactly one element.

    See Also
    --------
    sum_grad : Without the scale.
    multiply_jacobian : The scalar expansion alone.
    scaled_sum_vjp, scaled_sum_jvp : The products with a cotangent and with tangents.

    Notes
    -----
    .. math::

        \pdv{y}{x_j} = \sum_i \pdv{(x_i z)}{x_j} = \sum_i \delta_{ij}\, z = z,
        \qquad
        \pdv{y}{z} = \sum_i \pdv{(x_i z)}{z} = \sum_i x_i .

    Examples
    --------
    For :math:`x = (2, 3, 4)` and :math:`z = 5`:

    >>> import numpy as np
    >>> from dlref.calculus import scaled_sum_grad
    >>> float(np.sum(np.array([2.0, 3.0, 4.0]) * 5))
    45.0
    >>> gx, gz = scaled_sum_grad([2, 3, 4], 5)
    >>> gx
    array([5., 5., 5.])
    >>> float(gz)
    9.0
    """
    dtype, (x, z) = as_floats({"x": x, "z": z})
    _check_one_element("z", z)
    with np.errstate(all="ignore"):
        return (
            result(np.full(x.shape, z.item()), dtype),
            result(np.full(z.shape, x.sum()), dtype),
        )


def scaled_sum_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, z: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the scaled sum.

    Parameters
    ----------
    dout : array_like, shape ()
        Cotangent :math:`u = \partial L / \partial y`.
    x, z : as in `scaled_sum_grad`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape ``x.shape``
        :math:`u z` in every element.
    dz : ndarray or scalar, shape ``z.shape``
        :math:`u \sum_i x_i`.

    Notes
    -----
    .. math:: \pdv{L}{x_j} = u\, z , \qquad \pdv{L}{z} = u \sum_i x_i

    The output is a scalar, so its Jacobian is the gradient, and the vjp a multiple of it.

    Examples
    --------
    >>> from dlref.calculus import scaled_sum_vjp
    >>> dx, dz = scaled_sum_vjp(2, [2, 3, 4], 5)
    >>> dx, float(dz)
    (array([10., 10., 10.]), 18.0)
    """
    dtype, (dout, x, z) = as_floats({"dout": dout, "x": x, "z": z})
    check_shape("dout", dout, ())
    _check_one_element("z", z)
    with np.errstate(all="ignore"):
        return (
            result(np.full(x.shape, dout * z.item()), dtype),
            result(np.full(z.shape, dout * x.sum()), dtype),
        )


def scaled_sum_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the scaled sum.

    Parameters
    ----------
    primals : tuple (x, z) of array_like
        Array of any shape, and the scale, of one element.
        Raises the same errors as `scaled_sum_grad`.
    tangents : tuple (dx, dz) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    scalar
        :math:`\dot y = z \sum_i \dot x_i + \dot z \sum_i x_i`.

    Notes
    -----
    .. math:: \dot y = z \sum_i \dot x_i + \dot z \sum_i x_i

    The product rule for :math:`y = z\, s` with the sum :math:`s = \sum_i x_i`, whose
    tangent is :math:`\dot s = \sum_i \dot x_i`.

    Examples
    --------
    >>> from dlref.calculus import scaled_sum_jvp
    >>> float(scaled_sum_jvp(([2, 3, 4], 5), ([1, 1, 1], 1)))
    24.0
    """
    dtype, (x, z), (dx, dz) = as_tangents(primals, tangents, count=2)
    _check_one_element("primals[1]", z)
    with np.errstate(all="ignore"):
        return result(z.item() * dx.sum() + dz.item() * x.sum(), dtype)
