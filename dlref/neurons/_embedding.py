r"""Embedding: a row of a table for each token."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_number,
    as_rows,
    check_constant,
    check_shape,
    entries,
    result,
)
from .._core.threads import over_rows
from .._math.scatter import add_rows


def _padding(padding_id: int | None, table: FloatArray) -> int | None:
    if padding_id is None:
        return None
    return as_integer("padding_id", padding_id, least=0, most=max(len(table) - 1, 0))


def _looked_up(table: FloatArray, rows: npt.NDArray[np.int64]) -> FloatArray:
    """Return rows of a table; several threads copy them."""
    out = np.empty((rows.size, table.shape[1]), table.dtype)

    def copy(start: int, stop: int, ids: npt.NDArray[np.int64]) -> None:
        # the rows exist; in the mode "raise" NumPy would write to a buffer first
        np.take(table, ids[start:stop], axis=0, out=out[start:stop], mode="clip")

    over_rows(copy, rows.size, table.shape[1], rows.ravel())
    return out.reshape(*rows.shape, table.shape[1])


def embedding(
    table: npt.ArrayLike,
    ids: npt.ArrayLike,
    *,
    padding_id: int | None = None,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Look up the vector of each token.

    It is the first layer of every language model: a matrix with a row for each word of the
    vocabulary. A text selects the rows of its words.

    Parameters
    ----------
    table : array_like, shape (N, D)
        One row of D numbers for each token of the vocabulary.
    ids : array_like of int, shape (...)
        Numbers of the tokens, from 0 to N − 1.
    padding_id : int or None
        Token that gets no gradient. Its row is looked up as any other.
    scale : float, default 1.0
        Factor of the vectors, :math:`\sqrt D` in the original Transformer and in Gemma.

    Returns
    -------
    ndarray, shape (..., D)
        The vectors.

    Raises
    ------
    TypeError
        If `table` is not real, `ids` or `padding_id` is not integer, or `scale` is not a number.
    ValueError
        If `table` does not have two axes, or a number is negative or beyond the table.

    See Also
    --------
    embedding_vjp, embedding_jvp : The derivatives.
    linear : The same map for a one-hot input.
    dlref.positions.learned_positions : A table of positions.

    Notes
    -----
    With the table E, the token :math:`t_n` at place n and the factor c,

    .. math:: y_{nd} = c\, E_{t_n d} = c \sum_i [t_n = i]\, E_{i d} .

    The second form is the product of a one-hot row with E: a dense layer without a bias, whose
    product is not carried out. The ids are integers, and have no derivative.

    **Tied weights.** Many models use the same matrix for the logits, :math:`\mat E \vec h`, with
    :func:`linear`. Then its gradient is the sum of both: a few rows from here, and all rows from
    there.

    **Conventions.** ``torch.nn.Embedding`` sets the row of ``padding_idx`` to 0 when it is created
    and gives it no gradient; here the row is whatever you pass. In float16 a factor of
    :math:`\sqrt D` that is rounded first gives other digits: Gemma's code rounds it to the
    dtype of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import embedding
    >>> table = np.arange(8.0).reshape(4, 2)
    >>> embedding(table, [3, 0, 3])
    array([[6., 7.],
           [0., 1.],
           [6., 7.]])

    The product with one-hot rows:

    >>> np.eye(4)[[3, 0, 3]] @ table
    array([[6., 7.],
           [0., 1.],
           [6., 7.]])
    """
    factor = as_number("scale", scale)
    dtype, (E,) = as_floats({"table": table}, work=np.float32)
    rows = as_rows(("table", "ids"), E, ids)
    _padding(padding_id, E)
    with np.errstate(all="ignore"):
        vectors = _looked_up(E, rows)
        return result(vectors if factor == 1.0 else vectors * factor, dtype)


def embedding_vjp(
    dout: npt.ArrayLike,
    table: npt.ArrayLike,
    ids: npt.ArrayLike,
    *,
    padding_id: int | None = None,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the embedding: rows add up.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u_n` of each vector.
    table, ids, padding_id, scale : as in `embedding`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (N, D)
        Gradient with respect to the table.

    Notes
    -----
    **The differential.** Place n of the output reads a row of the table:
    :math:`\dd y_{nd} = c\, \dd E_{t_n d}`.

    **The inner product.** :math:`\dd L = \sum_{nd} u_{nd}\, \dd y_{nd}`.

    **The transpose.** A row is read by every place that has its token, so its differential occurs
    once for each of them, and their cotangents add up:

    .. math:: \pdv{L}{E_{id}} = c \sum_n [t_n = i]\, u_{nd} .

    A token that occurs ten times gets the sum of ten cotangents, and one that does not occur gets
    0. An assignment in place of the sum, ``dE[ids] = u``, keeps the last cotangent only. In NumPy
    the mistake is easy to make, because ``dE[ids] += u`` does the same for a dE of zeros.

    **Rare tokens.** Most rows are 0 in a step. Frameworks can return the others alone (a sparse
    gradient), which SGD can use. Adam changes the other rows, too: by decay, and as long as their
    means of earlier gradients last.

    The row of `padding_id` is 0. Sums are accumulated in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import embedding_vjp
    >>> embedding_vjp([[1.0], [10.0], [100.0]], np.zeros((3, 1)), [2, 0, 2]).ravel()
    array([ 10.,   0., 101.])
    >>> embedding_vjp([[1.0], [10.0], [100.0]], np.zeros((3, 1)), [2, 0, 2], padding_id=0).ravel()
    array([  0.,   0., 101.])
    """
    factor = as_number("scale", scale)
    dtype, (u, E) = as_floats({"dout": dout, "table": table}, work=np.float32)
    rows = as_rows(("table", "ids"), E, ids)
    padding = _padding(padding_id, E)
    check_shape("dout", u, (*rows.shape, E.shape[1]))
    with np.errstate(all="ignore"):
        grad = add_rows(u, rows, E, factor)
    if padding is not None and len(E):
        grad[padding] = 0.0
    return result(grad, dtype)


def embedding_jvp(
    primals: Any, tangents: Any, *, padding_id: int | None = None, scale: float = 1.0
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the embedding.

    Parameters
    ----------
    primals : tuple (table, ids)
        Table (N, D) and integers (...).
    tangents : tuple (dtable, None)
        Tangent of the table; None is zero. Its row of `padding_id` counts as zero.
    padding_id, scale : as in `embedding`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the vectors.

    Notes
    -----
    The map is linear in the table, so the tangent is looked up like the table. With
    :math:`\dot E_{pd} = 0` for the token p of padding,

    .. math:: \dot y_{nd} = c\, \dot E_{t_n d} .

    Examples
    --------
    >>> from dlref.neurons import embedding_jvp
    >>> table, moved = [[1.0], [2.0]], [[5.0], [7.0]]
    >>> embedding_jvp((table, [1, 0, 1]), (moved, None), padding_id=0).ravel()
    array([7., 0., 7.])
    """
    factor = as_number("scale", scale)
    points, moves = entries("primals", primals, 2), entries("tangents", tangents, 2)
    check_constant("tangents[1]", moves.pop("tangents[1]"))
    given = {name: move for name, move in moves.items() if move is not None}
    dtype, (E, *rest) = as_floats({"primals[0]": points["primals[0]"], **given})
    rows = as_rows(("primals[0]", "primals[1]"), E, points["primals[1]"])
    padding = _padding(padding_id, E)
    moved = rest[0] if rest else np.zeros(E.shape)
    check_shape("tangents[0]", moved, E.shape)
    with np.errstate(all="ignore"):
        out = factor * moved[rows]
    if padding is not None:
        out[rows == padding] = 0.0
    return result(out, dtype)
