r"""Random weights to start from, with the variance that keeps signals alive."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_generator,
    as_integer,
    as_number,
    check_size,
    shown,
)


def _fans(shape: Any) -> tuple[tuple[int, ...], int, int]:
    """Return the shape, how many inputs an output sees, and how many outputs an input."""
    try:
        sides = tuple(shape)
    except TypeError:
        msg = f"Argument 'shape' must be a tuple of integers, not {shown(shape)}."
        raise TypeError(msg) from None
    sides = tuple(as_integer("shape", side, least=1) for side in sides)
    check_size(shape=math.prod(sides))
    if len(sides) < 2:
        msg = f"Argument 'shape' must be (n_out, n_in, ...), not {sides}."
        raise ValueError(msg)
    field = math.prod(sides[2:])
    return sides, sides[1] * field, sides[0] * field


def _uniform(rng: Any, shape: tuple[int, ...], standard_deviation: float) -> FloatArray:
    bound = math.sqrt(3.0) * standard_deviation  # the variance of U(-a, a) is a^2 / 3
    return as_generator("rng", rng).uniform(-bound, bound, shape)


def _normal(rng: Any, shape: tuple[int, ...], standard_deviation: float) -> FloatArray:
    return as_generator("rng", rng).normal(0.0, standard_deviation, shape)


def glorot_uniform(
    rng: np.random.Generator, shape: tuple[int, ...], *, gain: float = 1.0
) -> FloatArray:
    r"""
    Uniform weights that preserve variance both forward and backward (Glorot, Xavier).

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.
    gain : float, default 1.0
        Factor of all weights, at least 0.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `shape` is not a tuple of integers, or `gain` is not a number.
    ValueError
        If `shape` has fewer than two sides or one below 1, or `gain` is negative.

    See Also
    --------
    glorot_normal : The same variance, normally distributed.
    he_uniform : For rectifiers.
    signal_propagation : The variance from layer to layer.

    Notes
    -----
    Let :math:`z_i = \sum_j W_{ij} h_j`, with weights of mean 0 and variance
    :math:`\operatorname{Var} W` that are independent of each other and of h. In the mean of the
    square, the mixed terms :math:`\E W_{ij}\, \E W_{ik}\, \E h_j h_k` are 0, so second moments add
    up. With :math:`\E h^2` for their mean over j,

    .. math:: \E z_i^2 = \sum_j \E W_{ij}^2 \, \E h_j^2 = n_{in} \operatorname{Var} W \; \E h^2 .

    In the backward pass
    :math:`\partial L / \partial h_j = \sum_i W_{ij}\, \partial L / \partial z_i`, a sum over the
    outputs. If the weights are independent of the gradients that arrive, the mixed terms vanish
    here as well:

    .. math::

        \E \Bigl( \pdv{L}{h_j} \Bigr)^2
          = n_{out} \operatorname{Var} W \; \E \Bigl( \pdv{L}{z} \Bigr)^2 .

    That independence is an assumption: :math:`\partial L / \partial z_i` depends on
    :math:`\vec z = \mat W \vec h`, and so on the weights. It is exact if everything after the layer
    is linear, since then the gradient does not depend on z; in wide networks with random weights it
    is a good approximation, as :func:`signal_propagation` measures.

    If the activation is nearly the identity, forward moments are preserved if
    :math:`n_{in} \operatorname{Var} W = 1` and backward moments if
    :math:`n_{out} \operatorname{Var} W = 1`. Both cannot hold unless
    :math:`n_{in} = n_{out}`; the compromise is

    .. math:: \operatorname{Var} W = \frac{2 g^2}{n_{in} + n_{out}}, \qquad
       W \sim U(-a, a), \quad a = g \sqrt{\frac{6}{n_{in} + n_{out}}},

    since the variance of :math:`U(-a, a)` is :math:`\frac{1}{2a} \int_{-a}^a w^2 dw = a^2 / 3`. The
    gain g is for other activations: :func:`critical_gain`. In a convolution :math:`n_{in}` and
    :math:`n_{out}` are the channels times the size of the window.

    References
    ----------
    - :cite:t:`GlorotBengio2010`, equation 16

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import glorot_uniform
    >>> W = glorot_uniform(np.random.default_rng(0), (400, 200))
    >>> bool(abs(W).max() <= np.sqrt(6 / 600))  # 0.1
    True
    >>> round(float(W.var() * 300), 1)
    1.0
    """
    gain = as_number("gain", gain, least=0)
    shape, n_in, n_out = _fans(shape)
    return _uniform(rng, shape, gain * math.sqrt(2.0 / (n_in + n_out)))


def glorot_normal(
    rng: np.random.Generator, shape: tuple[int, ...], *, gain: float = 1.0
) -> FloatArray:
    r"""
    Normal weights that preserve variance both forward and backward (Glorot, Xavier).

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.
    gain : float, default 1.0
        Factor of all weights, at least 0.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `shape` is not a tuple of integers, or `gain` is not a number.
    ValueError
        If `shape` has fewer than two sides or one below 1, or `gain` is negative.

    See Also
    --------
    glorot_uniform : The same variance, bounded; the derivation.
    he_normal : For rectifiers.

    Notes
    -----
    .. math:: W \sim N \Bigl( 0, \; \frac{2 g^2}{n_{in} + n_{out}} \Bigr)

    Only the variance enters the second moments, so both distributions are equally good. Of normally
    distributed weights, one in 370 is larger in size than three standard deviations; uniform
    weights are at most 1.73 standard deviations from 0.

    References
    ----------
    - :cite:t:`GlorotBengio2010`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import glorot_normal
    >>> W = glorot_normal(np.random.default_rng(0), (400, 200), gain=2)
    >>> round(float(W.var() * 300 / 2**2), 1)
    1.0
    >>> from scipy.special import ndtr
    >>> round(1 / (2 * ndtr(-3)))  # one weight in so many is beyond three standard deviations
    370
    """
    gain = as_number("gain", gain, least=0)
    shape, n_in, n_out = _fans(shape)
    return _normal(rng, shape, gain * math.sqrt(2.0 / (n_in + n_out)))


def he_uniform(
    rng: np.random.Generator, shape: tuple[int, ...], *, negative_slope: float = 0.0
) -> FloatArray:
    r"""
    Uniform weights that keep signals alive through rectifiers (He, Kaiming).

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.
    negative_slope : float, default 0.0
        Slope a of the rectifier where its argument is negative; 0 for ReLU.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `shape` is not a tuple of integers or the slope is not a
        number.
    ValueError
        If `shape` has fewer than two sides or one below 1.

    See Also
    --------
    he_normal : The same variance, normally distributed.
    glorot_uniform : The second moments, forward and back.
    critical_gain : Other activations.

    Notes
    -----
    A rectifier keeps the positive half of a symmetric distribution and a times the negative half,
    so it leaves :math:`\E \phi(z)^2 = \frac{1 + a^2}{2} \E z^2` of the second moment. Forward,
    from layer to layer,

    .. math::

        \E z_l^2 = n_{in} \operatorname{Var} W \; \E \phi(z_{l-1})^2
          = n_{in} \operatorname{Var} W \; \frac{1 + a^2}{2} \; \E z_{l-1}^2,

    which stays constant if

    .. math:: \operatorname{Var} W = \frac{2}{(1 + a^2) \, n_{in}} .

    In the backward pass the mean of :math:`\phi'^2` is :math:`(1 + a^2) / 2` as well, and
    :math:`n_{out}` takes the place of :math:`n_{in}`. With the variance above, a layer multiplies
    the second moment of the gradient by :math:`n_{out} / n_{in}`. From the last pre-activations to
    the first these factors cancel to :math:`n_L / n_1`, the last width over the first, so using
    :math:`n_{in}` alone is enough. Uniform weights are drawn from
    :math:`\pm \sqrt{3 \operatorname{Var} W}`.

    References
    ----------
    - :cite:t:`He2015`, section 2.2

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import he_uniform
    >>> W = he_uniform(np.random.default_rng(0), (400, 600))
    >>> bool(abs(W).max() <= np.sqrt(6 / 600))  # 0.1
    True
    """
    a = as_number("negative_slope", negative_slope)
    shape, n_in, _ = _fans(shape)
    return _uniform(rng, shape, math.sqrt(2.0 / ((1.0 + a * a) * n_in)))


def he_normal(
    rng: np.random.Generator, shape: tuple[int, ...], *, negative_slope: float = 0.0
) -> FloatArray:
    r"""
    Normal weights that keep signals alive through rectifiers (He, Kaiming).

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.
    negative_slope : float, default 0.0
        Slope a of the rectifier where its argument is negative; 0 for ReLU.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `shape` is not a tuple of integers or the slope is not a
        number.
    ValueError
        If `shape` has fewer than two sides or one below 1.

    See Also
    --------
    he_uniform : The same variance, bounded; the derivation.
    lecun_normal : Half the variance, for the identity.

    Notes
    -----
    .. math:: W \sim N \Bigl( 0, \; \frac{2}{(1 + a^2) \, n_{in}} \Bigr)

    The 2 is there because a rectifier keeps half of the second moment. Without it, as in
    :func:`lecun_normal`, each layer halves it: after 50 layers :math:`2^{-50}`, 1e-15, is left.

    References
    ----------
    - :cite:t:`He2015`, section 2.2

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu
    >>> from dlref.propagation import he_normal
    >>> rng = np.random.default_rng(0)
    >>> h = rng.normal(size=1000)
    >>> for _ in range(20):
    ...     z = he_normal(rng, (1000, 1000)) @ h
    ...     h = relu(z)
    >>> bool(0.5 < np.mean(z**2) < 2)
    True
    """
    a = as_number("negative_slope", negative_slope)
    shape, n_in, _ = _fans(shape)
    return _normal(rng, shape, math.sqrt(2.0 / ((1.0 + a * a) * n_in)))


def lecun_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    r"""
    Normal weights that keep the second moment of a weighted sum (LeCun).

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, or `shape` is not a tuple of integers.
    ValueError
        If `shape` has fewer than two sides or one below 1.

    See Also
    --------
    he_normal : Twice the variance, for rectifiers.
    glorot_normal : A compromise with the backward pass.

    Notes
    -----
    .. math:: W \sim N \Bigl( 0, \; \frac{1}{n_{in}} \Bigr), \qquad
       \E z^2 = n_{in} \operatorname{Var} W \; \E h^2 = \E h^2 .

    It is right for activations that keep the second moment of a standard normal variable
    themselves. The constants of :func:`selu <dlref.activations.selu>` were chosen so that it does:
    SELU normalizes itself *with this variance*, and not with another. Uniform or orthogonal weights
    of this variance serve as well.

    References
    ----------
    - :cite:t:`LeCun1998`, section 4.6
    - :cite:t:`Klambauer2017`

    Examples
    --------
    SELU preserves the moments 0 and 1:

    >>> import numpy as np
    >>> from dlref.activations import selu
    >>> from dlref.propagation import lecun_normal
    >>> rng = np.random.default_rng(0)
    >>> h = rng.normal(size=(1000, 100))
    >>> for _ in range(20):
    ...     h = selu(lecun_normal(rng, (1000, 1000)) @ h)
    >>> bool(abs(h.mean()) < 0.1 and 0.9 < h.std() < 1.1)
    True
    """
    shape, n_in, _ = _fans(shape)
    return _normal(rng, shape, math.sqrt(1.0 / n_in))


def orthogonal(
    rng: np.random.Generator, shape: tuple[int, ...], *, gain: float = 1.0
) -> FloatArray:
    r"""
    Random matrix with orthonormal rows or columns.

    Parameters
    ----------
    rng : Generator
        Source of random numbers.
    shape : tuple of int
        Shape (n_out, n_in) of the weights; of a convolution (n_out, n_in, ...) with the sides
        of its window last.
    gain : float, default 1.0
        Factor of all weights, at least 0.

    Returns
    -------
    ndarray, shape `shape`
        Weights, in float64.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `shape` is not a tuple of integers, or `gain` is not a number.
    ValueError
        If `shape` has fewer than two sides or one below 1, or `gain` is negative.

    See Also
    --------
    critical_gain : The gain for an activation.
    signal_propagation : Second moments from layer to layer.

    Notes
    -----
    Take a matrix A of shape (n_out, n), with :math:`n = n_{in}` and independent standard normal
    entries, and its QR decomposition. (If :math:`n_{out} < n_{in}`, the sides are exchanged, and
    the result is transposed.)

    .. math::

        \mat A = \mat Q \mat R , \qquad
        \mat W = g\, \mat Q
          \operatorname{diag}(\operatorname{sign} R_{11}, \dots, \operatorname{sign} R_{nn})

    Independent weights keep *mean* squares, yet the singular values of a product of L such matrices
    spread: some directions vanish and others grow, exponentially in L, even where the mean is 1.
    The singular values of an orthogonal matrix are all 1, and so are the singular values of
    products of such matrices. If all singular values of the Jacobian from input to output stay near
    1, :cite:t:`Saxe2014` speak of *dynamical isometry*: every gradient, not only the average one,
    keeps its length. It is exact for linear networks, near for tanh with a gain slightly
    above 1, and impossible for ReLU, which drops half of the directions at every layer
    (:cite:t:`Pennington2017`).

    The signs multiply the columns of Q. Without them the distribution would depend on the algorithm
    that computes the decomposition; with them it is uniform over the orthogonal matrices
    (:cite:t:`Mezzadri2007`). Axes after the second are merged with it. If
    :math:`n_{out} \le n_{in}` the rows are orthonormal, else the columns; cost
    :math:`O(n_{out} n_{in} \min(n_{out}, n_{in}))`.

    References
    ----------
    - :cite:t:`Saxe2014`
    - :cite:t:`Mezzadri2007`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import lecun_normal, orthogonal
    >>> rng = np.random.default_rng(0)
    >>> W = orthogonal(rng, (2, 3))
    >>> np.abs((W @ W.T).round(12))
    array([[1., 0.],
           [0., 1.]])

    Twenty layers of independent weights, and of orthogonal ones:

    >>> chain = np.linalg.multi_dot([lecun_normal(rng, (50, 50)) for _ in range(20)])
    >>> s = np.linalg.svd(chain, compute_uv=False)
    >>> bool(s[0] > 2), bool(s[25] < 0.01)
    (True, True)
    >>> chain = np.linalg.multi_dot([orthogonal(rng, (50, 50)) for _ in range(20)])
    >>> s = np.linalg.svd(chain, compute_uv=False)
    >>> bool(abs(s - 1).max() < 1e-13)
    True
    """
    gain = as_number("gain", gain, least=0)
    shape, n_in, _ = _fans(shape)
    n_out = shape[0]
    a = as_generator("rng", rng).normal(size=(max(n_out, n_in), min(n_out, n_in)))
    q, r = np.linalg.qr(a)
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(gain * (q if n_out >= n_in else q.T)).reshape(shape)
