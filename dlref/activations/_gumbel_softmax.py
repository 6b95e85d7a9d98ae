r"""Gumbel-softmax: a sample of a class that has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_number,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)
from .._core.jit import inline_fma, kernel
from .._core.threads import over_rows, with_workspace
from .._math.softmax_rows import as_rows_along
from ._hardmax import hardmax
from ._softmax import _product, _softmax, softmax_jvp

COST = 4  # nanoseconds an element
#: Below this temperature a sum over it may overflow; its distance from the largest may, too, but
#: the exponential of that is 0.
COLD = 1e-100


def _check(logits: FloatArray, noise: FloatArray, label: str = "noise") -> None:
    check_ndim("logits", logits, 1)
    check_shape(label, noise, logits.shape)


@inline_fma
def _soften(x: FloatArray, g: FloatArray, T: float, out: FloatArray) -> None:
    top = 0.0
    if T < COLD:
        top = -np.inf
        for i in range(out.size):
            top = max(top, np.float64(x[i]) + np.float64(g[i]))
    for i in range(out.size):
        out[i] = (np.float64(x[i]) + np.float64(g[i]) - top) / T


@kernel
def _draw(
    start: int,
    stop: int,
    x: FloatArray,
    g: FloatArray,
    T: float,
    out: FloatArray,
    room: FloatArray,
) -> None:
    for r in range(start, stop):
        _soften(x[r], g[r], T, room[0])
        _softmax(0, 1, room[:1], out[r : r + 1], room[1])


@kernel
def _pull(
    start: int,
    stop: int,
    u: FloatArray,
    x: FloatArray,
    g: FloatArray,
    T: float,
    dx: FloatArray,
    dg: FloatArray,
    room: FloatArray,
) -> None:
    grad, e = room[:1], room[1]
    for r in range(start, stop):
        _soften(x[r], g[r], T, grad[0])
        _product(0, 1, u[r : r + 1], grad, grad, e)
        for i in range(e.size):
            dx[r, i] = grad[0, i] / T
            dg[r, i] = dx[r, i]


def _run(function: Callable[..., None], rows: FloatArray, *arguments: Any) -> None:
    count, width = rows.shape
    over_rows(with_workspace(function, 2, width), count, COST * width, rows, *arguments)


def gumbel_softmax(
    logits: npt.ArrayLike, noise: npt.ArrayLike, *, temperature: float = 1.0, hard: bool = False
) -> FloatArray:
    r"""
    Draw a class at random, or something near to a one-hot vector that can be differentiated.

    Parameters
    ----------
    logits : array_like, shape (..., k)
        Logarithms of probabilities, up to a constant for each row.
    noise : array_like, shape of `logits`
        Independent samples of Gumbel's distribution, ``rng.gumbel(size=...)`` of NumPy.
    temperature : float, default 1.0
        Greater than 0; small values give vectors that are nearly one-hot.
    hard : bool, default False
        Whether to return the one-hot vector itself. The gradient and the tangent remain the ones
        that the soft vector has.

    Returns
    -------
    ndarray, shape of `logits`
        Probabilities, or one-hot vectors if `hard`.

    Raises
    ------
    TypeError
        If an array is not real, `temperature` is not a number, or `hard` is not a bool.
    ValueError
        If the shapes differ, `logits` is a scalar, or `temperature` is not greater than 0.

    See Also
    --------
    gumbel_softmax_vjp : The straight-through gradient.
    softmax : The probabilities that are sampled from.

    Notes
    -----
    .. math:: \vec y = \operatorname{softmax}\Bigl( \frac{\vec x + \vec g}{T} \Bigr) , \qquad
       g_i = -\log(-\log U_i) , \quad U_i \sim \mathcal{U}(0, 1)

    **Why Gumbel's noise.** The largest of :math:`x_i + g_i` is at class a with the probability
    :math:`\operatorname{softmax}(\vec x)_a`, exactly. To see it, let
    :math:`G(t) = \exp(-e^{-t})` be the distribution function of the noise. The other scores are all
    below t with the probability
    :math:`\prod_{i \ne a} G(t - x_i) = \exp(-e^{-t} \sum_{i \ne a} e^{x_i})`, and the density of
    :math:`x_a + g_a` at t is :math:`e^{x_a - t} \exp(-e^{x_a - t})`. Their product, integrated over
    t by the substitution :math:`w = e^{-t}` with :math:`Z = \sum_i e^{x_i}`, is

    .. math:: \int_0^\infty e^{x_a} e^{-w Z}\, \dd w = \frac{e^{x_a}}{Z} .

    So ``hard=True`` samples from the softmax for every temperature. The soft vector is only near to
    a sample: the temperature trades its bias against the variance of its gradient.

    **Conventions.** PyTorch's ``gumbel_softmax`` draws the noise itself, so no two calls agree;
    here it is an argument and the map is a function. With ``hard=True`` PyTorch returns
    ``y_hard - y_soft.detach() + y_soft``, whose ones may be 0.99999994; here they are ones.

    **Special values.** A class with a logit of -inf is never drawn, as long as another one is left.
    The axis of the classes is the last one. Of equal largest sums the first one is drawn if `hard`;
    at temperatures near 0, down to the smallest number, soft vectors share the 1 among them.

    References
    ----------
    - :cite:t:`Jang2016`, section 2
    - :cite:t:`Maddison2016`, who call it the concrete distribution

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gumbel_softmax
    >>> logits, noise = np.log([2.0, 1.0, 1.0]), np.log([1.0, 3.0, 1.0])
    >>> gumbel_softmax(logits, noise) * 6
    array([2., 3., 1.])
    >>> gumbel_softmax(logits, noise, hard=True)
    array([0., 1., 0.])

    Hard samples have the frequencies of the softmax, 1/2, 1/4 and 1/4:

    >>> noise = np.random.default_rng(0).gumbel(size=(100_000, 3))
    >>> gumbel_softmax(np.tile(logits, (100_000, 1)), noise, hard=True).mean(0).round(2)
    array([0.5 , 0.25, 0.25])
    """
    T, straight = as_number("temperature", temperature, above=0), as_bool("hard", hard)
    dtype, (x, g) = as_floats({"logits": logits, "noise": noise}, work=np.float32)
    _check(x, g)
    if straight:
        with np.errstate(all="ignore"):
            return result(hardmax(np.add(x, g, dtype=np.float64)), dtype)
    [rows, noises], back = as_rows_along(-1, x, g)
    out = np.empty_like(rows)
    _run(_draw, rows, noises, T, out)
    return result(back(out), dtype)


def gumbel_softmax_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    noise: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    hard: bool = False,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of Gumbel-softmax, straight through where it is hard.

    Parameters
    ----------
    dout : array_like, shape of `logits`
        Gradient u of a loss with respect to the output.
    logits, noise, temperature, hard : as in `gumbel_softmax`
        Raises the same errors.

    Returns
    -------
    dlogits : ndarray, shape of `logits`
        Gradient of that loss with respect to `logits`.
    dnoise : ndarray, shape of `noise`
        The same numbers, because the two are added. Where the noise is drawn, it is a constant and
        this gradient is not needed.

    Notes
    -----
    The scores are :math:`(\vec x + \vec g) / T`, so softmax's gradient is divided by T. With the
    soft vector y:

    .. math:: \pdv{L}{x_j} = \pdv{L}{g_j} = \frac{y_j}{T} \Bigl( u_j - \sum_i y_i u_i \Bigr)

    A one-hot vector is piecewise constant: its true gradient is 0. The straight-through gradient
    takes the loss at the one-hot vector and the Jacobian of the soft one. In general it is not the
    gradient of any function, and it is a biased estimate of the derivative of the mean loss. As T
    goes to 0 the variance grows, and the bias stays: for two classes a and b the mean tends to
    the trapezoid rule :math:`\tfrac12 (\nabla f(\vec e_a) + \nabla f(\vec e_b)) \cdot (\vec e_a -
    \vec e_b)` in place of :math:`f(\vec e_a) - f(\vec e_b)`. The two are equal if the loss f is
    quadratic between the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gumbel_softmax_vjp
    >>> logits, noise = np.log([2.0, 1.0, 1.0]), np.log([1.0, 3.0, 1.0])
    >>> dlogits, dnoise = gumbel_softmax_vjp([0.0, 36.0, 0.0], logits, noise, hard=True)
    >>> dlogits
    array([-6.,  9., -3.])
    """
    T, _ = as_number("temperature", temperature, above=0), as_bool("hard", hard)
    given = {"dout": dout, "logits": logits, "noise": noise}
    dtype, (u, x, g) = as_floats(given, work=np.float32)
    _check(x, g)
    check_shape("dout", u, x.shape)
    [cotangents, rows, noises], back = as_rows_along(-1, u, x, g)
    dx, dg = np.empty_like(rows), np.empty_like(rows)
    _run(_pull, cotangents, rows, noises, T, dx, dg)
    return result(back(dx), dtype), result(back(dg), dtype)


def gumbel_softmax_jvp(
    primals: Any, tangents: Any, *, temperature: float = 1.0, hard: bool = False
) -> FloatArray:
    r"""
    Forward mode of Gumbel-softmax, straight through where it is hard.

    Parameters
    ----------
    primals : tuple (logits, noise) of array_like
        Logits and noise, of equal shapes.
    tangents : tuple of array_like or None
        Their tangents; None is zero.
    temperature, hard : as in `gumbel_softmax`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of the logits
        Tangent of the soft output.

    Notes
    -----
    With the soft vector y and the tangent :math:`\vec v = \dot{\vec x} + \dot{\vec g}` of the sum:

    .. math:: \dot y_i = \frac{y_i}{T} \Bigl( v_i - \sum_j y_j v_j \Bigr)

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gumbel_softmax_jvp
    >>> primals = np.log([2.0, 1.0, 1.0]), np.log([1.0, 3.0, 1.0])
    >>> gumbel_softmax_jvp(primals, ([0.0, 36.0, 0.0], None))
    array([-6.,  9., -3.])
    """
    T, _ = as_number("temperature", temperature, above=0), as_bool("hard", hard)
    dtype, (x, g), (dx, dg) = as_tangents(primals, tangents, count=2)
    _check(x, g, "primals[1]")
    with np.errstate(all="ignore"):
        scores = x + g
        if T < COLD and scores.size:
            scores -= scores.max(-1, keepdims=True)
        return result(softmax_jvp(scores / T, dx + dg) / T, dtype)
