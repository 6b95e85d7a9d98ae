r"""Layouts of the state dicts of PyTorch's modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import FloatArray
from .._core.pytree import displayed, named_leaves
from ..attention import AttentionParams
from ..neurons import LinearParams
from ..transformer import DecoderBlockParams, EncoderBlockParams, FeedForwardParams, NormParams
from ._tensors import Tensor


@displayed
class BatchNormParams(NamedTuple):
    r"""
    Parameters and statistics of batch normalization.

    Parameters
    ----------
    mean : ndarray, shape (C,)
        Means gathered in training, ``running_mean``.
    var : ndarray, shape (C,)
        Unbiased variances gathered in training, ``running_var``.
    weight : ndarray or None, shape (C,)
        Factor of each feature; None is 1.
    bias : ndarray or None, shape (C,)
        Offset of each feature; None is 0.

    See Also
    --------
    from_state_dict : Makes them of a ``BatchNorm``.
    dlref.normalization.batch_norm_inference : Takes them.

    Notes
    -----
    The order is the order of the arguments of :func:`dlref.normalization.batch_norm_inference`
    after x, which takes ``*params``. PyTorch has the channels on the second axis, dlref on the
    last.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import BatchNormParams
    >>> from dlref.normalization import batch_norm_inference
    >>> params = BatchNormParams(np.array([1.0]), np.array([4.0]))
    >>> batch_norm_inference([[5.0]], *params, eps=0)
    array([[2.]])
    """

    mean: FloatArray
    var: FloatArray
    weight: FloatArray | None = None
    bias: FloatArray | None = None


@displayed
class RecurrentParams(NamedTuple):
    r"""
    Parameters of one layer of a recurrent network, in one direction.

    Parameters
    ----------
    w_ih : ndarray, shape (G H, D)
        Weights of the input, G = 1, 3 or 4 blocks: one for each gate.
    w_hh : ndarray, shape (G H, H)
        Weights of the state.
    b_ih : ndarray or None, shape (G H,)
        Biases added to the first product.
    b_hh : ndarray or None, shape (G H,)
        Biases added to the second one.

    See Also
    --------
    from_state_dict : Makes them of an ``RNN``, ``LSTM`` or ``GRU``, or of a cell.
    dlref.recurrent.rnn, dlref.recurrent.lstm, dlref.recurrent.gru : Takes them.

    Notes
    -----
    The order is the order of the arguments of :func:`dlref.recurrent.lstm` and its kin after the
    states, which take ``*params``. Gates are in PyTorch's order, which is dlref's.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import RecurrentParams
    >>> from dlref.recurrent import rnn
    >>> params = RecurrentParams(np.array([[2.0]]), np.array([[1.0]]))
    >>> rnn([[1.0], [1.0]], None, *params, activation="identity")
    array([[2.], [4.]])
    """

    w_ih: FloatArray
    w_hh: FloatArray
    b_ih: FloatArray | None = None
    b_hh: FloatArray | None = None


class Module(NamedTuple):
    """How the state dict of a kind of module is laid out, which may depend on its options."""

    layout: Callable[..., Any]  # of the options
    of_names: Callable[[Collection[str]], tuple[Any, ...]]  # the options, from a state dict
    of_params: Callable[[Any], tuple[Any, ...]]  # the same, from parameters


def _plain(layout: Any) -> Module:
    """Make a module without options."""
    return Module(lambda: layout, lambda _names: (), lambda _params: ())


def _named_bias(names: Collection[str]) -> bool:
    """Whether one of the tensors is a bias: then all are there."""
    return any(re.search(r"bias(_[ih]h\w*)?$", name) for name in names)


def _has_bias(params: Any) -> bool:
    paths = [path for path, _ in named_leaves("", params)]
    return any(re.search(r"(^|\.)b(_|\d|ias)\w*$", path) for path in paths)


def count(names: Collection[str], pattern: str) -> int:
    """Return how many numbers stand in the place that a pattern marks in the names, at least 1."""
    matches = (re.match(pattern, name) for name in names)
    return max(len({match[1] for match in matches if match}), 1)


def norm_layout(name: str, *, bias: bool, size: str = "D") -> NormParams:
    """Return where a normalization is."""
    offset = Tensor(f"{name}bias", size) if bias else None
    return NormParams(Tensor(f"{name}weight", size), offset)  # type: ignore[arg-type]


def linear_layout(name: str, rows: str, columns: str, *, bias: bool) -> tuple[Any, Any]:
    """Return where the weight and the bias of a dense layer are."""
    offset = Tensor(f"{name}bias", rows) if bias else None
    return Tensor(f"{name}weight", f"{rows}, {columns}"), offset


# Attention.


def _attention(bias: bool, separate: bool, name: str = "") -> AttentionParams:
    def projections(suffix: str, shape: str) -> list[Any]:
        stacked = Tensor(f"{name}in_proj_{suffix}", shape, parts=3)
        return [stacked._replace(part=i) for i in range(3)]

    if separate:
        columns = {"q": "D", "k": "D_kv", "v": "D_kv"}
        weights = [Tensor(f"{name}{x}_proj_weight", f"D, {n}") for x, n in columns.items()]
    else:
        weights = projections("weight", "3 D, D")
    biases = projections("bias", "3 D") if bias else [None] * 3
    w_o, b_o = linear_layout(f"{name}out_proj.", "D", "D", bias=bias)
    return AttentionParams(*weights, w_o, *biases, b_o)  # type: ignore[arg-type, call-arg]


def _widths_differ(params: Any) -> bool:
    if not isinstance(params, AttentionParams):
        return False
    return np.shape(params.w_q)[-1:] != np.shape(params.w_k)[-1:]


ATTENTION = Module(
    _attention,
    lambda names: (_named_bias(names), any(f"{x}_proj_weight" in names for x in "qkv")),
    lambda params: (_has_bias(params), _widths_differ(params)),
)


# Recurrent networks.


def _gated(gates: int, end: str, inputs: str, bias: bool) -> RecurrentParams:
    rows = f"{gates} H" if gates > 1 else "H"
    weights = (
        Tensor(f"weight_ih{end}", f"{rows}, {inputs}"),
        Tensor(f"weight_hh{end}", f"{rows}, H"),
    )
    biases = [Tensor(f"bias_{x}{end}", rows) if bias else None for x in ("ih", "hh")]
    return RecurrentParams(*weights, *biases)  # type: ignore[arg-type]


def _cell(gates: int) -> Module:
    return _block(lambda bias: _gated(gates, "", "D", bias))


def _recurrent(gates: int) -> Module:
    def layout(layers: int, directions: int, bias: bool) -> Any:
        suffixes = ("", "_reverse")[:directions]
        between = f"{directions} H" if directions > 1 else "H"
        inputs = ["D", *[between] * (layers - 1)]
        return tuple(
            tuple(_gated(gates, f"_l{i}{suffix}", inputs[i], bias) for suffix in suffixes)
            for i in range(layers)
        )

    def of_names(names: Collection[str]) -> tuple[Any, ...]:
        layers = count(names, r"(?:weight|bias)_[ih]h_l(\d+)")
        reverse = any(name.endswith("_reverse") for name in names)
        return layers, 1 + reverse, _named_bias(names)

    def of_params(params: Any) -> tuple[Any, ...]:
        layers = len(params) if isinstance(params, tuple) else 1
        both = layers and isinstance(params, tuple) and isinstance(params[0], tuple)
        return max(layers, 1), 2 if both and len(params[0]) == 2 else 1, _has_bias(params)

    return Module(layout, of_names, of_params)


# Blocks and stacks.


def _network(name: str, bias: bool) -> FeedForwardParams:
    first = linear_layout(f"{name}linear1.", "F", "D", bias=bias)
    return FeedForwardParams(*first, *linear_layout(f"{name}linear2.", "D", "F", bias=bias))


def _encoder_block(bias: bool, name: str = "") -> EncoderBlockParams:
    return EncoderBlockParams(
        _attention(bias, False, f"{name}self_attn."),
        norm_layout(f"{name}norm1.", bias=bias),
        _network(name, bias),
        norm_layout(f"{name}norm2.", bias=bias),
    )


def _decoder_block(bias: bool, name: str = "") -> DecoderBlockParams:
    return DecoderBlockParams(
        _attention(bias, False, f"{name}self_attn."),
        norm_layout(f"{name}norm1.", bias=bias),
        _attention(bias, False, f"{name}multihead_attn."),
        norm_layout(f"{name}norm2.", bias=bias),
        _network(name, bias),
        norm_layout(f"{name}norm3.", bias=bias),
    )


def _block(layout: Callable[..., Any]) -> Module:
    return Module(layout, lambda names: (_named_bias(names),), lambda params: (_has_bias(params),))


def _stack(block: Callable[..., Any]) -> Module:
    def layout(layers: int, bias: bool, norm: bool, norm_bias: bool) -> Any:
        blocks = tuple(block(bias, f"layers.{i}.") for i in range(layers))
        return blocks, norm_layout("norm.", bias=norm_bias) if norm else None

    def of_names(names: Collection[str]) -> tuple[Any, ...]:
        # A layer has six tensors at least; names alone make no layout of thousands of layers.
        layers = min(count(names, r"layers\.(\d+)\."), 1 + len(names) // 4)
        bias = _named_bias([name for name in names if name.startswith("layers.")])
        return layers, bias, any(name.startswith("norm.") for name in names), "norm.bias" in names

    def of_params(params: Any) -> tuple[Any, ...]:
        fits = isinstance(params, tuple) and len(params) == 2 and isinstance(params[0], tuple)
        blocks, norm = params if fits else ((), None)
        norm_bias = getattr(norm, "bias", None) is not None
        return max(len(blocks), 1), _has_bias(blocks), norm is not None, norm_bias

    return Module(layout, of_names, of_params)


def _affine(kind: type[Any], weight: str, bias: str) -> Module:
    return _plain(kind(Tensor("weight", weight), Tensor("bias", bias, optional=True)))


_STATISTICS = BatchNormParams(
    *(Tensor(f"running_{name}", "C") for name in ("mean", "var")),  # type: ignore[arg-type]
    *(Tensor(name, "C", optional=True) for name in ("weight", "bias")),
)

#: Values of `kind` in addition to the families of models.
MODULES: dict[str, Module] = {
    "Linear": _affine(LinearParams, "n_out, n_in", "n_out"),
    "Embedding": _plain(Tensor("weight", "V, D")),
    "LayerNorm": _affine(NormParams, "D", "D"),
    "GroupNorm": _affine(NormParams, "C", "C"),
    "RMSNorm": _plain(norm_layout("", bias=False)),
    **{f"BatchNorm{end}": _plain(_STATISTICS) for end in ("", "1d", "2d", "3d")},
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
    "RNNCell": _cell(1),
    "GRUCell": _cell(3),
    "LSTMCell": _cell(4),
    "MultiheadAttention": ATTENTION,
    "TransformerEncoderLayer": _block(_encoder_block),
    "TransformerDecoderLayer": _block(_decoder_block),
    "TransformerEncoder": _stack(_encoder_block),
    "TransformerDecoder": _stack(_decoder_block),
}


def is_no_parameter(name: str) -> bool:
    """Whether a tensor of a module is a count that no function of dlref needs."""
    return name.endswith("num_batches_tracked")
