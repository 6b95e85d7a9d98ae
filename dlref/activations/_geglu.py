r"""Gated linear unit with a GELU gate."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from ._gelu import _gelu, _gelu_deriv
from ._kernels.gated import gated, pulled, pushed


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

    The exact gelu, with the standard normal CDF, not its approximation by tanh.

    Frameworks slice both halves from one array. Here they are two arguments, in this order;
    PyTorch's ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> from dlref.activations import geglu
    >>> geglu([3.0, 3.0], [0.0, 40.0])
    array([  0., 120.])
    """
    return gated(_gelu, x, gate)


def geglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of geglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x, gate : as in `geglu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    See Also
    --------
    gelu_deriv : The slope of the gate.

    Notes
    -----
    .. math::

        \pdv{L}{x} = \sum u\, g\, \Phi(g) , \qquad
        \pdv{L}{g} = \sum u\, x\, \bigl( \Phi(g) + g\, \phi(g) \bigr)

    with the standard normal CDF :math:`\Phi` and density :math:`\phi`. The sums run over the axes
    along which an argument was broadcast.

    At gate 0 the first gradient vanishes and the second is half of x: a closed unit can open.

    Examples
    --------
    >>> from dlref.activations import geglu_vjp
    >>> geglu_vjp([1.0], [3.0], [0.0])
    (array([0.]), array([1.5]))
    """
    return pulled(_gelu, _gelu_deriv, dout, x, gate)


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
        Raises the same errors as `geglu`.
    tangents : tuple of array_like or None
        Tangents of the operands, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    with :math:`a(g) = g\, \Phi(g)` and :math:`a'(g) = \Phi(g) + g\, \phi(g)`, of the standard
    normal CDF and density.

    At gate 0 only the tangent of the gate counts, with half of x.

    Examples
    --------
    >>> from dlref.activations import geglu_jvp
    >>> geglu_jvp(([3.0], [0.0]), ([1.0], [1.0]))
    array([1.5])
    """
    return pushed(_gelu, _gelu_deriv, primals, tangents)
