r"""Second moments of values and gradients, layer by layer, predicted and measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_generator,
    as_integer,
    as_number,
    check_size,
    choice,
    shown,
)
from ..activations._by_name import by_name
from ._initialization import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    orthogonal,
)

Function = Callable[[FloatArray], FloatArray]

INITIALIZATIONS = {
    f.__name__: f
    for f in (glorot_normal, glorot_uniform, he_normal, he_uniform, lecun_normal, orthogonal)
}

LARGEST = 1e16  # second moments beyond it count as unbounded
SMALL = 1e-4  #: a variance near the fixed point 0


class SignalPropagation(NamedTuple):
    r"""
    Second moments of every layer, in the order of the layers.

    Parameters
    ----------
    forward : ndarray, shape (L,)
        Measured :math:`\E z_l^2` of the pre-activations.
    backward : ndarray, shape (L,)
        Measured :math:`\E (\partial L / \partial z_l)^2`.
    forward_predicted : ndarray, shape (L,)
        The prediction of the recursion for the pre-activations.
    backward_predicted : ndarray, shape (L,)
        The prediction of the recursion for the gradients.

    See Also
    --------
    signal_propagation : Returns it.

    Notes
    -----
    All four have L elements, one per layer of weights, whatever the widths are.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import SignalPropagation
    >>> SignalPropagation(*np.ones((4, 1))).forward
    array([1.])
    """

    forward: FloatArray
    backward: FloatArray
    forward_predicted: FloatArray
    backward_predicted: FloatArray


@cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return nodes, weights


def _mean_square(f: Function, q: float) -> float:
    """
    Return the expectation of f(x)**2 for normal x of mean 0 and variance q.

    Gauss-Legendre quadrature between the points where an activation may have a kink.
    """
    places = np.array([0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 40.0]) / math.sqrt(q)
    ends = np.concatenate([places[places < 12.0], [0.5, 1.0, 2.0, 3.0, 4.5, 6.5, 9.0, 12.0]])
    ends = np.unique(np.concatenate([-ends, [0.0], ends]))
    nodes, weights = _legendre()
    half = np.diff(ends)[:, None] / 2
    t = (ends[:-1, None] + half) + half * nodes
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return float(np.sum(half * weights * density * f(math.sqrt(q) * t) ** 2))


def signal_propagation(
    widths: tuple[int, ...],
    *,
    activation: str = "relu",
    init: str | Callable[[np.random.Generator, tuple[int, ...]], FloatArray] = "he_normal",
    rng: np.random.Generator,
    samples: int = 100,
) -> SignalPropagation:
    r"""
    Second moments in a random network, in the forward and the backward pass.

    Parameters
    ----------
    widths : tuple of int
        Widths :math:`n_0, \dots, n_L`: of the input, then of each layer.
    activation : str, default "relu"
        Name of the activation :math:`\phi`, as in :func:`neuron <dlref.neurons.neuron>`.
    init : str or callable, default "he_normal"
        Name of an initialization of this chapter, or a function of a generator and a shape
        (n_out, n_in).
    rng : Generator
        Source of random numbers.
    samples : int, default 100
        Number of inputs, drawn from a standard normal distribution.

    Returns
    -------
    SignalPropagation
        Measured and predicted second moments, one element per layer.

    Raises
    ------
    TypeError
        If `rng` is not a generator, or `widths` or `samples` are not integers.
    ValueError
        If `widths` has fewer than two elements, a number is below 1, or a name is unknown.

    See Also
    --------
    critical_gain : Weights for which the gradient keeps its size.
    gradient_magnitude : One neuron per layer.
    glorot_uniform, he_uniform : The variance equations of one layer.

    Notes
    -----
    The layers are :math:`\vec z_l = \mat W_l \vec h_{l-1}`,
    :math:`\vec h_l = \phi(\vec z_l)` with :math:`\vec h_0` standard normal.

    **Forward.** Each :math:`z_i` is a sum of many independent terms, hence nearly normal, with mean
    0 and the second moment that :func:`glorot_uniform` derives. So one number describes a layer,
    :math:`q_l = \E z_l^2`, and an integral gives the second moment of the next layer:

    .. math::

        q_1 = n_0 \, \overline{W_1^2}, \qquad
        q_{l+1} = n_l \, \overline{W_{l+1}^2} \int \phi(\sqrt{q_l}\, t)^2 \,
           \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt .

    **Backward.** With :math:`\vec \delta_l = \partial L / \partial \vec z_l`, the chain rule says
    :math:`\vec \delta_l = \phi'(\vec z_l) \odot \mat W_{l+1}^\top \vec \delta_{l+1}`. Taking the
    slopes as independent of the gradient that arrives (in wide networks they nearly are), the
    second moment :math:`g_l` of its entries is, from the last layer to the first,

    .. math::

        g_L = \int \phi'(\sqrt{q_L}\, t)^2 \, \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt , \qquad
        g_l = n_{l+1} \, \overline{W_{l+1}^2} \; g_{l+1}
           \int \phi'(\sqrt{q_l}\, t)^2 \, \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt .

    The gradient of a loss with respect to the output :math:`\vec h_L` is drawn from a
    standard normal distribution, so its second moment is 1. The bar is the mean over the weights
    that were drawn, so that any initialization has a prediction.

    The integrals are computed by Gauss-Legendre quadrature on some 30 intervals between
    the points where activations have kinks, to 1e-13.

    **Scatter.** The measured forward moments scatter about the prediction. With 100 samples the
    relative standard deviation after L layers of width n, as a multiple of :math:`\sqrt{L / n}`,
    was 1.2 and 1.9 for ReLU, 0.2 and 0.3 for the identity, 0.14 and 0.22 for tanh with weights of
    variance 1 / n, and 0.11 and 0.08 for tanh with twice that (L = 5 and 20, n = 200).
    ReLU's values have a positive mean that all samples share, so that the samples deviate together
    and their mean does not settle. Tanh bounds the values: where the recursion contracts, a
    deviation shrinks from layer to layer instead of accumulating.

    References
    ----------
    - :cite:t:`Poole2016`
    - :cite:t:`Schoenholz2017`

    Examples
    --------
    ReLU halves second moments. LeCun's variance does not compensate for this, but He's does:

    >>> import numpy as np
    >>> from dlref.propagation import signal_propagation
    >>> rng, widths = np.random.default_rng(0), (500,) * 7
    >>> result = signal_propagation(widths, activation="relu", init="lecun_normal", rng=rng)
    >>> np.log2(result.forward_predicted).round(0) + 0.0
    array([ 0., -1., -2., -3., -4., -5.])
    >>> result = signal_propagation(widths, activation="relu", init="he_normal", rng=rng)
    >>> np.log2(result.forward_predicted).round(0) + 0.0
    array([1., 1., 1., 1., 1., 1.])

    The measured moments agree with the prediction:

    >>> bool(np.allclose(result.forward, result.forward_predicted, rtol=0.3))
    True
    """
    phi, slope = by_name(activation)[:2]
    rng = as_generator("rng", rng)
    draw = init
    if not callable(draw):
        choice("init", init, INITIALIZATIONS)
        draw = INITIALIZATIONS[str(init)]
    try:
        sides = [as_integer("widths", side, least=1) for side in widths]
    except TypeError:
        msg = f"Argument 'widths' must be a tuple of integers, not {shown(widths)}."
        raise TypeError(msg) from None
    if len(sides) < 2:
        msg = f"Argument 'widths' must have at least 2 elements, not {len(sides)}."
        raise ValueError(msg)
    samples = as_integer("samples", samples, least=1)
    check_size(samples=samples, widths=max(sides))
    weights = [draw(rng, (n_out, n_in)) for n_in, n_out in pairwise(sides)]
    return _propagated(weights, phi, slope, rng.normal(size=(samples, sides[0])), rng)


def _propagated(
    weights: list[Any], phi: Function, slope: Function, h: FloatArray, rng: np.random.Generator
) -> SignalPropagation:
    sums, forward, predicted = [], [], []
    kept = 1.0
    with np.errstate(all="ignore"):
        for W in weights:
            sums.append(h @ W.T)
            h = phi(sums[-1])
            forward.append(np.mean(sums[-1] ** 2))
            q = float(W.shape[1] * np.mean(W**2) * kept)
            predicted.append(q)
            kept = _mean_square(phi, q) if 0.0 < q < math.inf else q
        back, back_predicted = [], []
        g, size = rng.normal(size=h.shape), 1.0
        for W, z, q in zip(weights[::-1], sums[::-1], predicted[::-1], strict=True):
            delta = g * slope(z)
            size *= _mean_square(slope, q) if 0.0 < q < math.inf else math.nan
            back.append(np.mean(delta**2))
            back_predicted.append(size)
            g, size = delta @ W, size * float(W.shape[0] * np.mean(W**2))
    return SignalPropagation(
        np.array(forward),
        np.array(back[::-1]),
        np.array(predicted),
        np.array(back_predicted[::-1]),
    )


def critical_gain(activation: str, *, bias_deviation: float = 0.0) -> float:
    r"""
    Gain of the weights between order and chaos, where gradients keep their size.

    Parameters
    ----------
    activation : str
        Name of the activation :math:`\phi`, as in :func:`signal_propagation`.
    bias_deviation : float, default 0.0
        Standard deviation :math:`\sigma_b` of the biases, at least 0.

    Returns
    -------
    float
        Gain :math:`\sigma_w`: weights of variance :math:`\sigma_w^2 / n_{in}` are critical.

    Raises
    ------
    TypeError
        If `bias_deviation` is not a number.
    ValueError
        If `activation` is unknown, `bias_deviation` is negative, or the variance of the
        pre-activations leaves the point where the gradient keeps its size.

    See Also
    --------
    signal_propagation : The recursion, and a network to measure it on.
    orthogonal : Weights that take a gain.

    Notes
    -----
    With weights of variance :math:`\sigma_w^2 / n_{in}` and biases of variance
    :math:`\sigma_b^2`, the recursion of :func:`signal_propagation` is

    .. math::

        q \leftarrow \sigma_w^2 \, \E \phi(\sqrt q\, t)^2 + \sigma_b^2, \qquad
        \chi = \sigma_w^2 \, \E \phi'(\sqrt q\, t)^2 ,

    with a standard normal t. After some layers q reaches a fixed point :math:`q^*`, and there the
    second moment of the gradient changes by the factor :math:`\chi` from layer to layer.

    The same factor decides the fate of two nearly equal inputs. Let their pre-activations have the
    variance :math:`q^*` and the correlation c. With independent standard normal s and t, the next
    layer has the correlation

    .. math::

        C(c) = \frac{1}{q^*} \Bigl( \sigma_w^2 \, \E \bigl[ \phi(\sqrt{q^*}\, s) \,
          \phi\bigl(\sqrt{q^*}\, (c\, s + \sqrt{1 - c^2}\, t)\bigr) \bigr] + \sigma_b^2 \Bigr),
        \qquad C(1) = 1 .

    Differentiating with respect to c brings down the factor
    :math:`\sqrt{q^*}\, (s - c\, t / \sqrt{1 - c^2})`. Integration by parts (Stein's lemma,
    :math:`\E s f(s) = \E f'(s)`) for s and for t gives terms with :math:`\phi \phi''` that cancel,
    and leaves

    .. math::

        C'(c) = \sigma_w^2 \, \E \bigl[ \phi'(\sqrt{q^*}\, s) \,
          \phi'\bigl(\sqrt{q^*}\, (c\, s + \sqrt{1 - c^2}\, t)\bigr) \bigr], \qquad
        C'(1) = \sigma_w^2 \, \E \phi'(\sqrt{q^*}\, s)^2 = \chi ,

    so that a small :math:`1 - c` is multiplied by :math:`\chi` in every layer. A kink does no harm:
    in orthonormal Hermite polynomials, :math:`\phi(\sqrt{q^*}\, s) = \sum_n a_n h_n(s)`, whose
    products have the means :math:`\E h_n h_m = c^n` for n = m and 0 otherwise, and the derivatives
    :math:`h_n' = \sqrt n\, h_{n-1}`. Both sides are :math:`\sigma_w^2 / q^*` times the sum of
    :math:`n\, a_n^2\, c^{n-1}`, and :math:`\phi''` does not occur; ReLU has none. If
    :math:`\chi < 1`, nearly equal inputs become equal (order); if :math:`\chi > 1`, they become
    different (chaos). At :math:`\chi = 1` the weights are critical.

    Inserting :math:`\sigma_w^2 = 1 / \E \phi'^2` leaves one equation for the fixed point,

    .. math:: \frac{\E \phi(\sqrt q\, t)^2}{\E \phi'(\sqrt q\, t)^2} + \sigma_b^2 = q,

    solved by bracketing (Brent's method). If :math:`\sigma_b = 0` and :math:`\phi(0) = 0`, its
    solution is :math:`q \to 0`: there only the slopes :math:`\phi'(0^-)` and :math:`\phi'(0^+)`
    count, and :math:`\sigma_w^2 = 2 / (\phi'(0^-)^2 + \phi'(0^+)^2)`. Where q grows without bound
    (ReLU with a bias, softplus) the result is the limit of large q.

    ============  =========  ===============================================
    activation    gain       why
    ============  =========  ===============================================
    identity      1
    relu          sqrt(2)    half of the slopes are 0
    tanh          1          slope 1 at 0
    sigmoid       10.15      root mean square of the slopes is 0.099
    ============  =========  ===============================================

    **Stability.** The variance stays at :math:`q^*` only if the slope of the recursion for q is at
    most 1 there. For GELU, SiLU, Mish and hard swish without biases it is not: their curvature at 0
    makes :math:`\E \phi^2` grow faster than q. At :math:`\sigma_w = 2` GELU's variances leave 0
    slowly, then fast: from 0.001 they pass :math:`10^6` after 556 layers, from the 4 of standard
    normal inputs after 19. Then there is no critical gain, and the function raises an error.

    With biases, GELU has one again. For its exact form :math:`\chi` and the slope of the recursion
    for q are both 1 at :math:`\sigma_b^2 = 0.1729`, :math:`\sigma_w^2 = 1.9831`, where
    :math:`q^* = (3 + \sqrt{17}) / 2 = 3.56`; for smaller biases the fixed point is unstable, for
    larger ones stable (:cite:t:`Roberts2022`, section 5.3.4).

    PyTorch's ``calculate_gain`` has 5/3 for tanh, without a derivation; it is slightly chaotic,
    :math:`\chi = 1.21`. For SELU it has 3/4, a little above the critical 0.69: from 1 the variance
    of the pre-activations falls to 0.023 within some fifty layers and stays there, with
    :math:`\chi = 1.004`. With a gain of 1 SELU normalizes itself instead, and the mean square of
    the gradients grows by 7 percent per layer.

    References
    ----------
    - :cite:t:`Poole2016`
    - :cite:t:`Schoenholz2017`
    - :cite:t:`Roberts2022`

    Examples
    --------
    >>> from dlref.propagation import critical_gain
    >>> critical_gain("tanh"), critical_gain("relu"), round(critical_gain("selu"), 2)
    (1.0, 1.4142135623730951, 0.69)

    The critical line of tanh: with biases the weights must be larger.

    >>> [round(critical_gain("tanh", bias_deviation=s), 3) for s in (0, 0.1, 0.5)]
    [1.0, 1.193, 1.55]

    The critical point of GELU:

    >>> round(critical_gain("gelu", bias_deviation=0.173**0.5) ** 2, 3)
    1.983
    """
    phi, slope = by_name(activation)[:2]
    bias = as_number("bias_deviation", bias_deviation, least=0)
    at_zero = phi(np.zeros(1))[0] ** 2
    if bias == 0.0 and at_zero == 0.0:
        below, above = slope(np.array([-1e-300, 1e-300])) ** 2
        gain = math.sqrt(2.0 / (below + above))
        _check_stable(activation, gain**2 * _mean_square(phi, SMALL) / SMALL)
        return gain

    def excess(q: float) -> float:
        return _mean_square(phi, q) / _mean_square(slope, q) + bias**2 - q

    low, high = 1e-12, 1.0
    while excess(high) > 0.0 and high < LARGEST:
        low, high = high, 4.0 * high
    if excess(high) <= 0.0:
        from scipy.optimize import brentq  # noqa: PLC0415  # the slowest import of all

        high = brentq(excess, low, high, xtol=1e-14)
        beside = [_mean_square(phi, high * (1.0 + h)) for h in (-1e-4, 1e-4)]
        growth = (beside[1] - beside[0]) / (2e-4 * high)
        _check_stable(activation, growth / _mean_square(slope, high))
    return 1.0 / math.sqrt(_mean_square(slope, high))


def _check_stable(activation: str, growth: float) -> None:
    """Raise where the variance leaves the fixed point at which the gradient keeps its size."""
    if growth > 1.0 + 1e-6:
        msg = (
            "Argument 'activation' must have a variance that stays where gradients keep size, "
            f"not {activation!r}, whose variance leaves that point (slope {growth:.6g})."
        )
        raise ValueError(msg)
