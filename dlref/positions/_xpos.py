r"""
A rotation with a scale: scores rotate with the offset and decay with it. Queries grow with the
position and keys shrink, so that the product of both factors depends on the distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_even,
    as_floats,
    as_number,
    check_flags,
    check_shape,
    check_size,
    result,
)
from ._rotary import checked_tables, rotated, with_constants


def _tables(
    names: list[str],
    x: FloatArray,
    constants: list[npt.ArrayLike],
    inverse: bool,
    rotary_dim: int | None,
) -> list[FloatArray]:
    """Check the arguments; return cosine and sine times the scale, in float64."""
    check_flags(inverse=inverse)
    cos, sin, scales = constants
    cos, sin = checked_tables((names[0], names[1], names[2]), x, cos, sin, rotary_dim)
    _, (factor,) = as_floats({names[3]: scales})
    check_shape(names[3], factor, cos.shape)
    with np.errstate(all="ignore"):
        factor = 1 / factor if inverse else factor
        return [cos * factor, sin * factor]


def xpos_scales(
    positions: npt.ArrayLike, dim: int, *, gamma: float = 0.4, scale_base: float = 512.0
) -> FloatArray:
    r"""
    Factor of every pair of channels at every position.

    Parameters
    ----------
    positions : array_like, shape (...)
        Positions p, in tokens, from any origin that queries and keys share.
    dim : int
        Number d of channels that are rotated, even.
    gamma : float, default 0.4
        Offset :math:`\gamma` of the decay, positive: the greater, the slower it is.
    scale_base : float, default 512.0
        Number of tokens b after which pair i has decayed by :math:`\zeta_i`, positive.

    Returns
    -------
    ndarray, shape (..., d / 2)
        Factors :math:`\zeta_i^{p / b}`.

    Raises
    ------
    TypeError
        If `positions` is not real, or a number none.
    ValueError
        If `dim` is odd or less than 2, `gamma` is not positive and finite, or `scale_base` is not
        positive.

    See Also
    --------
    apply_xpos : The rotation with these factors.

    Notes
    -----
    .. math:: \zeta_i = \frac{2i/d + \gamma}{1 + \gamma}, \qquad i = 0, \dots, d/2 - 1

    They rise from :math:`\gamma / (1 + \gamma)` for the fast pair 0 towards 1 for the slow ones:
    fast pairs encode details of the neighborhood, and fade first.

    Only differences of positions matter. With an origin in the middle of the text the factors
    stay close to 1; at :math:`p = 36\,000` from the origin the smallest is no longer a
    normal float32.

    References
    ----------
    - :cite:t:`Sun2022`

    Examples
    --------
    >>> from dlref.positions import xpos_scales
    >>> xpos_scales([0, 512, 1024], 4, gamma=0.5)
    array([[1.        , 1.        ],
           [0.33333333, 0.66666667],
           [0.11111111, 0.44444444]])
    """
    dtype, (p,) = as_floats({"positions": positions})
    dim = as_even("dim", dim, least=2)
    check_size(positions=p.size, dim=dim)
    gamma = as_number("gamma", gamma, above=0.0, most=np.finfo(float).max)
    base = as_number("scale_base", scale_base, above=0.0)
    decay = np.log((np.arange(0, dim, 2) / dim + gamma) / (1.0 + gamma))
    with np.errstate(all="ignore"):
        return result(np.exp(p[..., None] / base * decay), dtype)


def apply_xpos(
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    scales: npt.ArrayLike,
    *,
    inverse: bool = False,
    interleaved: bool = True,
    rotary_dim: int | None = None,
) -> FloatArray:
    r"""
    Rotate pairs of channels and scale them by a number to the power of the position.

    Parameters
    ----------
    x : array_like, shape (..., T, E)
        Queries or keys.
    cos, sin : array_like, shape (T, R / 2) or (..., T, R / 2)
        Tables of `rope_tables`.
    scales : array_like, shape of `cos`
        Table of `xpos_scales`.
    inverse : bool, default False
        False for queries; True, the reciprocal of the scales, for keys.
    interleaved : bool, default True
        Whether pair i consists of the channels 2i and 2i + 1, or else of i and i + R/2.
    rotary_dim : int or None
        Number R of channels that take part, even; None is all of them. The rest is copied.

    Returns
    -------
    ndarray, shape (..., T, E)
        Rotated and scaled vectors, of the dtype of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `rotary_dim` is not an
        integer, or `inverse` or `interleaved` is not a bool.
    ValueError
        If `rotary_dim` (E if it is None) is odd, it is more than E, or the shapes do not fit.

    See Also
    --------
    apply_rope : The rotation alone, with its derivation.
    xpos_scales : The scales.
    apply_xpos_vjp, apply_xpos_jvp : The products with the Jacobian.

    Notes
    -----
    A pair as a complex number, in a query at position m and a key at position n:

    .. math::

        z_i\, \zeta_i^{m/b} e^{\mathrm i m \theta_i}, \qquad
        w_i\, \zeta_i^{-n/b} e^{\mathrm i n \theta_i}

    so that the score is `rope_score` with a factor in each term,

    .. math:: \operatorname{Re} \sum_i \bar z_i w_i\, e^{\mathrm i r \theta_i}\, \zeta_i^{-r/b},
       \qquad r = n - m .

    Under a causal mask r is at most 0 and every factor at most 1: the bound
    :math:`\abs{z_i} \abs{w_i}\, \zeta_i^{-r/b}` of each term decays with the distance, for any
    query and key, which plain rotation does not achieve (`rope_score`). For keys *after* the query
    the factors are greater than 1 and grow without limit, so this is for decoders only.

    A scale commutes with the rotation of its pair; the code multiplies both tables by it.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Sun2022`

    Examples
    --------
    The score of equal vectors, with one pair that does not rotate: it halves every 512 tokens.

    >>> import numpy as np
    >>> from dlref.positions import apply_xpos, rope_tables, xpos_scales
    >>> p = np.array([0, 512, 1024])
    >>> tables = *rope_tables(p, [0.0]), xpos_scales(p, 2, gamma=1.0)
    >>> q = apply_xpos(np.ones((3, 2)), *tables)
    >>> k = apply_xpos(np.ones((3, 2)), *tables, inverse=True)
    >>> q @ k.T
    array([[2. , 4. , 8. ],
           [1. , 2. , 4. ],
           [0.5, 1. , 2. ]])
    """
    dtype, (v,) = as_floats({"x": x}, work=np.float32)
    names = ["x", "cos", "sin", "scales"]
    cos, sin = _tables(names, v, [cos, sin, scales], inverse, rotary_dim)
    return result(rotated(v, cos, sin, 1.0, interleaved), dtype)


def apply_xpos_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    scales: npt.ArrayLike,
    *,
    inverse: bool = False,
    interleaved: bool = True,
    rotary_dim: int | None = None,
) -> FloatArray:
    r"""
    Reverse mode of `apply_xpos`: rotation by the negative angle, and the same scale.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the result.
    x : array_like, shape (..., T, E)
        Queries or keys. Only their shape and dtype matter.
    cos, sin : array_like, shape (T, R / 2) or (..., T, R / 2)
        Tables of `rope_tables`, constants.
    scales : array_like, shape of `cos`
        Table of `xpos_scales`, constant.
    inverse, interleaved, rotary_dim : as in `apply_xpos`
        The same.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `dout` does not have the shape of `x`, or `apply_xpos` would refuse.

    Notes
    -----
    The Jacobian of a pair is :math:`c_i \mat D_{\phi_i}`, a scale times a rotation
    (:func:`rope_matrix` has :math:`\mat D`), so

    .. math::

        \pdv{L}{\vec x_i} = (c_i \mat D_{\phi_i})^\top\, \vec u_i = c_i \mat D_{-\phi_i}\, \vec u_i,
        \qquad c_i = \zeta_i^{p/b}, \quad \phi_i = p\, \theta_i .

    In the transpose the angle changes its sign and the scale does not. (With ``inverse`` the scale
    is :math:`1 / c_i`.) It is therefore not the inverse map, as it is for `apply_rope`.

    Examples
    --------
    >>> from dlref.positions import apply_xpos, apply_xpos_vjp
    >>> x, tables = [[3.0, 4.0]], ([[0.6]], [[0.8]], [[0.5]])
    >>> apply_xpos_vjp(apply_xpos(x, *tables), x, *tables)
    array([[0.75, 1.  ]])
    """
    dtype, (u, v) = as_floats({"dout": dout, "x": x}, work=np.float32)
    names = ["x", "cos", "sin", "scales"]
    cos, sin = _tables(names, v, [cos, sin, scales], inverse, rotary_dim)
    check_shape("dout", u, v.shape)
    return result(rotated(u, cos, sin, -1.0, interleaved), dtype)


def apply_xpos_jvp(
    primals: Any,
    tangents: Any,
    *,
    inverse: bool = False,
    interleaved: bool = True,
    rotary_dim: int | None = None,
) -> FloatArray:
    r"""
    Forward mode of `apply_xpos`: the tangent is rotated and scaled.

    Parameters
    ----------
    primals : tuple (x, cos, sin, scales) of array_like
        Queries or keys (..., T, E) and the tables.
    tangents : tuple (dx, None, None, None)
        Tangent of `x`; None is zero. The tables are constants.
    inverse, interleaved, rotary_dim : as in `apply_xpos`
        The same.

    Returns
    -------
    ndarray, shape of x
        Tangent of the result.

    Raises
    ------
    TypeError
        If an argument is not a tuple, or an entry is not a real array.
    ValueError
        If the tangent does not have the shape of x, a table has one, or `apply_xpos` would refuse.

    Notes
    -----
    The map is linear, so the tangent of a pair is rotated and scaled as the pair is, with
    :math:`c_i` and :math:`\phi_i` of :func:`apply_xpos_vjp`:

    .. math::

        \dot{\vec y}_i = c_i \mat D_{\phi_i}\, \dot{\vec x}_i .

    Examples
    --------
    >>> from dlref.positions import apply_xpos_jvp
    >>> tables = [[0.6]], [[0.8]], [[0.5]]
    >>> apply_xpos_jvp(([[3.0, 4.0]], *tables), ([[1.0, 0.0]], None, None, None))
    array([[0.3, 0.4]])
    """
    dtype, v, moved, constants = with_constants(primals, tangents, 4)
    names = [f"primals[{i}]" for i in range(4)]
    cos, sin = _tables(names, v, constants, inverse, rotary_dim)
    return result(rotated(moved, cos, sin, 1.0, interleaved), dtype)
