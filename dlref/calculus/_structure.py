r"""
Maps that move numbers without changing them, and sums of products by their indices.

The backward pass of a move is the move back; a number that was read twice gets the sum of both
gradients.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    as_integer,
    as_integers,
    as_mask,
    as_tangents,
    check_broadcast,
    check_constant,
    check_ndim,
    check_range,
    check_shape,
    check_size,
    choice,
    entries,
    in_float64,
    reduced_axes,
    result,
    shown,
)
from .._core.broadcasting import broadcast_shape, unbroadcast
from .._math.scatter import increase_rows

__all__ = [  # noqa: RUF022  # in the order of the page
    "scatter_add",
    "scatter_add_vjp",
    "take_vjp",
    "where_vjp",
    "concatenate_vjp",
    "pad_vjp",
    "einsum_vjp",
    "scatter_add_jvp",
    "take_jvp",
    "where_jvp",
    "concatenate_jvp",
    "pad_jvp",
    "einsum_jvp",
]

PADDINGS = ("constant", "edge", "reflect", "symmetric", "wrap")
Gradients = FloatArray | tuple[FloatArray, ...]


# One axis that is indexed


def _axis(name: str, x: FloatArray, axis: Any) -> int:
    check_ndim(name, x, 1)
    return reduced_axes(as_integer("axis", axis, least=-x.ndim), x.ndim)[0]


def _indices(name: str, value: npt.ArrayLike, length: int) -> npt.NDArray[np.int64]:
    """Return indices along an axis, the negative ones counted from its end."""
    indices = as_integers(name, value)
    check_range(name, indices, length, least=-length)
    indices[indices < 0] += length
    return indices


def _taken_shape(x: FloatArray, indices: npt.NDArray[np.int64], axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _dtype_of_sums(dtype: FloatDType) -> FloatDType:
    """Return the dtype of an array that holds sums: each is rounded once on its way to `dtype`."""
    return dtype if dtype == np.float32 else np.dtype(np.float64)


def _increase(
    sums: FloatArray, indices: npt.NDArray[np.int64], updates: FloatArray, axis: int
) -> None:
    """Add updates to the entries of an array, which is contiguous, along an axis."""
    before, after = math.prod(sums.shape[:axis]), math.prod(sums.shape[axis + 1 :])
    increase_rows(
        sums.reshape(before, sums.shape[axis], after),
        indices.ravel(),
        updates.reshape(before, indices.size, after),
    )


def _increased(
    x: FloatArray, indices: npt.NDArray[np.int64], updates: FloatArray, axis: int, dtype: FloatDType
) -> FloatArray:
    """Return `x` with the updates added along an axis."""
    with np.errstate(all="ignore"):
        # an empty sum is +0, and adding it makes -0 to +0
        sums = np.add(x, 0.0, dtype=_dtype_of_sums(dtype), order="C")
        _increase(sums, indices, updates, axis)
    return result(sums, dtype)


def scatter_add(
    x: npt.ArrayLike, indices: npt.ArrayLike, updates: npt.ArrayLike, *, axis: int = 0
) -> FloatArray:
    r"""
    Add numbers at given places, all of them where a place occurs several times.

    Parameters
    ----------
    x : array_like
        Array to add to, with at least one axis.
    indices : array_like of int
        Places along `axis`, of any shape; negative ones count from the end.
    updates : array_like
        Numbers to add: the shape of `x` with the shape of `indices` in place of `axis`.
    axis : int, default 0
        The axis of `x` that is indexed.

    Returns
    -------
    ndarray, shape ``x.shape``
        The sums, accumulated in float64.

    Raises
    ------
    TypeError
        If `x` or `updates` is not real, or `indices` or `axis` is not integer.
    ValueError
        If `x` is a scalar, an index or the axis is out of range, or `updates` does not fit.

    See Also
    --------
    scatter_add_vjp, scatter_add_jvp : The derivatives.
    take_vjp : The backward pass of taking entries, which is this map.
    dlref.neurons.embedding_vjp : The same for the rows of a table.

    Notes
    -----
    With the updates w and their places t, along the axis:

    .. math:: y_i = x_i + \sum_{n :\, t_n = i} w_n

    A map that moves numbers has a Jacobian of zeros and ones. The Jacobian of taking entries,
    :math:`y_n = x_{t_n}`, has a one in row n and column :math:`t_n`. Its transpose adds :math:`u_n`
    at the place :math:`t_n`: gather and scatter-add are each other's backward pass.

    **Conventions.** ``torch.index_add`` and JAX's ``x.at[t].add(w)`` compute the same as
    :func:`scatter_add`. NumPy's ``x[t] += w`` does not: if several updates have the same place, it
    keeps the last one, while ``numpy.add.at`` adds them all. ``torch.scatter_add`` takes an index
    for every single element.

    Examples
    --------
    The place 2 occurs twice:

    >>> from dlref.calculus import scatter_add
    >>> scatter_add([0, 0, 0], [2, 0, 2], [1, 10, 100])
    array([ 10.,   0., 101.])
    """
    dtype, (x, updates) = as_floats({"x": x, "updates": updates}, work=np.float32)
    axis = _axis("x", x, axis)
    places = _indices("indices", indices, x.shape[axis])
    check_shape("updates", updates, _taken_shape(x, places, axis))
    return _increased(x, places, updates, axis, dtype)


def scatter_add_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    *,
    axis: int = 0,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of scatter-add: the gradient is read at the places.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`u = \partial L / \partial y`.
    x, indices, updates, axis : as in `scatter_add`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape ``x.shape``
        `dout`.
    dupdates : ndarray, shape ``updates.shape``
        `dout` at the place of each update.

    Notes
    -----
    Each update is added to one sum, with the slope 1. With the updates w and their places t:

    .. math:: \pdv{L}{x_i} = u_i , \qquad \pdv{L}{w_n} = u_{t_n}

    Updates with the same place get the same gradient.

    Examples
    --------
    >>> from dlref.calculus import scatter_add_vjp
    >>> dx, dupdates = scatter_add_vjp([5, 6, 7], [0, 0, 0], [2, 0, 2], [1, 10, 100])
    >>> dupdates
    array([7., 5., 7.])
    """
    dtype, (dout, x, updates) = as_floats(
        {"dout": dout, "x": x, "updates": updates}, work=np.float32
    )
    axis = _axis("x", x, axis)
    places = _indices("indices", indices, x.shape[axis])
    check_shape("updates", updates, _taken_shape(x, places, axis))
    check_shape("dout", dout, x.shape)
    return result(dout.copy(), dtype), result(np.take(dout, places, axis), dtype)


def take_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, indices: npt.ArrayLike, *, axis: int = 0
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of taking entries along an axis.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`: the shape of `x` with the shape of `indices`
        in place of `axis`.
    x : array_like
        Array to take from, with at least one axis.
    indices : array_like of int
        Places along `axis`, of any shape; negative ones count from the end.
    axis : int, default 0
        The axis of `x` that is indexed.

    Returns
    -------
    ndarray, shape ``x.shape``
        The cotangents of each entry, added up in float64; 0 where nothing was taken.

    Raises
    ------
    TypeError
        If `dout` or `x` is not real, or `indices` or `axis` is not integer.
    ValueError
        If `x` is a scalar, an index or the axis is out of range, or `dout` does not fit.

    See Also
    --------
    scatter_add : The same sums, added to an array.
    dlref.neurons.embedding_vjp : Rows of a table.

    Notes
    -----
    The output n reads the entry :math:`t_n`, so :math:`y_n = x_{t_n}`. An entry that is read
    several times gets the sum of the gradients:

    .. math:: \pdv{L}{x_i} = \sum_{n :\, t_n = i} u_n

    The indices are integers and have no derivative.

    **Conventions.** If no axis is given, ``numpy.take`` and ``jnp.take`` flatten the array;
    ``torch.index_select`` requires an axis and refuses negative indices. ``torch.gather`` and
    ``numpy.take_along_axis`` take an index for every element.

    Examples
    --------
    >>> from dlref.calculus import take_vjp
    >>> take_vjp([1, 10, 100], [0, 0, 0], [2, 0, 2])
    array([ 10.,   0., 101.])

    This takes the columns 0 and 2, so the gradient of the column 1 is 0:

    >>> take_vjp([[1, 2], [3, 4]], [[0, 0, 0], [0, 0, 0]], [0, 2], axis=1)
    array([[1., 0., 2.],
           [3., 0., 4.]])
    """
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    axis = _axis("x", x, axis)
    places = _indices("indices", indices, x.shape[axis])
    check_shape("dout", dout, _taken_shape(x, places, axis))
    dx = np.zeros(x.shape, _dtype_of_sums(dtype))
    with np.errstate(all="ignore"):
        _increase(dx, places, dout, axis)
    return result(dx, dtype)


# Two arrays, of which a condition selects


def _selected(
    names: tuple[str, str, str], condition: npt.ArrayLike, w: FloatArray, x: FloatArray
) -> tuple[npt.NDArray[np.bool_], tuple[int, ...]]:
    """Return the condition as an array, and the shape of the output."""
    chosen = as_mask(names[0], condition, true="the first operand")
    shape = broadcast_shape(names[1:], w, x)
    check_broadcast(names[0], chosen.shape, shape, both=True)
    return chosen, np.broadcast_shapes(chosen.shape, shape)


def _kept(array: FloatArray, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    """
    Return the numbers that are chosen, and zeros for the others.

    The bits of all numbers are masked, because a branch for each takes ten times as long where the
    choice is irregular.
    """
    bits = np.dtype(f"i{array.itemsize}")
    kept: FloatArray = (array.view(bits) & -chosen.astype(bits)).view(array.dtype)
    return kept


def _reduced(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Sum an array over broadcast axes in float64, if there are any."""
    return array if array.shape == shape else unbroadcast(in_float64(array), shape)


def where_vjp(
    dout: npt.ArrayLike, condition: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of a choice between two arrays.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    condition : array_like of bool
        True where the output is `w`, False where it is `x`.
    w, x : array_like
        Operands; the shapes of all three broadcast.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        `dout` where the condition holds, else 0; summed over broadcast axes.
    dx : ndarray, shape ``x.shape``
        `dout` where it does not hold.

    Raises
    ------
    TypeError
        If `condition` is not boolean, or another argument is not real.
    ValueError
        If the shapes do not broadcast, or `dout` does not have their shape.

    See Also
    --------
    maximum_vjp : The condition that compares the two.
    dlref.attention.scaled_dot_product_attention : Masks of scores.

    Notes
    -----
    The condition c, which is 1 or 0, chooses between the operands:

    .. math:: y_i = \begin{cases} w_i & c_i = 1 \\ x_i & c_i = 0 \end{cases}

    The gradient goes to the operand that was chosen:

    .. math::

        \pdv{L}{w_i} = \begin{cases} u_i & c_i = 1 \\ 0 & c_i = 0 \end{cases} , \qquad
        \pdv{L}{x_i} = \begin{cases} 0 & c_i = 1 \\ u_i & c_i = 0 \end{cases}

    The condition itself has no derivative: it is constant almost everywhere.

    **NaN in the other operand.** The operand that was not chosen gets the gradient 0, but the
    backward pass goes on from there. In ``where(x > 0, sqrt(x), 0)`` the slope of the root at 0 is
    infinite, and 0 times infinity is NaN, in PyTorch and JAX as well. Choose before the root, too:
    ``where(x > 0, sqrt(where(x > 0, x, 1)), 0)``.

    Examples
    --------
    >>> from dlref.calculus import where_vjp
    >>> dw, dx = where_vjp([1, 2, 3], [True, False, True], [0, 0, 0], 0)
    >>> dw
    array([1., 0., 3.])
    >>> float(dx)
    2.0
    """
    dtype, (dout, w, x) = as_floats({"dout": dout, "w": w, "x": x}, work=np.float32)
    chosen, shape = _selected(("condition", "w", "x"), condition, w, x)
    check_shape("dout", dout, shape)
    dw, dx = _kept(dout, chosen), _kept(dout, ~chosen)
    return result(_reduced(dw, w.shape), dtype), result(_reduced(dx, x.shape), dtype)


# Several arrays, one after the other


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _joined(names: Sequence[str], arrays: Sequence[FloatArray], axis: Any) -> int:
    """Check that arrays can be concatenated; return the axis."""
    place = _axis(names[0], arrays[0], axis)
    for name, array in zip(names, arrays, strict=True):
        check_ndim(name, array, 1)
        length = array.shape[place] if place < array.ndim else -1
        check_shape(name, array, _with_length(arrays[0].shape, place, length))
    return place


def concatenate_vjp(
    dout: npt.ArrayLike, *arrays: npt.ArrayLike, axis: int = 0
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a concatenation: the gradient is split.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    *arrays : array_like
        Two or more arrays, equal in all lengths but the length of `axis`.
    axis : int, default 0
        The axis along which they follow each other.

    Returns
    -------
    tuple of ndarray
        The gradient of each array.

    Raises
    ------
    TypeError
        If an argument is not real, or `axis` is not an integer.
    ValueError
        If there are fewer than two arrays, one is a scalar, the shapes do not fit, or there is no
        such axis.

    See Also
    --------
    pad_vjp : A concatenation with constants.

    Notes
    -----
    The output has the n entries of w first, then the entries of x. Each part of the gradient goes
    back to its own array:

    .. math:: \pdv{L}{w_i} = u_i , \qquad \pdv{L}{x_i} = u_{n+i}

    U-Nets concatenate their skip connections, and attention its heads and its key-value cache.
    Stacking arrays along a new axis is the same up to a reshape.

    Examples
    --------
    >>> from dlref.calculus import concatenate_vjp
    >>> dw, dx = concatenate_vjp([1, 2, 3, 4, 5], [0, 0], [0, 0, 0])
    >>> dw, dx
    (array([1., 2.]), array([3., 4., 5.]))
    """
    if len(arrays) < 2:
        msg = f"Argument 'arrays' must be two or more arrays, not {len(arrays)}."
        raise ValueError(msg)
    names = [f"arrays[{k}]" for k in range(len(arrays))]
    given = {"dout": dout, **dict(zip(names, arrays, strict=True))}
    dtype, (u, *parts) = as_floats(given, work=np.float32)
    axis = _joined(names, parts, axis)
    ends = np.cumsum([part.shape[axis] for part in parts])
    check_shape("dout", u, _with_length(parts[0].shape, axis, int(ends[-1])))
    return tuple(result(piece.copy(), dtype) for piece in np.split(u, ends[:-1], axis))


# Borders


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """Return the numbers of entries before and after each axis."""
    widths = as_integers("pad_width", pad_width)
    try:
        pairs = np.broadcast_to(widths, (ndim, 2))
    except ValueError:
        msg = (
            "Argument 'pad_width' must be an integer, a pair (before, after), or a pair for each "
            f"of {ndim} axes, not {shown(pad_width)}."
        )
        raise ValueError(msg) from None
    if widths.size and widths.min() < 0:
        msg = f"Argument 'pad_width' must not be negative, not {widths.min()}."
        raise ValueError(msg)
    return [(int(before), int(after)) for before, after in pairs]


def _sources(length: int, width: tuple[int, int], mode: str) -> npt.NDArray[np.int64]:
    """Return for each entry of a padded axis the entry that it repeats, or -1 for a constant."""
    if mode == "constant":
        return np.pad(np.arange(length), width, constant_values=-1)
    if length == 0 and any(width):
        msg = f"Argument 'x' must not be empty along an axis that the mode {mode!r} extends."
        raise ValueError(msg)
    return np.pad(np.arange(length), width, mode=mode)  # type: ignore[call-overload,no-any-return]


def _padded(
    x: FloatArray, pad_width: Any, mode: str
) -> tuple[list[tuple[int, int]], list[npt.NDArray[np.int64]]]:
    """Return the widths, and the sources along each axis."""
    choice("mode", mode, PADDINGS)
    widths = _widths(pad_width, x.ndim)
    lengths = (n + sum(width) for n, width in zip(x.shape, widths, strict=True))
    check_size(pad_width=math.prod(lengths))
    return widths, [_sources(n, width, mode) for n, width in zip(x.shape, widths, strict=True)]


def pad_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, pad_width: Any, mode: str = "constant"
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of padding.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    x : array_like
        Array that is extended at its borders.
    pad_width : int, pair of int, or sequence of pairs
        Entries added before and after each axis, as in ``numpy.pad``.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        The entries that are added: constants; the entry at the edge; a reflection without the edge
        or with it; or the array again, periodically.

    Returns
    -------
    ndarray, shape ``x.shape``
        The cotangent of each entry and of its copies, added up in float64.

    Raises
    ------
    TypeError
        If `dout` or `x` is not real, or `pad_width` is not integer.
    ValueError
        If a width is negative or does not fit the axes, the mode is unknown, or an axis without
        entries has nothing to repeat.

    See Also
    --------
    concatenate_vjp : Constants on one side.
    dlref.convolution.conv : A padding of zeros within a layer.

    Notes
    -----
    In every mode an output repeats one entry, :math:`y_i = x_{s_i}`, or is a constant. For a row of
    n entries with p more on the left, :math:`s_i` is :math:`i - p`, brought back into the range
    from 0 to :math:`n - 1`: "edge" clips it, "wrap" takes it modulo n, and "reflect" folds it back
    at both ends. As in :func:`take_vjp`, the gradients of the copies add up:

    .. math:: \pdv{L}{x_j} = \sum_{i :\, s_i = j} u_i

    In the mode "constant" no entry is repeated, and the gradient of the border is dropped.

    **Conventions.** The modes have the names that NumPy and JAX use. PyTorch calls "edge"
    ``replicate`` and "wrap" ``circular``, and lists the widths from the last axis to the first.

    Examples
    --------
    >>> from dlref.calculus import pad_vjp
    >>> pad_vjp([1, 2, 3, 4, 5, 6, 7], [0, 0, 0], pad_width=2)
    array([3., 4., 5.])

    The reflection has the entries in the order 2, 1, 0, 1, 2, 1, 0:

    >>> pad_vjp([1, 2, 3, 4, 5, 6, 7], [0, 0, 0], pad_width=2, mode="reflect")
    array([10., 12.,  6.])
    """
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    widths, sources = _padded(x, pad_width, mode)
    check_shape("dout", dout, tuple(len(source) for source in sources))
    inside = tuple(slice(a, a + n) for (a, _), n in zip(widths, x.shape, strict=True))
    if mode == "constant":
        return result(dout[inside].copy(), dtype)
    with np.errstate(all="ignore"):
        sums = np.add(dout, 0.0, dtype=np.float64, order="C")  # a sum of -0 alone is +0
        for axis, (source, (before, _)) in enumerate(zip(sources, widths, strict=True)):
            # the borders are added to the entries inside that they repeat
            border = np.delete(np.arange(len(source)), inside[axis])
            _increase(sums, before + source[border], np.take(sums, border, axis), axis)
        return result(sums[inside].astype(dtype, order="C"), dtype)


# Sums of products by their indices


def _parts(subscripts: Any, count: int) -> tuple[list[str], str, str]:
    """Return the term of each operand, the arrow or nothing, and the output."""
    if not isinstance(subscripts, str):
        example = "a string such as 'ij,jk->ik'"
        msg = f"Argument 'subscripts' must be {example}, not {shown(subscripts)}."
        raise TypeError(msg)
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != count:
        msg = f"Argument 'subscripts' must have {count} terms, one for each operand, "
        msg += f"not {len(terms)}: {shown(subscripts)}."
        raise ValueError(msg)
    for term in (*terms, out):
        if not {*term.replace("...", "", 1)} <= {*string.ascii_letters}:
            kinds = "letters, commas, '...' and one '->'"
            msg = f"Argument 'subscripts' must be made of {kinds}, not {shown(subscripts)}."
            raise ValueError(msg)
    return terms, arrow, out


def _terms(
    subscripts: Any, names: Sequence[str], operands: Sequence[FloatArray]
) -> tuple[list[str], str, dict[str, int]]:
    """Return the letters of each operand and of the output, and the length of each letter."""
    terms, arrow, out = _parts(subscripts, len(operands))
    letters = "".join([*terms, out])
    # three dots become letters that are free, the last of them for the last axis
    free = "".join(letter for letter in string.ascii_letters if letter not in letters)
    counts = [a.ndim - len(t) + 3 for a, t in zip(operands, terms, strict=True) if "..." in t]
    dots = free[: max([0, *counts])]
    sizes: dict[str, int] = {}
    for k, (term, array, name) in enumerate(zip(terms, operands, names, strict=True)):
        hidden = max(0, array.ndim - len(term) + 3)
        terms[k] = term.replace("...", dots[len(dots) - hidden :])
        if len(terms[k]) != array.ndim:
            msg = f"Argument 'subscripts' must name the {array.ndim} axes of {name!r}, "
            msg += f"whose shape is {array.shape}, not {term!r}."
            raise ValueError(msg)
        for letter, length in zip(terms[k], array.shape, strict=True):
            known = sizes.get(letter, 1 if letter in dots else length)
            if known != length and not (letter in dots and 1 in (known, length)):
                msg = "Argument 'subscripts' must give one letter to axes of one length, "
                msg += f"not {letter!r} to {known} and {length}."
                raise ValueError(msg)
            sizes[letter] = known if length == 1 else length
    if not arrow:
        out = "..." + "".join(c for c in sorted({*letters} - {"."}) if letters.count(c) == 1)
    out = out.replace("...", dots)
    if len({*out}) < len(out) or not {*out} <= sizes.keys():
        distinct = "an output of distinct letters of the operands"
        msg = f"Argument 'subscripts' must have {distinct}, not {shown(subscripts)}."
        raise ValueError(msg)
    return terms, out, sizes


def _spread(array: FloatArray, have: str, want: str, sizes: dict[str, int]) -> FloatArray:
    """Repeat an array along the letters that it does not have."""
    index = tuple(slice(None) if letter in have else None for letter in want)
    return np.broadcast_to(array[index], [sizes[letter] for letter in want])


def _exchanged(
    k: int,
    u: FloatArray,
    arrays: Sequence[FloatArray],
    terms: Sequence[str],
    out: str,
    sizes: dict[str, int],
) -> FloatArray:
    """
    Return the gradient of an operand: the subscripts of the operand and the output exchanged.

    It may be a view of `u`.
    """
    own = "".join(dict.fromkeys(terms[k]))
    others = [j for j in range(len(terms)) if j != k]
    letters = "".join([out, *(terms[j] for j in others)])
    have = "".join(letter for letter in own if letter in letters)
    text = f"{','.join([out, *(terms[j] for j in others)])}->{have}"
    product = np.einsum(text, u, *(arrays[j] for j in others), optimize=True)
    copied = _spread(np.asarray(product), have, own, sizes)
    if own == terms[k]:
        return copied
    dx = np.zeros(arrays[k].shape, u.dtype)
    diagonal = np.einsum(f"{terms[k]}->{own}", dx)  # a view, in which the repeated letters are one
    diagonal[...] = copied
    return dx


def einsum_vjp(dout: npt.ArrayLike, *operands: npt.ArrayLike, subscripts: str) -> Gradients:
    r"""
    Vector-Jacobian product (reverse mode) of an Einstein summation (einsum).

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    *operands : array_like
        The factors.
    subscripts : str
        A letter for each axis, as in `numpy.einsum`: ``"ij,jk->ik"`` is a matrix product. Letters
        may repeat within an operand, three dots stand for axes that broadcast, and without an arrow
        the output has the letters that occur once, in alphabetical order.

    Returns
    -------
    ndarray, or tuple of ndarray
        The gradient of each operand, a tuple if there are several.

    Raises
    ------
    TypeError
        If an operand is not real, or `subscripts` is not a string.
    ValueError
        If the subscripts do not fit the operands.

    See Also
    --------
    matmul_vjp, trace_vjp, dot_vjp, quadratic_form_vjp : Special cases.

    Notes
    -----
    Exchange the subscripts of an operand and of the output, and put the cotangent in place of the
    operand. For the matrix product, ``"ij,jk->ik"``, the gradients are ``"ik,jk->ij"`` and
    ``"ij,ik->jk"``:

    .. math::

        Y_{ik} = \sum_j A_{ij} B_{jk} , \qquad
        \pdv{L}{A_{ij}} = \sum_k U_{ik} B_{jk} , \qquad
        \pdv{L}{B_{jk}} = \sum_i A_{ij} U_{ik}

    The sum runs over all letters that the operand does not have. The rule is complete if each
    letter of the operand occurs once in it, and also in the output or in another operand. Two cases
    are left. If only this operand has a letter, as j in ``"ij->i"``, the forward pass sums over it,
    and the gradient is copied along it. If a letter repeats within the operand, as in ``"ii->i"``,
    the forward pass reads the diagonal, and the gradient is 0 off the diagonal:

    .. math:: y_i = A_{ii} , \qquad \pdv{L}{A_{ij}} = \delta_{ij}\, u_i

    A trace, ``"ii->"``, is both cases at once, and its gradient is a multiple of the identity.

    **Cost.** Each gradient costs about as much as the forward pass. Products of more than two
    operands are computed in pairs, and all sums in float64.

    Examples
    --------
    The gradients of a bilinear form are two products and an outer product:

    >>> import numpy as np
    >>> from dlref.calculus import einsum_vjp
    >>> w, x = np.array([1.0, 2.0]), np.array([5.0, 6.0])
    >>> A = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> dw, dA, dx = einsum_vjp(1.0, w, A, x, subscripts="i,ij,j->")
    >>> dw, dx
    (array([ 5., 39.]), array([7., 8.]))
    >>> dA
    array([[ 5.,  6.],
           [10., 12.]])

    The gradient of a diagonal stands on the diagonal:

    >>> einsum_vjp([5, 6], A, subscripts="ii->i")
    array([[5., 0.],
           [0., 6.]])
    """
    names = [f"operands[{k}]" for k in range(len(operands))]
    given = {"dout": dout, **dict(zip(names, operands, strict=True))}
    dtype, (u, *arrays) = as_floats(given)
    terms, out, sizes = _terms(subscripts, names, arrays)
    check_shape("dout", u, tuple(sizes[letter] for letter in out))
    # axes of length 1 that broadcast are repeated, and their gradients summed at the end
    shapes = [[sizes[letter] for letter in term] for term in terms]
    wide = [np.broadcast_to(array, shape) for array, shape in zip(arrays, shapes, strict=True)]
    gradients = []
    with np.errstate(all="ignore"):
        for k, array in enumerate(arrays):
            gradient = unbroadcast(_exchanged(k, u, wide, terms, out, sizes), array.shape)
            # a view, of dout or of numbers that are repeated, is copied as it is rounded
            rounded = gradient.astype(dtype, copy=gradient.base is not None)
            gradients.append(result(rounded, dtype))
    return tuple(gradients) if len(gradients) > 1 else gradients[0]


# Forward mode: all of these maps are linear in each operand


def scatter_add_jvp(primals: Any, tangents: Any, *, axis: int = 0) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of scatter-add.

    Parameters
    ----------
    primals : tuple (x, indices, updates)
        Inputs as in `scatter_add`. Raises the same errors.
    tangents : tuple (dx, None, dupdates)
        Directions, each of the shape of its array; None is zero, and the indices have none.
    axis : as in `scatter_add`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``x.shape``
        The tangents of the updates, added to the tangent of x at their places.

    Notes
    -----
    .. math:: \dot y_i = \dot x_i + \sum_{n :\, t_n = i} \dot w_n

    The map is linear in both arrays, so it is its own derivative.

    Examples
    --------
    >>> from dlref.calculus import scatter_add_jvp
    >>> scatter_add_jvp(([0, 0, 0], [2, 2], [7, 8]), ([1, 1, 1], None, [10, 100]))
    array([  1.,   1., 111.])
    """
    dtype, (x, updates), (dx, dupdates), indices = _around_indices(primals, tangents, 3)
    axis = _axis("primals[0]", x, axis)
    places = _indices("primals[1]", indices, x.shape[axis])
    check_shape("primals[2]", updates, _taken_shape(x, places, axis))
    return _increased(dx, places, dupdates, axis, dtype)


def _around_indices(
    primals: Any, tangents: Any, count: int, constant: int = 1
) -> tuple[FloatDType, list[FloatArray], list[FloatArray], Any]:
    """Return dtype, arrays, tangents and the constant of primals, one of which has no tangent."""
    points, moves = entries("primals", primals, count), entries("tangents", tangents, count)
    check_constant(f"tangents[{constant}]", moves.pop(f"tangents[{constant}]"))
    fixed = points.pop(f"primals[{constant}]")
    moving = {name: move for name, move in moves.items() if move is not None}
    dtype, floats = as_floats({**points, **moving}, work=np.float32)
    arrays, moved = floats[: count - 1], dict(zip(moving, floats[count - 1 :], strict=True))
    for name, array in zip(moves, arrays, strict=True):
        check_shape(name, moved.setdefault(name, np.zeros_like(array)), array.shape)
    return dtype, arrays, [moved[name] for name in moves], fixed


def take_jvp(primals: Any, tangents: Any, *, axis: int = 0) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of taking entries along an axis.

    Parameters
    ----------
    primals : tuple (x, indices)
        Inputs as in `take_vjp`. Raises the same errors.
    tangents : tuple (dx, None)
        Direction of the array; None is zero, and the indices have none.
    axis : as in `take_vjp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``out.shape``
        The entries of the tangent at the same places.

    Notes
    -----
    .. math:: \dot y_n = \dot x_{t_n}

    The tangents are taken at the same places as the entries.

    Examples
    --------
    >>> from dlref.calculus import take_jvp
    >>> take_jvp(([7, 8, 9], [2, 0, 2]), ([1, 2, 3], None))
    array([3., 1., 3.])
    """
    dtype, (x,), (dx,), indices = _around_indices(primals, tangents, 2)
    axis = _axis("primals[0]", x, axis)
    places = _indices("primals[1]", indices, x.shape[axis])
    return result(np.take(dx, places, axis), dtype)


def where_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a choice between two arrays.

    Parameters
    ----------
    primals : tuple (condition, w, x)
        Inputs as in `where_vjp`. Raises the same errors.
    tangents : tuple (None, dw, dx)
        Directions, each of the shape of its operand; None is zero, and the condition has none.

    Returns
    -------
    ndarray, shape ``out.shape``
        The tangent of the operand that was chosen.

    Notes
    -----
    .. math::

        \dot y_i = \begin{cases} \dot w_i & c_i = 1 \\ \dot x_i & c_i = 0 \end{cases}

    Nothing is multiplied by 0, so an infinite tangent of the other operand does not matter.

    Examples
    --------
    >>> from dlref.calculus import where_jvp
    >>> where_jvp(([True, False], [0, 0], [0, 0]), (None, [1, 2], [float("inf"), 4]))
    array([1., 4.])
    """
    dtype, (w, x), (dw, dx), condition = _around_indices(primals, tangents, 3, constant=0)
    chosen, _ = _selected(("primals[0]", "primals[1]", "primals[2]"), condition, w, x)
    return result(np.where(chosen, dw, dx), dtype)


def concatenate_jvp(primals: Any, tangents: Any, *, axis: int = 0) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a concatenation.

    Parameters
    ----------
    primals : tuple of array_like
        The arrays. Raises the same errors as `concatenate_vjp`.
    tangents : tuple of array_like or None
        Directions, each of the shape of its array; None is zero.
    axis : as in `concatenate_vjp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``out.shape``
        The tangents, concatenated.

    Notes
    -----
    With w of n entries:

    .. math:: \dot y_i = \dot w_i , \qquad \dot y_{n+i} = \dot x_i

    The tangents are concatenated as the arrays are.

    Examples
    --------
    >>> from dlref.calculus import concatenate_jvp
    >>> concatenate_jvp(([0, 0], [0]), ([1, 2], None))
    array([1., 2., 0.])
    """
    count = len(primals) if isinstance(primals, tuple | list) else 2
    points = entries("primals", primals, count)
    if count < 2 or any(isinstance(point, int | float) for point in points.values()):
        msg = f"Argument 'primals' must be a tuple of two or more arrays, not {shown(primals)}."
        raise ValueError(msg)
    dtype, arrays, moved = as_tangents(
        tuple(points.values()), tangents, count=count, work=np.float32
    )
    axis = _joined(list(points), arrays, axis)
    return result(np.concatenate(moved, axis), dtype)


def pad_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    pad_width: Any,
    mode: str = "constant",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of padding.

    Parameters
    ----------
    primals : array_like
        Array :math:`x`. Raises the same errors as `pad_vjp`.
    tangents : array_like, shape of `primals`, or None
        Direction :math:`\dot x`; None is zero.
    pad_width, mode : as in `pad_vjp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape ``out.shape``
        The tangent, padded in the same mode; with zeros where constants are added.

    Notes
    -----
    If the output i repeats the entry :math:`s_i`, it repeats the tangent as well:

    .. math:: \dot y_i = \dot x_{s_i}

    Where the output is a constant, its tangent is 0.

    Examples
    --------
    >>> from dlref.calculus import pad_jvp
    >>> pad_jvp([7, 8, 9], [1, 2, 3], pad_width=(1, 2), mode="wrap")
    array([3., 1., 2., 3., 1., 2.])
    """
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1, work=np.float32)
    _, sources = _padded(x, pad_width, mode)
    for axis, source in enumerate(sources):
        # a constant has the source -1, which takes the zero that is appended
        zero = np.zeros(_with_length(dx.shape, axis, 1), dx.dtype)
        dx = np.take(np.concatenate([dx, zero], axis), source, axis)
    return result(np.array(dx), dtype)


def einsum_jvp(primals: Any, tangents: Any, *, subscripts: str) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an Einstein summation (einsum).

    Parameters
    ----------
    primals : tuple of array_like
        The factors, or the array if there is one. Raises the same errors as `einsum_vjp`.
    tangents : tuple of array_like or None
        Directions, each of the shape of its factor; None is zero.
    subscripts : as in `einsum_vjp`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar, shape ``out.shape``
        The sum over the factors of the product in which the factor is replaced by its tangent.

    Notes
    -----
    This is the product rule, with the subscripts unchanged. For two factors and ``"ij,jk->ik"``:

    .. math:: \dot Y_{ik} = \sum_j \dot A_{ij} B_{jk} + \sum_j A_{ij} \dot B_{jk}

    The sum is linear in each factor, so there are as many terms as factors.

    Examples
    --------
    >>> from dlref.calculus import einsum_jvp
    >>> a, da = [[1, 2], [3, 4]], [[0, 1], [1, 0]]
    >>> einsum_jvp((a, a), (da, None), subscripts="ij,ij->i")
    array([2., 3.])
    """
    count = subscripts.count(",") + 1 if isinstance(subscripts, str) else 2
    dtype, arrays, moves = as_tangents(primals, tangents, count=count)
    names = [f"primals[{k}]" for k in range(count)] if count > 1 else ["primals"]
    terms, out, _ = _terms(subscripts, names, arrays)
    text = f"{','.join(terms)}->{out}"
    with np.errstate(all="ignore"):
        parts = [
            np.einsum(text, *arrays[:k], move, *arrays[k + 1 :], optimize=True)
            for k, move in enumerate(moves)
        ]
        return result(np.array(sum(parts[1:], parts[0])), dtype)  # of one part it may be a view
