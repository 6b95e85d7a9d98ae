r"""KERPLE: a logarithmic bias of the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_positive,
    check_shape,
    choice,
    result,
)
from ._kernels.diagonals import distances
from ._relative_bias import as_grid, diagonal_sums, diagonals


def _check_kerple(names: list[str], r1: FloatArray, r2: FloatArray, kind: str) -> None:
    choice("kind", kind, ("log", "power"))
    check_shape(names[1], r2, r1.shape)
    check_positive(names[0], r1)
    check_positive(names[1], r2)


def _kerple(
    r1: FloatArray, r2: FloatArray, d: FloatArray, kind: str
) -> tuple[FloatArray, FloatArray]:
    """Return the partial derivatives with respect to r1 and r2 at the distances d."""
    r1, r2 = r1[..., None], r2[..., None]
    with np.errstate(all="ignore"):
        if kind == "log":
            return -np.log1p(r2 * d), -r1 * d / (1 + r2 * d)
        power = d**r2
        return -power, -r1 * power * np.log(np.where(d == 0, 1.0, d))


def kerple_bias(
    r1: npt.ArrayLike,
    r2: npt.ArrayLike,
    T: int,
    S: int,
    *,
    kind: str = "log",
    q_offset: int = 0,
    symmetric: bool = False,
) -> FloatArray:
    r"""
    Penalty of the scores that grows as the logarithm, or a power, of the distance.

    Parameters
    ----------
    r1 : array_like, shape (..., H)
        Size :math:`r_1` of the penalty in each head, positive.
    r2 : array_like, shape of `r1`
        Scale :math:`r_2` inside the logarithm, or the exponent, positive.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.
    kind : {"log", "power"}
        Which function of the distance.
    q_offset : int, default 0
        Position of the first query; with a cache of t keys it is t.
    symmetric : bool, default False
        Whether keys after the query are penalized, too; otherwise their bias is 0.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias, to be added to the scores before the softmax.

    Raises
    ------
    TypeError
        If an array is not real, a number is not an integer, or `symmetric` is not a bool.
    ValueError
        If `r1` or `r2` is not positive, their shapes differ, a number is too small, or the
        kind unknown.

    See Also
    --------
    kerple_bias_vjp, kerple_bias_jvp : The derivatives.
    alibi_bias : The power 1, with a fixed size.

    Notes
    -----
    With the distance :math:`d_{ij}` from query to key of `alibi_bias`, 0 for keys after the query
    unless `symmetric`,

    .. math:: B_{hij} = -r_1 \log(1 + r_2\, d_{ij}) \qquad\text{or}\qquad -r_1\, d_{ij}^{\,r_2} .

    **Why a kernel.** Let `symmetric` be True, so that d is the absolute distance; a causal mask
    then uses the lower triangle of the same matrix. Both are mixtures of kernels that are positive
    definite in the two positions, :math:`e^{-a d}` and :math:`\cos(d\, t)`, minus a constant:

    .. math::

        -\log(1 + r_2\, d) = \int_0^\infty \bigl( e^{-r_2 d\, t} - 1 \bigr) \frac{e^{-t}}{t}\, dt,
        \qquad
        -d^{\,r_2} \propto \int_0^\infty \frac{\cos(d\, t) - 1}{t^{1 + r_2}}\, dt \quad (r_2 < 2).

    In a quadratic form :math:`\sum_{ij} c_i c_j B_{ij}` with :math:`\sum_i c_i = 0` the constants
    cancel and the remainder is not negative: the bias is a *conditionally positive definite*
    kernel, which is where the name KERPLE comes from (:cite:t:`Chi2022`; it also holds for
    :math:`r_2 = 2`, and for no greater power). The remainder is even positive, unless all c are 0
    or the power is 2. For any number of positions a large enough constant C then makes
    :math:`B + C` positive definite, so that it consists of inner products of features
    :math:`\vec\phi_i` of the positions. No softmax sees the constant, and the bias acts like
    channels that are appended to queries and keys:

    .. math::

        B_{ij} + C = \vec\phi_i \cdot \vec\phi_j \quad\Rightarrow\quad
        \frac{e^{\vec q_i \cdot \vec k_j + B_{ij}}}{\sum_m e^{\vec q_i \cdot \vec k_m + B_{im}}}
        = \frac{e^{(\vec q_i, \vec\phi_i) \cdot (\vec k_j, \vec\phi_j)}}
            {\sum_m e^{(\vec q_i, \vec\phi_i) \cdot (\vec k_m, \vec\phi_m)}} .

    The weight is multiplied by :math:`e^B`, that is :math:`(1 + r_2 d)^{-r_1}`: a power law. It
    forgets far less than ALiBi, whose factor is an exponential. At a distance of 1000 the weight is
    divided by 1001 with :math:`r_1 = r_2 = 1`, and by :math:`10^{27}` with the slope 1/16 of ALiBi.

    There are T + S − 1 distances; the function is evaluated once for each.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Chi2022`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import alibi_bias, kerple_bias
    >>> np.exp(kerple_bias([1.0], [1.0], 1, 5, q_offset=4)).round(4)
    array([[[0.2   , 0.25  , 0.3333, 0.5   , 1.    ]]])

    The power 1 is ALiBi:

    >>> power = kerple_bias([0.5], [1.0], 4, 4, kind="power")
    >>> bool(np.all(power == alibi_bias([0.5], 4, 4)))
    True
    """
    dtype, (a, b) = as_floats({"r1": r1, "r2": r2})
    _check_kerple(["r1", "r2"], a, b, kind)
    T, S, first = as_grid(T, S, q_offset, least=1)
    d = distances(T, S, first, symmetric=symmetric)
    with np.errstate(all="ignore"):
        values = a[..., None] * _kerple(a, b, d, kind)[0]
    return result(diagonals(values + 0.0, T, S), dtype)


def kerple_bias_vjp(
    dout: npt.ArrayLike,
    r1: npt.ArrayLike,
    r2: npt.ArrayLike,
    T: int,
    S: int,
    *,
    kind: str = "log",
    q_offset: int = 0,
    symmetric: bool = False,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of `kerple_bias`.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Gradient of a loss with respect to the bias.
    r1, r2, T, S, kind, q_offset, symmetric : as in `kerple_bias`
        The same.

    Returns
    -------
    dr1 : ndarray, shape of `r1`
        Gradient of that loss with respect to the sizes.
    dr2 : ndarray, shape of `r1`
        With respect to the scales, or exponents.

    Raises
    ------
    TypeError
        If an array is not real, or a number is not an integer.
    ValueError
        If the shapes do not fit, or `kerple_bias` would refuse.

    Notes
    -----
    The bias depends on the distance alone, so U is summed along diagonals first, to
    :math:`G_d`. Then, for the two kinds,

    .. math::

       \pdv{L}{r_1} &= -\sum_d G_d \log(1 + r_2 d), &
       \pdv{L}{r_2} &= -\sum_d G_d\, \frac{r_1 d}{1 + r_2 d}; \\
       \pdv{L}{r_1} &= -\sum_d G_d\, d^{\,r_2}, &
       \pdv{L}{r_2} &= -\sum_d G_d\, r_1\, d^{\,r_2} \log d .

    The last term is 0 at d = 0, its limit.

    Examples
    --------
    >>> from dlref.positions import kerple_bias_vjp
    >>> dr1, dr2 = kerple_bias_vjp([[[8.0, 4.0, 0.0]]], [3.0], [1.0], 1, 3, q_offset=2)
    >>> dr2
    array([-22.])
    """
    dtype, (u, a, b) = as_floats({"dout": dout, "r1": r1, "r2": r2})
    _check_kerple(["r1", "r2"], a, b, kind)
    T, S, first = as_grid(T, S, q_offset, least=1)
    d = distances(T, S, first, symmetric=symmetric)
    check_shape("dout", u, (*a.shape, T, S))
    sums = diagonal_sums(np.ascontiguousarray(u))
    with np.errstate(all="ignore"):
        da, db = (np.sum(sums * partial, axis=-1) for partial in _kerple(a, b, d, kind))
    return result(da, dtype), result(db, dtype)


def kerple_bias_jvp(
    primals: Any,
    tangents: Any,
    T: int,
    S: int,
    *,
    kind: str = "log",
    q_offset: int = 0,
    symmetric: bool = False,
) -> FloatArray:
    r"""
    Forward mode of `kerple_bias`.

    Parameters
    ----------
    primals : tuple (r1, r2) of array_like
        Parameters (..., H), positive.
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.
    T, S, kind, q_offset, symmetric : as in `kerple_bias`
        The same.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Tangent of the bias.

    Raises
    ------
    TypeError
        If an argument is not a tuple, or an entry is not a real array.
    ValueError
        If the shapes do not fit, or `kerple_bias` would refuse.

    Notes
    -----
    .. math:: \dot B = \pdv{B}{r_1}\, \dot r_1 + \pdv{B}{r_2}\, \dot r_2

    The partial derivatives are :math:`-\log(1 + r_2 d)` and :math:`-r_1 d / (1 + r_2 d)`, or for
    the power :math:`-d^{\,r_2}` and :math:`-r_1\, d^{\,r_2} \log d`, at the distance d of the pair.

    Examples
    --------
    >>> from dlref.positions import kerple_bias_jvp
    >>> kerple_bias_jvp(([3.0], [1.0]), (None, [1.0]), 1, 3, q_offset=2)
    array([[[-2. , -1.5,  0. ]]])
    """
    dtype, (a, b), (da, db) = as_tangents(primals, tangents, count=2)
    _check_kerple(["primals[0]", "primals[1]"], a, b, kind)
    T, S, first = as_grid(T, S, q_offset, least=1)
    d = distances(T, S, first, symmetric=symmetric)
    by_a, by_b = _kerple(a, b, d, kind)
    with np.errstate(all="ignore"):
        values = by_a * da[..., None] + by_b * db[..., None]
    return result(diagonals(values + 0.0, T, S), dtype)
