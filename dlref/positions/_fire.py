r"""FIRE: a bias that a small network computes from the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_axes,
    check_positive,
    check_shape,
    result,
)
from ._relative_bias import as_grid

FIRE = ("w1", "b1", "w2", "b2", "c", "threshold")


def _check_fire(names: list[str], *parameters: FloatArray) -> None:
    w1, b1, w2, b2, c, threshold = parameters
    check_axes(names[0], w1, 1)
    check_axes(names[2], w2, 2)
    check_shape(names[1], b1, w1.shape)
    check_shape(names[2], w2, (*w2.shape[:1], *w1.shape))
    check_shape(names[3], b2, w2.shape[:1])
    for name, number in zip(names[4:], (c, threshold), strict=True):
        check_shape(name, number, ())
        check_positive(name, number)


def _share(
    c: FloatArray, threshold: FloatArray, i: FloatArray, S: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for queries at i (T, 1), the distances d (T, S), max(threshold, i), and u (T, S)."""
    d, least = np.abs(i - np.arange(float(S))), np.maximum(threshold, i)
    with np.errstate(all="ignore"):
        return d, least, np.log1p(c * d) / np.log1p(c * least)


def _progress(
    c: FloatArray, threshold: FloatArray, T: int, S: int, q_offset: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the normalized distance u (T, S), du/dc and du/dthreshold."""
    i = q_offset + np.arange(float(T))[:, None]
    d, least, u = _share(c, threshold, i, S)
    with np.errstate(all="ignore"):
        bottom = np.log1p(c * least)
        by_c = (d / (1 + c * d) - u * least / (1 + c * least)) / bottom
        by_threshold = np.where(threshold >= i, -u * c / (1 + c * least) / bottom, 0.0)
    return u, by_c, by_threshold


def fire_bias(
    w1: npt.ArrayLike,
    b1: npt.ArrayLike,
    w2: npt.ArrayLike,
    b2: npt.ArrayLike,
    c: npt.ArrayLike,
    threshold: npt.ArrayLike,
    T: int,
    S: int,
    *,
    q_offset: int = 0,
) -> FloatArray:
    r"""
    Map the distance, as a share of the text so far, to a bias by a small network.

    Parameters
    ----------
    w1, b1 : array_like, shape (F,)
        Weights and biases of the hidden layer.
    w2 : array_like, shape (H, F)
        Weights of the outputs, one per head.
    b2 : array_like, shape (H,)
        Biases of the outputs.
    c : array_like, shape ()
        Scale of the distance inside the logarithm, positive.
    threshold : array_like, shape ()
        Length M, positive; up to it distances are not divided by the position.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.
    q_offset : int, default 0
        Position of the first query; with a cache of t keys it is t.

    Returns
    -------
    ndarray, shape (H, T, S)
        The bias, to be added to the scores before the softmax.

    Raises
    ------
    TypeError
        If an array is not real, or a number is not an integer.
    ValueError
        If the shapes do not fit, `c` or `threshold` is not positive, or a number too small.

    See Also
    --------
    fire_bias_vjp, fire_bias_jvp : The derivatives.
    kerple_bias : A function of the distance alone.

    Notes
    -----
    With :math:`\psi(x) = \log(1 + c x)`, M for the threshold (L in the paper), the query at
    position i, which begins at `q_offset`, and the key at j,

    .. math:: u_{ij} = \frac{\psi(\abs{i - j})}{\psi(\max(M, i))}, \qquad
       B_{hij} = b^{(2)}_h + \sum_f w^{(2)}_{hf} \operatorname{relu}(w^{(1)}_f u_{ij} + b^{(1)}_f) .

    For a key before the query u is between 0 and 1, at *any* length: the network never meets an
    input beyond those it was trained on, which is the idea (*progressive interpolation*). The price
    is that the bias is not a function of the offset: the same two tokens get a different bias when
    text is put in front of them. The threshold keeps short texts from being stretched over the
    whole range.

    At :math:`i = M` the slope of the maximum with respect to M is taken to be 1, and the slope of
    relu at 0 to be 0. Keys after the query get the bias of their distance; a causal mask hides
    them.

    Cost: T S F (H + 1) multiplications; beyond the result, memory in proportion to S F, as F
    queries are taken at a time. The derivatives hold arrays of T × S.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Li2024`

    Examples
    --------
    A network that returns u, and minus u. Below the threshold 3 the rows are Toeplitz, beyond it
    they are stretched: the first key is always at u = 1.

    >>> import numpy as np
    >>> from dlref.positions import fire_bias
    >>> bias = fire_bias([1.0], [0.0], [[-1.0]], [0.0], 1.0, 3.0, 8, 8)[0]
    >>> bias[[1, 3, 5, 7]][:, [0, 1]].round(3) + 0.0
    array([[-0.5  ,  0.   ],
           [-1.   , -0.792],
           [-1.   , -0.898],
           [-1.   , -0.936]])
    """
    arguments = dict(zip(FIRE, (w1, b1, w2, b2, c, threshold), strict=True))
    dtype, parameters = as_floats(arguments)
    _check_fire(list(arguments), *parameters)
    w1, b1, w2, b2, c, threshold = parameters
    T, S, first = as_grid(T, S, q_offset, least=1)
    out, block = np.empty((len(w2), T, S)), max(len(w1), 1)
    with np.errstate(all="ignore"):
        for start in range(0, T, block):
            i = first + np.arange(float(start), min(start + block, T))[:, None]
            for t, u in enumerate(_share(c, threshold, i, S)[-1], start):
                hidden = np.maximum(np.multiply.outer(w1, u) + b1[:, None], 0.0)
                out[:, t] = w2 @ hidden + b2[:, None]
    return result(out, dtype)


def fire_bias_vjp(
    dout: npt.ArrayLike,
    w1: npt.ArrayLike,
    b1: npt.ArrayLike,
    w2: npt.ArrayLike,
    b2: npt.ArrayLike,
    c: npt.ArrayLike,
    threshold: npt.ArrayLike,
    T: int,
    S: int,
    *,
    q_offset: int = 0,
) -> tuple[FloatArray, ...]:
    r"""
    Reverse mode of `fire_bias`.

    Parameters
    ----------
    dout : array_like, shape (H, T, S)
        Gradient of a loss with respect to the bias.
    w1, b1, w2, b2, c, threshold, T, S, q_offset : as in `fire_bias`
        The same.

    Returns
    -------
    dw1, db1 : ndarray, shape (F,)
        Gradients of that loss with respect to the hidden layer.
    dw2 : ndarray, shape (H, F)
        With respect to the weights of the outputs.
    db2 : ndarray, shape (H,)
        With respect to the biases of the outputs.
    dc, dthreshold : ndarray, shape ()
        With respect to scale and threshold.

    Raises
    ------
    TypeError
        If an array is not real, or a number is not an integer.
    ValueError
        If the shapes do not fit, or `fire_bias` would refuse.

    Notes
    -----
    The network has the usual backward pass: for a pair (i, j) let :math:`h_f` be the hidden units
    and :math:`g_f` the gradients of their pre-activations. With U for the cotangent, and sums over
    all pairs,

    .. math::

       \pdv{L}{w^{(2)}_{hf}} &= \sum_{ij} U_{hij}\, h_f, &
       \pdv{L}{b^{(2)}_h} &= \sum_{ij} U_{hij}, &
       g_f &= [h_f > 0] \sum_h U_{hij}\, w^{(2)}_{hf}, \\
       \pdv{L}{w^{(1)}_f} &= \sum_{ij} g_f\, u_{ij}, &
       \pdv{L}{b^{(1)}_f} &= \sum_{ij} g_f .

    The rest reaches u, :math:`\bar u_{ij} = \sum_f g_f w^{(1)}_f`, a quotient of logarithms. With
    :math:`m = \max(M, i)` and d the distance,

    .. math::

       \pdv{u}{c} = \frac{1}{\psi(m)} \left( \frac{d}{1 + c d} - \frac{u\, m}{1 + c m} \right),
       \qquad
       \pdv{u}{M} = -\frac{u\, c}{\psi(m)\,(1 + c m)} \quad\text{where } M \ge i ,

    and 0 elsewhere; so :math:`\partial L / \partial c = \sum_{ij} \bar u_{ij}\, \partial u /
    \partial c`, and likewise for M. The two terms of the first cancel where c m is small: its
    relative error is about :math:`10^{-15} / (c m)`, which matters below :math:`c m = 10^{-8}`.

    Examples
    --------
    >>> from dlref.positions import fire_bias_vjp
    >>> grads = fire_bias_vjp([[[1.0]]], [2.0], [0.5], [[3.0]], [0.0], 1.0, 4.0, 1, 1)
    >>> [grad.tolist() for grad in grads[:4]]
    [[0.0], [3.0], [[0.5]], [1.0]]
    """
    arguments = dict(zip(FIRE, (w1, b1, w2, b2, c, threshold), strict=True))
    dtype, (dout, *parameters) = as_floats({"dout": dout, **arguments})
    _check_fire(list(arguments), *parameters)
    w1, b1, w2, b2, c, threshold = parameters
    T, S, first = as_grid(T, S, q_offset, least=1)
    check_shape("dout", dout, (len(w2), T, S))
    u, by_c, by_threshold = _progress(c, threshold, T, S, first)
    dw1, db1, dw2, du = np.zeros_like(w1), np.zeros_like(b1), np.zeros_like(w2), np.empty((T, S))
    with np.errstate(all="ignore"):
        for i in range(T):
            hidden = np.maximum(np.multiply.outer(w1, u[i]) + b1[:, None], 0.0)
            dw2 += dout[:, i] @ hidden.T
            g = np.where(hidden > 0, w2.T @ dout[:, i], 0.0)
            g = np.where(np.isnan(hidden), np.nan, g)
            dw1 += g @ u[i]
            db1 += g.sum(axis=1)
            du[i] = w1 @ g
        db2 = dout.sum(axis=(1, 2))
        grads = [dw1, db1, dw2, db2, np.sum(du * by_c), np.sum(du * by_threshold)]
    return tuple(result(grad, dtype) for grad in grads)


def fire_bias_jvp(primals: Any, tangents: Any, T: int, S: int, *, q_offset: int = 0) -> FloatArray:
    r"""
    Forward mode of `fire_bias`.

    Parameters
    ----------
    primals : tuple (w1, b1, w2, b2, c, threshold) of array_like
        Parameters, as in the map.
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.
    T, S, q_offset : as in `fire_bias`
        The same.

    Returns
    -------
    ndarray, shape (H, T, S)
        Tangent of the bias.

    Raises
    ------
    TypeError
        If an argument is not a tuple, or an entry is not a real array.
    ValueError
        If the shapes do not fit, or `fire_bias` would refuse.

    Notes
    -----
    .. math::

       \dot h_f &= [h_f > 0]
          \left( \dot w^{(1)}_f u + w^{(1)}_f \dot u + \dot b^{(1)}_f \right), \\
       \dot B_h &= \dot b^{(2)}_h
          + \sum_f \left( \dot w^{(2)}_{hf} h_f + w^{(2)}_{hf} \dot h_f \right)

    for each pair, with :math:`\dot u = (\partial u / \partial c)\, \dot c + (\partial u / \partial
    M)\, \dot M` of `fire_bias_vjp`.

    Examples
    --------
    >>> from dlref.positions import fire_bias_jvp
    >>> point = [2.0], [0.5], [[3.0]], [0.0], 1.0, 4.0
    >>> fire_bias_jvp(point, (None, [1.0], None, None, None, None), 1, 1)
    array([[[3.]]])
    """
    dtype, parameters, rates = as_tangents(primals, tangents, count=6)
    _check_fire([f"primals[{i}]" for i in range(6)], *parameters)
    w1, b1, w2, _, c, threshold = parameters
    dw1, db1, dw2, db2, dc, dthreshold = rates
    T, S, first = as_grid(T, S, q_offset, least=1)
    u, by_c, by_threshold = _progress(c, threshold, T, S, first)
    out = np.empty((len(w2), T, S))
    with np.errstate(all="ignore"):
        du = by_c * dc + by_threshold * dthreshold
        for i in range(T):
            hidden = np.maximum(np.multiply.outer(w1, u[i]) + b1[:, None], 0.0)
            rate = np.multiply.outer(dw1, u[i]) + np.multiply.outer(w1, du[i]) + db1[:, None]
            rate = np.where(hidden == 0, 0.0, rate)
            out[:, i] = dw2 @ hidden + w2 @ rate + db2[:, None]
    return result(out, dtype)
