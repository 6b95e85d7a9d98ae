r"""Gated linear unit with a SiLU gate."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from ._kernels.gated import gated, pulled, pushed
from ._silu import _silu, _silu_deriv, _steep

__all__ = ["swiglu", "swiglu_jvp", "swiglu_vjp"]


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
    input. With `beta` = 0 it is the bilinear unit x g / 2.

    Frameworks slice both halves from one array. Here they are two arguments, in this order;
    PyTorch's ``glu`` takes the gate from the second half.

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
    return gated(_steep(_silu, beta), x, gate, beta)


def swiglu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike, *, beta: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of swiglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x, gate, beta : as in `swiglu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    See Also
    --------
    silu_deriv : The slope of the gate.

    Notes
    -----
    .. math::

        \pdv{L}{x} = \sum u\, g\, \sigma(\beta g) , \qquad
        \pdv{L}{g} = \sum u\, x\, \bigl( \sigma(\beta g)
          + \beta g\, \sigma(\beta g)\, \sigma(-\beta g) \bigr)

    The sums run over the axes along which an argument was broadcast.

    For a large gate the two gradients are the gradients of a product: each half receives the other.

    Examples
    --------
    >>> from dlref.activations import swiglu_vjp
    >>> swiglu_vjp([1.0], [3.0], [40.0])
    (array([40.]), array([3.]))
    """
    beta = as_number("beta", beta)
    return pulled(_steep(_silu, beta), _steep(_silu_deriv, beta), dout, x, gate, beta)


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
        Tangents of the operands, of the same shapes; None is zero.
    beta : as in `swiglu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    with :math:`a(g) = g\, \sigma(\beta g)` and
    :math:`a'(g) = \sigma(\beta g) + \beta g\, \sigma(\beta g)\, \sigma(-\beta g)`.

    For a large gate it is the product rule of x g.

    Examples
    --------
    >>> from dlref.activations import swiglu_jvp
    >>> swiglu_jvp(([3.0], [40.0]), ([1.0], [1.0]))
    array([43.])
    """
    beta = as_number("beta", beta)
    return pushed(_steep(_silu, beta), _steep(_silu_deriv, beta), primals, tangents, beta)
