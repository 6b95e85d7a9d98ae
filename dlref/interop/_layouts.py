r"""The order of channels in rotated pairs, and of axes in heads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_integer,
    check_even,
    check_multiple,
    check_ndim,
    choice,
    float_dtype,
    result,
)
from ..positions import rope_permutation

#: Axes of queries, keys and values: heads before time, after it, or joined with the channels.
HEADS = {
    "dlref": "BHTE",
    "torch": "BHTE",
    "onnx": "BHTE",
    "jax": "BTHE",
    "flash": "BTHE",
    "keras": "BTHE",
    "onnx_3d": "BT(HE)",
}


def _channels(x: npt.ArrayLike) -> FloatArray:
    array = as_array("x", x)
    kind = float_dtype("x", array.dtype)
    check_ndim("x", array, 1)
    check_even("x", array)
    return array.astype(kind)


def to_half_split(x: npt.ArrayLike) -> FloatArray:
    r"""
    Move the channels of rotated pairs from neighboring places to two halves.

    Parameters
    ----------
    x : array_like, shape (..., E)
        Vectors, or the transposed weights of a head's projection, with pairs (0, 1), (2, 3), ...

    Returns
    -------
    ndarray, shape (..., E)
        A copy with pairs (0, E/2), (1, E/2 + 1), ...

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If E is odd.

    See Also
    --------
    to_interleaved : The inverse.
    dlref.positions.rope_permutation : The permutation as indices.

    Notes
    -----
    GPT-J and the paper rotate neighbors, GPT-NeoX and LLaMA in Hugging Face's form rotate halves.
    A checkpoint goes from one to the other if the rows of the query and key projections are
    permuted, head by head: with weights (H E, D), reshape to (H, E, D), move E last, convert, and
    move it back. Values are not permuted. The map is a permutation: its transpose is its inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import to_half_split
    >>> to_half_split([10, 11, 20, 21, 30, 31])
    array([10., 20., 30., 11., 21., 31.])

    Rotated in its own convention, it is the same vector:

    >>> from dlref.positions import apply_rope
    >>> x, tables = np.arange(4.0)[None], ([[0.6, 0.8]], [[0.8, 0.6]])
    >>> there = apply_rope(to_half_split(x), *tables, interleaved=False)
    >>> bool(np.all(there == to_half_split(apply_rope(x, *tables))))
    True
    """
    array = _channels(x)
    return array[..., rope_permutation(array.shape[-1])]


def to_interleaved(x: npt.ArrayLike) -> FloatArray:
    r"""
    Move the channels of rotated pairs from two halves to neighboring places.

    Parameters
    ----------
    x : array_like, shape (..., E)
        Vectors with pairs (0, E/2), (1, E/2 + 1), ...

    Returns
    -------
    ndarray, shape (..., E)
        A copy with pairs (0, 1), (2, 3), ...

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If E is odd.

    See Also
    --------
    to_half_split : The inverse, and which library has which.

    Notes
    -----
    The inverse permutation: channel i of the first half goes to 2i, channel i of the second half to
    2i + 1.

    Examples
    --------
    >>> from dlref.interop import to_interleaved
    >>> to_interleaved([10, 20, 30, 11, 21, 31])
    array([10., 11., 20., 21., 30., 31.])
    """
    array = _channels(x)
    return array[..., np.argsort(rope_permutation(array.shape[-1]))]


def transpose_heads(
    x: npt.ArrayLike, source: str, target: str, *, num_heads: int | None = None
) -> FloatArray:
    r"""
    Convert queries, keys or values from the axes of one library to the axes of another.

    Parameters
    ----------
    x : array_like
        The array, with any batch axes first: (..., H, T, E) for "dlref", "torch" and "onnx",
        (..., T, H, E) for "jax", "flash" and "keras", (..., T, H E) for "onnx_3d".
    source, target : {"dlref", "torch", "onnx", "jax", "flash", "keras", "onnx_3d"}
        The library that `x` comes from, and the one that it is for.
    num_heads : int or None
        Number H of heads. It is needed for "onnx_3d" as the source, whose shape does not show it.

    Returns
    -------
    ndarray
        A copy in C order with the axes of `target`.

    Raises
    ------
    TypeError
        If `x` is not real, or `num_heads` is not an integer.
    ValueError
        If a name is not known, axes are missing, or the width is not a multiple of the heads.

    See Also
    --------
    mask_convention : The other thing in which attention differs.

    Notes
    -----
    PyTorch's ``scaled_dot_product_attention`` and ONNX with four axes have heads before time; JAX's
    ``dot_product_attention``, flash-attention and Keras have time before heads; ONNX with
    three axes has them joined, heads outermost, as they come from the projection. A wrong choice
    with H = T goes unnoticed.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import transpose_heads
    >>> transpose_heads(np.zeros((2, 8, 100, 64)), "torch", "jax").shape
    (2, 100, 8, 64)
    >>> transpose_heads(np.zeros((2, 100, 512)), "onnx_3d", "dlref", num_heads=8).shape
    (2, 8, 100, 64)
    """
    choice("source", source, HEADS)
    choice("target", target, HEADS)
    array = as_array("x", x)
    kind = float_dtype("x", array.dtype)
    check_ndim("x", array, 2 if HEADS[source] == "BT(HE)" else 3)
    if HEADS[source] == "BT(HE)":
        heads = as_integer("num_heads", num_heads, least=1)
        check_multiple("x", "a number of channels", array.shape[-1], heads)
        array = array.reshape(*array.shape[:-1], heads, array.shape[-1] // heads)
    before = "BHTE" if HEADS[source] == "BHTE" else "BTHE"
    after = "BHTE" if HEADS[target] == "BHTE" else "BTHE"
    array = array if before == after else np.swapaxes(array, -2, -3)
    if HEADS[target] == "BT(HE)":
        array = array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])
    return result(np.array(array, order="C"), kind)
