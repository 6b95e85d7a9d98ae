r"""T5's relative positions: one learned number for each of a few ranges of offsets."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_integers,
    as_tangents,
    check_axes,
    check_flags,
    check_shape,
    result,
)
from ._relative_bias import as_grid, diagonal_sums, diagonals


@lru_cache(maxsize=64)
def _thresholds(buckets: int, max_distance: int) -> npt.NDArray[np.int64]:
    """Return the least distance of every bucket but the first, by integer arithmetic."""
    exact = buckets // 2
    wide = buckets - exact
    starts = list(range(1, exact + 1))
    for k in range(1, wide):
        # (r / exact) ** wide >= (max_distance / exact) ** k, without fractions
        bound = max_distance**k * exact ** (wide - k)
        r = max(int(exact * (max_distance / exact) ** (k / wide)) - 2, exact)
        while r**wide < bound:
            r += 1
        starts.append(r)
    return np.array(starts, np.int64)


MOST_BUCKETS = 4096  #: their thresholds are computed with integers of many digits


def _sizes(bidirectional: bool, num_buckets: int, max_distance: int) -> tuple[int, int]:
    check_flags(bidirectional=bidirectional)
    least = 4 if bidirectional else 2
    count = as_integer("num_buckets", num_buckets, least=least, most=MOST_BUCKETS)
    count = count // 2 if bidirectional else count
    most = as_integer("max_distance", max_distance, least=count // 2 + 1, most=2**31)
    return count, most


def t5_relative_position_bucket(
    relative_position: npt.ArrayLike,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> npt.NDArray[np.int64]:
    r"""
    Bucket of an offset: exact near zero, logarithmic further away.

    Parameters
    ----------
    relative_position : array_like of int
        Position of the key minus position of the query.
    bidirectional : bool, default True
        Whether keys after the query have buckets of their own, one half of all. Otherwise
        all of them are in bucket 0.
    num_buckets : int, default 32
        Number of buckets; at least 4, or 2 if not bidirectional.
    max_distance : int, default 128
        Distance from which on everything is in the last bucket; more than the exact ones.

    Returns
    -------
    ndarray of int64, shape of `relative_position`
        Buckets from 0 to ``num_buckets - 1``.

    Raises
    ------
    TypeError
        If an argument is not integer, or `bidirectional` is not a bool.
    ValueError
        If `num_buckets` or `max_distance` is too small, or larger than 4096 or 2³¹.

    See Also
    --------
    t5_bias : The number that each bucket stands for.

    Notes
    -----
    Let n be the number of buckets of one direction (half of all, rounded down, if bidirectional), e
    = ⌊n/2⌋, and M the maximum distance. A distance r < e is a bucket of its own. The other n − e
    buckets share e to M evenly on a logarithmic scale,

    .. math::

       \text{bucket} = e + \Bigl\lfloor (n - e) \frac{\log (r / e)}{\log (M / e)} \Bigr\rfloor,
       \qquad\text{at most } n - 1,

    and keys after the query are moved up by n.

    **Thresholds.** Bucket e + k begins at the least integer r with :math:`(r/e)^{n-e} \ge (M/e)^k`.
    Multiplied out, :math:`r^{n-e} \ge M^k e^{n-e-k}` is a statement about integers, and the code
    evaluates it in integers. With logarithms in float32 an exact power may land on the wrong side.
    For the defaults the buckets 8 to 15 begin at 8, 12, 16, 23, 32, 46, 64 and 91: the last one is
    reached long before 128.

    References
    ----------
    - :cite:t:`Raffel2020`

    Examples
    --------
    >>> from dlref.positions import t5_relative_position_bucket
    >>> t5_relative_position_bucket([-1000, -128, -91, -90, -8, -7, -1, 0, 1, 7, 8, 1000])
    array([15, 15, 15, 14,  8,  7,  1,  0, 17, 23, 24, 31])
    >>> t5_relative_position_bucket([-113, -112, -16, -1, 0, 1, 50], bidirectional=False)
    array([31, 30, 16,  1,  0,  0,  0])
    """
    offset = as_integers("relative_position", relative_position)
    count, most = _sizes(bidirectional, num_buckets, max_distance)
    distance = abs(np.clip(offset, -most, most if bidirectional else 0))
    bucket = np.searchsorted(_thresholds(count, most), distance, side="right").astype(np.int64)
    if bidirectional:
        bucket = bucket + count * (offset > 0)
    return np.asarray(bucket, np.int64)[()]


def _buckets(
    name: str,
    table: FloatArray,
    T: int,
    S: int,
    bidirectional: bool,
    q_offset: int,
    max_distance: int,
) -> tuple[int, int, npt.NDArray[np.int64]]:
    """Check all arguments; return T, S and the buckets of the offsets from 1 - T to S - 1."""
    check_axes(name, table, 2)
    T, S, first = as_grid(T, S, q_offset, least=1)
    offsets = np.arange(1 - T, S) - first
    buckets = t5_relative_position_bucket(
        offsets,
        bidirectional=bidirectional,
        num_buckets=len(table),
        max_distance=max_distance,
    )
    return T, S, buckets


def t5_bias(
    table: npt.ArrayLike,
    T: int,
    S: int,
    *,
    bidirectional: bool = True,
    q_offset: int = 0,
    max_distance: int = 128,
) -> FloatArray:
    r"""
    Add to the scores a learned number for every bucket of offsets.

    Parameters
    ----------
    table : array_like, shape (num_buckets, H)
        Numbers b, for each bucket and head.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.
    bidirectional : bool, default True
        True in encoders, False in decoders.
    q_offset : int, default 0
        Position of the first query; with a cache of t keys it is t.
    max_distance : int, default 128
        Distance from which on everything is in the last bucket.

    Returns
    -------
    ndarray, shape (H, T, S)
        The bias, to be added to the scores. T5 does not divide scores by the square root of E.

    Raises
    ------
    TypeError
        If `table` is not real, a number is not an integer, or `bidirectional` is not a bool.
    ValueError
        If `table` does not have two axes, or a number is too small.

    See Also
    --------
    t5_relative_position_bucket : The buckets.
    t5_bias_vjp, t5_bias_jvp : The derivatives.
    relative_bias : A number for every single offset.

    Notes
    -----
    .. math:: B_{hij} = b_{\text{bucket}(j - i - \text{q\_offset}),\, h}

    It depends on the offset alone: it does not depend on absolute positions, and any length is
    possible, with the same number for all distant keys. The layers of a T5 stack share one table.

    There are T + S − 1 offsets, so the buckets of these are looked up and the matrix is filled
    along its diagonals: O(T S) copies and no logarithms.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Raffel2020`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import t5_bias
    >>> t5_bias(np.arange(32.0)[:, None], 3, 4)
    array([[[ 0., 17., 18., 19.],
            [ 1.,  0., 17., 18.],
            [ 2.,  1.,  0., 17.]]])
    """
    dtype, (b,) = as_floats({"table": table}, work=np.float32)
    T, S, buckets = _buckets("table", b, T, S, bidirectional, q_offset, max_distance)
    return result(diagonals(np.ascontiguousarray(b[buckets].T), T, S), dtype)


@np.errstate(all="ignore")
def t5_bias_vjp(
    dout: npt.ArrayLike,
    table: npt.ArrayLike,
    T: int,
    S: int,
    *,
    bidirectional: bool = True,
    q_offset: int = 0,
    max_distance: int = 128,
) -> FloatArray:
    r"""
    Reverse mode of `t5_bias`: sums over all pairs in a bucket.

    Parameters
    ----------
    dout : array_like, shape (H, T, S)
        Gradient of a loss with respect to the bias.
    table : array_like, shape (num_buckets, H)
        The table. Only its shape and dtype matter.
    T, S, bidirectional, q_offset, max_distance : as in `t5_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (num_buckets, H)
        Gradient of that loss with respect to the table.

    Notes
    -----
    .. math:: \pdv{L}{b_{ch}} = \sum_{ij} U_{hij}\, [\text{bucket}(j - i - \text{q\_offset}) = c]

    The sum is taken along diagonals first, and then over the diagonals of a bucket, both in
    float64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import t5_bias_vjp
    >>> grad = t5_bias_vjp(np.ones((1, 3, 4)), np.zeros((32, 1)), 3, 4)
    >>> grad[[0, 1, 2, 17, 18, 19], 0]
    array([3., 2., 1., 3., 2., 1.])
    """
    dtype, (u, b) = as_floats({"dout": dout, "table": table}, work=np.float32)
    T, S, buckets = _buckets("table", b, T, S, bidirectional, q_offset, max_distance)
    check_shape("dout", u, (b.shape[1], T, S))
    grad = np.zeros(b.shape)
    np.add.at(grad, buckets, diagonal_sums(np.ascontiguousarray(u)).T)
    return result(grad, dtype)


def t5_bias_jvp(
    primals: Any,
    tangents: Any,
    T: int,
    S: int,
    *,
    bidirectional: bool = True,
    q_offset: int = 0,
    max_distance: int = 128,
) -> FloatArray:
    r"""
    Forward mode of `t5_bias`: the bias of the tangent.

    Parameters
    ----------
    primals : array_like, shape (num_buckets, H)
        The table.
    tangents : array_like or None
        Its tangent; None is zero.
    T, S, bidirectional, q_offset, max_distance : as in `t5_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (H, T, S)
        Tangent of the bias.

    Notes
    -----
    The map looks numbers up, so it is linear in the table:

    .. math::

        \dot B_{hij} = \dot b_{\text{bucket}(j - i - \text{q\_offset}),\, h} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import t5_bias_jvp
    >>> t5_bias_jvp(np.zeros((32, 1)), np.arange(32.0)[:, None], 1, 4, q_offset=2)
    array([[[ 2.,  1.,  0., 17.]]])
    """
    dtype, (b,), (moved,) = as_tangents(primals, tangents, count=1)
    T, S, buckets = _buckets("primals", b, T, S, bidirectional, q_offset, max_distance)
    return result(diagonals(np.ascontiguousarray(moved[buckets].T), T, S), dtype)
