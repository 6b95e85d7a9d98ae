r"""Fourier features of points, and both Jacobian products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_ndim,
    check_pattern,
    check_shape,
    result,
)

TURN = 2.0 * np.pi


def _waves(x: FloatArray, frequencies: FloatArray, names: tuple[str, str]) -> Any:
    """Return cosine and sine of each point at each frequency, from the fraction of a turn."""
    check_ndim(names[0], x, 1)
    check_pattern(names[1], frequencies, ("M", x.shape[-1]))
    turns = x @ frequencies.T
    angle = TURN * (turns - np.round(turns))
    return np.cos(angle), np.sin(angle)


def fourier_features(x: npt.ArrayLike, frequencies: npt.ArrayLike) -> FloatArray:
    r"""
    Map points to cosines and sines of their products with some frequencies.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Points in D dimensions.
    frequencies : array_like, shape (M, D)
        Frequencies :math:`\vec f_m`, in turns for each unit of length.

    Returns
    -------
    ndarray, shape (..., 2 M)
        All cosines, then all sines.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If `x` is a scalar, or `frequencies` does not have shape (M, D).

    See Also
    --------
    timestep_embedding : Of one number, with frequencies in a geometric sequence.
    sinusoidal : Of the positions of tokens.

    Notes
    -----
    .. math:: y_m = \cos(2 \pi\, \vec f_m \cdot \vec x) , \qquad
       y_{M + m} = \sin(2 \pi\, \vec f_m \cdot \vec x) .

    A network that reads coordinates learns slow changes long before fast ones. Of Fourier features
    with frequencies drawn from a normal distribution it learns an image or a shape in detail; the
    width of the distribution decides how fine. The dot product of the features of two points,

    .. math:: \vec y(\vec x) \cdot \vec y(\vec x') = \sum_m \cos \bigl( 2 \pi\, \vec f_m \cdot
       (\vec x - \vec x') \bigr) ,

    depends on their difference alone. For normal frequencies its mean is a Gaussian of the
    distance (random Fourier features).

    **Numerics.** The whole turns are subtracted before the cosine, without a rounding error. In
    float64, rounded once.

    **Conventions.** Some codes have no :math:`2 \pi`, and some have sines first. NeRF takes the
    frequencies :math:`2^l / 2` along each axis, and interleaves.

    References
    ----------
    - :cite:t:`Tancik2020`

    Examples
    --------
    A quarter of a turn, and three quarters:

    >>> from dlref.positions import fourier_features
    >>> fourier_features([0.25], [[1.0], [3.0]]).round(15) + 0.0
    array([ 0.,  0.,  1., -1.])
    """
    dtype, (x, f) = as_floats({"x": x, "frequencies": frequencies})
    with np.errstate(all="ignore"):
        return result(np.concatenate(_waves(x, f, ("x", "frequencies")), axis=-1), dtype)


def fourier_features_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, frequencies: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of Fourier features.

    Parameters
    ----------
    dout : array_like, shape (..., 2 M)
        Cotangent u of the features.
    x, frequencies : as in `fourier_features`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of the points: of a position or a camera that is learned.
    dfrequencies : ndarray, shape (M, D)
        Gradient of the frequencies, where they are learned.

    Notes
    -----
    Let :math:`z_m = \vec f_m \cdot \vec x`. The differential of a pair is
    :math:`2 \pi (-y_{M + m}, y_m)\, \dd z_m` with
    :math:`\dd z_m = \vec f_m \cdot \dd \vec x + \vec x \cdot \dd \vec f_m`, so with
    :math:`g_m = 2 \pi (u_{M + m}\, y_m - u_m\, y_{M + m})`

    .. math:: \pdv{L}{\vec x} = \sum_m g_m \vec f_m , \qquad
       \pdv{L}{\vec f_m} = \sum_{\text{points}} g_m \vec x .

    The gradient grows with the frequency: features that are fine enough for details make the
    gradient of a position useless at distances beyond one of their waves.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import fourier_features_vjp
    >>> dx, df = fourier_features_vjp([0.0, 1.0], [0.5], [[2.0]])
    >>> dx / np.pi, df / np.pi
    (array([4.]), array([[1.]]))
    """
    dtype, (u, x, f) = as_floats({"dout": dout, "x": x, "frequencies": frequencies})
    with np.errstate(all="ignore"):
        cosine, sine = _waves(x, f, ("x", "frequencies"))
        check_shape("dout", u, (*x.shape[:-1], 2 * len(f)))
        g = TURN * (u[..., len(f) :] * cosine - u[..., : len(f)] * sine)
        rows = math.prod(x.shape[:-1])
        df = g.reshape(rows, len(f)).T @ x.reshape(rows, x.shape[-1])
        return result(g @ f, dtype), result(df, dtype)


def fourier_features_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of Fourier features.

    Parameters
    ----------
    primals : tuple (x, frequencies) of array_like
        The operands, as in `fourier_features`.
    tangents : tuple of array_like or None
        Their tangents; None is zero.

    Returns
    -------
    ndarray, shape (..., 2 M)
        Tangent of the features.

    Notes
    -----
    With :math:`\dot z_m = \vec f_m \cdot \dot{\vec x} + \vec x \cdot \dot{\vec f}_m`,

    .. math:: \dot y_m = -2 \pi\, y_{M + m}\, \dot z_m , \qquad
       \dot y_{M + m} = 2 \pi\, y_m\, \dot z_m .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import fourier_features_jvp
    >>> (fourier_features_jvp(([0.5], [[2.0]]), ([1.0], None)) / np.pi).round(12) + 0.0
    array([0., 4.])
    """
    dtype, (x, f), (dx, df) = as_tangents(primals, tangents, count=2)
    with np.errstate(all="ignore"):
        cosine, sine = _waves(x, f, ("primals[0]", "primals[1]"))
        moved = TURN * (dx @ f.T + x @ df.T)
        return result(np.concatenate([-sine * moved, cosine * moved], axis=-1), dtype)
