r"""What libraries mean by a mask, and by the rest: the table of conventions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatDType,
    as_array,
    choice,
    float_dtype,
    shown,
)

__all__ = ["Convention", "conventions", "mask_convention"]

#: What True means in a library's mask, or that it is a number to be added.
MASKS = {
    "dlref": "attend",
    "torch_sdpa": "attend",
    "torch_mha": "blocked",
    "jax": "attend",
    "onnx": "attend",
    "keras": "attend",
    "additive": "additive",
}


class Convention(NamedTuple):
    """
    One row of the table: what a library does in one matter.

    Parameters
    ----------
    topic : str
        The matter.
    library : str
        The library, or libraries.
    fact : str
        What it does.

    See Also
    --------
    conventions : The table.

    Notes
    -----
    Facts were observed by running the libraries; versions change, and with them defaults.

    Examples
    --------
    >>> from dlref.interop import Convention
    >>> Convention("GELU", "JAX", "tanh form by default").library
    'JAX'
    """

    topic: str
    library: str
    fact: str


TABLE = [
    Convention(
        "Causal mask, T = 2, S = 5",
        "PyTorch, JAX, ONNX without a cache",
        "top left: key j is seen if j <= i",
    ),
    Convention(
        "Causal mask, T = 2, S = 5", "ONNX with past keys", "offset by the number of past keys"
    ),
    Convention(
        "Causal mask, T = 2, S = 5", "flash-attention from 2.1, MLX", "bottom right: j <= i + S - T"
    ),
    Convention("Causal mask, T = 2, S = 5", "dlref", "j <= i + q_offset"),
    Convention("Row with every key masked", "PyTorch SDPA, ONNX, dlref", "output 0"),
    Convention("Row with every key masked", "PyTorch's documented pseudo-code", "NaN"),
    Convention("Row with every key masked", "JAX", "mean of the values"),
    Convention("Row with every key masked", "nn.MultiheadAttention", "NaN or 0, by need_weights"),
    Convention("Boolean mask", "PyTorch SDPA, JAX, ONNX, Keras, dlref", "True = attend"),
    Convention("Boolean mask", "nn.MultiheadAttention, nn.Transformer", "True = blocked"),
    Convention("Axes of heads", "PyTorch, ONNX (4-D), dlref", "(B, H, T, E)"),
    Convention("Axes of heads", "JAX, flash-attention", "(B, T, H, E)"),
    Convention("Axes of heads", "ONNX (3-D)", "(B, T, H E)"),
    Convention("Softcap", "ONNX, dlref", "before the mask"),
    Convention("LSTM gates", "PyTorch, dlref", "i, f, g, o"),
    Convention("LSTM gates", "ONNX", "i, o, f, c"),
    Convention("LSTM gates", "Keras", "i, f, c, o; forget bias starts at 1"),
    Convention("GRU", "PyTorch, dlref", "r, z, n; reset after the product"),
    Convention("GRU", "ONNX", "z, r, h; reset before by default"),
    Convention("GRU", "Keras", "z, r, h; reset_after=True"),
    Convention("GELU by default", "PyTorch, ONNX, dlref", "exact"),
    Convention("GELU by default", "JAX", "tanh form, up to 4.7e-4 away"),
    Convention("GELU of models", "GPT-2, T5 1.1", "tanh form"),
    Convention("GELU of models", "BERT", "exact"),
    Convention("eps of layer norm", "PyTorch, ONNX, dlref", "1e-5"),
    Convention("eps of RMS norm", "PyTorch", "that of the dtype"),
    Convention("eps of RMS norm", "ONNX", "1e-5"),
    Convention("eps of RMS norm", "dlref", "1e-6"),
    Convention("RMS norm's weight", "Gemma", "1 + w (weight_offset=1 in dlref)"),
    Convention(
        "Momentum of batch norm", "ONNX", "weights the old value; keeps the biased variance"
    ),
    Convention(
        "Momentum of batch norm", "PyTorch", "weights the new value; keeps the unbiased variance"
    ),
    Convention("Hard sigmoid", "ONNX", "0.2 x + 0.5"),
    Convention("Hard sigmoid", "PyTorch, dlref", "x / 6 + 0.5"),
    Convention("Sinusoids", "the paper, dlref", "sine and cosine alternate, exponent 2i/d"),
    Convention("Sinusoids", "tensor2tensor", "halves, exponent i/(d/2 - 1)"),
    Convention("Weights of a dense layer", "PyTorch, dlref", "(n_out, n_in)"),
    Convention("Weights of a dense layer", "Keras, GPT-2 in Hugging Face", "(n_in, n_out)"),
    Convention("Rotated pairs", "the paper, GPT-J, dlref", "neighbours"),
    Convention("Rotated pairs", "GPT-NeoX, LLaMA in Hugging Face", "halves"),
    Convention("ALiBi, 12 heads", "the paper's rule", "0.63, 0.397, ..."),
    Convention(
        "ALiBi, 12 heads",
        "the official code, dlref",
        "0.5, ..., 0.0039, 0.707, 0.354, 0.177, 0.088",
    ),
    Convention("T5", "T5, dlref", "32 buckets up to 128; scores not divided by the root of E"),
]


def conventions(topic: str | None = None) -> tuple[Convention, ...]:
    r"""
    List what libraries do where they differ.

    Parameters
    ----------
    topic : str or None
        Part of the name of a topic, in any case; None is everything.

    Returns
    -------
    tuple of Convention
        Rows of the table.

    Raises
    ------
    TypeError
        If `topic` is not a string.

    See Also
    --------
    mask_convention, transpose_heads, convert_gates, to_half_split : How to get from one to another.

    Notes
    -----
    The page on interoperation shows the whole table.

    Examples
    --------
    >>> from dlref.interop import conventions
    >>> for row in conventions("gelu by default"):
    ...     print(row.library, "-", row.fact)
    PyTorch, ONNX, dlref - exact
    JAX - tanh form, up to 4.7e-4 away
    """
    if topic is not None and not isinstance(topic, str):
        msg = f"Argument 'topic' must be text, not {shown(topic)}."
        raise TypeError(msg)
    return tuple(row for row in TABLE if topic is None or topic.lower() in row.topic.lower())


def mask_convention(mask: npt.ArrayLike, source: str, target: str) -> npt.NDArray[Any]:
    r"""
    Bring a mask of attention from the convention of one library to another's.

    Parameters
    ----------
    mask : array_like
        Boolean, or real for "additive": what is added to the scores, 0 or −inf.
    source, target : {"dlref", "torch_sdpa", "torch_mha", "jax", "onnx", "keras", "additive"}
        The library that the mask comes from, and the one that it is for.

    Returns
    -------
    ndarray, shape of `mask`
        A copy in the convention of `target`: boolean, or float64 (the dtype of `mask` if it was
        additive) for "additive".

    Raises
    ------
    TypeError
        If a boolean mask is not boolean, or an additive one not real.
    ValueError
        If a name is not known, or an additive mask has entries besides 0 and −inf.

    See Also
    --------
    dlref.attention.causal_mask : A mask to start from.
    transpose_heads : The other thing in which attention differs.

    Notes
    -----
    True means "attend" to all but ``nn.MultiheadAttention`` and the layers built on it, where it
    means "blocked". A mask of the wrong polarity raises no error: a causal model then sees its
    future and nothing else, and training shows a suspiciously small loss.

    A finite number such as −1e9 is not a mask: in float16 it overflows, and a row
    of nothing but such numbers attends to everything alike. So it is refused here; a finite bias
    is an argument of its own in dlref.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import mask_convention
    >>> causal = np.tri(2, dtype=bool)
    >>> mask_convention(causal, "dlref", "torch_mha")
    array([[False,  True],
           [False, False]])
    >>> mask_convention(causal, "dlref", "additive")
    array([[  0., -inf],
           [  0.,   0.]])
    """
    choice("source", source, MASKS)
    choice("target", target, MASKS)
    array = as_array("mask", mask)
    kind: FloatDType = np.dtype(np.float64)
    if MASKS[source] == "additive":
        kind = float_dtype("mask", array.dtype)
        attend = array == 0
        if not np.all(attend | np.isneginf(array.astype(np.float64))):
            bad = array[~(attend | np.isneginf(array.astype(np.float64)))].flat[0]
            msg = f"Argument 'mask' must hold only 0 and -inf, not {bad}."
            raise ValueError(msg)
    elif array.dtype.kind != "b":
        msg = f"Argument 'mask' must be boolean, not {array.dtype}."
        raise TypeError(msg)
    else:
        attend = array if MASKS[source] == "attend" else ~array
    if MASKS[target] == "additive":
        return np.where(attend, 0.0, -np.inf).astype(kind)
    return np.array(attend if MASKS[target] == "attend" else ~attend)
