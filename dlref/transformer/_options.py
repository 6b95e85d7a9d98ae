r"""The kind of a block: every option in one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_integer,
    as_number,
    check_broadcast,
    check_flags,
    check_mapping,
    choice,
    shown,
)
from ..activations._by_name import by_name
from ..attention._block import Heads, as_heads


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockOptions:
    r"""
    Kind of a block: everything but its parameters and the arrays of one call.

    Parameters
    ----------
    num_heads : int
        Number H of heads.
    num_kv_heads : int or None
        Number of heads of keys and values, a divisor of H; None is H.
    norm_first : bool, default False
        Normalize the input of each sub-layer (GPT-2, LLaMA) instead of the sum (2017).
    norm : {None, "layer", "rms"}
        Kind of normalization; None is RMS norm where there is no bias, else layer norm.
    activation : str, default "relu"
        Activation of the network, as for :func:`feed_forward`; of the gate, if it has one.
    is_causal : bool or None
        Whether a position sees only itself and earlier ones in self-attention; None is False for
        an encoder block and True for a decoder block.
    rope : tuple (cos, sin) of array_like or None
        Tables of :func:`dlref.positions.rope_tables` for the positions of the tokens, by which
        queries and keys of self-attention are rotated; None does not rotate.
    rope_interleaved : bool, default True
        Whether pairs of channels are neighbors, or else stand in two halves.
    window : tuple (left, right) or None
        As for :func:`dlref.attention.scaled_dot_product_attention`, of self-attention.
    chunk : int or None
        Number of tokens of a chunk: a token sees tokens of its own chunk only, in self-attention
        (Llama 4, :func:`dlref.attention.chunk_mask`). Chunks are counted from position 0.
    scale : float or None
        Factor of the scores of self-attention; None is :math:`1 / \sqrt E`.
    cross_scale : float or None
        Factor of the scores of cross-attention, in decoder blocks; None is :math:`1 / \sqrt E`. T5
        has 1 for both.
    softcap : float or None
        Bound c of the scores of self-attention, :math:`c \tanh(s / c)`.
    eps : float, default 1e-5
        Epsilon of the normalizations.
    inner_eps : float or None
        Epsilon of the norms inside attention, of queries, keys and latents; None is ``eps``.
    norm_offset : float, default 0.0
        Added to the weights of norms, including the norms of queries and keys: 1 for models that
        learn the difference from 1 (Gemma, Nemotron).
    norm_after_rope : bool, default False
        Whether queries and keys are rotated before their norms, as for
        :func:`dlref.attention.multi_head_attention`.
    clip_qkv : float or None
        Bound of queries, keys and values in each attention of the block (DBRX, the first OLMo), as
        for :func:`dlref.attention.multi_head_attention`. Latent attention and delta rules have
        none.
    delta_heads : int or None
        Number of heads of queries and keys of a gated delta rule (:class:`GatedDeltaParams`); None
        is one for each head of values.
    parallel : bool, default False
        Whether attention and network read the same input, and both are added to it (GPT-J, Cohere,
        GPT-NeoX); of pre-norm encoder blocks only.
    residual_scale : float, default 1.0
        Factor of the sub-layers' outputs before they are added (Granite).
    router : dict or None
        Options of :func:`mixture_of_experts`, such as ``{"k": 2}``, where the parameters of the
        network are :class:`MixtureParams`.

    Raises
    ------
    TypeError
        If a field has the wrong type.
    ValueError
        If a field is out of range or does not fit another; the message names it.

    See Also
    --------
    encoder_block, decoder_block : Take it, or its fields as keywords.
    encoder, decoder : Take one for all blocks, or one for each block.

    Notes
    -----
    A block's equation is the same for all kinds. With the factor m of `residual_scale` and the
    dropout's factors :math:`\mat D`, a sub-layer f of a pre-norm block gives

    .. math::

        \mat Y = \mat X + m\, \mat D \odot \operatorname{norm}'(f(\operatorname{norm}(\mat X))),

    where :math:`\operatorname{norm}'` is there if the block's parameters have an output norm. A
    parallel block has, with dropout and output norms in the same places,

    .. math::

        \mat Y = \mat X + m\, A(\operatorname{norm}_1(\mat X))
            + m\, N(\operatorname{norm}_2(\mat X)),

    with :math:`\operatorname{norm}_1` twice if the parameters have no second norm: one product of
    matrices can then make queries, keys, values and hidden units at once.

    The fields of attention (`window`, `scale`, `softcap`) and the entries of `router` are checked
    where a block is run. Fields can only be given by name, so that two of them cannot be exchanged
    unnoticed, and ``dataclasses.replace`` makes another kind. Two objects are equal if they are the
    same object, since they may hold arrays.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    The object and its fields as keywords are the same; keywords change fields of an object:

    >>> import numpy as np
    >>> from dlref.transformer import BlockOptions, LanguageModelConfig, encoder_block
    >>> from dlref.transformer import init_language_model
    >>> rng = np.random.default_rng(0)
    >>> block = init_language_model(rng, LanguageModelConfig(9, 8, 2)).blocks[0]
    >>> x, gpt = rng.normal(size=(3, 8)), BlockOptions(num_heads=2, norm_first=True)
    >>> y = encoder_block(x, block, gpt, is_causal=True)
    >>> bool(np.all(y == encoder_block(x, block, num_heads=2, norm_first=True, is_causal=True)))
    True
    >>> encoder_block(x, block, num_head=2)
    Traceback (most recent call last):
    TypeError: A block got an unexpected keyword argument 'num_head'. Did you mean 'num_heads'?
    """

    num_heads: int
    num_kv_heads: int | None = None
    norm_first: bool = False
    norm: str | None = None
    activation: str = "relu"
    is_causal: bool | None = None
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    rope_interleaved: bool = True
    window: Any = None
    chunk: int | None = None
    scale: float | None = None
    cross_scale: float | None = None
    softcap: float | None = None
    eps: float = 1e-5
    inner_eps: float | None = None
    norm_offset: float = 0.0
    norm_after_rope: bool = False
    clip_qkv: float | None = None
    delta_heads: int | None = None
    parallel: bool = False
    residual_scale: float = 1.0
    router: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check every field but those that attention checks where it begins."""
        if self.inner_eps is not None:
            as_number("inner_eps", self.inner_eps, least=0)
        as_number("eps", self.eps, least=0)
        self.heads()
        by_name(self.activation)
        check_flags(norm_first=self.norm_first, parallel=self.parallel)
        if self.norm is not None:
            choice("norm", self.norm, ("layer", "rms"))
        as_number("residual_scale", self.residual_scale)
        if self.chunk is not None:
            as_integer("chunk", self.chunk, least=1)
        if self.delta_heads is not None:
            as_integer("delta_heads", self.delta_heads, least=1)
        if self.router is not None:
            check_mapping("router", self.router)
        if self.parallel and not self.norm_first:
            msg = "Argument 'parallel' must be False unless norm_first is True."
            raise ValueError(msg)

    def heads(self) -> Heads:
        """Return how channels are cut into heads and rotated."""
        return as_heads(
            self.num_heads,
            self.num_kv_heads,
            self.rope,
            self.rope_interleaved,
            norm_eps=self.eps if self.inner_eps is None else self.inner_eps,
            norm_offset=self.norm_offset,
            norm_after_rope=self.norm_after_rope,
            clip_qkv=self.clip_qkv,
        )


FIELDS = tuple(field.name for field in fields(BlockOptions))


def as_options(options: BlockOptions | None, keywords: Mapping[str, Any]) -> BlockOptions:
    """Return options with the fields that keywords change; keywords may stand alone."""
    for name in keywords:
        if name not in FIELDS:
            near = get_close_matches(name, FIELDS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            msg = f"A block got an unexpected keyword argument {name!r}.{hint}"
            raise TypeError(msg)
    if options is None:
        if "num_heads" not in keywords:
            msg = "Argument 'options' must be BlockOptions, or 'num_heads' be given by keyword."
            raise TypeError(msg)
        return BlockOptions(**keywords)
    if not isinstance(options, BlockOptions):
        msg = f"Argument 'options' must be BlockOptions or None, not {shown(options)}."
        raise TypeError(msg)
    return replace(options, **keywords)


def options_of_blocks(
    options: BlockOptions | tuple[BlockOptions, ...] | None, keywords: Mapping[str, Any], count: int
) -> list[BlockOptions]:
    """Return the options of each block of a stack; one object serves all, none at least one."""
    count = max(count, 1)
    if not isinstance(options, tuple):
        return [as_options(options, keywords)] * count
    if len(options) != count:
        some = f"a tuple of {count}, one for each block, not {len(options)} of them"
        msg = f"Argument 'options' must be BlockOptions or {some}."
        raise ValueError(msg)
    return [as_options(one, keywords) for one in options]


class Call(NamedTuple):
    """The arguments of one call of a block in addition to tokens, parameters and options."""

    mask: npt.ArrayLike | None = None
    bias: npt.ArrayLike | None = None
    q_offset: int = 0
    dropout: Any = None
    attention_dropout: Any = None
    memory_mask: npt.ArrayLike | None = None
    dbias: npt.ArrayLike | None = None  # tangent of the bias


NO_CALL = Call()


class Setup(NamedTuple):
    """Options and call of a block, checked, as the private functions take them."""

    options: BlockOptions
    heads: Heads
    attention: dict[str, Any]  # options of self-attention
    memory_mask: npt.NDArray[Any] | None
    dropout: tuple[FloatArray | None, ...]  # a factor for each sub-layer
    dbias: FloatArray | None = None


def set_up(o: BlockOptions, call: Call, sublayers: int, x: FloatArray) -> Setup:
    """Check the arguments of a call; options of attention are checked where it begins."""
    attention = {
        "mask": call.mask,
        "bias": call.bias,
        "is_causal": sublayers == 3 if o.is_causal is None else o.is_causal,
        "q_offset": call.q_offset,
        "window": o.window,
        "scale": o.scale,
        "softcap": o.softcap,
        "dropout": call.attention_dropout,
    }
    seen = None if call.memory_mask is None else as_array("memory_mask", call.memory_mask)
    factors = dropout_factors(call.dropout, sublayers, x)
    return Setup(o, o.heads(), attention, seen, factors, call.dbias)  # type: ignore[arg-type]


def dropout_factors(dropout: Any, count: int, x: FloatArray) -> tuple[FloatArray | None, ...]:
    """Check the factors of the sub-layers' outputs, one array or None each."""
    if dropout is None:
        return (None,) * count
    if not isinstance(dropout, tuple | list) or len(dropout) != count:
        got = f"{len(dropout)} entries" if isinstance(dropout, tuple | list) else repr(dropout)
        msg = f"Argument 'dropout' must be a tuple of {count} arrays or None, not {got}."
        raise ValueError(msg)
    factors = []
    for i, factor in enumerate(dropout):
        if factor is not None:
            check_broadcast(f"dropout[{i}]", np.shape(factor), x.shape)
        factors.append(None if factor is None else np.asarray(factor, x.dtype))
    return tuple(factors)


def set_up_blocks(
    each: Sequence[BlockOptions], call: Call, count: int, sublayers: int, x: FloatArray
) -> list[Setup]:
    """Check the arguments of a call of `count` blocks; dropout has an entry for each."""
    dropout = _each("dropout", call.dropout, count, "tuples")
    weights = _each("attention_dropout", call.attention_dropout, count, "arrays or None")
    return [
        set_up(o, call._replace(dropout=part, attention_dropout=factors), sublayers, x)
        for o, part, factors in zip(each[:count], dropout, weights, strict=True)
    ]


def _each(name: str, value: Any, count: int, what: str) -> Any:
    """Return an option with an entry for each block."""
    if value is None:
        return (None,) * count
    if not isinstance(value, tuple | list) or len(value) != count:
        msg = f"Argument {name!r} must be a tuple of {count} {what}, one for each block, or None."
        raise ValueError(msg)
    return value
