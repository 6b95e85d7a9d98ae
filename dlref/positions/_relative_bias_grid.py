r"""A learned bias for every offset in a window of an image, as in Swin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_pattern,
    check_shape,
    check_size,
    result,
)


def _index(name: str, table: FloatArray, height: int, width: int) -> npt.NDArray[np.int64]:
    """Check the arguments; return the row of the table for each pair of places."""
    h, w = as_integer("height", height, least=1), as_integer("width", width, least=1)
    check_size(height=h**2, width=w**2)
    check_pattern(name, table, ((2 * h - 1) * (2 * w - 1), "H"))
    row, column = np.divmod(np.arange(h * w), w)
    down = row[:, None] - row + h - 1  # query - key
    across = column[:, None] - column + w - 1
    return np.asarray(down * (2 * w - 1) + across, np.int64)


def relative_bias_grid(table: npt.ArrayLike, height: int, width: int) -> FloatArray:
    r"""
    Add to the scores a number that every offset in a grid has of its own.

    Swin attends within windows of an image, and BEiT in a whole one, with such a bias.

    Parameters
    ----------
    table : array_like, shape ((2 height - 1) (2 width - 1), H)
        Numbers b, a row for each offset and a column for each head.
    height, width : int
        Rows and columns of the window, at least 1; N = `height` `width` places.

    Returns
    -------
    ndarray, shape (H, N, N)
        The bias of each query place and key place, both counted row by row.

    Raises
    ------
    TypeError
        If `table` is not real, or a number is not an integer.
    ValueError
        If `height` or `width` is less than 1, or the shape does not fit.

    See Also
    --------
    relative_bias_grid_vjp, relative_bias_grid_jvp : The derivatives.
    relative_bias : One axis, and the opposite sign of the offset.

    Notes
    -----
    For a query at row r and column c, a key at row :math:`r'` and column :math:`c'`, a
    window of h rows and w columns,

    .. math:: B_{k,\, (r, c),\, (r', c')} = b_{(r - r' + h - 1)(2 w - 1) + (c - c' + w - 1),\, k} .

    The offset is the query's place minus the key's; both parts are shifted to start at 0 and
    counted as one number. There are (2h − 1)(2w − 1) offsets for (h w)² pairs: each matrix is
    constant on pairs with the same offset (block Toeplitz with Toeplitz blocks).

    **Conventions.** The parameter of Swin has the offsets first and the heads last, as here.
    :func:`relative_bias` has heads first, and the key's position minus the query's.

    References
    ----------
    - :cite:t:`LiuLin2021`

    Examples
    --------
    A window of one row and two columns. The entries belong to the offsets −1, 0 and 1:

    >>> from dlref.positions import relative_bias_grid
    >>> relative_bias_grid([[-1.0], [0.0], [1.0]], 1, 2)
    array([[[ 0., -1.],
            [ 1.,  0.]]])
    """
    dtype, (b,) = as_floats({"table": table}, work=np.float32)
    where = _index("table", b, height, width)
    return result(np.ascontiguousarray(np.moveaxis(b[where], -1, 0)), dtype)


def relative_bias_grid_vjp(
    dout: npt.ArrayLike, table: npt.ArrayLike, height: int, width: int
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the bias of a grid: sums of pairs with equal offsets.

    Parameters
    ----------
    dout : array_like, shape (H, N, N)
        Cotangent of the bias.
    table : array_like, shape ((2 height - 1) (2 width - 1), H)
        The table. Only its shape and dtype matter.
    height, width : as in `relative_bias_grid`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `table`
        Gradient with respect to the table.

    Notes
    -----
    An entry is read by all pairs with its offset :math:`(\delta, \gamma)`. With U for the
    cotangent,

    .. math:: \pdv{L}{b_{(\delta + h - 1)(2 w - 1) + \gamma + w - 1,\, k}} = \sum_{r, c}
       U_{k,\, (r, c),\, (r - \delta,\, c - \gamma)} ,

    over the places for which the key is in the window.

    Examples
    --------
    >>> from dlref.positions import relative_bias_grid_vjp
    >>> relative_bias_grid_vjp([[[1, 2], [4, 8]]], [[0.0]] * 3, 1, 2).ravel()
    array([2., 9., 4.])
    """
    dtype, (u, b) = as_floats({"dout": dout, "table": table})
    where = _index("table", b, height, width)
    check_shape("dout", u, (b.shape[1], *where.shape))
    sums = np.empty(b.shape)
    for k, matrix in enumerate(u):
        sums[:, k] = np.bincount(where.ravel(), weights=matrix.ravel(), minlength=len(b))
    return result(sums, dtype)


def relative_bias_grid_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, height: int, width: int
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the bias of a grid.

    Parameters
    ----------
    primals : array_like, shape ((2 height - 1) (2 width - 1), H)
        The table.
    tangents : array_like, shape of `primals`, or None
        Its tangent; None is zero.
    height, width : as in `relative_bias_grid`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (H, N, N)
        Tangent of the bias.

    Notes
    -----
    The map copies numbers, so the tangent is the bias of the tangent:

    .. math:: \dot B_{k,\, (r, c),\, (r', c')} = \dot b_{(r - r' + h - 1)(2 w - 1) +
       (c - c' + w - 1),\, k} .

    Examples
    --------
    >>> from dlref.positions import relative_bias_grid_jvp
    >>> relative_bias_grid_jvp([[5.0], [5.0], [5.0]], [[-1.0], [0.0], [1.0]], 2, 1)
    array([[[ 0., -1.],
            [ 1.,  0.]]])
    """
    dtype, (b,), (moved,) = as_tangents(primals, tangents, count=1, work=np.float32)
    where = _index("primals", b, height, width)
    return result(np.ascontiguousarray(np.moveaxis(moved[where], -1, 0)), dtype)
