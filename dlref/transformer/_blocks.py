r"""Encoder and decoder block: attention and a feed-forward network with residual connections."""

from __future__ import annotations

import math
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_generator,
    as_integer,
    as_mask,
    as_number,
    check_broadcast,
    check_constant,
    check_ndim,
    check_shape,
    check_size,
    float_dtype,
)
from .._core.pytree import as_float_trees, as_tree_tangents, rounded
from ..attention import AttentionParams, KVCache, LatentAttentionParams, document_mask
from ..attention._block import AttentionBlock, check_attention_params
from ..attention._latent import LatentBlock, check_latent_params
from ..normalization import (
    layer_norm,
    layer_norm_jvp,
    layer_norm_vjp,
    rms_norm,
    rms_norm_jvp,
    rms_norm_vjp,
)
from ._delta import DeltaBlock, check_delta_params
from ._experts import (
    check_mixture,
    mixture_forward,
    mixture_of,
    mixture_tangent,
)
from ._feed_forward import (
    Pullback,
    check_network,
    network_forward,
    network_tangent,
)
from ._options import BlockOptions, Call, Setup, as_options, set_up
from ._params import (
    DecoderBlockParams,
    EncoderBlockParams,
    GatedDeltaParams,
    MixtureParams,
    NormParams,
)
from ._structure import as_block, sublayer_fields

Block = TypeVar("Block")
#: Keys and values of earlier positions, and of the memory, by the field of the attention.
Caches = dict[str, Any]
#: What lets tokens read each other: attention, of latents too, or a gated delta rule.
Mixer = AttentionBlock | LatentBlock | DeltaBlock


# Private functions compute in the dtype they are given and check nothing.  `..._forward` returns
# the output and a pullback, which turns its cotangent into the inputs' cotangents; `..._tangent`
# returns the output and its tangent.  An encoder block is a decoder block without cross-attention,
# whose memory is None.


def _norm_forms(
    p: NormParams, o: BlockOptions
) -> tuple[Any, Any, Any, tuple[Any, ...], dict[str, float]]:
    """Return map, vjp and jvp of the normalization, which parameters it has, and its options."""
    if o.norm == "layer" or (o.norm is None and p.bias is not None):
        weight = p.weight
        if weight is not None and o.norm_offset:
            weight = weight + weight.dtype.type(o.norm_offset)
        return layer_norm, layer_norm_vjp, layer_norm_jvp, (weight, p.bias), {"eps": o.eps}
    options = {"eps": o.eps, "weight_offset": o.norm_offset}
    return rms_norm, rms_norm_vjp, rms_norm_jvp, (p.weight,), options


def norm_forward(
    x: FloatArray, p: NormParams | None, o: BlockOptions
) -> tuple[FloatArray, Pullback]:
    """Normalize rows; without parameters, None, that is the identity."""
    if p is None:
        return x, lambda u: (u, None)
    norm, norm_vjp, _, own, options = _norm_forms(p, o)

    def pullback(u: FloatArray) -> tuple[FloatArray, NormParams]:
        grads = norm_vjp(u, x, *own, **options)
        dx, *rest = grads if isinstance(grads, tuple) else (grads,)
        entries = iter(rest)
        return dx, NormParams(*(None if a is None else next(entries) for a in p))

    return norm(x, *own, **options), pullback


def norm_tangent(
    x: FloatArray, v: FloatArray, p: NormParams | None, dp: NormParams | None, o: BlockOptions
) -> tuple[FloatArray, FloatArray]:
    """Normalize rows, with a tangent."""
    if p is None or dp is None:
        return x, v
    norm, _, norm_jvp, own, options = _norm_forms(p, o)
    return norm(x, *own, **options), norm_jvp((x, *own), (v, *dp[: len(own)]), **options)


class _Sublayer(NamedTuple):
    """Where a sub-layer's parameters and norms are, and the factor of its output."""

    field: str
    norm: str
    output_norm: str
    factor: FloatArray | None = None

    def norms_of(self, p: Any, o: BlockOptions) -> tuple[NormParams | None, ...]:
        """Return the norms before the sub-layer, of its output, and of the sum."""
        norm, output_norm = getattr(p, self.norm), getattr(p, self.output_norm, None)
        if o.parallel:
            norm = norm or p.norm1
        return (norm, output_norm, None) if o.norm_first else (None, output_norm, norm)

    def scaled(self, f: FloatArray, o: BlockOptions) -> FloatArray:
        """Multiply an output or its cotangent."""
        f = f if self.factor is None else self.factor * f
        return f if o.residual_scale == 1 else f * f.dtype.type(o.residual_scale)


def sublayers(p: Any, factors: tuple[FloatArray | None, ...] = ()) -> list[_Sublayer]:
    """Return the sub-layers of a block in order."""
    pairs = zip_longest(sublayer_fields(type(p)), factors)
    return [_Sublayer(n, f"norm{i}", f"output_norm{i}", c) for i, (n, c) in enumerate(pairs, 1)]


def _branch(
    x: FloatArray, sublayer: Any, norms: tuple[NormParams | None, ...], scaled: Any, o: BlockOptions
) -> tuple[FloatArray, Pullback]:
    """Run a sub-layer between its norms; cotangents (dx, both norms, *its own)."""
    z, before = norm_forward(x, norms[0], o)
    f, sublayer_pullback = sublayer(z)
    f, inside = norm_forward(f, norms[1], o)

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> tuple[Any, ...]:
        df, doutput = inside(scaled(u))
        dz, *rest = sublayer_pullback(df)
        dx, dnorm = before(dz)
        return (dx, dnorm, doutput, *rest)

    return scaled(f), pullback


def _attention(
    field: str,
    z: FloatArray,
    memory: FloatArray | None,
    p: AttentionParams | LatentAttentionParams | GatedDeltaParams,
    s: Setup,
    cache: Any = None,
) -> Mixer:
    """Let every position attend to all, or to the memory, whose positions are not rotated."""
    if isinstance(p, LatentAttentionParams):
        return LatentBlock(z, p, s.heads, cache, **_self_options(s, z.shape[-2], cache))
    if isinstance(p, GatedDeltaParams):
        _check_steps(s.attention | {"chunk": s.options.chunk})
        return DeltaBlock(z, p, s.options.delta_heads or len(p.a_log), s.options.eps, cache)
    if field == "cross_attention":
        assert memory is not None
        heads = s.heads._replace(rope=None)
        return AttentionBlock(
            z, memory, p, heads, cache, mask=s.memory_mask, scale=s.options.cross_scale
        )
    return AttentionBlock(z, z, p, s.heads, cache, **_self_options(s, z.shape[-2], cache))


def _self_options(s: Setup, T: int, cache: KVCache | None) -> dict[str, Any]:
    """Return the options of self-attention; positions count from the first key in the cache."""
    options, size, start = dict(s.attention), s.options.chunk, s.attention["q_offset"]
    if size is not None:
        keys = np.arange(T if cache is None else start + T) // size
        same = document_mask(np.arange(start, start + T) // size, keys)
        mask = same if options["mask"] is None else as_mask("mask", options["mask"])
        check_broadcast("mask", mask.shape[-2:], same.shape)
        options["mask"] = mask & same
    gone = 0 if cache is None else start - len(cache)
    if gone:
        options["q_offset"] = start - gone
        for name in ("mask", "bias"):
            if options[name] is not None:
                options[name] = np.ascontiguousarray(options[name][..., gone:])
    return options


def _check_steps(options: dict[str, Any]) -> None:
    """Raise if an option is given that a recurrence does not have."""
    names = ("mask", "bias", "window", "chunk", "dropout")
    given = [name for name in names if options[name] is not None]
    if given or not options["is_causal"]:
        words = given[0] if given else "is_causal"
        value = "None" if given else "True"
        msg = f"Argument {words!r} must be {value} for a block with a gated delta rule."
        raise ValueError(msg)


@np.errstate(all="ignore")
def _attention_pullback(field: str, block: Mixer, u: FloatArray) -> tuple[Any, ...]:
    """Return (dz, dparams, dmemory) of cross-attention, (dz, dparams, dbias) of the other."""
    dz, dmemory, dp, *dbias = block.vjp(u)
    if field == "cross_attention":
        return dz, dp, dmemory
    return dz + dmemory, dp, dbias[0] if dbias else None


def block_forward(
    x: FloatArray,
    p: Any,
    s: Setup,
    memory: FloatArray | None = None,
    caches: Caches | None = None,
    seen: dict[str, Mixer] | None = None,
) -> tuple[FloatArray, Pullback]:
    """
    Run a block; the cotangents are (dx, dmemory, dparams, dbias).

    `caches` have the keys and values of earlier positions and of the memory; `seen` gets the
    attentions.
    """
    o, given, steps = s.options, x, []

    def run(field: str, z: FloatArray) -> tuple[FloatArray, Pullback]:
        part = getattr(p, field)
        if isinstance(part, MixtureParams):
            return mixture_forward(z, part, mixture_of(o, part))
        if field == "feed_forward":
            return network_forward(z, part, o.activation)
        block = _attention(field, z, memory, part, s, caches[field] if caches else None)
        if seen is not None:
            seen[field] = block
        return block.out(), partial(_attention_pullback, field, block)

    for part in sublayers(p, s.dropout):
        before, inside, behind = part.norms_of(p, o)
        z, scaled = given if o.parallel else x, partial(part.scaled, o=o)
        f, back = _branch(z, partial(run, part.field), (before, inside), scaled, o)
        x, after = norm_forward(x + f, behind, o)
        steps.append((part, back, after))

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> tuple[Any, ...]:
        grads: dict[str, Any] = {}
        others: dict[str, Any] = {}
        total = u
        for part, back, after in reversed(steps):
            u, dafter = after(u)
            dx, dbefore, doutput, grads[part.field], *others[part.field] = back(u)
            grads |= {part.norm: dbefore or dafter, part.output_norm: doutput}
            total = (total if o.parallel else u) + dx
            u = u if o.parallel else total
        if o.parallel and p.norm2 is None and p.norm1 is not None:  # which both have read
            pairs = zip(grads["norm1"], grads.pop("norm2"), strict=True)
            grads["norm1"] = NormParams(*(None if a is None else a + b for a, b in pairs))
        (dbias,), dmemory = others[p._fields[0]], others.get("cross_attention", [None])[0]
        return total, dmemory, p._replace(**{k: grads.get(k) for k in p._fields}), dbias

    return x, pullback


@np.errstate(all="ignore")
def block_tangent(
    x: FloatArray,
    v: FloatArray,
    memory: tuple[FloatArray | None, FloatArray | None],
    p: Any,
    dp: Any,
    s: Setup,
) -> tuple[FloatArray, FloatArray]:
    """Run a block with tangents; `memory` with its own."""
    o, given = s.options, (x, v)

    def run(field: str, z: FloatArray, dz: FloatArray) -> tuple[FloatArray, FloatArray]:
        part, moved = getattr(p, field), getattr(dp, field)
        if isinstance(part, MixtureParams):
            return mixture_tangent(z, dz, part, moved, mixture_of(o, part))
        if field == "feed_forward":
            return network_tangent(z, dz, part, moved, o.activation)
        block = _attention(field, z, memory[0], part, s)
        crossing = field == "cross_attention"
        source, dbias = (memory[1], None) if crossing else (dz, s.dbias)
        return block.out(), block.jvp(dz, source, moved, dbias=dbias)[0]

    for part in sublayers(p, s.dropout):
        before, inside, behind = zip(part.norms_of(p, o), part.norms_of(dp, o), strict=True)
        z = norm_tangent(*(given if o.parallel else (x, v)), *before, o)
        f, df = norm_tangent(*run(part.field, *z), *inside, o)
        x, v = x + part.scaled(f, o), v + part.scaled(df, o)
        x, v = norm_tangent(x, v, *behind, o)
    return x, v


# Checks.


def check_norm(name: str, p: NormParams, width: int, o: BlockOptions) -> None:
    """Raise unless the shapes fit rows of the given width, and the kind of norm."""
    if p.bias is not None and o.norm == "rms":
        msg = f"Argument '{name}.bias' must be None where norm is 'rms', not an array."
        raise ValueError(msg)
    for key, array in zip(p._fields, p, strict=True):
        if array is not None:
            check_shape(f"{name}.{key}", array, (width,))


def check_block(name: str, p: Any, width: int, memory: int, o: BlockOptions) -> None:
    """Raise unless the shapes of a block's parameters fit."""
    heads = o.heads()
    if o.parallel and len(sublayers(p)) == 3:
        msg = "Argument 'parallel' must be False for a decoder block."
        raise ValueError(msg)
    for field, entry in zip(p._fields, p, strict=True):
        path = f"{name}.{field}"
        if entry is None:
            continue
        if isinstance(entry, NormParams):
            check_norm(path, entry, width, o)
        elif field == "feed_forward":
            if isinstance(entry, MixtureParams):
                check_mixture(path, entry, width)
                mixture_of(o, entry)
            else:
                check_network(path, entry, width)
        else:
            source = memory if field == "cross_attention" else width
            if o.clip_qkv is not None and not isinstance(entry, AttentionParams):
                msg = f"Argument 'clip_qkv' must be None where {path} is no AttentionParams."
                raise ValueError(msg)
            if isinstance(entry, GatedDeltaParams):
                check_delta_params(path, entry, width, o.delta_heads or len(entry.a_log))
            elif isinstance(entry, LatentAttentionParams):
                check_latent_params([f"{path}.{n}" for n in entry._fields], entry, width, heads)
            else:
                check_attention_params(path, entry, width, source, heads)
            check_shape(f"{path}.w_o", entry.w_o, (width, entry.w_o.shape[1]))


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
        Shape of the array to be multiplied.
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


def _arguments(
    kind: type[Block],
    arrays: dict[str, Any],
    params: Any,
    options: BlockOptions,
    call: Call,
) -> tuple[Any, list[Any], Block, Setup]:
    """Check the arguments of a block; return dtype, arrays, params and setup to compute with."""
    trees = {**arrays, "params": as_block(kind, "params", params), "bias": call.bias}
    dtype, [*values, p, bias] = as_float_trees(trees)
    named = dict(zip(arrays, values, strict=True))
    s = _checked("", p, named["x"], named.get("memory"), options, call._replace(bias=bias))
    if "dout" in named:
        check_shape("dout", named["dout"], named["x"].shape)
    return dtype, values, p, s


def _checked(
    prefix: str, p: Any, x: FloatArray, memory: FloatArray | None, o: BlockOptions, call: Call
) -> Setup:
    source = x if memory is None else memory
    check_ndim(f"{prefix}x", x, 2)
    check_ndim(f"{prefix}memory", source, 2)
    s = set_up(o, call, len(sublayers(p)), x)
    check_block(f"{prefix}params", p, x.shape[-1], source.shape[-1], o)
    return s


def _value(
    kind: type[Any], arrays: dict[str, Any], params: Any, options: BlockOptions, call: Call
) -> FloatArray:
    dtype, [x, *memory], p, s = _arguments(kind, arrays, params, options, call)
    return rounded(block_forward(x, p, s, *memory)[0], dtype)


def _vjp(
    kind: type[Any], arrays: dict[str, Any], params: Any, options: BlockOptions, call: Call
) -> tuple[Any, ...]:
    dtype, [u, x, *memory], p, s = _arguments(kind, arrays, params, options, call)
    dx, dmemory, dp, dbias = block_forward(x, p, s, *memory)[1](u)
    ends = () if call.bias is None else (dbias,)
    return rounded((dx, *([dmemory] if memory else []), dp, *ends), dtype)


def _jvp(
    kind: type[Any],
    names: tuple[str, ...],
    primals: Any,
    tangents: Any,
    options: BlockOptions,
    call: Call,
) -> FloatArray:
    dtype, [x, *memory, p], [v, *dmemory, dp] = as_tree_tangents(names, primals, tangents)
    p, dp = as_block(kind, "primals.params", p), as_block(kind, "tangents.params", dp)
    source = (memory[0], dmemory[0]) if memory else (None, None)
    s = _checked("primals.", p, x, source[0], options, with_tangent(call))
    return rounded(block_tangent(x, v, source, p, dp, s)[1], dtype)


def with_tangent(call: Call) -> Call:
    """Check the bias and its tangent."""
    bias = None if call.bias is None else as_floats({"bias": call.bias})[1][0]
    if call.dbias is None:
        return call._replace(bias=bias)
    if bias is None:
        check_constant("dbias", call.dbias)
    return call._replace(bias=bias, dbias=as_floats({"dbias": call.dbias})[1][0])


def encoder_block(
    x: npt.ArrayLike,
    params: EncoderBlockParams,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    **keywords: Any,
) -> FloatArray:
    r"""
    Self-attention and a feed-forward network, each added to its input and normalized.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        One vector for each of T positions.
    params : EncoderBlockParams
        Parameters, among them D × D projections and the network's F hidden units.
    options : BlockOptions or None
        Kind of the block, such as its heads, its normalization and its activation.
    mask, bias, q_offset : as in `dlref.attention.multi_head_attention`
        Positions that the self-attention sees, and a term added to its scores.
    dropout : tuple of array_like or None
        Factors of the outputs of both sub-layers, from :func:`dropout_mask`; None drops nothing.
    attention_dropout : array_like or None
        Factors of the attention's weights; they broadcast to (..., H, T, T).
    **keywords
        Fields of :class:`BlockOptions`: they make the options, or change some of those given.

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

    **The role of each part.** Attention moves information between positions, and nothing else does.
    The network computes with the information that has arrived. The residual connection makes the
    block a change of its input: with both sub-layers 0 a pre-norm block is the identity, and its
    gradient passes unchanged. Normalization keeps the sub-layers' inputs of one size.

    **Pre or post.** In a pre-norm stack one path from the last sum to the input meets no weight and
    no norm, so gradients arrive in every depth; the sum grows with depth, and a final norm
    has to end the stack. In a post-norm stack every norm divides the path's gradient by the size
    of the sum; deep ones need a warm-up to train.

    **Order.** Without `rope`, a bias or a mask, the causal one included, the block is equivariant:
    permuted positions give permuted outputs.

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
    >>> from dlref.transformer import EncoderBlockParams, FeedForwardParams, NormParams
    >>> from dlref.transformer import encoder_block
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout)
    return _value(EncoderBlockParams, {"x": x}, params, as_options(options, keywords), call)


def encoder_block_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: EncoderBlockParams,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    **keywords: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of an encoder block.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent :math:`\mat U = \partial L / \partial \mat Z`.
    x, params, options, mask, bias, q_offset, dropout : as in `encoder_block`
        The same.
    attention_dropout, **keywords : as in `encoder_block`
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
    A block is a chain of norms, attention, feed-forward network and sums. Its backward pass
    multiplies by the transposes of these maps in reverse order, one sub-layer after the other.

    **The differential.** Write J for Jacobians. A pre-norm sub-layer
    :math:`\mat Z = \mat Y + f(\operatorname{norm}(\mat Y))` and a post-norm one,
    :math:`\mat Z = \operatorname{norm}(\mat Y + f(\mat Y))`, have

    .. math::

        \dd \mat Z = \dd \mat Y + J_f J_{norm}\, \dd \mat Y \quad \text{and} \quad
        \dd \mat Z = J_{norm} ( \dd \mat Y + J_f\, \dd \mat Y ) .

    **The inner product.** :math:`\dd L = \langle \mat U, \dd \mat Z \rangle`.

    **The transpose.** A sum copies its upstream gradient to each term, and the transposed Jacobians
    are the vjps of f and of the norm. Pre-norm,

    .. math:: \pdv{L}{\mat Y} = \mat U + J_{norm}^\top J_f^\top \mat U :

    the gradient itself passes, and the sub-layer's gradient is added. Post-norm, it goes through
    the norm first:

    .. math:: \pdv{L}{\mat Y} = \mat V + J_f^\top \mat V , \qquad \mat V = J_{norm}^\top \mat U .

    Dropout multiplies the sub-layer's output by constants, and its upstream gradient by the same
    constants. The gradient :math:`\partial L / \partial \mat Y` of the second sub-layer is the
    upstream gradient of the first. The vjps of f and of the norm give the gradients of the
    parameters as well. Nothing of the forward pass is computed twice within a sub-layer.

    Examples
    --------
    Through a pre-norm block of zeros the gradient passes unchanged:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import EncoderBlockParams, GatedFeedForwardParams, NormParams
    >>> from dlref.transformer import encoder_block_vjp
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout)
    arrays = {"dout": dout, "x": x}
    return _vjp(EncoderBlockParams, arrays, params, as_options(options, keywords), call)


def encoder_block_jvp(
    primals: Any,
    tangents: Any,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
    **keywords: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an encoder block.

    Parameters
    ----------
    primals : tuple (x, params)
        Vectors (..., T, D), and an :class:`EncoderBlockParams`.
    tangents : tuple (dx, dparams)
        Directions in the same structure; None at any place is zero.
    options, mask, bias, q_offset, dropout, attention_dropout : as in `encoder_block`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`; None is zero.
    **keywords
        As in `encoder_block`.

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
    >>> from dlref.transformer import EncoderBlockParams, GatedFeedForwardParams, NormParams
    >>> from dlref.transformer import encoder_block_jvp
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, None, dbias)
    o = as_options(options, keywords)
    return _jvp(EncoderBlockParams, ("x", "params"), primals, tangents, o, call)


def decoder_block(
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderBlockParams,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    memory_mask: npt.ArrayLike | None = None,
    **keywords: Any,
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
    options : BlockOptions or None
        Kind of the block, such as its heads, its normalization and its activation.
    mask, bias, q_offset : as in `dlref.attention.multi_head_attention`
        Positions that the self-attention sees, and a term added to its scores.
    dropout : tuple of array_like or None
        Factors of the outputs of the three sub-layers; None drops nothing.
    attention_dropout : array_like or None
        Factors of the self-attention's weights; they broadcast to (..., H, T, T).
    memory_mask : array_like of bool or None, shape (..., T, S)
        Where True, a position may see one of `memory`; broadcasts against (..., H, T, S).
    **keywords
        Fields of :class:`BlockOptions`: they make the options, or change some of those given.

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
    2. cross-attention: queries from `x`, keys and values from `memory`, and every position of
       it may be seen;
    3. the feed-forward network.

    A decoder-only model is *not* a stack of these: it has no memory and no cross-attention; it
    is a stack of encoder blocks with a causal mask.

    References
    ----------
    - :cite:t:`Vaswani2017`, section 3.1

    Examples
    --------
    Under the causal mask a position does not see what follows it, but it sees all of `memory`:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import DecoderBlockParams, GatedFeedForwardParams, NormParams
    >>> from dlref.transformer import decoder_block
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    arrays = {"x": x, "memory": memory}
    return _value(DecoderBlockParams, arrays, params, as_options(options, keywords), call)


def decoder_block_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderBlockParams,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    memory_mask: npt.ArrayLike | None = None,
    **keywords: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a decoder block.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent of the output.
    x, memory, params, options, mask, bias, q_offset, dropout : as in `decoder_block`
        The same.
    attention_dropout, memory_mask, **keywords : as in `decoder_block`
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
    The steps of :func:`encoder_block_vjp` three times, from the last sub-layer to the first. Write
    :math:`J_C` for the Jacobian of the cross-attention with respect to its queries and
    :math:`J_{C, M}` for that with respect to the memory, and :math:`\mat U` for the cotangent. With
    :math:`\mat V` and :math:`\mat W` for the gradients of :math:`\mat Z` and :math:`\mat Y` of
    :func:`decoder_block`, pre-norm,

    .. math::

        \mat V &= \mat U + J_{norm_3}^\top J_N^\top\, \mat U, &
        \mat W &= \mat V + J_{norm_2}^\top J_C^\top\, \mat V, \\
        \pdv{L}{\mat X} &= \mat W + J_{norm_1}^\top J_A^\top\, \mat W, &
        \pdv{L}{\mat M} &= J_{C, M}^\top\, \mat V,

    and post-norm likewise, each norm before its sum. Only the last one is new: the keys and values
    of the cross-attention come from `memory`, so their gradient leaves the decoder there, and
    without it the encoder would not learn. Every block of a decoder reads the same memory, and the
    contributions add up.

    Examples
    --------
    If nothing is attended to, nothing reaches the encoder:

    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.transformer import DecoderBlockParams, GatedFeedForwardParams, NormParams
    >>> from dlref.transformer import decoder_block_vjp
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    arrays = {"dout": dout, "x": x, "memory": memory}
    return _vjp(DecoderBlockParams, arrays, params, as_options(options, keywords), call)


def decoder_block_jvp(
    primals: Any,
    tangents: Any,
    options: BlockOptions | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    attention_dropout: npt.ArrayLike | None = None,
    memory_mask: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
    **keywords: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a decoder block.

    Parameters
    ----------
    primals : tuple (x, memory, params)
        Vectors (..., T, D) and (..., S, D_kv), and a :class:`DecoderBlockParams`.
    tangents : tuple (dx, dmemory, dparams)
        Directions in the same structure; None at any place is zero.
    options, mask, bias, q_offset, dropout : as in `decoder_block`
        The same.
    attention_dropout, memory_mask : as in `decoder_block`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`; None is zero.
    **keywords
        As in `decoder_block`.

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
    >>> from dlref.transformer import DecoderBlockParams, GatedFeedForwardParams, NormParams
    >>> from dlref.transformer import decoder_block_jvp
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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask, dbias)
    o = as_options(options, keywords)
    return _jvp(DecoderBlockParams, ("x", "memory", "params"), primals, tangents, o, call)
