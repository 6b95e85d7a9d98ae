r"""
A learned bias for every offset.

A matrix whose element i, j depends on j − i only is a Toeplitz matrix.  Its T S elements are
T + S − 1 numbers, each along one diagonal; the gradient of a number is the sum along its diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_shape,
    check_size,
    result,
)
from .._core.jit import kernel
from .._core.threads import over_rows


@kernel
def _copy_diagonals(start: int, stop: int, table: FloatArray, T: int, out: FloatArray) -> None:
    for r in range(start, stop):
        first = T - 1 - r % T
        source, row = table[r // T], out[r]
        for j in range(row.size):
            row[j] = source[first + j]


@kernel
def _add_diagonals(start: int, stop: int, dout: FloatArray, T: int, out: FloatArray) -> None:
    S = dout.shape[1]
    for h in range(start, stop):
        for i in range(T):
            row, to = dout[h * T + i], out[h, T - 1 - i : T - 1 - i + S]
            for j in range(S):
                to[j] += np.float64(row[j])


def as_grid(T: int, S: int, q_offset: int, *, least: int = 0) -> tuple[int, int, int]:
    """Return the numbers of queries and keys, at least `least`, and where the queries begin."""
    T, S = as_integer("T", T, least=least), as_integer("S", S, least=least)
    check_size(T=T, S=S)
    return T, S, as_integer("q_offset", q_offset, least=0, most=MAX_OFFSET)


def diagonals(table: FloatArray, T: int, S: int) -> FloatArray:
    """Return the matrices (..., T, S) whose element i, j is entry j - i + T - 1 of the table."""
    out = np.empty((*table.shape[:-1], T, S), table.dtype)
    if out.size:
        rows = np.ascontiguousarray(table).reshape(-1, table.shape[-1])
        matrix = out.reshape(-1, S)
        over_rows(_copy_diagonals, len(matrix), S / 4, rows, T, matrix)
    return out


def diagonal_sums(dout: FloatArray) -> FloatArray:
    """Return the sums along all diagonals of matrices (..., T, S), in float64."""
    T, S = dout.shape[-2:]
    out = np.zeros((*dout.shape[:-2], max(T + S - 1, 0)))
    if dout.size:
        sums = out.reshape(-1, T + S - 1)
        over_rows(_add_diagonals, len(sums), T * S / 2, dout.reshape(-1, S), T, sums)
    return out


def _sizes(name: str, table: FloatArray, T: int, S: int) -> tuple[int, int]:
    T, S, _ = as_grid(T, S, 0, least=1)
    check_ndim(name, table, 1)
    check_shape(name, table, (*table.shape[:-1], T + S - 1))
    return T, S


def relative_bias(table: npt.ArrayLike, T: int, S: int) -> FloatArray:
    r"""
    Add to the scores a number that every offset has of its own.

    Parameters
    ----------
    table : array_like, shape (..., H, T + S - 1)
        Numbers b, for each head and offset; entry 0 belongs to the offset 1 − T.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias; its matrices are constant along diagonals.

    Raises
    ------
    TypeError
        If `table` is not real, or a number is not an integer.
    ValueError
        If `T` or `S` is less than 1, or the last axis of `table` is not T + S − 1 long.

    See Also
    --------
    relative_bias_vjp, relative_bias_jvp : The derivatives.
    t5_bias : One number for a range of offsets.
    alibi_bias : A fixed number.

    Notes
    -----
    .. math:: B_{hij} = b_{h,\, j - i + T - 1}

    The offset j − i runs from 1 − T to S − 1, hence T + S − 1 numbers per head. (A table of
    that many entries *per channel* would be something else: offsets count tokens.) For keys that
    began t tokens earlier, T and S are the same and the meaning of the table shifts by t.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Shaw2018`
    - :cite:t:`Raffel2020`

    Examples
    --------
    >>> from dlref.positions import relative_bias
    >>> relative_bias([-2, -1, 0, 1, 2], 3, 3)
    array([[ 0.,  1.,  2.],
           [-1.,  0.,  1.],
           [-2., -1.,  0.]])
    """
    dtype, (b,) = as_floats({"table": table}, work=np.float32)
    T, S = _sizes("table", b, T, S)
    return result(diagonals(b, T, S), dtype)


def relative_bias_vjp(dout: npt.ArrayLike, table: npt.ArrayLike, T: int, S: int) -> FloatArray:
    r"""
    Reverse mode of `relative_bias`: sums along the diagonals.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Gradient of a loss with respect to the bias.
    table : array_like, shape (..., H, T + S - 1)
        The table. Only its shape and dtype matter.
    T, S : as in `relative_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `table`
        Gradient of that loss with respect to the table.

    Notes
    -----
    Entry r of the table is read by all pairs with j − i + T − 1 = r, a diagonal:

    .. math:: \pdv{L}{b_{hr}} = \sum_i U_{h, i,\, r + i - T + 1} ,

    over those i for which the last index is from 0 to S − 1, with U for the cotangent.

    Examples
    --------
    >>> from dlref.positions import relative_bias_vjp
    >>> relative_bias_vjp([[1, 2, 4], [8, 16, 32]], [0.0, 0.0, 0.0, 0.0], 2, 3)
    array([ 8., 17., 34.,  4.])
    """
    dtype, (u, b) = as_floats({"dout": dout, "table": table}, work=np.float32)
    T, S = _sizes("table", b, T, S)
    check_shape("dout", u, (*b.shape[:-1], T, S))
    return result(diagonal_sums(np.ascontiguousarray(u)), dtype)


def relative_bias_jvp(primals: Any, tangents: Any, T: int, S: int) -> FloatArray:
    r"""
    Forward mode of `relative_bias`: the bias of the tangent.

    Parameters
    ----------
    primals : array_like, shape (..., H, T + S - 1)
        The table.
    tangents : array_like or None
        Its tangent; None is zero.
    T, S : as in `relative_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Tangent of the bias.

    Notes
    -----
    The map copies numbers, so it is linear:

    .. math::

        \dot B_{hij} = \dot b_{h,\, j - i + T - 1} .

    Examples
    --------
    >>> from dlref.positions import relative_bias_jvp
    >>> relative_bias_jvp([5.0, 5.0, 5.0], [-1, 0, 1], 2, 2)
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    dtype, (b,), (moved,) = as_tangents(primals, tangents, count=1)
    T, S = _sizes("primals", b, T, S)
    return result(diagonals(moved, T, S), dtype)
