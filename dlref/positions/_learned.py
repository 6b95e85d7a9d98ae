r"""Learned positions: a table of parameters with a row for each position."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_rows,
    check_constant,
    check_shape,
    entries,
    result,
)
from .._math.scatter import add_rows


def learned_positions(table: npt.ArrayLike, positions: npt.ArrayLike) -> FloatArray:
    r"""
    Look up a row of a table of parameters for each position.

    Parameters
    ----------
    table : array_like, shape (L, D)
        One vector per position; L is the maximum length.
    positions : array_like of int, shape (...)
        Positions p from 0 to L − 1, in any order, repeated or not.

    Returns
    -------
    ndarray, shape (..., D)
        The vectors, to be added to the embeddings of the tokens.

    Raises
    ------
    TypeError
        If `table` is not real, or `positions` not integer.
    ValueError
        If `table` does not have two axes, or a position is negative or beyond the table.

    See Also
    --------
    learned_positions_vjp : The gradient of the table.
    sinusoidal : A table without parameters, of any length.

    Notes
    -----
    .. math:: y_{nd} = W_{p_n d} = \sum_l [p_n = l]\, W_{l d}

    Reading rows and multiplying by a matrix of ones and zeros (*one-hot*) are the same linear map.
    The first costs D per position, the second L D; the table has the same size either way.

    The table has L D parameters and no row for position L: such a model has a maximum length,
    which the formula of the sinusoids does not have. Negative positions, which NumPy would count
    from the end, are an error.

    **In a model.** Models add the rows to the token embeddings, scaled or not, may normalize the
    sum, and apply dropout to it. Dropout of the sum hides parts of a token together with the same
    parts of its place. It sets elements to zero with probability p and divides the others by 1 − p;
    at inference it does nothing.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import learned_positions
    >>> table = np.array([[0, 1], [10, 11], [20, 21]])
    >>> learned_positions(table, [2, 0, 2])
    array([[20., 21.],
           [ 0.,  1.],
           [20., 21.]])
    >>> np.eye(3)[[2, 0, 2]] @ table  # the same with one-hot rows
    array([[20., 21.],
           [ 0.,  1.],
           [20., 21.]])
    """
    dtype, (W,) = as_floats({"table": table}, work=np.float32)
    return result(W[as_rows(("table", "positions"), W, positions)], dtype)


def learned_positions_vjp(
    dout: npt.ArrayLike, table: npt.ArrayLike, positions: npt.ArrayLike
) -> FloatArray:
    r"""
    Reverse mode of `learned_positions`: gradients are added to the rows that were read.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Gradient of a loss with respect to the vectors.
        Raises the same errors as `learned_positions`.
    table : array_like, shape (L, D)
        The table. Only its shape and dtype matter.
    positions : array_like of int, shape (...)
        Positions, constants.

    Returns
    -------
    ndarray, shape (L, D)
        Gradient of that loss with respect to the table.

    Notes
    -----
    From :math:`y_{nd} = \sum_l [p_n = l]\, W_{ld}`,

    .. math:: \pdv{L}{W_{ld}} = \sum_n U_{nd}\, [p_n = l] .

    Rows that were never read have gradient zero, but the array is dense. Rows read several times
    get the sum, accumulated in float64.

    Examples
    --------
    >>> from dlref.positions import learned_positions_vjp
    >>> learned_positions_vjp([[1], [2], [4]], [[0.0]] * 4, [2, 0, 2])
    array([[2.],
           [0.],
           [5.],
           [0.]])
    """
    dtype, (u, W) = as_floats({"dout": dout, "table": table}, work=np.float32)
    rows = as_rows(("table", "positions"), W, positions)
    check_shape("dout", u, (*rows.shape, W.shape[1]))
    return result(add_rows(u, rows, W), dtype)


def learned_positions_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of `learned_positions`: rows of the table's tangent.

    Parameters
    ----------
    primals : tuple (table, positions)
        Table (L, D) and integer positions (...).
        Raises the same errors as `learned_positions`.
    tangents : tuple (dtable, None)
        Tangent of the table; None is zero.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the vectors.

    Notes
    -----
    The map is linear in the table:

    .. math::

        \dot y_{nd} = \dot W_{p_n d} .

    Examples
    --------
    >>> from dlref.positions import learned_positions_jvp
    >>> learned_positions_jvp(([[0.0], [0.0]], [1, 1, 0]), ([[1.0], [3.0]], None))
    array([[3.],
           [3.],
           [1.]])
    """
    points, directions = entries("primals", primals, 2), entries("tangents", tangents, 2)
    check_constant("tangents[1]", directions.pop("tangents[1]"))
    tangent_arguments = {k: tangent for k, tangent in directions.items() if tangent is not None}
    dtype, (W, *rest) = as_floats(
        {"primals[0]": points["primals[0]"], **tangent_arguments}, work=np.float32
    )
    rows = as_rows(("primals[0]", "primals[1]"), W, points["primals[1]"])
    moved = rest[0] if rest else np.zeros_like(W)
    check_shape("tangents[0]", moved, W.shape)
    return result(moved[rows], dtype)
