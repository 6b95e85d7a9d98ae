r"""The order in which libraries store the gates of recurrent cells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_array, choice, float_dtype, result, wrong_shape

#: The blocks of the first axis, from top to bottom, in dlref's letters.
ORDERS = {
    "lstm": {"torch": "ifgo", "onnx": "iofg", "keras": "ifgo", "tensorflow": "igfo"},
    "gru": {"torch": "rzn", "onnx": "zrn", "keras": "zrn", "tensorflow": "rzn"},
}


def convert_gates(w: npt.ArrayLike, source: str, target: str, *, cell: str) -> FloatArray:
    r"""
    Reorder the gates of a recurrent cell from the convention of one library to another's.

    Parameters
    ----------
    w : array_like, shape (4 H, ...) or (3 H, ...)
        Weights or biases with the gates one below the other on the first axis.
    source, target : {"torch", "onnx", "keras", "tensorflow"}
        The library that `w` comes from, and the one that it is for. dlref keeps gates as "torch".
    cell : {"lstm", "gru"}
        The kind of cell: 4 or 3 blocks.

    Returns
    -------
    ndarray, shape of `w`
        A copy with the blocks in the order of `target`.

    Raises
    ------
    TypeError
        If `w` is not real.
    ValueError
        If the first axis is not a multiple of 4 (LSTM) or 3 (GRU), or a name is not known.

    See Also
    --------
    dlref.recurrent.lstm, dlref.recurrent.gru : The meaning of the gates.

    Notes
    -----
    With the letters of dlref: i input, f forget, g candidate (also called c), o output; r reset,
    z update, n candidate (also called h).

    ============ ============ ========== ==========================================================
    library      LSTM         GRU        other differences
    ============ ============ ========== ==========================================================
    PyTorch      i, f, g, o   r, z, n    reset after the product; weights (gates H, D); two biases
    ONNX         i, o, f, g   z, r, n    reset before by default (``linear_before_reset``); an axis
                                         for the direction first; biases W and R concatenated;
                                         peepholes i, o, f
    Keras        i, f, g, o   z, r, n    weights transposed, (D, gates H); ``unit_forget_bias``
                                         starts that bias at 1; GRU reset after (``reset_after``)
                                         with biases (2, 3 H)
    TensorFlow 1 i, g, f, o   r, z, n    one kernel (D + H, gates H) for input and state;
                                         ``forget_bias``, 1, is added at run time, not
                                         stored: add it to block f of a converted bias; GRU reset
                                         before, and r, z and n are two kernels, ``gates`` and
                                         ``candidate``, here thought of as one below the other
    ============ ============ ========== ==========================================================

    This function permutes blocks and nothing else: it transposes no matrix and adds no bias. It is
    linear and orthogonal; to convert a gradient back, exchange `source` and `target`. A wrong order
    often goes unnoticed: with constant weights, as in the test cases that ONNX publishes, all
    orders agree.

    Examples
    --------
    One row for each gate of an LSTM with one unit, from PyTorch's i, f, g, o to ONNX's i, o, f, c:

    >>> from dlref.interop import convert_gates
    >>> convert_gates([1, 2, 3, 4], "torch", "onnx", cell="lstm")
    array([1., 4., 2., 3.])

    And back, here for a GRU with two units:

    >>> convert_gates([3, 4, 1, 2, 5, 6], "onnx", "torch", cell="gru")
    array([1., 2., 3., 4., 5., 6.])
    """
    choice("cell", cell, ORDERS)
    choice("source", source, ORDERS[cell])
    choice("target", target, ORDERS[cell])
    array = as_array("w", w)
    dtype = float_dtype("w", array.dtype)
    before, after = ORDERS[cell][source], ORDERS[cell][target]
    count = len(before)
    if array.ndim < 1 or array.shape[0] % count:
        wrong_shape("w", array, f"({count} H, ...)")
    blocks = np.split(array, count)
    return result(np.concatenate([blocks[before.index(gate)] for gate in after]), dtype)
