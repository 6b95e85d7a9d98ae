r"""Mish: the input times the tanh of its softplus."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import (
    Number,
    exp_pair,
    exp_parts,
    fast_sum,
    near_zero,
    pair_product,
    pair_quotient,
    pair_sum,
)
from .._math.elementwise import forward, jvp, vjp

#: The zero of the derivative, as a float64 and its low-order part; there the usual formula cancels.
MISH_ZERO = (-1.1924312145154952, -4.8484829848031044e-17)
#: The derivative divided by the distance from that zero, within 0.375 of it: the coefficients of a
#: polynomial in the distance, lowest power first (tests/elementary_coefficients.py).
MISH_SLOPE = (
    0.2669479140495345,
    0.20473126408010586,
    0.04190782104360926,
    -0.02027182271668449,
    -0.015821126561642283,
    -0.003360684926986403,
    0.0010924055357634935,
    0.0009898181000290672,
    0.00025412950853535057,
    -4.196143724760667e-05,
    -5.5831108669672634e-05,
    -1.7300165630248114e-05,
    9.611391854956273e-07,
    2.916384980447737e-06,
    9.914019257894974e-07,
    -6.629749260220308e-09,
)


@inline_fma
def _parts(w: Number, w_low: Number, left: bool) -> tuple[Number, Number, Number, Number]:
    """
    Return s and d, as pairs, with tanh(softplus(x)) = s / d, to the left times w, w = exp(-|x|).

    There s = 2 + w and d = 2 + w (2 + w), to the right s = 1 + 2 w and d = 1 + w (2 + 2 w).
    """
    c, k = (2.0, 1.0) if left else (1.0, 2.0)
    s, lost = fast_sum(c, k * w)
    s_low = lost + k * w_low
    r, lost = fast_sum(2.0, k * w)
    d, d_low = pair_product(w, w_low, r, lost + k * w_low)
    d, lost = pair_sum(c, d)
    return s, s_low, d, lost + d_low


@inline_fma
def _mish(x: Number) -> Number:
    h, h_low, a, b = exp_pair(-abs(x), 0.0)
    w, w_low = h * a * b, h_low * a * b
    left = x < 0.0
    s, s_low, d, d_low = _parts(w, w_low, left)
    s, s_low = pair_product(s, s_low, h if left else 1.0, h_low if left else 0.0)
    x = -800.0 if x < -800.0 else x
    s, s_low = pair_product(s, s_low, x, 0.0)
    ratio = pair_quotient(s, s_low, d, d_low)
    return ratio * a * b if left else (x if x > 40.0 else ratio)


@inline_fma
def _mish_deriv(x: Number) -> Number:
    size = abs(x)
    size = 800.0 if size > 800.0 else size
    h, h_low, a, b = exp_pair(-size, 0.0)
    w, w_low = h * a * b, h_low * a * b
    left = x < 0.0
    s, s_low, d, d_low = _parts(w, w_low, left)
    square, square_low = pair_product(d, d_low, d, d_low)
    s, s_low = pair_product(s, s_low, d, d_low)  # of s d + 4 x (1 + w), to the right times w^2
    g, lost = fast_sum(1.0, w)
    g, g_low = pair_product(-4.0 * size if left else 4.0 * size * (w * w), 0.0, g, lost + w_low)
    top, lost = pair_sum(s, g)
    top_low = lost + (s_low + g_low)
    top, top_low = pair_product(top, top_low, h if left else 1.0, h_low if left else 0.0)
    value = pair_quotient(top, top_low, square, square_low)
    value = value * a * b if left else value
    return near_zero(x - MISH_ZERO[0], -MISH_ZERO[1], MISH_SLOPE, value)


@inline_fma
def _mish_deriv2(x: Number) -> Number:
    size = abs(x)
    size = 800.0 if size > 800.0 else size
    r, t, a, b = exp_parts(-size, 0.0)
    p = r + t
    w = (1.0 + p) * a * b
    d = 2.0 + w * (2.0 + w)
    bend = 2.0 * (1.0 + w) * d - size * (2.0 + w * (2.0 - w * (3.0 + 2.0 * w)))
    left = 4.0 * bend / (d * d * d)
    left = (left + left * p) * a * b
    d = 1.0 + 2.0 * w * (1.0 + w)
    bend = 2.0 * (1.0 + w) * d - size * (2.0 + w * (3.0 - w * (2.0 + 2.0 * w)))
    right = 4.0 * bend / (d * d * d)
    right = (right + right * p) * a * b
    right = (right + right * p) * a * b
    return left if x < 0.0 else right


def mish(x: npt.ArrayLike) -> FloatArray:
    r"""
    Input times the hyperbolic tangent of its softplus.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`x \tanh(\log(1 + e^x))`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    mish_deriv : The first derivative.
    silu : Close to it.
    softplus : The inner map.

    Notes
    -----
    .. math:: f(x) = x \tanh(\log(1 + e^x))

    With :math:`y = 1 + e^x` the hyperbolic tangent is :math:`(y^2 - 1) / (y^2 + 1)`, so no
    logarithm is needed, and with :math:`w = e^x`

    .. math:: f(x) = x \, \frac{w (w + 2)}{w^2 + 2 w + 2},

    where all terms are positive. For x > 0 numerator and denominator are divided by :math:`w^2`.
    The minimum is -0.3088 at -1.1924. Largest error found: 0.87 ULP.

    References
    ----------
    - :cite:t:`Misra2019`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import mish
    >>> mish([0.0, 40.0])
    array([ 0., 40.])

    The rational form: w = 2 gives 8/10, w = 1/2 gives 5/13.

    >>> mish(np.log([2.0, 0.5])) / np.log([2.0, 0.5]) * [10, 13]
    array([8., 5.])
    """
    return forward(_mish, x)


def mish_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of mish.

    Parameters
    ----------
    x : as in `mish`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`T + x T^\prime` with :math:`T = \tanh(\log(1 + e^x))`.

    Notes
    -----
    With :math:`w = e^x`, :math:`d = w^2 + 2w + 2` and :math:`T = 1 - 2/d`, differentiating d gives
    :math:`d' = 2w(w + 1)`, hence

    .. math:: T' = \frac{2 d'}{d^2} = \frac{4 w (w + 1)}{d^2}, \qquad
       f' = \frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2} .

    Zero at -1.1924. Largest error found: 1.5 ULP, near the zero as elsewhere.

    Examples
    --------
    >>> from dlref.activations import mish_deriv
    >>> mish_deriv([0.0, 40.0])
    array([0.6, 1. ])
    """
    return forward(_mish_deriv, x)


def mish_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of mish.

    Parameters
    ----------
    x : as in `mish`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`2 T^\prime + x T^{\prime\prime}`.

    Notes
    -----
    With :math:`w = e^x`, :math:`d = w^2 + 2w + 2` and :math:`T' = 4 (w^2 + w) / d^2` from
    :func:`mish_deriv`. Here :math:`w' = w`, so that :math:`(w^2 + w)' = 2w^2 + w` and
    :math:`d' = 2w(w + 1)`. The quotient rule, shortened by d, gives

    .. math::

        T'' = 4\, \frac{(2w^2 + w)\, d - 2 (w^2 + w)\, d'}{d^3}
            = 4w\, \frac{(2w + 1)(w^2 + 2w + 2) - 4w (w + 1)^2}{d^3}
            = \frac{4w\, (2 + 2w - 3w^2 - 2w^3)}{d^3} ,

    and the product rule, on :math:`f' = T + x T'`,

    .. math:: f'' = 2 T' + x T''
       = \frac{4w \bigl( 2 (w + 1) d + x (2 + 2w - 3w^2 - 2w^3) \bigr)}{d^3} .

    To the right it decays like :math:`-8 x\, e^{-2x}`. Largest error found: 13 ULP, or 1.6 units of
    :math:`2^{-53}` within 0.5 of a zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import mish_deriv2
    >>> mish_deriv2([0.0, -2.0, 2.0]).round(4)
    array([ 0.64  ,  0.035 , -0.0577])
    >>> float((mish_deriv2(300.0) / (300.0 * np.exp(-600.0))).round(3))  # -8 (1 - 1 / 300)
    -7.973
    """
    return forward(_mish_deriv2, x)


def mish_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of mish.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `mish`
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
          = u\, \frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2} ,
          \quad w = e^x , \; d = w^2 + 2w + 2

    At 0 three fifths of the gradient pass, against half of it for silu and gelu.

    Examples
    --------
    >>> from dlref.activations import mish_vjp
    >>> mish_vjp([5.0, 5.0], [0.0, 40.0])
    array([3., 5.])
    """
    return vjp(_mish_deriv, dout, x)


def mish_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of mish.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `mish`.
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
          = \frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2}\, \dot x ,
          \quad w = e^x , \; d = w^2 + 2w + 2

    Right of 4 the slope is 1 to better than half a percent.

    Examples
    --------
    >>> from dlref.activations import mish_jvp
    >>> mish_jvp([0.0, 40.0], [5.0, 5.0])
    array([3., 5.])
    """
    return jvp(_mish_deriv, primals, tangents)
