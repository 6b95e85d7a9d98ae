r"""The score of a rotated query and a rotated key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_broadcast,
    check_flags,
    check_ndim,
    check_shape,
    result,
)
from .._core.broadcasting import unbroadcast
from ._kernels.circle import circles


def rope_score(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    offset: npt.ArrayLike,
    frequencies: npt.ArrayLike,
    *,
    interleaved: bool = True,
) -> FloatArray:
    r"""
    Dot product of a rotated query and a rotated key, as a function of their distance.

    Parameters
    ----------
    q, k : array_like, shape (..., 2n)
        Query and key before their rotation.
    offset : array_like, shape (...)
        Position of the key minus position of the query, r. It broadcasts with the axes before
        the last of `q` and `k`.
    frequencies : array_like, shape (n,)
        Radians per token :math:`\theta_i`, one for each pair.
    interleaved : bool, default True
        Whether pair i consists of the channels 2i and 2i + 1, or else of i and i + n.

    Returns
    -------
    ndarray, shape (...)
        The score, not divided by the square root of the width.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `interleaved` is not a
        bool.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    apply_rope : The rotation, with the derivation of this property.
    rope_score_vjp, rope_score_jvp : The derivatives.

    Notes
    -----
    Let :math:`z_i = q_{i1} + \mathrm i q_{i2}` and :math:`w_i = k_{i1} + \mathrm i k_{i2}` be the
    pairs as complex numbers. A real dot product is the real part of :math:`\bar z w`, and the
    phases multiply:

    .. math::

       \operatorname{Re} \sum_i \overline{z_i e^{\mathrm i m \theta_i}}\,
           w_i e^{\mathrm i n \theta_i}
         &= \operatorname{Re} \sum_i \bar z_i w_i\, e^{\mathrm i (n - m) \theta_i} \\
         &= \sum_i \bigl( a_i \cos r \theta_i + b_i \sin r \theta_i \bigr), \\
       a_i = q_{i1} k_{i1} + q_{i2} k_{i2}&, \qquad b_i = q_{i2} k_{i1} - q_{i1} k_{i2} .

    **Not symmetric.** The cosines are the even part in r and the sines the odd one. If the
    frequencies are positive and no two are equal, the score at −r equals the score at r for all r
    only if every :math:`b_i` is zero, for instance for q = k.

    **Not decaying.** If the elements of q and k are independent with mean 0 and variance 1, then
    :math:`a_i` and :math:`b_i` are uncorrelated, each of variance 2, and the score has the variance
    :math:`\sum_i 2 (\cos^2 r \theta_i + \sin^2 r \theta_i) = 2n` at *every* distance. Only the mean
    for q = k decays, :math:`2 \sum_i \cos r \theta_i`, as the terms get out of step; and an upper
    bound, as the paper shows.

    **Periodic or not.** The score has a period in r only if the ratios of the :math:`\theta_i` are
    rational. For b = 10 000 and 8 channels, :math:`\theta_i = 10^{-i}`, the period is
    :math:`2000 \pi`; since it is irrational, scores at integer offsets still never repeat. For
    most widths the ratios are irrational, and the score comes close to earlier values without a
    period.

    References
    ----------
    - :cite:t:`Su2021`
    - :cite:t:`Barbero2024`

    Examples
    --------
    The score of two rotated vectors, at positions 10 and 13, and the same from their offset 3:

    >>> import numpy as np
    >>> from dlref.positions import apply_rope, rope_score, rope_tables
    >>> f, q, k = np.array([1.0, 0.1]), np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3, 2, 1])
    >>> cos, sin = rope_tables([10, 13], f)
    >>> rotated_q, rotated_k = apply_rope([q, k], cos, sin)
    >>> float(rotated_q @ rotated_k), float(rope_score(q, k, 3, f))
    (1.8366410, 1.8366410)

    With 8 channels the score repeats after :math:`2000 \pi` tokens, and not after a tenth of that:

    >>> from dlref.positions import rope_frequencies
    >>> wide, near = np.arange(8.0), 3 + np.array([0, 200, 2000]) * np.pi
    >>> rope_score(wide, np.ones(8), near, rope_frequencies(8))
    array([26.25221746, 24.33373563, 26.25221746])

    Keys before and after the query score differently, unless key and query are equal:

    >>> rope_score(q, k, [-3, 3], f).round(4)
    array([-2.5298, 1.8366])
    >>> rope_score(q, q, [-3, 3], f).round(4)
    array([18.9334, 18.9334])
    """
    arguments = {"q": q, "k": k, "offset": offset, "frequencies": frequencies}
    dtype, arrays = as_floats(arguments)
    a, b, cos, sin = _score_parts(list(arguments), interleaved, *arrays)
    with np.errstate(all="ignore"):
        return result(np.sum(a * cos + b * sin, axis=-1), dtype)


def _split(v: FloatArray, interleaved: bool) -> tuple[FloatArray, FloatArray]:
    """Return the first and the second elements of all pairs."""
    half = v.shape[-1] // 2
    return (v[..., ::2], v[..., 1::2]) if interleaved else (v[..., :half], v[..., half:])


def _joined(first: FloatArray, second: FloatArray, interleaved: bool) -> FloatArray:
    """Undo `_split`."""
    both = np.stack([first, second], axis=-1 if interleaved else -2)
    return both.reshape(*first.shape[:-1], 2 * first.shape[-1])


def _score_parts(
    names: list[str],
    interleaved: bool,
    q: FloatArray,
    k: FloatArray,
    r: FloatArray,
    f: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Check the arguments; return a, b, cosine and sine of each pair."""
    check_shape(names[3], f, (f.size,))
    check_flags(interleaved=interleaved)
    for name, v in zip(names[:2], (q, k), strict=True):
        check_ndim(name, v, 1)
        check_shape(name, v, (*v.shape[:-1], 2 * f.size))
    check_broadcast(names[1], k.shape[:-1], q.shape[:-1], both=True)
    batch = np.broadcast_shapes(q.shape[:-1], k.shape[:-1])
    check_broadcast(names[2], r.shape, batch, both=True)
    (q1, q2), (k1, k2) = _split(q, interleaved), _split(k, interleaved)
    with np.errstate(all="ignore"):
        return (q1 * k1 + q2 * k2, q2 * k1 - q1 * k2, *circles(r, f))


def rope_score_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    offset: npt.ArrayLike,
    frequencies: npt.ArrayLike,
    *,
    interleaved: bool = True,
) -> tuple[FloatArray, ...]:
    r"""
    Reverse mode of `rope_score`.

    Parameters
    ----------
    dout : array_like, shape (...)
        Gradient of a loss with respect to the score.
    q, k, offset, frequencies, interleaved : as in `rope_score`
        Raises the same errors.

    Returns
    -------
    dq, dk : ndarray, shapes of `q` and `k`
        Gradients of that loss with respect to query and key.
    doffset : ndarray, shape of `offset`
        With respect to the offset, as a real number.
    dfrequencies : ndarray, shape (n,)
        With respect to the frequencies.

    Notes
    -----
    **The differential.** The score :math:`y = \vec q \cdot \mat R_r \vec k` is the dot product of
    the query with the key rotated by :math:`r \theta_i`. For a fixed offset and frequencies,

    .. math:: \dd y = (\mat R_r \vec k) \cdot \dd \vec q + (\mat R_r^\top \vec q) \cdot \dd \vec k .

    **The inner product.** The score is one number with one cotangent :math:`u`, so
    :math:`\dd L = u\, \dd y`.

    **The transpose.** The transpose of a rotation rotates back:

    .. math:: \pdv{L}{\vec q} = u\, \mat R_r \vec k, \qquad
       \pdv{L}{\vec k} = u\, \mat R_{-r} \vec q .

    Offset and frequency enter through the angle alone. With :math:`g_i = u\, (b_i \cos r\theta_i -
    a_i \sin r\theta_i)`, the derivative with respect to the angle of pair i,

    .. math:: \pdv{L}{r} = \sum_i g_i\, \theta_i, \qquad \pdv{L}{\theta_i} = \sum g_i\, r .

    The second sum is over all scores, which share the frequencies.

    Examples
    --------
    The score of (1, 0) and (0, 1) is minus the sine of the angle. Its slope at 0 is −1 per radian,
    so it is −3 per unit of the offset, since the frequency is 3:

    >>> from dlref.positions import rope_score_vjp
    >>> grads = rope_score_vjp(1.0, [1.0, 0.0], [0.0, 1.0], 0.0, [3.0])
    >>> [grad.tolist() for grad in grads]
    [[0.0, 1.0], [1.0, 0.0], -3.0, [-0.0]]
    """
    arguments = {"q": q, "k": k, "offset": offset, "frequencies": frequencies}
    dtype, (u, *arrays) = as_floats({"dout": dout, **arguments})
    a, b, cos, sin = _score_parts(list(arguments), interleaved, *arrays)
    q, k, r, f = arrays
    check_shape("dout", u, np.broadcast_shapes(a.shape[:-1], r.shape))
    (q1, q2), (k1, k2) = _split(q, interleaved), _split(k, interleaved)
    u = u[..., None]
    with np.errstate(all="ignore"):
        dq = _joined(u * (k1 * cos - k2 * sin), u * (k1 * sin + k2 * cos), interleaved)
        dk = _joined(u * (q1 * cos + q2 * sin), u * (q2 * cos - q1 * sin), interleaved)
        g = u * (b * cos - a * sin)
        grads = [dq, dk, np.sum(g * f, axis=-1), g * r[..., None]]
    shapes = (q.shape, k.shape, r.shape, f.shape)
    return tuple(
        result(unbroadcast(grad, shape), dtype) for grad, shape in zip(grads, shapes, strict=True)
    )


def rope_score_jvp(primals: Any, tangents: Any, *, interleaved: bool = True) -> FloatArray:
    r"""
    Forward mode of `rope_score`.

    Parameters
    ----------
    primals : tuple (q, k, offset, frequencies) of array_like
        Query and key (..., 2n), offset (...), and frequencies (n,).
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.
    interleaved : as in `rope_score`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (...)
        Tangent of the score.

    Notes
    -----
    The angle of pair i is :math:`\phi_i = r \theta_i`, and its tangent is
    :math:`\dot\phi_i = \dot r \theta_i + r \dot\theta_i`. By the product rule

    .. math:: \dot s = \sum_i \bigl( \dot a_i \cos\phi_i + \dot b_i \sin\phi_i
       + (b_i \cos\phi_i - a_i \sin\phi_i)\, \dot\phi_i \bigr),

    where :math:`\dot a_i` and :math:`\dot b_i` are the sums of the coefficients of (q̇, k) and of
    (q, k̇).

    Examples
    --------
    >>> from dlref.positions import rope_score_jvp
    >>> point = [1.0, 0.0], [0.0, 1.0], 0.0, [3.0]
    >>> float(rope_score_jvp(point, (None, None, 1.0, None)))
    -3.0
    """
    dtype, arrays, (dq, dk, dr, df) = as_tangents(primals, tangents, count=4)
    names = [f"primals[{i}]" for i in range(4)]
    q, k, r, f = arrays
    a, b, cos, sin = _score_parts(names, interleaved, q, k, r, f)
    (da, db, _, _), (ea, eb, _, _) = (
        _score_parts(names, interleaved, *pair, r, f) for pair in ((dq, k), (q, dk))
    )
    with np.errstate(all="ignore"):
        angle = dr[..., None] * f + r[..., None] * df
        rate = (da + ea) * cos + (db + eb) * sin + (b * cos - a * sin) * angle
        return result(np.sum(rate, axis=-1), dtype)
