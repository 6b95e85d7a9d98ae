r"""The table of conventions: how libraries define masks, layouts and defaults."""

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

#: The meaning of True in a library's mask, or that the mask is a number to be added.
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
    One row of the table: how a library handles one topic.

    Parameters
    ----------
    topic : str
        The matter.
    library : str
        The library, or libraries.
    fact : str
        The behavior of the library.
    code : str
        How to get the same from dlref, an expression; "" where there is no way, or need.

    See Also
    --------
    conventions : The table.

    Notes
    -----
    Facts were observed by running the libraries; versions change, and defaults with them. In the
    expressions, functions belong to dlref, q, k and v are queries, keys and values, x is any other
    input; the tests of dlref compare each expression with the library, or with its formula where it
    cannot be installed.

    Examples
    --------
    >>> from dlref.interop import Convention
    >>> Convention("GELU", "JAX", "tanh form by default").library
    'JAX'
    """

    topic: str
    library: str
    fact: str
    code: str = ""


ATTEND = "scaled_dot_product_attention"
TABLE = [
    Convention(topic, library, fact, code)
    for topic, rows in {
        "Causal mask, T = 2, S = 5": [
            (
                "PyTorch, JAX, ONNX without a cache",
                "top left: key j is seen if j <= i",
                f"{ATTEND}(q, k, v, is_causal=True)",
            ),
            (
                "ONNX with past keys",
                "offset by the number of past keys",
                f"{ATTEND}(q, k, v, is_causal=True, q_offset=past)",
            ),
            (
                "flash-attention from 2.1, MLX",
                "bottom right: j <= i + S - T",
                f"{ATTEND}(q, k, v, is_causal=True, q_offset=S - T)",
            ),
        ],
        "Row with every key masked": [
            ("PyTorch SDPA, ONNX, dlref", "output 0", f"{ATTEND}(q, k, v, mask=nothing)"),
            ("PyTorch's documented pseudo-code", "NaN", ""),
            ("JAX", "mean of the values", ""),
            ("nn.MultiheadAttention", "NaN or 0, by need_weights", ""),
        ],
        "Boolean mask": [
            (
                "PyTorch SDPA, JAX, ONNX, Keras, dlref",
                "True = attend",
                f"{ATTEND}(q, k, v, mask=mask)",
            ),
            (
                "nn.MultiheadAttention, nn.Transformer",
                "True = blocked",
                f"{ATTEND}(q, k, v, mask=mask_convention(~mask, 'torch_mha', 'dlref'))",
            ),
        ],
        "Axes of heads": [
            ("PyTorch, ONNX (4-D), dlref", "(B, H, T, E)", f"{ATTEND}(q, k, v)"),
            (
                "JAX, flash-attention, Keras",
                "(B, T, H, E)",
                f"transpose_heads({ATTEND}(q, k, v), 'dlref', 'jax')",
            ),
            (
                "ONNX (3-D)",
                "(B, T, H E)",
                f"transpose_heads({ATTEND}(q, k, v), 'dlref', 'onnx_3d')",
            ),
        ],
        "Softcap": [
            ("ONNX, dlref", "before the mask", f"{ATTEND}(q, k, v, softcap=0.5, mask=mask)")
        ],
        "Window of W tokens": [
            (
                "Mistral, Gemma, gpt-oss in Hugging Face",
                "sliding_window counts the query's own token",
                f"{ATTEND}(k, k, v, window=(W - 1, 0))",
            ),
            (
                "flash-attention, dlref",
                "window_size counts the tokens on each side",
                f"{ATTEND}(k, k, v, window=(W, W))",
            ),
        ],
        "Query after a rolling cache": [
            (
                "dlref",
                "its offset is the number of keys that are kept, not of all tokens",
                f"{ATTEND}(q[..., :1, :], k, v, window=(S - 1, 0), q_offset=S - 1)",
            ),
        ],
        "Sink": [
            (
                "gpt-oss, flash-attention, dlref",
                "a logit for each head, without a value",
                f"{ATTEND}(q, k, v, sink=sinks)",
            ),
            (
                "nn.MultiheadAttention with add_zero_attn",
                "a key and a value of zeros: the logit 0",
                f"{ATTEND}(q, k, v, sink=np.zeros(len(sinks)))",
            ),
        ],
        "Scores of float64 inputs": [
            ("PyTorch, dlref", "computed in float64", f"{ATTEND}(q, k, v)"),
            ("JAX", "rounded to float32 before the softmax", ""),
        ],
        "Gradient of attention's log-sum-exp": [
            (
                "dlref",
                "is added to the gradient of the output",
                f"{ATTEND}_vjp(u, q, k, v, dlse=dlse)[0]",
            ),
            (
                "JAX with return_residual",
                "0: the log-sum-exp counts as a constant",
                f"{ATTEND}_vjp(u, q, k, v)[0]",
            ),
        ],
        "LSTM gates": [
            ("PyTorch, dlref", "i, f, g, o", "lstm(x, None, None, w_ih, w_hh, b)[0]"),
            (
                "ONNX",
                "i, o, f, c",
                (
                    "lstm(x, None, None, *(convert_gates(a, 'onnx', 'torch', cell='lstm')"
                    " for a in onnx))[0]"
                ),
            ),
            (
                "Keras",
                "i, f, c, o; weights transposed; forget bias starts at 1",
                "lstm(x, None, None, *(a.T for a in keras))[0]",
            ),
            (
                "TensorFlow's LSTMCell",
                "i, c, f, o; adds forget_bias, 1, to f at run time, left out here",
                (
                    "lstm(x, None, None, *(convert_gates(a, 'tensorflow', 'torch', cell='lstm')"
                    " for a in tensorflow))[0]"
                ),
            ),
        ],
        "GRU": [
            (
                "PyTorch, dlref",
                "r, z, n; reset after the product",
                "gru(x, None, w3_ih, w3_hh, b3, c3)",
            ),
            (
                "ONNX",
                "z, r, h; reset before by default",
                (
                    "gru(x, None, *(convert_gates(a, 'onnx', 'torch', cell='gru') for a in onnx3),"
                    " reset_after=False)"
                ),
            ),
            (
                "Keras",
                "z, r, h; weights transposed; reset_after=True",
                "gru(x, None, *(convert_gates(a.T, 'keras', 'torch', cell='gru') for a in keras3))",
            ),
        ],
        "GELU": [
            ("PyTorch, ONNX, dlref by default; BERT in Hugging Face", "exact", "gelu(x)"),
            (
                "JAX by default; GPT-2, T5 1.1",
                "tanh form, up to 4.7e-4 away",
                "gelu(x, approximate='tanh')",
            ),
        ],
        "eps of layer norm": [
            ("PyTorch, ONNX, dlref", "1e-5", "layer_norm(x)"),
            ("Keras", "1e-3", "layer_norm(x, eps=1e-3)"),
        ],
        "eps of RMS norm": [
            (
                "PyTorch",
                "that of the dtype it computes in: float32 for half precision",
                "rms_norm(x, eps=np.finfo(np.promote_types(x.dtype, np.float32)).eps)",
            ),
            ("ONNX", "1e-5", "rms_norm(x, eps=1e-5)"),
            ("dlref", "1e-6", "rms_norm(x)"),
        ],
        "RMS norm's weight": [("Gemma", "1 + w", "rms_norm(x, w, weight_offset=1)")],
        "Momentum of batch norm": [
            (
                "ONNX",
                "weights the old value; keeps the biased variance",
                "batch_norm_update(running, x.var(0), momentum=1 - 0.9)",
            ),
            (
                "PyTorch",
                "weights the new value; keeps the unbiased variance",
                "batch_norm_update(running, x.var(0, ddof=1), momentum=0.1)",
            ),
        ],
        "Hard sigmoid": [
            ("ONNX", "0.2 x + 0.5", "hard_sigmoid(x, alpha=0.2)"),
            ("PyTorch, JAX, Keras 3, dlref", "x / 6 + 0.5", "hard_sigmoid(x)"),
            (
                "PyTorch's backward pass",
                "the slope is 1/6 rounded to float32, for float64 too",
                "hard_sigmoid_vjp(g, w, alpha=float(np.float32(1 / 6)))",
            ),
        ],
        "Norms of a block": [
            (
                "nn.TransformerEncoderLayer, the paper, dlref's encoder_block",
                "after each sum by default (norm_first=False)",
                "",
            ),
            ("GPT-2, LLaMA, dlref's LanguageModelConfig", "before each sub-layer", ""),
        ],
        "KL divergence": [
            (
                "PyTorch with reduction='batchmean', dlref",
                "log-probabilities first; a mean over rows",
                "kl_divergence(log_p, p)",
            ),
            (
                "PyTorch by default",
                "a mean over all elements",
                "kl_divergence(log_p, p) / p.shape[-1]",
            ),
            (
                "Keras, SciPy",
                "the target first, as probabilities",
                "kl_divergence(np.log(other), p, reduction='none')",
            ),
        ],
        "Label smoothing by 0.1, K classes": [
            (
                "PyTorch, Keras, dlref",
                "0.1 / K for each class, the true one included",
                "cross_entropy(scores, labels, label_smoothing=0.1)",
            ),
            (
                "fairseq",
                "0.1 / (K - 1) for each of the others",
                "cross_entropy(scores, labels, label_smoothing=0.1 * K / (K - 1))",
            ),
        ],
        "eps of Adam, first step": [
            (
                "PyTorch, JAX, dlref",
                "added to the root of the corrected second moment",
                "adam_step(w, g, None, learning_rate=0.1, eps=0.01)[0]",
            ),
            (
                "TensorFlow, Keras",
                "added before the correction: the paper's epsilon hat",
                "adam_step(w, g, None, learning_rate=0.1, eps=0.01 / np.sqrt(1 - 0.999))[0]",
            ),
        ],
        "Maximum of AMSGrad, second step": [
            (
                "PyTorch, dlref",
                "of the second moment before its correction",
                (
                    "adam_step(w, g, adam_step(w, 2 * g, None, learning_rate=0.1,"
                    " amsgrad=True)[1], learning_rate=0.1, amsgrad=True)[0]"
                ),
            ),
            ("optax", "of the corrected second moment", ""),
        ],
        "z-loss with weights of classes": [
            (
                "dlref",
                "divided by the sum of the targets' weights, as the loss is",
                "cross_entropy(scores, labels, weight=shares, z_loss=0.1)",
            ),
            (
                "Liger",
                "divided by the number of targets",
                (
                    "cross_entropy(scores, labels, weight=shares)"
                    " + cross_entropy(scores, labels, z_loss=0.1) - cross_entropy(scores, labels)"
                ),
            ),
        ],
        "Top p, a sum that is p exactly": [
            (
                "dlref",
                "enough, in every dtype",
                "next_token_probabilities(np.log([1 / 2, 1 / 4, 1 / 8, 1 / 8]), top_p=7 / 8)",
            ),
            (
                "Hugging Face",
                "enough in float32; in float64 rounding may keep one more token",
                "",
            ),
        ],
        "Warm-up of W steps": [
            (
                "Hugging Face, optax",
                "steps count from 0: the first one has the rate 0",
                "warmup_schedule(np.arange(6), peak=0.5, warmup=W)",
            ),
            (
                "the paper, dlref",
                "steps count from 1: the first one has the rate peak / W",
                "warmup_schedule(np.arange(1, 7), peak=0.5, warmup=W)",
            ),
        ],
        "Weights of a router": [
            (
                "Mixtral, Qwen3-MoE with norm_topk_prob, dlref",
                "softmax of all, the k largest, divided by their sum",
                "np.sort(top_k_router(x, router, k=2).weights)",
            ),
            (
                "Switch, OLMoE",
                "softmax of all, the k largest",
                "np.sort(top_k_router(x, router, k=2, normalize=False).weights)",
            ),
            (
                "gpt-oss",
                "softmax of the k largest: the same as Mixtral's",
                "np.sort(top_k_router(x, router, k=2, score='softmax_of_top').weights)",
            ),
            (
                "DeepSeek-V3",
                "sigmoids; a correction for the choice alone; divided by their sum",
                (
                    "np.sort(top_k_router(x, router, k=2, score='sigmoid',"
                    " correction=correction).weights)"
                ),
            ),
        ],
        "Sinusoids": [
            (
                "the paper, dlref",
                "sine and cosine alternate, exponent 2i/d",
                "sinusoidal(T, 8)",
            ),
            (
                "tensor2tensor",
                "halves, exponent i/(d/2 - 1)",
                "sinusoidal(T, 8, layout='halves', spacing='tensor2tensor')",
            ),
        ],
        "Weights of a dense layer": [
            ("PyTorch, dlref", "(n_out, n_in)", "linear(x, weight)"),
            (
                "Keras, JAX, GPT-2 in Hugging Face",
                "(n_in, n_out)",
                "linear(x, kernel.T)",
            ),
        ],
        "Rotated pairs": [
            ("the paper, GPT-J, dlref", "neighbors", "apply_rope(q, cos, sin)"),
            (
                "GPT-NeoX, LLaMA in Hugging Face",
                "halves",
                "apply_rope(q, cos, sin, interleaved=False)",
            ),
        ],
        "ALiBi, 12 heads": [
            ("the paper's rule", "0.63, 0.397, ...", ""),
            (
                "the official code, dlref",
                "0.5, ..., 0.0039, 0.707, 0.354, 0.177, 0.088",
                "alibi_slopes(12)",
            ),
        ],
        "T5": [
            (
                "T5, dlref",
                "32 buckets up to 128; scores not divided by the root of E",
                f"{ATTEND}(q, k, v, bias=t5_bias(table, T, S), scale=1.0)",
            )
        ],
    }.items()
    for library, fact, code in rows
]


def conventions(topic: str | None = None) -> tuple[Convention, ...]:
    r"""
    List the behavior of libraries where they differ.

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
    The page :doc:`/conformance` shows the whole table.

    Examples
    --------
    >>> from dlref.interop import conventions
    >>> for row in conventions("eps of layer norm"):
    ...     print(f"{row.library}: {row.fact}, {row.code}")
    PyTorch, ONNX, dlref: 1e-5, layer_norm(x)
    Keras: 1e-3, layer_norm(x, eps=1e-3)
    """
    if topic is not None and not isinstance(topic, str):
        msg = f"Argument 'topic' must be text, not {shown(topic)}."
        raise TypeError(msg)
    return tuple(row for row in TABLE if topic is None or topic.lower() in row.topic.lower())


def mask_convention(mask: npt.ArrayLike, source: str, target: str) -> npt.NDArray[Any]:
    r"""
    Convert an attention mask from the convention of one library to another's.

    Parameters
    ----------
    mask : array_like
        Boolean, or real for "additive": the number added to each score, 0 or −inf.
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

    A finite number such as −1e9 is not a mask: in float16 it overflows, and a row of nothing but
    such numbers attends to all keys: equally in float32, as if there were no mask in float64. So it
    is refused here; a finite bias is an argument of its own in dlref.

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
