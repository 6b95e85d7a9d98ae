r"""Gated linear unit with a sigmoid gate."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from ._kernels.gated import gated, pulled, pushed
from ._sigmoid import _sigmoid, _sigmoid_deriv


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

    The gate is a probability: 1/2 at 0, and between 0 and 1 for every finite g, though its float64
    is 1 from g = 37.5 on. The gradient has a path without saturation, the one through x, which is
    scaled by the gate alone.

    Frameworks slice both halves from one array. Here they are two arguments, in this order;
    PyTorch's ``glu`` takes the gate from the second half.

    References
    ----------
    - :cite:t:`Dauphin2017`
    - :cite:t:`Shazeer2020`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu
    >>> glu([8.0, 8.0], [0.0, np.log(3.0)])
    array([4., 6.])
    >>> (1 - glu([1.0, 1.0], [37.4, 37.5])) * 2.0**53  # in units of the rounding below 1
    array([1., 0.])
    """
    return gated(_sigmoid, x, gate)


def glu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, gate: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of glu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x, gate : as in `glu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    See Also
    --------
    sigmoid_deriv : The slope of the gate.

    Notes
    -----
    **The differential.** A product of x with the sigmoid of g:

    .. math:: \dd y = \sigma(g)\, \dd x + x\, \sigma(g)\, \sigma(-g)\, \dd g .

    **The inner product.** :math:`\dd L = \sum u\, \dd y` over all elements of the output.

    **The transpose.** Each differential occurs as often as its argument is used:

    .. math::

        \pdv{L}{x} = \sum u\, \sigma(g) , \qquad
        \pdv{L}{g} = \sum u\, x\, \sigma(g)\, \sigma(-g)

    The sums run over the axes along which an argument was broadcast.

    The gate learns only where x is not zero and the gate not saturated.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu_vjp
    >>> glu_vjp([1.0], [16.0], [np.log(3.0)])
    (array([0.75]), array([3.]))
    """
    return pulled(_sigmoid, _sigmoid_deriv, dout, x, gate)


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
        Raises the same errors as `glu`.
    tangents : tuple of array_like or None
        Tangents of the operands, of the same shapes; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    with :math:`a(g) = \sigma(g)` and :math:`a'(g) = \sigma(g)\, \sigma(-g)`.

    The first term is the tangent of the values times the gate, the second the tangent of the gate
    times the values.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import glu_jvp
    >>> glu_jvp(([16.0], [np.log(3.0)]), ([1.0], [1.0]))
    array([3.75])
    """
    return pushed(_sigmoid, _sigmoid_deriv, primals, tangents)
