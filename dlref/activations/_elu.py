r"""
ELU: exponential for negative inputs.

All three need :math:`e^x - 1` near 0, where subtracting loses every digit; `expm1` does not.
"""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from .._math.elementary import Number, expm1_pair, fma, raised
from .._math.elementwise import forward, jvp, vjp

SELU_ALPHA = 1.6732632423543772


@inline_fma
def _elu(x: Number, alpha: Number) -> Number:
    high, low = expm1_pair(x, 0.0)
    return x if x > 0.0 else fma(alpha, high, alpha * low)


@inline_fma
def _elu_deriv(x: Number, alpha: Number) -> Number:
    return 1.0 if x > 0.0 else raised(alpha, x, 0.0)


@inline_fma
def _elu_deriv2(x: Number, alpha: Number) -> Number:
    return 0.0 if x > 0.0 else raised(alpha, x, 0.0)


def elu(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Exponential linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    alpha : float, default 1.0
        Depth of the negative side.

    Returns
    -------
    ndarray
        `x` where positive, else :math:`\alpha (e^x - 1)`.

    Raises
    ------
    TypeError
        If `x` or `alpha` is not real.

    See Also
    --------
    elu_deriv : The first derivative.
    celu : Smooth for every `alpha`.
    selu : Scaled so that activations normalize themselves.

    Notes
    -----
    .. math:: f(x) = \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}

    For :math:`x \to -\infty` it saturates at :math:`-\alpha`; negative outputs move the mean of the
    activations towards zero. The two sides meet with slopes :math:`\alpha` and 1: the unit is
    continuously differentiable for :math:`\alpha = 1` only.

    **Numerics.** ``exp(x) - 1`` has no correct digit for x = -1e-17. `expm1` brackets the terms so
    that nothing cancels, and its low-order part takes part in the product. Largest error found:
    0.97 ULP, and 1 ULP for `alpha` from 1/64 to 64.

    References
    ----------
    - :cite:t:`Clevert2016`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu
    >>> elu(np.log([0.25, 0.5, 1.0]), alpha=2)
    array([-1.5, -1. ,  0. ])

    No cancellation near 0:

    >>> elu(-1e-20)
    np.float64(-1e-20)
    """
    return forward(_elu, x, as_number("alpha", alpha))


def elu_deriv(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Derivative of the exponential linear unit.

    Parameters
    ----------
    x, alpha : as in `elu`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 where `x` is positive, else :math:`\alpha e^x`.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & x > 0 \\
       \alpha e^x = f(x) + \alpha & x \le 0 \end{cases}

    The form :math:`f + \alpha` needs only the output. Here the exponential is used: near saturation
    :math:`f + \alpha` cancels. At 0 it returns the left slope, `alpha`, as in PyTorch and JAX.

    Largest error found: 0.71 ULP, for `alpha` from 1/64 to 64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu, elu_deriv
    >>> elu_deriv(np.log([0.25, 1.0, 2.0]), alpha=0.5)
    array([0.125, 0.5  , 1.   ])

    Output plus alpha, where that form is accurate:

    >>> elu(np.log(0.25), alpha=0.5) + 0.5
    np.float64(0.125)
    """
    return forward(_elu_deriv, x, as_number("alpha", alpha))


def elu_deriv2(x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Second derivative of the exponential linear unit.

    Parameters
    ----------
    x, alpha : as in `elu`
        Raises the same errors.

    Returns
    -------
    ndarray
        0 where `x` is positive, else :math:`\alpha e^x`.

    Notes
    -----
    The exponential is its own derivative:

    .. math:: f''(x) = \begin{cases} 0 & x > 0 \\
       \dv{}{x} \alpha e^x = \alpha e^x & x \le 0 \end{cases}

    At 0 it returns the left value. Even for :math:`\alpha = 1` the second derivative jumps there,
    from 1 to 0: the unit is once but not twice continuously differentiable.

    Largest error found: 0.71 ULP, for `alpha` from 1/64 to 64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_deriv2
    >>> elu_deriv2(np.log([0.25, 1.0, 2.0]))
    array([0.25, 1.  , 0.  ])
    """
    return forward(_elu_deriv2, x, as_number("alpha", alpha))


def elu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, alpha: float = 1.0) -> FloatArray:
    r"""
    Reverse mode of the exponential linear unit.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, alpha : as in `elu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math::

        \pdv{L}{x} = u\, f'(x)
          = u\, \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}

    Saturated units pass a gradient that is small but not zero: at -5 it is 0.0067 times the
    upstream gradient, at -20 it is 2e-9.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_vjp
    >>> elu_vjp([8.0, 8.0], np.log([0.25, 2.0]))
    array([2., 8.])
    """
    return vjp(_elu_deriv, dout, x, as_number("alpha", alpha))


def elu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, alpha: float = 1.0
) -> FloatArray:
    r"""
    Forward mode of the exponential linear unit.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    alpha : as in `elu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}\, \dot x

    The slope for a negative input is the output plus `alpha`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import elu_jvp
    >>> elu_jvp(np.log([0.25, 2.0]), [8.0, 8.0])
    array([2., 8.])
    """
    return jvp(_elu_deriv, primals, tangents, as_number("alpha", alpha))
