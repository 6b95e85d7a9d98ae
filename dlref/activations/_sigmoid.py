r"""
Logistic sigmoid and its derivatives.

Everything here is a function of :math:`w = e^{-|x|}`, which never overflows.  The textbook
derivatives :math:`s (1 - s)` and :math:`1 - t^2` subtract numbers that are equal in the tails;
written in w, nothing is subtracted.
"""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number, exp_pair, expm1_pair, fast_sum, pair_product, pair_quotient
from .._math.elementary import sigmoid as sigmoid_of
from .._math.elementwise import forward, jvp, vjp


@inline_fma
def _sigmoid(x: Number) -> Number:
    return sigmoid_of(x)


@inline_fma
def _sigmoid_deriv(x: Number) -> Number:
    return _bell(x, 1.0)


@inline_fma
def _bell(x: Number, scale: Number) -> Number:
    """Scale e / (1 + e)^2 with e = exp(-|x|): an even function."""
    h, h_low, a, b = exp_pair(-abs(x), 0.0)
    d, rest = fast_sum(1.0, h * a * b)
    d_low = rest + h_low * a * b
    square, square_low = pair_product(d, d_low, d, d_low)
    return scale * pair_quotient(h, h_low, square, square_low) * a * b


@inline_fma
def _bell_slope(x: Number, scale: Number) -> Number:
    """-sign(x) scale e (1 - e) / (1 + e)^3 with e = exp(-|x|): an odd function."""
    h, h_low, a, b = exp_pair(-abs(x), 0.0)
    e, e_low = h * a * b, h_low * a * b
    d, rest = fast_sum(1.0, e)
    square, square_low = pair_product(d, rest + e_low, d, rest + e_low)
    cube, cube_low = pair_product(square, square_low, d, rest + e_low)
    gap, gap_low = expm1_pair(-abs(x), 0.0)
    gap, gap_low = pair_product(-scale * gap, -scale * gap_low, h, h_low)
    size = pair_quotient(gap, gap_low, cube, cube_low) * a * b
    return size if x < 0.0 else 0.0 - size


@inline_fma
def _sigmoid_deriv2(x: Number) -> Number:
    return _bell_slope(x, 1.0)


def sigmoid(x: npt.ArrayLike) -> FloatArray:
    r"""
    Logistic sigmoid.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values in [0, 1], with the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    sigmoid_deriv : The first derivative.
    log_sigmoid : Its logarithm, without underflow.
    softplus : Its integral.
    tanh : The same curve, rescaled.

    Notes
    -----
    .. math:: \sigma(x) = \frac{1}{1 + e^{-x}} = \frac{e^x}{1 + e^x}

    It maps log-odds to a probability: :math:`x = \log \frac{\sigma}{1 - \sigma}`. Adding the two
    fractions for x and -x gives :math:`\sigma(x) + \sigma(-x) = 1`; and
    :math:`\sigma(x) = \frac12 (1 + \tanh \frac x2)`.

    **Numerics.** The first fraction overflows for x = -800 (harmlessly, but with a warning), the
    second for x = 800. With :math:`w = e^{-\abs{x}} \le 1` the code takes :math:`1 / (1 + w)` for
    :math:`x \ge 0` and :math:`w / (1 + w)` for x < 0, which is accurate down to the smallest
    subnormal number. For float32 the first fraction alone does, since float64 holds
    :math:`e^{700}`. Largest error found: 0.88 ULP.

    References
    ----------
    - :cite:t:`GlorotBengio2010`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid
    >>> sigmoid([0.0, np.log(3.0), -np.log(3.0)])
    array([0.5 , 0.75, 0.25])

    Far to the left the values are tiny, and still accurate:

    >>> sigmoid(-700.0)
    np.float64(9.85967654375977e-305)
    """
    return forward(_sigmoid, x)


def sigmoid_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the logistic sigmoid.

    Parameters
    ----------
    x : as in `sigmoid`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\sigma(x) \sigma(-x)`, at most 1/4.

    Notes
    -----
    From :math:`\sigma = (1 + e^{-x})^{-1}` the chain rule gives

    .. math:: \sigma' = \frac{e^{-x}}{(1 + e^{-x})^2} = \sigma(x) \sigma(-x)
       = \sigma\, (1 - \sigma).

    For the second form, split off one factor :math:`1 / (1 + e^{-x})`; the other factor,
    :math:`e^{-x} / (1 + e^{-x})`, is the second fraction of the sigmoid, taken at -x.

    **Numerics.** The last form loses everything where :math:`\sigma` is near 1: at 40 it gives 0.
    The code takes :math:`w / (1 + w)^2` with :math:`w = e^{-\abs{x}}`, since :math:`\sigma'` is
    even. Largest error found: 0.8 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid, sigmoid_deriv
    >>> sigmoid_deriv([0.0, np.log(3.0)])
    array([0.25  , 0.1875])
    >>> s = sigmoid(40.0)
    >>> print(s * (1 - s), f"{sigmoid_deriv(40.0):.3g}")
    0.0 4.25e-18
    """
    return forward(_sigmoid_deriv, x)


def sigmoid_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the logistic sigmoid.

    Parameters
    ----------
    x : as in `sigmoid`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\sigma(x) \sigma(-x) (\sigma(-x) - \sigma(x))`.

    Notes
    -----
    The product rule on :math:`\sigma(x)\, \sigma(-x)`, with the even :math:`\sigma'`, gives

    .. math:: \sigma'' = \sigma'(x)\, \sigma(-x) - \sigma(x)\, \sigma'(-x)
       = \sigma'\, \bigl( \sigma(-x) - \sigma(x) \bigr) = -\sigma' \tanh \frac x2 ,

    an odd function. Where it is extreme, its derivative is 0. With
    :math:`(1 - 2 \sigma)^2 = 1 - 4 \sigma'`,

    .. math:: \sigma''' = \sigma''\, (1 - 2 \sigma) - 2 \sigma'^2
       = \sigma'\, \bigl( (1 - 2 \sigma)^2 - 2 \sigma' \bigr) = \sigma'\, (1 - 6 \sigma') ,

    so :math:`\sigma' = 1/6` there. With :math:`t = e^x` this is :math:`t / (1 + t)^2 = 1/6`, or
    :math:`t^2 - 4t + 1 = 0`, hence :math:`x = \log(2 \pm \sqrt 3) = \pm 1.317`.

    **Numerics.** The difference :math:`1 - e^{-\abs{x}}` comes from `expm1`, so that small x keep
    their digits. Largest error found: 0.92 ULP.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_deriv2
    >>> sigmoid_deriv2([0.0, np.log(3.0)])
    array([ 0.     , -0.09375])
    >>> abs(sigmoid_deriv2(np.log(2 + np.sqrt(3.0))) * 6 * np.sqrt(3)).round(12)
    np.float64(1.0)
    """
    return forward(_sigmoid_deriv2, x)


def sigmoid_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the logistic sigmoid.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `sigmoid`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    **The differential.** Write f for the sigmoid and y for its output. Element by element,
    :math:`\dd y = f'(x)\, \dd x`.

    **The inner product.** :math:`\dd L = \sum u\, \dd y = \sum u f'(x)\, \dd x` over all elements.

    **The transpose.** The Jacobian is diagonal and its own transpose, so that the upstream gradient
    u is multiplied by the slope:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \sigma(x)\, \sigma(-x)

    The derivative is at most 1/4, so with weights of size 1 the gradient is divided by at least 4
    at every such unit, and vanishes through many of them. A weight multiplies it: ten sigmoids with
    weight 8, whose inputs are held at 0 by their biases, multiply the gradient by
    :math:`(8/4)^{10} = 1024`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_vjp
    >>> sigmoid_vjp([16.0, 16.0], [0.0, np.log(3.0)])
    array([4., 3.])
    """
    return vjp(_sigmoid_deriv, dout, x)


def sigmoid_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the logistic sigmoid.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `sigmoid`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \sigma(x)\, \sigma(-x)\, \dot x

    At 0, where the curve is steepest, a change of the input arrives as a quarter.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import sigmoid_jvp
    >>> sigmoid_jvp([0.0, np.log(3.0)], [16.0, 16.0])
    array([4., 3.])
    """
    return jvp(_sigmoid_deriv, primals, tangents)
