"""
Gated linear units: one half of a layer's outputs decides how much of the other half passes.

All are x g(gate) with an activation g; the names say which: sigmoid, silu, gelu, relu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._broadcast import broadcast_shape, unbroadcast
from .._elementwise import product
from .._validate import FloatArray, as_floats, as_number, as_tangents, check_shape, result
from ._rectifiers import _relu, _relu_deriv
from ._sigmoids import _sigmoid, _sigmoid_deriv
from ._smooth_rectifiers import _gelu, _gelu_deriv, _silu, _silu_deriv, _steep

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "geglu",
    "geglu_jvp",
    "geglu_vjp",
    "glu",
    "glu_jvp",
    "glu_vjp",
    "reglu",
    "reglu_jvp",
    "reglu_vjp",
    "swiglu",
    "swiglu_jvp",
    "swiglu_vjp",
]


def _gated(
    formula: Callable[..., Any], x: npt.ArrayLike, gate: npt.ArrayLike, *options: float
) -> FloatArray:
    dtype, [value, signal] = as_floats({"x": x, "gate": gate}, work=np.float32)
    value, signal = _stretched(value, signal)
    return result(product(formula, value, signal, *options), dtype)


def _pulled(
    formula: Callable[..., Any],
    slope: Callable[..., Any],
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    gate: npt.ArrayLike,
    *options: float,
) -> tuple[FloatArray, FloatArray]:
    dtype, [u, value, signal] = as_floats({"dout": dout, "x": x, "gate": gate})
    wide, stretched = _stretched(value, signal)
    check_shape("dout", u, wide.shape)
    dx = product(formula, u, stretched, *options)
    dgate = product(slope, u * wide, stretched, *options)
    return (
        result(unbroadcast(dx, value.shape), dtype),
        result(unbroadcast(dgate, signal.shape), dtype),
    )


def _pushed(
    formula: Callable[..., Any],
    slope: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *options: float,
) -> FloatArray:
    dtype, [x, gate], [dx, dgate] = as_tangents(primals, tangents, count=2)
    value, signal = _stretched(x, gate)
    change, swing = _stretched(dx, dgate)
    direct = product(formula, change, signal, *options)
    return result(direct + product(slope, value * swing, signal, *options), dtype)


def _stretched(x: FloatArray, gate: FloatArray) -> tuple[FloatArray, FloatArray]:
    shape = broadcast_shape(("x", "gate"), x, gate)
    return np.broadcast_to(x, shape), np.broadcast_to(gate, shape)


def glu(x: npt.ArrayLike, gate: npt.ArrayLike) -> FloatArray:
    r"""
    Gated linear unit.

    Parameters
    ----------
    x : array_like
        Values.
    gate : array_like
        Gate before its activation; the shapes broadcast.

    Returns
    -------
    ndarray
        :math:`x \, \sigma(g)` with g the gate.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    sigmoid : The activation of the gate.
    glu_vjp : Both gradients.

    Notes
    -----
    .. math:: f(x, g) = x \, \sigma(g)

    The gate is a probability: 1/2 at 0, never quite closed or open. The gradient has a path
    without saturation,
    the one through x, which is scaled by the gate alone.

    Frameworks cut both halves from one array. Here they are two arguments, in this order; PyTorch's
    ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu
    >>> glu([8.0, 8.0], [0.0, np.log(3.0)])
    array([4., 6.])
    """
    return _gated(_sigmoid, x, gate)


def glu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of glu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x : array_like
        Values.
    gate : array_like
        Gate before its activation.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `dout` has not the shape of the output, or the shapes do not broadcast.

    See Also
    --------
    glu_jvp : Forward mode.
    sigmoid_deriv : The slope of the gate.

    Notes
    -----
    The output is linear in x, hence :math:`u a(g)` with the activation a is the one gradient and
    :math:`u x a'(g)` the other; both are summed over the axes along which an argument was
    stretched.
    The gate learns only where x is not zero and the gate not saturated.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu_vjp
    >>> glu_vjp([1.0], [16.0], [np.log(3.0)])
    (array([0.75]), array([3.]))
    """
    return _pulled(_sigmoid, _sigmoid_deriv, dout, x, gate)


def glu_jvp(
    primals: tuple[npt.ArrayLike, npt.ArrayLike],
    tangents: tuple[npt.ArrayLike | None, npt.ArrayLike | None],
) -> FloatArray:
    r"""
    Forward mode of glu.

    Parameters
    ----------
    primals : tuple of array_like
        The values x and the gate g.
    tangents : tuple of array_like or None
        Their rates of change, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If an array is not real or an argument is no tuple.
    ValueError
        If a tangent has not the shape of its primal, or the shapes do not broadcast.

    See Also
    --------
    glu_vjp : Reverse mode.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    The first term is what passes the gate as it is, the second the movement of the gate.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu_jvp
    >>> glu_jvp(([16.0], [np.log(3.0)]), ([1.0], [1.0]))
    array([3.75])
    """
    return _pushed(_sigmoid, _sigmoid_deriv, primals, tangents)


def swiglu(x: npt.ArrayLike, gate: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Gated unit with silu: the feed-forward gate of many language models.

    Parameters
    ----------
    x : array_like
        Values.
    gate : array_like
        Gate before its activation; the shapes broadcast.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        :math:`x \, g \, \sigma(\beta g)` with g the gate.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    silu : The activation of the gate.
    swiglu_vjp : Both gradients.

    Notes
    -----
    .. math:: f(x, g) = x \, g \, \sigma(\beta g)

    A product of the two halves, weighted: for a large gate it is x g, quadratic in the layer's
    input. With
    `beta` = 0 it is the bilinear unit x g / 2.

    Frameworks cut both halves from one array. Here they are two arguments, in this order; PyTorch's
    ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> from dlref.activations import swiglu
    >>> swiglu([3.0, 3.0], [0.0, 40.0])
    array([  0., 120.])
    """
    beta = as_number("beta", beta)
    return _gated(_steep(_silu, beta), x, gate, beta)


def swiglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike, *, beta: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of swiglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x : array_like
        Values.
    gate : array_like
        Gate before its activation.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `dout` has not the shape of the output, or the shapes do not broadcast.

    See Also
    --------
    swiglu_jvp : Forward mode.
    silu_deriv : The slope of the gate.

    Notes
    -----
    The output is linear in x, hence :math:`u a(g)` with the activation a is the one gradient and
    :math:`u x a'(g)` the other; both are summed over the axes along which an argument was
    stretched.
    For a large gate the two gradients are those of a product: each half receives the other.

    Examples
    --------
    >>> from dlref.activations import swiglu_vjp
    >>> swiglu_vjp([1.0], [3.0], [40.0])
    (array([40.]), array([3.]))
    """
    beta = as_number("beta", beta)
    return _pulled(_steep(_silu, beta), _steep(_silu_deriv, beta), dout, x, gate, beta)


def swiglu_jvp(
    primals: tuple[npt.ArrayLike, npt.ArrayLike],
    tangents: tuple[npt.ArrayLike | None, npt.ArrayLike | None],
    *,
    beta: float = 1.0,
) -> FloatArray:
    r"""
    Forward mode of swiglu.

    Parameters
    ----------
    primals : tuple of array_like
        The values x and the gate g.
    tangents : tuple of array_like or None
        Their rates of change, of the same shapes; None is zero.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If an array is not real or an argument is no tuple.
    ValueError
        If a tangent has not the shape of its primal, or the shapes do not broadcast.

    See Also
    --------
    swiglu_vjp : Reverse mode.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    For a large gate it is the product rule of x g.

    Examples
    --------
    >>> from dlref.activations import swiglu_jvp
    >>> swiglu_jvp(([3.0], [40.0]), ([1.0], [1.0]))
    array([43.])
    """
    beta = as_number("beta", beta)
    return _pushed(_steep(_silu, beta), _steep(_silu_deriv, beta), primals, tangents, beta)


def geglu(x: npt.ArrayLike, gate: npt.ArrayLike) -> FloatArray:
    r"""
    Gated unit with gelu.

    Parameters
    ----------
    x : array_like
        Values.
    gate : array_like
        Gate before its activation; the shapes broadcast.

    Returns
    -------
    ndarray
        :math:`x \, g \, \Phi(g)` with g the gate.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    gelu : The activation of the gate.
    geglu_vjp : Both gradients.

    Notes
    -----
    .. math:: f(x, g) = x \, g \, \Phi(g)

    The exact gelu, with the normal distribution function, not its approximation by tanh.

    Frameworks cut both halves from one array. Here they are two arguments, in this order; PyTorch's
    ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> from dlref.activations import geglu
    >>> geglu([3.0, 3.0], [0.0, 40.0])
    array([  0., 120.])
    """
    return _gated(_gelu, x, gate)


def geglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of geglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x : array_like
        Values.
    gate : array_like
        Gate before its activation.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `dout` has not the shape of the output, or the shapes do not broadcast.

    See Also
    --------
    geglu_jvp : Forward mode.
    gelu_deriv : The slope of the gate.

    Notes
    -----
    The output is linear in x, hence :math:`u a(g)` with the activation a is the one gradient and
    :math:`u x a'(g)` the other; both are summed over the axes along which an argument was
    stretched.
    At gate 0 the first gradient vanishes and the second is half of x: a closed unit can open.

    Examples
    --------
    >>> from dlref.activations import geglu_vjp
    >>> geglu_vjp([1.0], [3.0], [0.0])
    (array([0.]), array([1.5]))
    """
    return _pulled(_gelu, _gelu_deriv, dout, x, gate)


def geglu_jvp(
    primals: tuple[npt.ArrayLike, npt.ArrayLike],
    tangents: tuple[npt.ArrayLike | None, npt.ArrayLike | None],
) -> FloatArray:
    r"""
    Forward mode of geglu.

    Parameters
    ----------
    primals : tuple of array_like
        The values x and the gate g.
    tangents : tuple of array_like or None
        Their rates of change, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If an array is not real or an argument is no tuple.
    ValueError
        If a tangent has not the shape of its primal, or the shapes do not broadcast.

    See Also
    --------
    geglu_vjp : Reverse mode.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    At gate 0 only the movement of the gate counts, with half of x.

    Examples
    --------
    >>> from dlref.activations import geglu_jvp
    >>> geglu_jvp(([3.0], [0.0]), ([1.0], [1.0]))
    array([1.5])
    """
    return _pushed(_gelu, _gelu_deriv, primals, tangents)


def reglu(x: npt.ArrayLike, gate: npt.ArrayLike) -> FloatArray:
    r"""
    Gated unit with relu.

    Parameters
    ----------
    x : array_like
        Values.
    gate : array_like
        Gate before its activation; the shapes broadcast.

    Returns
    -------
    ndarray
        :math:`x \max(g, 0)` with g the gate.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    relu : The activation of the gate.
    reglu_vjp : Both gradients.

    Notes
    -----
    .. math:: f(x, g) = x \max(g, 0)

    Closed for a negative gate, and bilinear for a positive one; where the gate is closed neither
    half
    receives a gradient.

    Frameworks cut both halves from one array. Here they are two arguments, in this order; PyTorch's
    ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> from dlref.activations import reglu
    >>> reglu([3.0, 3.0], [-2.0, 2.0])
    array([0., 6.])
    """
    return _gated(_relu, x, gate)


def reglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of reglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x : array_like
        Values.
    gate : array_like
        Gate before its activation.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `dout` has not the shape of the output, or the shapes do not broadcast.

    See Also
    --------
    reglu_jvp : Forward mode.
    relu_deriv : The slope of the gate.

    Notes
    -----
    The output is linear in x, hence :math:`u a(g)` with the activation a is the one gradient and
    :math:`u x a'(g)` the other; both are summed over the axes along which an argument was
    stretched.
    At gate exactly 0 the derivative of relu counts as 0: that unit stays closed.

    Examples
    --------
    >>> from dlref.activations import reglu_vjp
    >>> reglu_vjp([1.0, 1.0], [3.0, 3.0], [-2.0, 2.0])
    (array([0., 2.]), array([0., 3.]))
    """
    return _pulled(_relu, _relu_deriv, dout, x, gate)


def reglu_jvp(
    primals: tuple[npt.ArrayLike, npt.ArrayLike],
    tangents: tuple[npt.ArrayLike | None, npt.ArrayLike | None],
) -> FloatArray:
    r"""
    Forward mode of reglu.

    Parameters
    ----------
    primals : tuple of array_like
        The values x and the gate g.
    tangents : tuple of array_like or None
        Their rates of change, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If an array is not real or an argument is no tuple.
    ValueError
        If a tangent has not the shape of its primal, or the shapes do not broadcast.

    See Also
    --------
    reglu_vjp : Reverse mode.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    Behind a closed gate nothing moves.

    Examples
    --------
    >>> from dlref.activations import reglu_jvp
    >>> reglu_jvp(([3.0, 3.0], [-2.0, 2.0]), ([1.0, 1.0], [1.0, 1.0]))
    array([0., 5.])
    """
    return _pushed(_relu, _relu_deriv, primals, tangents)
