r"""Gated linear unit with a ReLU gate."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.gated import gated, pulled, pushed
from ._relu import _relu, _relu_deriv


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
    half receives a gradient.

    Frameworks slice both halves from one array. Here they are two arguments, in this order;
    PyTorch's ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> from dlref.activations import reglu
    >>> reglu([3.0, 3.0], [-2.0, 2.0])
    array([0., 6.])
    """
    return gated(_relu, x, gate)


def reglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of reglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x, gate : as in `reglu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    See Also
    --------
    relu_deriv : The slope of the gate.

    Notes
    -----
    .. math::

        \pdv{L}{x} = \sum u\, \max(g, 0) , \qquad
        \pdv{L}{g} = \sum u\, x\, \begin{cases} 1 & g > 0 \\ 0 & g \le 0 \end{cases}

    The sums run over the axes along which an argument was broadcast.

    At gate exactly 0 the derivative of relu counts as 0: that unit stays closed.

    Examples
    --------
    >>> from dlref.activations import reglu_vjp
    >>> reglu_vjp([1.0, 1.0], [3.0, 3.0], [-2.0, 2.0])
    (array([0., 2.]), array([0., 3.]))
    """
    return pulled(_relu, _relu_deriv, dout, x, gate)


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
        Raises the same errors as `reglu`.
    tangents : tuple of array_like or None
        Tangents of the operands, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    with :math:`a(g) = \max(g, 0)`, and :math:`a'(g)` 1 for positive g, else 0.

    Where the gate is closed, the tangent is 0.

    Examples
    --------
    >>> from dlref.activations import reglu_jvp
    >>> reglu_jvp(([3.0, 3.0], [-2.0, 2.0]), ([1.0, 1.0], [1.0, 1.0]))
    array([0., 5.])
    """
    return pushed(_relu, _relu_deriv, primals, tangents)
