r"""Encoder and decoder block: attention and a feed-forward network with residual connections."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    as_generator,
    as_integer,
    as_number,
    check_broadcast,
    check_constant,
    check_flags,
    check_ndim,
    check_shape,
    check_size,
    choice,
    float_dtype,
)
from .._core.pytree import as_float_trees, as_tree_tangents, displayed, rounded, shaped_like
from ..activations._by_name import by_name
from ..attention import AttentionParams
from ..attention._block import AttentionBlock, Heads, as_heads, check_attention_params
from ..normalization import (
    layer_norm,
    layer_norm_jvp,
    layer_norm_vjp,
    rms_norm,
    rms_norm_jvp,
    rms_norm_vjp,
)
from ._feed_forward import (
    FeedForwardParams,
    GatedFeedForwardParams,
    Pullback,
    check_network,
    network_forward,
    network_tangent,
)

if TYPE_CHECKING:
    from ..attention import KVCache

__all__ = [
    "DecoderBlockParams",
    "EncoderBlockParams",
    "NormParams",
    "decoder_block",
    "decoder_block_jvp",
    "decoder_block_vjp",
    "dropout_mask",
    "encoder_block",
    "encoder_block_jvp",
    "encoder_block_vjp",
]


@displayed
class NormParams(NamedTuple):
    r"""
    Parameters of a normalization of rows.

    Parameters
    ----------
    weight : ndarray or None, shape (D,)
        Factor of each feature; None is 1.
    bias : ndarray or None, shape (D,)
        Offset of each feature. None, for RMS norm, leaves it out.

    See Also
    --------
    encoder_block : Has one for each sub-layer.
    dlref.normalization.layer_norm, dlref.normalization.rms_norm : What they are parameters of.

    Notes
    -----
    A block without the option ``norm`` takes the kind of normalization from here: RMS norm if
    there is no bias, layer norm if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import NormParams
    >>> NormParams(np.ones(2))
    NormParams(weight=array([1., 1.]), bias=None)
    """

    weight: FloatArray | None
    bias: FloatArray | None = None


@displayed
class EncoderBlockParams(NamedTuple):
    r"""
    Parameters of an encoder block, which are those of a decoder-only model's block, too.

    Parameters
    ----------
    attention : AttentionParams
        Self-attention.
    norm1 : NormParams
        Normalization that belongs to it.
    feed_forward : FeedForwardParams or GatedFeedForwardParams
        Feed-forward network.
    norm2 : NormParams
        Normalization that belongs to it.

    See Also
    --------
    encoder_block : What they are parameters of.
    DecoderBlockParams : With cross-attention.

    Notes
    -----
    With width D, F hidden units and as many key heads as heads, and all biases:
    :math:`4 D^2 + 4 D` for attention, :math:`2 F D + F + D` for the network, 4 D for the
    normalizations.

    Examples
    --------
    >>> from dlref.transformer import EncoderBlockParams
    >>> EncoderBlockParams._fields
    ('attention', 'norm1', 'feed_forward', 'norm2')
    """

    attention: AttentionParams
    norm1: NormParams
    feed_forward: FeedForwardParams | GatedFeedForwardParams
    norm2: NormParams


@displayed
class DecoderBlockParams(NamedTuple):
    r"""
    Parameters of a decoder block with cross-attention.

    Parameters
    ----------
    self_attention : AttentionParams
        Attention over the decoder's own positions.
    norm1 : NormParams
        Normalization that belongs to it.
    cross_attention : AttentionParams
        Attention over the encoder's output.
    norm2 : NormParams
        Normalization that belongs to it.
    feed_forward : FeedForwardParams or GatedFeedForwardParams
        Feed-forward network.
    norm3 : NormParams
        Normalization that belongs to it.

    See Also
    --------
    decoder_block : What they are parameters of.
    EncoderBlockParams : Without cross-attention.

    Notes
    -----
    Norm k belongs to the k-th sub-layer. It comes before the sub-layer or after the sum, as
    the option ``norm_first`` of the block says; the parameters are the same.

    Examples
    --------
    >>> from dlref.transformer import DecoderBlockParams
    >>> DecoderBlockParams._fields[2:4]
    ('cross_attention', 'norm2')
    """

    self_attention: AttentionParams
    norm1: NormParams
    cross_attention: AttentionParams
    norm2: NormParams
    feed_forward: FeedForwardParams | GatedFeedForwardParams
    norm3: NormParams


class BlockOptions(NamedTuple):
    """What a block is told besides arrays of parameters, in the order of the signatures."""

    num_heads: int
    num_kv_heads: int | None = None
    norm_first: bool = False
    norm: str | None = None
    activation: str = "relu"
    is_causal: bool = False
    mask: npt.ArrayLike | None = None
    bias: npt.ArrayLike | None = None
    rope: Any = None
    rope_interleaved: bool = True
    q_offset: int = 0
    window: Any = None
    scale: float | None = None
    softcap: float | None = None
    dropout: Any = None
    attention_dropout: Any = None
    eps: float = 1e-5
    memory_mask: npt.ArrayLike | None = None


class Options(NamedTuple):
    """The same, checked."""

    heads: Heads
    norm_first: bool
    norm: str | None
    activation: str
    eps: float
    attention: dict[str, Any]  # options of self-attention
    memory_mask: npt.NDArray[Any] | None
    dropout: tuple[FloatArray | None, ...]  # a factor for each sub-layer
    dbias: FloatArray | None = None  # tangent of the bias


# Private functions compute in the dtype they are given and check nothing.  `..._forward` returns
# the output and a pullback, which turns its cotangent into those of the inputs; `..._tangent`
# returns the output and its tangent.


def norm_forward(
    x: FloatArray, p: NormParams, kind: str | None, eps: float
) -> tuple[FloatArray, Pullback]:
    """Normalize rows."""
    if kind == "layer" or (kind is None and p.bias is not None):
        y = layer_norm(x, p.weight, p.bias, eps=eps)

        def pullback(u: FloatArray) -> tuple[FloatArray, NormParams]:
            return _norm_grads(layer_norm_vjp(u, x, p.weight, p.bias, eps=eps), p)

    else:
        y = rms_norm(x, p.weight, eps=eps)

        def pullback(u: FloatArray) -> tuple[FloatArray, NormParams]:
            return _norm_grads(rms_norm_vjp(u, x, p.weight, eps=eps), p)

    return y, pullback


def _norm_grads(grads: Any, p: NormParams) -> tuple[FloatArray, NormParams]:
    dx, *rest = grads if isinstance(grads, tuple) else (grads,)
    entries = iter(rest)
    return dx, NormParams(*(None if a is None else next(entries) for a in p))


def norm_tangent(
    x: FloatArray, v: FloatArray, p: NormParams, dp: NormParams, kind: str | None, eps: float
) -> tuple[FloatArray, FloatArray]:
    """Normalize rows, with a tangent."""
    y, _ = norm_forward(x, p, kind, eps)
    if kind == "layer" or (kind is None and p.bias is not None):
        return y, layer_norm_jvp((x, *p), (v, *dp), eps=eps)
    return y, rms_norm_jvp((x, p.weight), (v, dp[0]), eps=eps)


@np.errstate(all="ignore")
def _residual(
    x: FloatArray, sublayer: Any, norm: NormParams, o: Options, factor: FloatArray | None
) -> tuple[FloatArray, Pullback]:
    """Run a sub-layer with its residual sum and norm; cotangents (dx, dnorm, *its own)."""
    if o.norm_first:
        z, norm_pullback = norm_forward(x, norm, o.norm, o.eps)
        f, sublayer_pullback = sublayer(z)

        @np.errstate(all="ignore")
        def pullback(u: FloatArray) -> tuple[Any, ...]:
            dz, *rest = sublayer_pullback(u if factor is None else factor * u)
            dx, dnorm = norm_pullback(dz)
            return (u + dx, dnorm, *rest)

        return x + (f if factor is None else factor * f), pullback
    f, sublayer_pullback = sublayer(x)
    y, norm_pullback = norm_forward(x + (f if factor is None else factor * f), norm, o.norm, o.eps)

    @np.errstate(all="ignore")
    def pullback_through_norm(u: FloatArray) -> tuple[Any, ...]:
        ds, dnorm = norm_pullback(u)
        dx, *rest = sublayer_pullback(ds if factor is None else factor * ds)
        return (ds + dx, dnorm, *rest)

    return y, pullback_through_norm


@np.errstate(all="ignore")
def _residual_tangent(
    x: FloatArray,
    v: FloatArray,
    sublayer: Any,
    norm: tuple[NormParams, NormParams],
    o: Options,
    factor: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    c = 1 if factor is None else factor
    if o.norm_first:
        f, df = sublayer(*norm_tangent(x, v, *norm, o.norm, o.eps))
        return x + c * f, v + c * df
    f, df = sublayer(x, v)
    return norm_tangent(x + c * f, v + c * df, *norm, o.norm, o.eps)


def _self_attention(
    x: FloatArray, p: AttentionParams, o: Options, cache: KVCache | None = None
) -> tuple[AttentionBlock, Pullback]:
    """Let every position attend to all; cotangents (dx, dparams, dbias)."""
    block = AttentionBlock(x, x, p, o.heads, cache, **o.attention)

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> tuple[Any, ...]:
        dx_q, dx_kv, dp, *dbias = block.vjp(u)
        return dx_q + dx_kv, dp, dbias[0] if dbias else None

    return block, pullback


def _cross_attention(
    x: FloatArray,
    memory: FloatArray,
    p: AttentionParams,
    o: Options,
    cache: KVCache | None = None,
) -> tuple[AttentionBlock, Pullback]:
    """Let every position attend to `memory`; cotangents (dx, dmemory, dparams)."""
    heads = o.heads._replace(rope=None)
    block = AttentionBlock(x, memory, p, heads, cache, mask=o.memory_mask)
    return block, block.vjp


def encoder_block_forward(
    x: FloatArray,
    p: EncoderBlockParams,
    o: Options,
    cache: KVCache | None = None,
    seen: list[AttentionBlock] | None = None,
) -> tuple[FloatArray, Pullback]:
    """
    Run an encoder block; the cotangents are (dx, dparams, dbias).

    `cache` has the keys and values of earlier positions; `seen` gets the attention.
    """

    def attend(z: FloatArray) -> tuple[FloatArray, Pullback]:
        block, pullback = _self_attention(z, p.attention, o, cache)
        if seen is not None:
            seen.append(block)
        return block.out(), pullback

    y, pullback1 = _residual(x, attend, p.norm1, o, o.dropout[0])
    out, pullback2 = _residual(
        y, lambda z: network_forward(z, p.feed_forward, o.activation), p.norm2, o, o.dropout[1]
    )

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        dy, dnorm2, dnetwork = pullback2(u)
        dx, dnorm1, dattention, dbias = pullback1(dy)
        return dx, EncoderBlockParams(dattention, dnorm1, dnetwork, dnorm2), dbias

    return out, pullback


def _self_attention_tangent(p: AttentionParams, dp: AttentionParams, o: Options) -> Any:
    def attend(z: FloatArray, dz: FloatArray) -> tuple[FloatArray, FloatArray]:
        block, _ = _self_attention(z, p, o)
        return block.out(), block.jvp(dz, dz, dp, dbias=o.dbias)[0]

    return attend


def encoder_block_tangent(
    x: FloatArray, v: FloatArray, p: EncoderBlockParams, dp: EncoderBlockParams, o: Options
) -> tuple[FloatArray, FloatArray]:
    """Run an encoder block with tangents."""
    attend = _self_attention_tangent(p.attention, dp.attention, o)
    x, v = _residual_tangent(x, v, attend, (p.norm1, dp.norm1), o, o.dropout[0])
    return _residual_tangent(
        x,
        v,
        lambda z, dz: network_tangent(z, dz, p.feed_forward, dp.feed_forward, o.activation),
        (p.norm2, dp.norm2),
        o,
        o.dropout[1],
    )


def decoder_block_forward(
    x: FloatArray,
    memory: FloatArray,
    p: DecoderBlockParams,
    o: Options,
    caches: tuple[KVCache, KVCache] | tuple[None, None] = (None, None),
    seen: list[AttentionBlock] | None = None,
) -> tuple[FloatArray, Pullback]:
    """
    Run a decoder block; the cotangents are (dx, dmemory, dparams, dbias).

    `caches` have the keys and values of earlier positions and of earlier memory; `seen` gets the
    cross-attention.
    """

    def attend(z: FloatArray) -> tuple[FloatArray, Pullback]:
        block, pullback = _self_attention(z, p.self_attention, o, caches[0])
        return block.out(), pullback

    def read(z: FloatArray) -> tuple[FloatArray, Pullback]:
        block, pullback = _cross_attention(z, memory, p.cross_attention, o, caches[1])
        if seen is not None:
            seen.append(block)
        return block.out(), pullback

    y, pullback1 = _residual(x, attend, p.norm1, o, o.dropout[0])
    y, pullback2 = _residual(y, read, p.norm2, o, o.dropout[1])
    out, pullback3 = _residual(
        y, lambda z: network_forward(z, p.feed_forward, o.activation), p.norm3, o, o.dropout[2]
    )

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        u, dnorm3, dnetwork = pullback3(u)
        u, dnorm2, dmemory, dcross = pullback2(u)
        dx, dnorm1, dself, dbias = pullback1(u)
        grads = DecoderBlockParams(dself, dnorm1, dcross, dnorm2, dnetwork, dnorm3)
        return dx, dmemory, grads, dbias

    return out, pullback


def decoder_block_tangent(
    x: FloatArray,
    v: FloatArray,
    memory: tuple[FloatArray, FloatArray],
    p: DecoderBlockParams,
    dp: DecoderBlockParams,
    o: Options,
) -> tuple[FloatArray, FloatArray]:
    """Run a decoder block with tangents; `memory` with its own."""

    def read(z: FloatArray, dz: FloatArray) -> tuple[FloatArray, FloatArray]:
        block, _ = _cross_attention(z, memory[0], p.cross_attention, o)
        return block.out(), block.jvp(dz, memory[1], dp.cross_attention)[0]

    attend = _self_attention_tangent(p.self_attention, dp.self_attention, o)
    x, v = _residual_tangent(x, v, attend, (p.norm1, dp.norm1), o, o.dropout[0])
    x, v = _residual_tangent(x, v, read, (p.norm2, dp.norm2), o, o.dropout[1])
    return _residual_tangent(
        x,
        v,
        lambda z, dz: network_tangent(z, dz, p.feed_forward, dp.feed_forward, o.activation),
        (p.norm3, dp.norm3),
        o,
        o.dropout[2],
    )


# Checks.


def as_norm(name: str, value: Any) -> NormParams:
    """Return the parameters of a norm as such."""
    return shaped_like(NormParams, name, value)  # type: ignore[no-any-return]


def _as_network(name: str, value: Any) -> FeedForwardParams | GatedFeedForwardParams:
    gated = isinstance(value, tuple) and len(value) == 3
    kind = GatedFeedForwardParams if gated else FeedForwardParams
    return shaped_like(kind, name, value)  # type: ignore[no-any-return]


def as_block(kind: type[Any], name: str, value: Any) -> Any:
    """Return the parameters of a block, named tuples in place of plain ones."""
    block = shaped_like(kind, name, value)
    entries: dict[str, Any] = {}
    for field, entry in zip(kind._fields, block, strict=True):
        path = f"{name}.{field}"
        if field.startswith("norm"):
            entries[field] = as_norm(path, entry)
        elif field == "feed_forward":
            entries[field] = _as_network(path, entry)
        else:
            entries[field] = shaped_like(AttentionParams, path, entry)
    return kind(**entries)


def check_norm(name: str, p: NormParams, width: int, kind: str | None) -> None:
    """Raise unless the shapes fit rows of the given width, and the kind of norm."""
    if kind == "rms" and p.bias is not None:
        msg = f"Argument '{name}.bias' must be None where norm is 'rms', not an array."
        raise ValueError(msg)
    for key, array in zip(p._fields, p, strict=True):
        if array is not None:
            check_shape(f"{name}.{key}", array, (width,))


def check_block(name: str, p: Any, width: int, memory: int, heads: Heads, norm: str | None) -> None:
    """Raise unless the shapes of a block's parameters fit."""
    for field, entry in zip(p._fields, p, strict=True):
        path = f"{name}.{field}"
        if field.startswith("norm"):
            check_norm(path, entry, width, norm)
        elif field == "feed_forward":
            check_network(path, entry, width)
        else:
            source = memory if field == "cross_attention" else width
            check_attention_params(path, entry, width, source, heads)
            check_shape(f"{path}.w_o", entry.w_o, (width, entry.w_o.shape[1]))


def checked_options(o: BlockOptions, sublayers: int, x: FloatArray) -> Options:
    """Check the options of a block; those of attention are checked where it begins."""
    heads = as_heads(o.num_heads, o.num_kv_heads, o.rope, o.rope_interleaved)
    by_name(o.activation)
    check_flags(norm_first=o.norm_first)
    if o.norm is not None:
        choice("norm", o.norm, ("layer", "rms"))
    attention = {
        name: getattr(o, name)
        for name in ("mask", "bias", "is_causal", "q_offset", "window", "scale", "softcap")
    }
    attention["dropout"] = o.attention_dropout
    return Options(
        heads,
        bool(o.norm_first),
        o.norm,
        o.activation,
        as_number("eps", o.eps, least=0),
        attention,
        None if o.memory_mask is None else as_array("memory_mask", o.memory_mask),
        dropout_factors(o.dropout, sublayers, x),
    )


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


def dropout_mask(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    *,
    rate: float,
    dtype: npt.DTypeLike = np.float64,
) -> FloatArray:
    r"""
    Draw the factors of dropout: 0 with probability `rate`, else 1 / (1 - rate).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    shape : int or tuple of int
        Shape of what is to be multiplied.
    rate : float
        Probability p of dropping an element, from 0 to 1.
    dtype : dtype, default float64
        Type of the factors.

    Returns
    -------
    ndarray of `dtype`, shape `shape`
        Factors.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `rate` is not a number or `dtype` is neither integer nor a
        real floating-point type.
    ValueError
        If `rate` is outside [0, 1].

    See Also
    --------
    encoder_block : Takes one such array for each sub-layer.

    Notes
    -----
    A unit that is kept is scaled up, so that the mean of the output does not change:

    .. math::

        m = \begin{cases} 0 & \text{with probability } p, \\
            1 / (1 - p) & \text{with probability } 1 - p, \end{cases} \qquad
        \E[m\, x] = (1 - p) \cdot \frac{x}{1 - p} + p \cdot 0 = x .

    Dropout is not only zeros. At inference nothing is dropped and nothing is scaled, which is the
    option ``dropout=None``. (This form is called *inverted dropout*. The main scheme of
    :cite:t:`Srivastava2014` does not scale in training, and multiplies the weights that follow by
    1 - p at inference.)

    The random numbers are an input here, not a state of the block: a gradient check needs
    the same ones twice. With p = 1 all factors are 0.

    References
    ----------
    - :cite:t:`Srivastava2014`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import dropout_mask
    >>> factors = dropout_mask(np.random.default_rng(0), 100_000, rate=0.2)
    >>> np.unique(factors), float(factors.mean())
    (array([0.  , 1.25]), 1.00)
    """
    p = as_number("rate", rate, least=0, most=1)
    kind = float_dtype("dtype", dtype)
    sides = shape if isinstance(shape, tuple | list) else (shape,)
    sides = tuple(as_integer("shape", side, least=0) for side in sides)
    check_size(shape=math.prod(sides))
    kept = as_generator("rng", rng).random(sides) >= p
    return np.where(kept, 1 / (1 - p) if p < 1 else 0.0, 0.0).astype(kind)


def block_arguments(
    kind: type[Any], arrays: dict[str, Any], params: Any, options: BlockOptions
) -> tuple[Any, list[Any], Any, Options]:
    """Check the arguments of a block; return dtype, arrays, params and options to compute with."""
    name = next(iter(arrays))
    p = as_block(kind, "params", params)
    dtype, [*values, p, bias] = as_float_trees({**arrays, "params": p, "bias": options.bias})
    named = dict(zip(arrays, values, strict=True))
    x, memory = named["x"], named.get("memory", named["x"])
    check_ndim("x", x, 2)
    check_ndim("memory", memory, 2)
    o = checked_options(options._replace(bias=bias), len(kind._fields) // 2, x)
    check_block("params", p, x.shape[-1], memory.shape[-1], o.heads, o.norm)
    if name == "dout":
        check_shape("dout", named["dout"], x.shape)
    return dtype, values, p, o


def encoder_block(
    x: npt.ArrayLike,
    params: EncoderBlockParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = False,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Self-attention and a feed-forward network, each added to its input and normalized.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        One vector for each of T positions.
    params : EncoderBlockParams
        Parameters, among them D × D projections and the network's F hidden units.
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
    is_causal : bool, default False
        Whether a position sees only itself and earlier ones. With True this is the block of
        a decoder-only model.
    mask, bias, rope, rope_interleaved : as in `dlref.attention.multi_head_attention`
        Options of the attention.
    q_offset, window, scale, softcap : as in `dlref.attention.multi_head_attention`
        The same.
    dropout : tuple of array_like or None
        Factors of the outputs of both sub-layers, from :func:`dropout_mask`; None drops nothing.
    attention_dropout : array_like or None
        Factors of the attention's weights; they broadcast to (..., H, T, T).
    eps : float, default 1e-5
        Epsilon of the normalizations.

    Returns
    -------
    ndarray, shape (..., T, D)
        One vector for each position.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not such a tuple.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    encoder : Several of them.
    decoder_block : With cross-attention.
    encoder_block_vjp : Gradients, with their derivation.

    Notes
    -----
    Let A be self-attention and N the network. There are two orders:

    .. math::

        \text{post-norm: } & \quad \mat Y = \operatorname{norm}_1(\mat X + A(\mat X)), & \quad
            \mat Z &= \operatorname{norm}_2(\mat Y + N(\mat Y)), \\
        \text{pre-norm: } & \quad \mat Y = \mat X + A(\operatorname{norm}_1(\mat X)), & \quad
            \mat Z &= \mat Y + N(\operatorname{norm}_2(\mat Y)).

    **What each part does.** Attention moves information between positions, and is the only thing
    that does. The network computes with what has arrived. The residual connection makes the block a
    change of its input: with both sub-layers 0 a pre-norm block is the identity, and its
    gradient passes unchanged. Normalization keeps the sub-layers' inputs of one size.

    **Pre or post.** In a pre-norm stack one path from the last sum to the input meets no weight and
    no norm, so gradients arrive in every depth; the sum grows with depth, and a final norm
    has to end the stack. In a post-norm stack every norm divides the path's gradient by the size
    of the sum; deep ones need a warm-up to train.

    **Order.** Without `rope`, a bias or a mask the block is equivariant: permuted positions
    give permuted outputs.

    A position costs :math:`4 D^2 + 2 D F` multiplications for the projections and
    :math:`2 D T` for scores and sums.

    References
    ----------
    - :cite:t:`Vaswani2017`
    - :cite:t:`Xiong2020` on pre- and post-norm

    Examples
    --------
    A pre-norm block whose sub-layers are zero is the identity; a post-norm block normalizes:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     EncoderBlockParams,
    ...     FeedForwardParams,
    ...     NormParams,
    ...     encoder_block,
    ... )
    >>> D, F = 2, 8
    >>> zero = EncoderBlockParams(
    ...     AttentionParams(*np.zeros((4, D, D))),
    ...     NormParams(np.ones(D), np.zeros(D)),
    ...     FeedForwardParams(np.zeros((F, D)), None, np.zeros((D, F)), None),
    ...     NormParams(np.ones(D), np.zeros(D)),
    ... )
    >>> x = np.array([[1.0, 3.0], [5.0, 1.0]])
    >>> encoder_block(x, zero, num_heads=1, norm_first=True)
    array([[1., 3.],
           [5., 1.]])
    >>> encoder_block(x, zero, num_heads=1).round(3) + 0.0
    array([[-1.,  1.],
           [ 1., -1.]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    dtype, [a], p, o = block_arguments(EncoderBlockParams, {"x": x}, params, options)
    return rounded(encoder_block_forward(a, p, o)[0], dtype)  # type: ignore[no-any-return]


def encoder_block_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: EncoderBlockParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = False,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of an encoder block.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent :math:`\mat U = \partial L / \partial \mat Z`.
    x, params, num_heads, num_kv_heads, norm_first, norm, activation : as in `encoder_block`
        The same.
    is_causal, mask, bias, rope, rope_interleaved, q_offset, window : as in `encoder_block`
        The same.
    scale, softcap, dropout, attention_dropout, eps : as in `encoder_block`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., T, D)
        Gradient with respect to `x`.
    dparams : EncoderBlockParams
        Gradient of each parameter; None where it is None.
    dbias : ndarray, shape of `bias`
        Gradient of the scores' bias. Only if `bias` is given.

    See Also
    --------
    feed_forward_vjp, dlref.attention.multi_head_attention_vjp : The parts.

    Notes
    -----
    A sum copies its cotangent to each term. Write :math:`J_f^\top` for the vjp of f. For a
    pre-norm sub-layer :math:`\mat Z = \mat Y + f(\operatorname{norm}(\mat Y))`,

    .. math:: \pdv{L}{\mat Y} = \mat U + J_{norm}^\top J_f^\top \mat U :

    the gradient itself passes, and that of the sub-layer is added. For a post-norm one,
    :math:`\mat Z = \operatorname{norm}(\mat Y + f(\mat Y))`, it goes through the norm first:

    .. math:: \pdv{L}{\mat Y} = \mat V + J_f^\top \mat V , \qquad \mat V = J_{norm}^\top \mat U .

    Dropout multiplies the sub-layer's output by constants, and so its cotangent. The gradient
    :math:`\partial L / \partial \mat Y` of the second sub-layer is the cotangent of the first. The
    vjps of f and of the norm give the gradients of the parameters as well. Nothing of the forward
    pass is computed twice within a sub-layer.

    Examples
    --------
    Through a pre-norm block of zeros the gradient passes unchanged:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     EncoderBlockParams,
    ...     GatedFeedForwardParams,
    ...     NormParams,
    ...     encoder_block_vjp,
    ... )
    >>> zero = EncoderBlockParams(
    ...     AttentionParams(*np.zeros((4, 2, 2))),
    ...     NormParams(np.ones(2)),
    ...     GatedFeedForwardParams(*np.zeros((3, 2, 2))),
    ...     NormParams(np.ones(2)),
    ... )
    >>> u, x = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    >>> dx, dparams = encoder_block_vjp(u, x, zero, num_heads=2, norm_first=True)
    >>> dx
    array([[1., 2.]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    arrays = {"dout": dout, "x": x}
    dtype, [u, a], p, o = block_arguments(EncoderBlockParams, arrays, params, options)
    dx, dp, dbias = encoder_block_forward(a, p, o)[1](u)
    grads = (dx, dp) if bias is None else (dx, dp, dbias)
    return rounded(grads, dtype)  # type: ignore[no-any-return]


def encoder_block_jvp(
    primals: Any,
    tangents: Any,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = False,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
    dbias: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an encoder block.

    Parameters
    ----------
    primals : tuple (x, params)
        Vectors (..., T, D), and an :class:`EncoderBlockParams`.
    tangents : tuple (dx, dparams)
        Directions in the same structure; None at any place is zero.
    num_heads, num_kv_heads, norm_first, norm, activation, is_causal : as in `encoder_block`
        The same.
    mask, bias, rope, rope_interleaved, q_offset, window, scale, softcap : as in `encoder_block`
        The same.
    dropout, attention_dropout, eps : as in `encoder_block`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`; None is zero.

    Returns
    -------
    ndarray, shape (..., T, D)
        Tangent of the output.

    Notes
    -----
    Value and tangent go through the sub-layers side by side. For each of them,

    .. math::

        \dot{\mat Z} = \dot{\mat Y} + J_f J_{norm} \dot{\mat Y} \quad \text{(pre-norm)}, \qquad
        \dot{\mat Z} = J_{norm} \bigl( \dot{\mat Y} + J_f \dot{\mat Y} \bigr) \quad
            \text{(post-norm)},

    and the tangents of the parameters are added by the product rule.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     EncoderBlockParams,
    ...     GatedFeedForwardParams,
    ...     NormParams,
    ...     encoder_block_jvp,
    ... )
    >>> zero = EncoderBlockParams(
    ...     AttentionParams(*np.zeros((4, 2, 2))),
    ...     NormParams(np.ones(2)),
    ...     GatedFeedForwardParams(*np.zeros((3, 2, 2))),
    ...     NormParams(np.ones(2)),
    ... )
    >>> x, v = np.array([[3.0, -1.0]]), np.array([[0.5, 2.0]])
    >>> encoder_block_jvp((x, zero), (v, None), num_heads=2, norm_first=True)
    array([[0.5, 2. ]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    names = "x", "params"
    dtype, [x, p], [v, dp], o = block_tangents(
        EncoderBlockParams, names, primals, tangents, options, dbias
    )
    return rounded(encoder_block_tangent(x, v, p, dp, o)[1], dtype)  # type: ignore[no-any-return]


def block_tangents(
    kind: type[Any],
    names: tuple[str, ...],
    primals: Any,
    tangents: Any,
    options: BlockOptions,
    dbias: Any,
) -> tuple[Any, list[Any], list[Any], Options]:
    """Check the arguments of a block's jvp."""
    dtype, points, moved = as_tree_tangents(names, primals, tangents)
    x, memory = points[0], points[-2]
    check_ndim("primals.x", x, 2)
    check_ndim("primals.memory", memory, 2)
    p, dp = (
        as_block(kind, f"{word}.params", tree[-1])
        for word, tree in (("primals", points), ("tangents", moved))
    )
    o = tangent_options(options, len(kind._fields) // 2, x, dbias)
    check_block("primals.params", p, x.shape[-1], memory.shape[-1], o.heads, o.norm)
    return dtype, [*points[:-1], p], [*moved[:-1], dp], o


def tangent_options(options: BlockOptions, sublayers: int, x: FloatArray, dbias: Any) -> Options:
    """Check the options of a block and the tangent of its bias."""
    bias = None if options.bias is None else as_floats({"bias": options.bias})[1][0]
    if dbias is not None:
        if bias is None:
            check_constant("dbias", dbias)
        dbias = as_floats({"dbias": dbias})[1][0]
    return checked_options(options._replace(bias=bias), sublayers, x)._replace(dbias=dbias)


def decoder_block(
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderBlockParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = True,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Self-attention, attention to an encoder's output, and a feed-forward network.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        One vector for each of T positions of the decoder.
    memory : array_like, shape (..., S, D_kv)
        Output of the encoder, one vector for each of its S positions.
    params : DecoderBlockParams
        Parameters; keys and values of the cross-attention are projected from width D_kv.
    num_heads : int
        Number H of heads of both attentions.
    num_kv_heads : int or None
        Number of heads of keys and values, a divisor of H; None is H.
    norm_first : bool, default False
        Normalize the input of each sub-layer instead of the sum.
    norm : {None, "layer", "rms"}
        Kind of normalization; None is RMS norm where there is no bias, else layer norm.
    activation : str, default "relu"
        Activation of the network, as for :func:`feed_forward`; of the gate, if it has one.
    is_causal : bool, default True
        Whether a position sees only itself and earlier ones of `x`.
    mask, bias, rope, rope_interleaved : as in `dlref.attention.multi_head_attention`
        Options of the self-attention.
    q_offset, window, scale, softcap : as in `dlref.attention.multi_head_attention`
        The same.
    dropout : tuple of array_like or None
        Factors of the outputs of the three sub-layers; None drops nothing.
    attention_dropout : array_like or None
        Factors of the self-attention's weights; they broadcast to (..., H, T, T).
    eps : float, default 1e-5
        Epsilon of the normalizations.
    memory_mask : array_like of bool or None, shape (..., T, S)
        Where True, a position may see one of `memory`; broadcasts against (..., H, T, S).

    Returns
    -------
    ndarray, shape (..., T, D)
        One vector for each position of `x`.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not such a tuple.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    decoder : Several of them.
    encoder_block : Without memory; with ``is_causal=True`` the block of GPT and LLaMA.
    decoder_block_vjp : Gradients.

    Notes
    -----
    Three sub-layers, each with its residual connection and norm as in :func:`encoder_block`. With
    self-attention A, cross-attention C and the network N,

    .. math::

        \text{pre-norm: } & \quad \mat Y = \mat X + A(\operatorname{norm}_1(\mat X)), \quad
            \mat Z = \mat Y + C(\operatorname{norm}_2(\mat Y), \mat M), \quad
            \mat Z' = \mat Z + N(\operatorname{norm}_3(\mat Z)), \\
        \text{post-norm: } & \quad \mat Y = \operatorname{norm}_1(\mat X + A(\mat X)), \quad
            \mat Z = \operatorname{norm}_2(\mat Y + C(\mat Y, \mat M)), \quad
            \mat Z' = \operatorname{norm}_3(\mat Z + N(\mat Z)) .

    In words:

    1. self-attention, masked: queries, keys and values from `x`;
    2. cross-attention: queries from `x`, keys and values from `memory`, every position of
       which may be seen;
    3. the feed-forward network.

    A decoder-only model is *not* a stack of these: it has no memory and no cross-attention, and
    what is left is an encoder block with a causal mask.

    References
    ----------
    - :cite:t:`Vaswani2017`, section 3.1

    Examples
    --------
    Before the mask, position 0 cannot tell what follows it; `memory` it sees whole:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     DecoderBlockParams,
    ...     GatedFeedForwardParams,
    ...     NormParams,
    ...     decoder_block,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> own, cross = (AttentionParams(*rng.normal(size=(4, 2, 2))) for _ in range(2))
    >>> norm = NormParams(np.ones(2))
    >>> network = GatedFeedForwardParams(*rng.normal(size=(3, 2, 2)))
    >>> params = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = rng.normal(size=(2, 3, 2))
    >>> y = decoder_block(x, memory, params, num_heads=2)
    >>> later = decoder_block(x + [[0], [0], [1]], memory, params, num_heads=2)
    >>> np.any(later != y, axis=-1)
    array([False, False,  True])
    >>> moved = decoder_block(x, memory + [[0], [0], [1]], params, num_heads=2)
    >>> np.any(moved != y, axis=-1)
    array([ True,  True,  True])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    arrays = {"x": x, "memory": memory}
    dtype, [a, source], p, o = block_arguments(DecoderBlockParams, arrays, params, options)
    return rounded(decoder_block_forward(a, source, p, o)[0], dtype)  # type: ignore[no-any-return]


def decoder_block_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderBlockParams,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = True,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a decoder block.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent of the output.
    x, memory, params, num_heads, num_kv_heads, norm_first, norm : as in `decoder_block`
        The same.
    activation, is_causal, mask, bias, rope, rope_interleaved, q_offset : as in `decoder_block`
        The same.
    window, scale, softcap, dropout, attention_dropout, eps, memory_mask : as in `decoder_block`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., T, D)
        Gradient with respect to `x`.
    dmemory : ndarray, shape (..., S, D_kv)
        Gradient with respect to `memory`, from its keys and its values.
    dparams : DecoderBlockParams
        Gradient of each parameter; None where it is None.
    dbias : ndarray, shape of `bias`
        Gradient of the scores' bias. Only if `bias` is given.

    See Also
    --------
    encoder_block_vjp : The derivation, sub-layer by sub-layer.

    Notes
    -----
    The steps of :func:`encoder_block_vjp` three times. Write :math:`J_C` for the Jacobian of the
    cross-attention with respect to its queries and :math:`J_{C, M}` for that with respect to the
    memory, and :math:`\mat U` for the cotangent. With :math:`\mat V` and :math:`\mat W` for the
    gradients of :math:`\mat Z` and :math:`\mat Y` of :func:`decoder_block`, pre-norm,

    .. math::

        \mat V &= \mat U + J_{norm_3}^\top J_N^\top\, \mat U, &
        \mat W &= \mat V + J_{norm_2}^\top J_C^\top\, \mat V, \\
        \pdv{L}{\mat X} &= \mat W + J_{norm_1}^\top J_A^\top\, \mat W, &
        \pdv{L}{\mat M} &= J_{C, M}^\top\, \mat V,

    and post-norm likewise, each norm before its sum. What is new is the last: the keys and values
    of the cross-attention come from `memory`, so their gradient leaves the decoder there, and
    without it the encoder would not learn. Every block of a decoder reads the same memory, and the
    contributions add up.

    Examples
    --------
    If nothing is attended to, nothing reaches the encoder:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     DecoderBlockParams,
    ...     GatedFeedForwardParams,
    ...     NormParams,
    ...     decoder_block_vjp,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> own, cross = (AttentionParams(*rng.normal(size=(4, 2, 2))) for _ in range(2))
    >>> norm = NormParams(np.ones(2))
    >>> network = GatedFeedForwardParams(*rng.normal(size=(3, 2, 2)))
    >>> params = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> u, x, memory = rng.normal(size=(3, 3, 2))
    >>> seen = np.array([True, True, False])
    >>> _, dmemory, _ = decoder_block_vjp(u, x, memory, params, num_heads=2, memory_mask=seen)
    >>> np.any(dmemory != 0, axis=-1)
    array([ True,  True, False])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    arrays = {"dout": dout, "x": x, "memory": memory}
    dtype, [u, a, source], p, o = block_arguments(DecoderBlockParams, arrays, params, options)
    dx, dmemory, dp, dbias = decoder_block_forward(a, source, p, o)[1](u)
    grads = (dx, dmemory, dp) if bias is None else (dx, dmemory, dp, dbias)
    return rounded(grads, dtype)  # type: ignore[no-any-return]


def decoder_block_jvp(
    primals: Any,
    tangents: Any,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    norm_first: bool = False,
    norm: str | None = None,
    activation: str = "relu",
    is_causal: bool = True,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rope_interleaved: bool = True,
    q_offset: int = 0,
    window: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a decoder block.

    Parameters
    ----------
    primals : tuple (x, memory, params)
        Vectors (..., T, D) and (..., S, D_kv), and a :class:`DecoderBlockParams`.
    tangents : tuple (dx, dmemory, dparams)
        Directions in the same structure; None at any place is zero.
    num_heads, num_kv_heads, norm_first, norm, activation, is_causal : as in `decoder_block`
        The same.
    mask, bias, rope, rope_interleaved, q_offset, window, scale, softcap : as in `decoder_block`
        The same.
    dropout, attention_dropout, eps, memory_mask : as in `decoder_block`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`; None is zero.

    Returns
    -------
    ndarray, shape (..., T, D)
        Tangent of the output.

    See Also
    --------
    encoder_block_jvp : How value and tangent go through a block.

    Notes
    -----
    A tangent of `memory` enters by the keys and values of the cross-attention, and from there
    reaches every position of the output. With the Jacobians of :func:`decoder_block_vjp`, pre-norm,

    .. math::

        \dot{\mat Y} = \dot{\mat X} + J_A J_{norm_1} \dot{\mat X}, \qquad
        \dot{\mat Z} = \dot{\mat Y} + J_C J_{norm_2} \dot{\mat Y} + J_{C, M} \dot{\mat M}, \qquad
        \dot{\mat Z}' = \dot{\mat Z} + J_N J_{norm_3} \dot{\mat Z},

    and the tangents of the parameters are added by the product rule.

    Examples
    --------
    A change of the last position changes no earlier one:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import (
    ...     DecoderBlockParams,
    ...     GatedFeedForwardParams,
    ...     NormParams,
    ...     decoder_block_jvp,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> own, cross = (AttentionParams(*rng.normal(size=(4, 2, 2))) for _ in range(2))
    >>> norm = NormParams(np.ones(2))
    >>> network = GatedFeedForwardParams(*rng.normal(size=(3, 2, 2)))
    >>> params = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = rng.normal(size=(2, 3, 2))
    >>> v = np.array([[0.0, 0], [0, 0], [1, 1]])
    >>> dy = decoder_block_jvp((x, memory, params), (v, None, None), num_heads=2)
    >>> np.any(dy != 0, axis=-1)
    array([False, False,  True])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    names = "x", "memory", "params"
    dtype, [x, memory, p], [v, dmemory, dp], o = block_tangents(
        DecoderBlockParams, names, primals, tangents, options, dbias
    )
    out = decoder_block_tangent(x, v, (memory, dmemory), p, dp, o)
    return rounded(out[1], dtype)  # type: ignore[no-any-return]
