r"""SELU: an ELU scaled so that moments are preserved."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number, expm1_pair, fma, raised
from .._math.elementwise import forward, jvp, vjp

SELU_SCALE = 1.0507009873554805


SELU_SLOPE = 1.7580993408473766  #: their product, the left derivative at 0
SELU_SLOPE_REST = 5.75014648756476e-17  #: its low-order part


@inline_fma
def _negative_branch(x: Number) -> Number:
    high, low = expm1_pair(x, 0.0)
    return fma(SELU_SLOPE, high, SELU_SLOPE * low + SELU_SLOPE_REST * high)


@inline_fma
def _selu(x: Number) -> Number:
    return SELU_SCALE * x if x > 0.0 else _negative_branch(x)


@inline_fma
def _selu_deriv(x: Number) -> Number:
    return SELU_SCALE if x > 0.0 else raised(SELU_SLOPE, x, 0.0)


@inline_fma
def _selu_deriv2(x: Number) -> Number:
    return 0.0 if x > 0.0 else raised(SELU_SLOPE, x, 0.0)


def selu(x: npt.ArrayLike) -> FloatArray:
    r"""
    Self-normalizing exponential linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\lambda x` where positive, else :math:`\lambda \alpha (e^x - 1)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    selu_deriv : The first derivative.
    elu : Without the scale.

    Notes
    -----
    .. math:: f(x) = \lambda \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}

    with :math:`\alpha = 1.6732632423543772` and :math:`\lambda = 1.0507009873554805`. The two
    numbers solve two equations: for a standard normal z, :math:`\E f(z) = 0` and
    :math:`\E f(z)^2 = 1`. With weights of mean 0 and variance 1/n, the pre-activations of the next
    layer then have mean 0 and variance 1 again, and this fixed point is attracting. That needs this
    initialization; the unit alone does not normalize anything.

    **The two constants.** Completing the square gives the integrals

    .. math::

        I_t = \E[e^{tz};\, z < 0]
            = \int_{-\infty}^0 e^{tz}\, \frac{e^{-z^2/2}}{\sqrt{2\pi}}\, dz
            = e^{t^2/2}\, \Phi(-t) , \qquad I_0 = \tfrac12 .

    The positive half contributes :math:`\E[z;\, z > 0] = 1 / \sqrt{2\pi}` to the mean and
    :math:`\E[z^2;\, z > 0] = \frac12` to the second moment, so that

    .. math::

        0 = \E \frac{f(z)}{\lambda} = \frac{1}{\sqrt{2\pi}} + \alpha (I_1 - I_0) , \qquad
        1 = \E f(z)^2
          = \lambda^2 \Bigl( \tfrac12 + \alpha^2 (I_2 - 2 I_1 + I_0) \Bigr) .

    The first equation gives :math:`\alpha`, and then the second gives :math:`\lambda`:

    .. math::

        \alpha = \frac{1 / \sqrt{2\pi}}{\frac12 - \sqrt{e}\, \Phi(-1)} , \qquad
        \lambda = \Bigl( \tfrac12 + \alpha^2 \bigl( e^2\, \Phi(-2) - 2 \sqrt{e}\, \Phi(-1)
          + \tfrac12 \bigr) \Bigr)^{-1/2} .

    Largest error found: 0.95 ULP.

    References
    ----------
    - :cite:t:`Klambauer2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import selu
    >>> x, w = np.polynomial.hermite_e.hermegauss(180)
    >>> w /= w.sum()
    >>> mean, square = w @ selu(x), w @ selu(x) ** 2
    >>> print(round(mean, 2), round(square, 2))
    -0.0 1.0
    """
    return forward(_selu, x)


def selu_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the self-normalizing unit.

    Parameters
    ----------
    x : as in `selu`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\lambda` where `x` is positive, else :math:`\lambda \alpha e^x`.

    Notes
    -----
    .. math:: f'(x) = \lambda \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}

    The slope jumps at 0 from :math:`\lambda \alpha = 1.758` to :math:`\lambda = 1.051`; the left
    value is taken there, as in PyTorch and JAX. It is not bounded away from 0: at -5 it is 0.0118.

    Largest error found: 0.86 ULP.

    Examples
    --------
    >>> from dlref.activations import selu_deriv
    >>> selu_deriv([-5.0, 0.0, 1.0])
    array([0.01184598, 1.75809934, 1.05070099])
    """
    return forward(_selu_deriv, x)


def selu_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the self-normalizing unit.

    Parameters
    ----------
    x : as in `selu`
        Raises the same errors.

    Returns
    -------
    ndarray
        0 where `x` is positive, else :math:`\lambda \alpha e^x`.

    Notes
    -----
    .. math:: f''(x) = \lambda \begin{cases} 0 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}

    At 0 it returns the left value; the jump of the slope is not part of it.

    Largest error found: 0.86 ULP.

    Examples
    --------
    >>> from dlref.activations import selu_deriv2
    >>> selu_deriv2([-5.0, 0.0, 1.0])
    array([0.01184598, 1.75809934, 0.        ])
    """
    return forward(_selu_deriv2, x)


def selu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the self-normalizing unit.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `selu`
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
          = u\, \lambda \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}

    Positive units enlarge the gradient by 5 percent, and so do slightly negative ones, up to 76
    percent; strongly negative ones weaken it. SELU's constants preserve the moments of the forward
    pass, not of the gradient: for a standard normal x,

    .. math:: \E f'(x)^2 = \lambda^2 \Bigl( \tfrac12 + \alpha^2
        \E\bigl[e^{2x};\, x < 0\bigr] \Bigr)
        = \lambda^2 \bigl( \tfrac12 + \alpha^2 e^2\, \Phi(-2) \bigr) = 1.0716 ,

    so the mean square of the gradient grows by 7 percent per layer.

    Examples
    --------
    >>> from dlref.activations import selu_vjp
    >>> selu_vjp([1.0, 1.0], [-5.0, 1.0])
    array([0.01184598, 1.05070099])

    The mean square of the slope over a standard normal input:

    >>> import numpy as np
    >>> x = np.linspace(-10, 10, 200_001)
    >>> density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    >>> float(np.sum(density * selu_vjp(np.ones_like(x), x) ** 2) * 1e-4)
    1.0716
    """
    return vjp(_selu_deriv, dout, x)


def selu_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the self-normalizing unit.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `selu`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \lambda \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}\, \dot x

    A slope above 1 near 0 raises the variance of activations that are too small.

    Examples
    --------
    >>> from dlref.activations import selu_jvp
    >>> selu_jvp([-0.1, 1.0], [1.0, 1.0])
    array([1.59079407, 1.05070099])
    """
    return jvp(_selu_deriv, primals, tangents)
