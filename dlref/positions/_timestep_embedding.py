r"""Sinusoids of a time step, the input of diffusion models, and their derivative in time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_even,
    as_floats,
    as_number,
    as_tangents,
    check_shape,
    result,
)


def _rates(dim: int, base: float, shift: float, scale: float) -> FloatArray:
    """Return the angle of each pair of channels in a unit of time."""
    half = as_even("dim", dim, least=2) // 2
    base, shift = as_number("base", base, above=0), as_number("shift", shift)
    if not shift < half:
        msg = f"Argument 'shift' must be less than dim / 2 = {half}, not {shift:g}."
        raise ValueError(msg)
    return as_number("scale", scale) * base ** (-np.arange(half) / (half - shift))


def _joined(sine: FloatArray, cosine: FloatArray, cosine_first: bool) -> FloatArray:
    return np.concatenate([cosine, sine] if cosine_first else [sine, cosine], axis=-1)


def timestep_embedding(
    t: npt.ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    cosine_first: bool = False,
    shift: float = 0.0,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Embed times as sines and cosines of many frequencies.

    Parameters
    ----------
    t : array_like
        Times, of any shape; they need not be integers.
    dim : int
        Number of channels, even.
    base : float, default 10000.0
        Ratio of the longest to the shortest period if `shift` is 1, and nearly so if it is 0.
    cosine_first : bool, default False
        Whether the cosines come before the sines.
    shift : float, default 0.0
        Subtracted from the number of pairs in the exponent, less than `dim` / 2.
    scale : float, default 1.0
        Factor of the times.

    Returns
    -------
    ndarray, shape (..., dim)
        All sines, then all cosines; or the other way round if `cosine_first`.

    Raises
    ------
    TypeError
        If `t` is not real, or an option has the wrong type.
    ValueError
        If `dim` is odd or less than 2, `base` is not greater than 0, or `shift` is too large.

    See Also
    --------
    sinusoidal : Of the positions 0, 1, 2, ..., in other layouts.
    fourier_features : Of points in several dimensions.

    Notes
    -----
    With the scale c, the base b, the shift s and d = dim / 2 pairs of channels,

    .. math:: \omega_i = c\, b^{-i / (d - s)} , \qquad
       y_i = \sin(\omega_i t) , \qquad y_{d + i} = \cos(\omega_i t) , \qquad i = 0, \dots, d - 1 .

    **Conventions.** Four of them are common, and the shapes never tell which:

    - DDPM, as transcribed from tensor2tensor: sines first, shift 1, so that the slowest frequency
      is exactly 1/b;
    - ``get_timestep_embedding`` of diffusers: shift 1 and sines first by default; Stable Diffusion
      sets ``downscale_freq_shift=0`` and ``flip_sin_to_cos=True``, which is ``cosine_first``;
    - DiT and guided diffusion: cosines first, shift 0;
    - Flux and SD3: as DiT, for a time from 0 to 1 that is multiplied by 1000 first (``scale``).

    **Numerics.** In float64, rounded once. The angle has the relative error of a product, so that
    an angle of :math:`10^3` is known to :math:`10^{-13}`.

    References
    ----------
    - :cite:t:`HoDDPM2020`, appendix B

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import timestep_embedding
    >>> timestep_embedding(np.pi / 2, 4, base=4.0, shift=1.0).round(12)
    array([1.        , 0.38268343, 0.        , 0.92387953])

    The same in the order of DiT, and with the exponent of DiT:

    >>> timestep_embedding(np.pi / 2, 4, base=4.0, cosine_first=True).round(12)
    array([0.        , 0.70710678, 1.        , 0.70710678])
    """
    first, rates = as_bool("cosine_first", cosine_first), _rates(dim, base, shift, scale)
    dtype, [time] = as_floats({"t": t})
    with np.errstate(all="ignore"):
        angle = time[..., None] * rates
        return result(_joined(np.sin(angle), np.cos(angle), first), dtype)


def timestep_embedding_vjp(
    dout: npt.ArrayLike,
    t: npt.ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    cosine_first: bool = False,
    shift: float = 0.0,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the embedding of times.

    Parameters
    ----------
    dout : array_like, shape (..., dim)
        Cotangent u of the embedding.
    t, dim, base, cosine_first, shift, scale : as in `timestep_embedding`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `t`
        Gradient with respect to the times.

    Notes
    -----
    With the frequencies :math:`\omega_i` of :func:`timestep_embedding`, the differential of a pair
    is :math:`(\omega_i \cos(\omega_i t), -\omega_i \sin(\omega_i t))\, \dd t`, and

    .. math:: \pdv{L}{t} = \sum_i \omega_i \bigl( u_i \cos(\omega_i t) - u_{d + i} \sin(\omega_i t)
       \bigr) .

    With `cosine_first` the two halves of u change places. A model that is differentiated with
    respect to its time needs this gradient: consistency models and mean flows.

    Examples
    --------
    >>> from dlref.positions import timestep_embedding_vjp
    >>> timestep_embedding_vjp([3.0, 5.0], 0.0, 2)
    np.float64(3.0)
    """
    first, rates = as_bool("cosine_first", cosine_first), _rates(dim, base, shift, scale)
    dtype, (u, time) = as_floats({"dout": dout, "t": t})
    check_shape("dout", u, (*time.shape, 2 * rates.size))
    with np.errstate(all="ignore"):
        angle = time[..., None] * rates
        slope = _joined(rates * np.cos(angle), -rates * np.sin(angle), first)
        return result(np.sum(u * slope, axis=-1), dtype)


def timestep_embedding_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    dim: int,
    *,
    base: float = 10000.0,
    cosine_first: bool = False,
    shift: float = 0.0,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the embedding of times.

    Parameters
    ----------
    primals : array_like
        Times.
    tangents : array_like, shape of `primals`, or None
        Their tangents; None is zero.
    dim, base, cosine_first, shift, scale : as in `timestep_embedding`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., dim)
        Tangent of the embedding.

    Notes
    -----
    With the frequencies :math:`\omega_i` of :func:`timestep_embedding`,

    .. math:: \dot y_i = \omega_i \cos(\omega_i t)\, \dot t , \qquad
       \dot y_{d + i} = -\omega_i \sin(\omega_i t)\, \dot t .

    Examples
    --------
    >>> from dlref.positions import timestep_embedding_jvp
    >>> timestep_embedding_jvp(0.0, 1.0, 4, base=4.0)
    array([ 1. ,  0.5, -0. , -0. ])
    """
    first, rates = as_bool("cosine_first", cosine_first), _rates(dim, base, shift, scale)
    dtype, [time], [move] = as_tangents(primals, tangents, count=1)
    with np.errstate(all="ignore"):
        angle = time[..., None] * rates
        slope = _joined(rates * np.cos(angle), -rates * np.sin(angle), first)
        return result(move[..., None] * slope, dtype)
