r"""Encoder and decoder: stacks of blocks, with an optional norm at the end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, check_ndim, check_shape
from .._core.pytree import as_float_trees, as_tree_tangents, rounded
from ._blocks import (
    BlockOptions,
    DecoderBlockParams,
    EncoderBlockParams,
    NormParams,
    Options,
    as_block,
    as_norm,
    check_block,
    check_norm,
    decoder_block_forward,
    decoder_block_tangent,
    dropout_factors,
    encoder_block_forward,
    encoder_block_tangent,
    norm_forward,
    norm_tangent,
    tangent_options,
)
from ._feed_forward import Pullback

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "decoder",
    "decoder_jvp",
    "decoder_vjp",
    "encoder",
    "encoder_jvp",
    "encoder_vjp",
]

EncoderParams = tuple[EncoderBlockParams, ...]
DecoderParams = tuple[DecoderBlockParams, ...]


def _total(terms: Sequence[FloatArray | None]) -> FloatArray | None:
    """Add up, in order; None where there is nothing."""
    there = [term for term in terms if term is not None]
    return sum(there[1:], there[0]) if there else None


def _blocks_forward(
    x: FloatArray, steps: Sequence[Any], norm: NormParams | None, end: tuple[str | None, float]
) -> tuple[FloatArray, Pullback]:
    """Run `steps`, each a function of x, and the last norm; cotangents (dx, rests, dnorm)."""
    pullbacks = []
    for step in steps:
        x, pullback = step(x)
        pullbacks.append(pullback)
    last = None
    if norm is not None:
        x, last = norm_forward(x, norm, *end)

    def blocks_pullback(
        u: FloatArray,
    ) -> tuple[FloatArray, list[tuple[Any, ...]], NormParams | None]:
        dnorm = None
        if last is not None:
            u, dnorm = last(u)
        rests = []
        for pullback in reversed(pullbacks):
            u, *rest = pullback(u)
            rests.append(rest)
        return u, rests, dnorm

    return x, blocks_pullback


def encoder_forward(
    x: FloatArray,
    blocks: EncoderParams,
    norm: NormParams | None,
    options: list[Options],
    end: tuple[str | None, float],
) -> tuple[FloatArray, Pullback]:
    """Run the blocks and the last norm; the cotangents are (dx, dblocks, dnorm, dbias)."""
    steps = [partial(encoder_block_forward, p=p, o=o) for p, o in zip(blocks, options, strict=True)]
    out, blocks_pullback = _blocks_forward(x, steps, norm, end)

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        dx, rests, dnorm = blocks_pullback(u)
        grads = tuple(dp for dp, _ in reversed(rests))
        return dx, grads, dnorm, _total([dbias for _, dbias in rests])

    return out, pullback


def encoder_value(
    x: FloatArray,
    blocks: EncoderParams,
    norm: NormParams | None,
    options: list[Options],
    end: tuple[str | None, float],
) -> FloatArray:
    """Run as `encoder_forward`, keeping nothing."""
    for p, o in zip(blocks, options, strict=True):
        x = encoder_block_forward(x, p, o)[0]
    return x if norm is None else norm_forward(x, norm, *end)[0]


def encoder_tangent(
    x: FloatArray,
    v: FloatArray,
    blocks: tuple[EncoderParams, EncoderParams],
    norm: tuple[NormParams | None, NormParams | None],
    options: list[Options],
    end: tuple[str | None, float],
) -> tuple[FloatArray, FloatArray]:
    """Run the blocks and the last norm with tangents."""
    for p, dp, o in zip(*blocks, options, strict=True):
        x, v = encoder_block_tangent(x, v, p, dp, o)
    return (x, v) if norm[0] is None else norm_tangent(x, v, *norm, *end)  # type: ignore[arg-type]


def decoder_forward(
    x: FloatArray,
    memory: FloatArray,
    blocks: DecoderParams,
    norm: NormParams | None,
    options: list[Options],
    end: tuple[str | None, float],
) -> tuple[FloatArray, Pullback]:
    """Run the blocks and the last norm; cotangents (dx, dmemory, dblocks, dnorm, dbias)."""
    steps = [
        partial(decoder_block_forward, memory=memory, p=p, o=o)
        for p, o in zip(blocks, options, strict=True)
    ]
    out, blocks_pullback = _blocks_forward(x, steps, norm, end)

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        dx, rests, dnorm = blocks_pullback(u)
        dmemory = _total([np.zeros_like(memory), *(d for d, _, _ in rests)])
        grads = tuple(dp for _, dp, _ in reversed(rests))
        return dx, dmemory, grads, dnorm, _total([dbias for *_, dbias in rests])

    return out, pullback


def decoder_tangent(
    x: FloatArray,
    v: FloatArray,
    memory: tuple[FloatArray, FloatArray],
    blocks: tuple[DecoderParams, DecoderParams],
    norm: tuple[NormParams | None, NormParams | None],
    options: list[Options],
    end: tuple[str | None, float],
) -> tuple[FloatArray, FloatArray]:
    """Run the blocks and the last norm with tangents."""
    for p, dp, o in zip(*blocks, options, strict=True):
        x, v = decoder_block_tangent(x, v, memory, p, dp, o)
    return (x, v) if norm[0] is None else norm_tangent(x, v, *norm, *end)  # type: ignore[arg-type]


# Checks.


def _as_blocks(kind: type[Any], name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list) or isinstance(value, EncoderBlockParams):
        msg = f"Argument {name!r} must be a tuple of blocks, not {type(value).__name__}."
        raise TypeError(msg)
    return tuple(as_block(kind, f"{name}[{i}]", p) for i, p in enumerate(value))


def stack_options(
    o: BlockOptions, count: int, sublayers: int, x: FloatArray, dbias: Any = None
) -> list[Options]:
    """Check the options of `count` blocks; the two of dropout have an entry for each."""
    dropout = _each("dropout", o.dropout, count, "tuples")
    weights = _each("attention_dropout", o.attention_dropout, count, "arrays or None")
    plain = tangent_options(o._replace(dropout=None, attention_dropout=None), sublayers, x, dbias)
    return [
        plain._replace(
            dropout=dropout_factors(part, sublayers, x),
            attention={**plain.attention, "dropout": factors},
        )
        for part, factors in zip(dropout, weights, strict=True)
    ]


def _each(name: str, value: Any, count: int, what: str) -> Any:
    """Return an option with an entry for each block."""
    if value is None:
        return (None,) * count
    if not isinstance(value, tuple | list) or len(value) != count:
        msg = f"Argument {name!r} must be a tuple of {count} {what}, one for each block, or None."
        raise ValueError(msg)
    return value


def _arguments(
    kind: type[Any], arrays: dict[str, Any], params: Any, norm: Any, options: BlockOptions
) -> tuple[Any, list[Any], Any, Any, list[Options], tuple[str | None, float]]:
    blocks = _as_blocks(kind, "params", params)
    last = None if norm is None else as_norm("final_norm", norm)
    trees = {**arrays, "params": blocks, "final_norm": last, "bias": options.bias}
    dtype, [*values, blocks, last, bias] = as_float_trees(trees)
    named = dict(zip(arrays, values, strict=True))
    each = _checked(
        kind, "", named["x"], named.get("memory"), blocks, last, options._replace(bias=bias)
    )
    if "dout" in named:
        check_shape("dout", named["dout"], named["x"].shape)
    return dtype, values, blocks, last, each, (options.norm, float(options.eps))


def _checked(
    kind: type[Any],
    prefix: str,
    x: FloatArray,
    memory: FloatArray | None,
    blocks: Any,
    norm: NormParams | None,
    options: BlockOptions,
    dbias: Any = None,
) -> list[Options]:
    """Check shapes and options; return the options of each block."""
    source = x if memory is None else memory
    check_ndim(f"{prefix}x", x, 2)
    check_ndim(f"{prefix}memory", source, 2)
    sublayers = len(kind._fields) // 2
    each = stack_options(options, len(blocks), sublayers, x, dbias)
    for i, (p, o) in enumerate(zip(blocks, each, strict=True)):
        check_block(f"params[{i}]", p, x.shape[-1], source.shape[-1], o.heads, o.norm)
    if norm is not None:
        check_norm("final_norm", norm, x.shape[-1], options.norm)
    return each


def _tangents(
    kind: type[Any],
    names: tuple[str, ...],
    primals: Any,
    tangents: Any,
    options: BlockOptions,
    dbias: Any,
) -> tuple[Any, list[Any], list[Any], list[Options], tuple[str | None, float]]:
    if isinstance(primals, tuple | list) and len(primals) == len(names) - 1:  # without a norm
        primals = (*primals, None)
        tangents = (*tangents, None) if isinstance(tangents, tuple | list) else tangents
    dtype, points, moved = as_tree_tangents(names, primals, tangents)
    for word, trees in (("primals", points), ("tangents", moved)):
        trees[-2] = _as_blocks(kind, f"{word}.params", trees[-2])
        trees[-1] = None if trees[-1] is None else as_norm(f"{word}.final_norm", trees[-1])
    x, memory = points[0], points[-3]
    blocks, last = points[-2:]
    each = _checked(kind, "primals.", x, memory, blocks, last, options, dbias)
    return dtype, points, moved, each, (options.norm, float(options.eps))


def _own(array: FloatArray, source: Any) -> FloatArray:
    """Copy what is still the caller's: a stack of no blocks changes nothing."""
    return array.copy() if np.shares_memory(array, source) else array


def encoder(
    x: npt.ArrayLike,
    params: EncoderParams,
    final_norm: NormParams | None = None,
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Encoder blocks, one after the other.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        One vector for each of T positions.
    params : tuple of EncoderBlockParams
        Parameters of each block.
    final_norm : NormParams or None
        Parameters of a normalization at the end, which a stack of pre-norm blocks needs.
    num_heads, num_kv_heads, norm_first, norm, activation : as in `encoder_block`
        The same for all blocks.
    is_causal, mask, bias, rope, rope_interleaved, q_offset : as in `encoder_block`
        The same for all blocks.
    window, scale, softcap : as in `encoder_block`
        The same for all blocks.
    dropout : tuple of tuple or None
        An entry for each block, as `dropout` of `encoder_block`; None drops nothing.
    attention_dropout : tuple of array_like or None
        An entry for each block, as `attention_dropout` of `encoder_block`; None drops nothing.
    eps : as in `encoder_block`
        The same for all blocks.

    Returns
    -------
    ndarray, shape (..., T, D)
        One vector for each position.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not a tuple of blocks.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    encoder_block : One of them.
    decoder : With cross-attention.
    language_model, sequence_classifier : What is built on it.

    Notes
    -----
    .. math:: \operatorname{encoder} = \operatorname{norm} \circ B_L \circ \dots \circ B_1

    **Why a last norm.** A pre-norm block adds to its input and normalizes a copy of it, never the
    sum. If the sub-layers' outputs are uncorrelated and of variance :math:`\sigma^2`, that
    sum, the residual stream, has variance :math:`\sigma_0^2 + 2 L \sigma^2` after L blocks, if it
    begins with :math:`\sigma_0^2`: its standard deviation grows as the square root of the depth.
    What reads it must not depend on that. A post-norm
    block ends in a norm already.

    References
    ----------
    - :cite:t:`Vaswani2017`; :cite:t:`Xiong2020`

    Examples
    --------
    A stack of no blocks is the last norm:

    >>> import numpy as np
    >>> from dlref.transformer import NormParams, encoder
    >>> encoder([[3.0, 4.0]], (), NormParams([1.0, 1.0], [0.0, 0.0]), num_heads=1, eps=0)
    array([[-1.,  1.]])

    Two blocks are a block and a block:

    >>> from dlref.transformer import LanguageModelConfig, encoder_block, init_language_model
    >>> rng = np.random.default_rng(0)
    >>> blocks = init_language_model(rng, LanguageModelConfig(9, 8, 2, layers=2)).blocks
    >>> x = rng.normal(size=(3, 8))
    >>> y = encoder_block(encoder_block(x, blocks[0], num_heads=2), blocks[1], num_heads=2)
    >>> bool(np.all(encoder(x, blocks, num_heads=2) == y))
    True
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    dtype, [a], *rest = _arguments(EncoderBlockParams, {"x": x}, params, final_norm, options)
    return rounded(_own(encoder_value(a, *rest), a), dtype)  # type: ignore[no-any-return]


def encoder_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: EncoderParams,
    final_norm: NormParams | None = None,
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of an encoder.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent :math:`\mat U` of the output.
    x, params, final_norm, num_heads, num_kv_heads, norm_first, norm : as in `encoder`
        The same.
    activation, is_causal, mask, bias, rope, rope_interleaved, q_offset : as in `encoder`
        The same.
    window, scale, softcap, dropout, attention_dropout, eps : as in `encoder`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., T, D)
        Gradient with respect to `x`.
    dparams : tuple of EncoderBlockParams
        Gradient of each parameter; None where it is None.
    dfinal_norm : NormParams
        Gradient of the last norm's parameters. Only if `final_norm` is given.
    dbias : ndarray, shape of `bias`
        Gradient of the scores' bias, summed over the blocks. Only if `bias` is given.

    See Also
    --------
    encoder_block_vjp : One block, with the derivation.

    Notes
    -----
    The chain rule, from the last block to the first. With :math:`\mat H_k` for the output of block
    k, :math:`\mat H_0 = \mat X`, :math:`\theta_k` for its parameters, and J for Jacobians with
    respect to the input,

    .. math::

        \pdv{L}{\mat H_L} = J_{norm}^\top\, \mat U, \qquad
        \pdv{L}{\mat H_{k-1}} = J_{B_k}^\top \pdv{L}{\mat H_k}, \qquad
        \pdv{L}{\theta_k} = \Bigl( \pdv{\mat H_k}{\theta_k} \Bigr)^\top \pdv{L}{\mat H_k},

    for k from L to 1. In the forward pass each block keeps what that takes; so the memory is
    proportional to the depth, and the time that of one forward and one backward pass.

    Examples
    --------
    Without blocks or norm the gradient passes as it is:

    >>> from dlref.transformer import encoder_vjp
    >>> encoder_vjp([[1.0, 2.0]], [[3.0, 4.0]], (), num_heads=1)
    (array([[1., 2.]]), ())
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    arrays = {"dout": dout, "x": x}
    dtype, [u, a], *rest = _arguments(EncoderBlockParams, arrays, params, final_norm, options)
    dx, dblocks, dnorm, dbias = encoder_forward(a, *rest)[1](u)
    grads = [_own(dx, u), dblocks, *([] if final_norm is None else [dnorm])]
    if bias is not None:
        grads.append(np.zeros(np.shape(bias), u.dtype) if dbias is None else dbias)
    return rounded(tuple(grads), dtype)  # type: ignore[no-any-return]


def encoder_jvp(
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
    dbias: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an encoder.

    Parameters
    ----------
    primals : tuple (x, params) or (x, params, final_norm)
        Vectors (..., T, D), a tuple of :class:`EncoderBlockParams`, and the last norm.
    tangents : tuple (dx, dparams) or (dx, dparams, dfinal_norm)
        Directions in the same structure; None at any place is zero.
    num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask : as in `encoder`
        The same.
    bias, rope, rope_interleaved, q_offset, window, scale, softcap, dropout : as in `encoder`
        The same.
    attention_dropout, eps : as in `encoder`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`, the same for all blocks; None is zero.

    Returns
    -------
    ndarray, shape (..., T, D)
        Tangent of the output.

    Notes
    -----
    Value and tangent go through the blocks side by side, and then through the norm:

    .. math::

        \dot{\mat H}_k = J_{B_k} \dot{\mat H}_{k-1} + \pdv{\mat H_k}{\theta_k}\, \dot\theta_k,
        \qquad k = 1, \dots, L .

    Nothing is kept, so the memory does not grow with the depth. One pass serves one direction.

    Examples
    --------
    >>> from dlref.transformer import encoder_jvp
    >>> encoder_jvp(([[3.0, 4.0]], ()), ([[1.0, 2.0]], ()), num_heads=1)
    array([[1., 2.]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout, eps,
    )  # fmt: skip
    names = "x", "params", "final_norm"
    dtype, [x, *p], [v, *dp], each, end = _tangents(
        EncoderBlockParams, names, primals, tangents, options, dbias
    )
    _, moved = encoder_tangent(x, v, (p[0], dp[0]), (p[1], dp[1]), each, end)
    return rounded(_own(moved, v), dtype)  # type: ignore[no-any-return]


def decoder(
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderParams,
    final_norm: NormParams | None = None,
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Decoder blocks, one after the other, all reading the same memory.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        One vector for each of T positions of the decoder.
    memory : array_like, shape (..., S, D_kv)
        Output of the encoder.
    params : tuple of DecoderBlockParams
        Parameters of each block.
    final_norm : NormParams or None
        Parameters of a normalization at the end, which a stack of pre-norm blocks needs.
    num_heads, num_kv_heads, norm_first, norm, activation : as in `decoder_block`
        The same for all blocks.
    is_causal, mask, bias, rope, rope_interleaved, q_offset : as in `decoder_block`
        The same for all blocks.
    window, scale, softcap : as in `decoder_block`
        The same for all blocks.
    dropout : tuple of tuple or None
        An entry for each block, as `dropout` of `decoder_block`; None drops nothing.
    attention_dropout : tuple of array_like or None
        An entry for each block, as `attention_dropout` of `decoder_block`; None drops nothing.
    eps, memory_mask : as in `decoder_block`
        The same for all blocks.

    Returns
    -------
    ndarray, shape (..., T, D)
        One vector for each position of `x`.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not a tuple of blocks.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    decoder_block : One of them.
    encoder_decoder_model : What is built on it.

    Notes
    -----
    With the memory :math:`\mat M`,

    .. math::

        \mat H_0 = \mat X, \qquad \mat H_k = B_k(\mat H_{k-1}, \mat M), \qquad
        \operatorname{decoder}(\mat X, \mat M) = \operatorname{norm}(\mat H_L) .

    The encoder runs once, whatever the decoder's blocks and steps are; block k of the decoder
    reads its *last* output, not that of the encoder's block k.

    References
    ----------
    - :cite:t:`Vaswani2017`, section 3.1

    Examples
    --------
    >>> from dlref.transformer import NormParams, decoder
    >>> x, memory = [[3.0, 4.0]], [[1.0], [2.0]]
    >>> decoder(x, memory, (), NormParams([1.0, 1.0], [0.0, 0.0]), num_heads=1, eps=0)
    array([[-1.,  1.]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    arrays = {"x": x, "memory": memory}
    dtype, [a, source], *rest = _arguments(DecoderBlockParams, arrays, params, final_norm, options)
    out = decoder_forward(a, source, *rest)[0]
    return rounded(_own(out, a), dtype)  # type: ignore[no-any-return]


def decoder_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderParams,
    final_norm: NormParams | None = None,
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a decoder.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent of the output.
    x, memory, params, final_norm, num_heads, num_kv_heads, norm_first, norm : as in `decoder`
        The same.
    activation, is_causal, mask, bias, rope, rope_interleaved, q_offset : as in `decoder`
        The same.
    window, scale, softcap, dropout, attention_dropout, eps, memory_mask : as in `decoder`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., T, D)
        Gradient with respect to `x`.
    dmemory : ndarray, shape (..., S, D_kv)
        Gradient with respect to `memory`, summed over the blocks.
    dparams : tuple of DecoderBlockParams
        Gradient of each parameter; None where it is None.
    dfinal_norm : NormParams
        Gradient of the last norm's parameters. Only if `final_norm` is given.
    dbias : ndarray, shape of `bias`
        Gradient of the scores' bias, summed over the blocks. Only if `bias` is given.

    See Also
    --------
    decoder_block_vjp : One block.
    encoder_vjp : The same without memory.

    Notes
    -----
    All blocks read one memory, so its gradient is the sum of what comes from each. With
    :math:`J_{B_k}` and :math:`J_{B_k, M}` for the Jacobians of block k with respect to its input
    and to the memory,

    .. math::

        \pdv{L}{\mat H_{k-1}} = J_{B_k}^\top \pdv{L}{\mat H_k}, \qquad
        \pdv{L}{\mat M} = \sum_{k=1}^L J_{B_k, M}^\top \pdv{L}{\mat H_k},

    for k from L to 1, beginning with the norm as in :func:`encoder_vjp`.

    Examples
    --------
    What is not read has no gradient:

    >>> from dlref.transformer import decoder_vjp
    >>> decoder_vjp([[1.0, 2.0]], [[3.0, 4.0]], [[5.0], [6.0]], (), num_heads=1)[:2]
    (array([[1., 2.]]), array([[0.],
           [0.]]))
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    arrays = {"dout": dout, "x": x, "memory": memory}
    dtype, [u, a, source], *rest = _arguments(
        DecoderBlockParams, arrays, params, final_norm, options
    )
    dx, dmemory, dblocks, dnorm, dbias = decoder_forward(a, source, *rest)[1](u)
    grads = [_own(dx, u), dmemory, dblocks, *([] if final_norm is None else [dnorm])]
    if bias is not None:
        grads.append(np.zeros(np.shape(bias), u.dtype) if dbias is None else dbias)
    return rounded(tuple(grads), dtype)  # type: ignore[no-any-return]


def decoder_jvp(
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
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    eps: float = 1e-5,
    memory_mask: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a decoder.

    Parameters
    ----------
    primals : tuple (x, memory, params) or (x, memory, params, final_norm)
        Vectors (..., T, D) and (..., S, D_kv), a tuple of :class:`DecoderBlockParams`, and the last
        norm.
    tangents : tuple
        Directions in the same structure; None at any place is zero.
    num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask : as in `decoder`
        The same.
    bias, rope, rope_interleaved, q_offset, window, scale, softcap, dropout : as in `decoder`
        The same.
    attention_dropout, eps, memory_mask : as in `decoder`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`, the same for all blocks; None is zero.

    Returns
    -------
    ndarray, shape (..., T, D)
        Tangent of the output.

    Notes
    -----
    The tangent of `memory` enters every block:

    .. math::

        \dot{\mat H}_k = J_{B_k} \dot{\mat H}_{k-1} + J_{B_k, M} \dot{\mat M}
            + \pdv{\mat H_k}{\theta_k}\, \dot\theta_k .

    Examples
    --------
    >>> from dlref.transformer import decoder_jvp
    >>> x, memory = [[3.0, 4.0]], [[5.0], [6.0]]
    >>> decoder_jvp((x, memory, ()), ([[1.0, 2.0]], None, None), num_heads=1)
    array([[1., 2.]])
    """
    options = BlockOptions(
        num_heads, num_kv_heads, norm_first, norm, activation, is_causal, mask, bias, rope,
        rope_interleaved, q_offset, window, scale, softcap, dropout, attention_dropout,
        eps, memory_mask,
    )  # fmt: skip
    names = "x", "memory", "params", "final_norm"
    dtype, [x, memory, *p], [v, dmemory, *dp], each, end = _tangents(
        DecoderBlockParams, names, primals, tangents, options, dbias
    )
    source = memory, dmemory
    _, moved = decoder_tangent(x, v, source, (p[0], dp[0]), (p[1], dp[1]), each, end)
    return rounded(_own(moved, v), dtype)  # type: ignore[no-any-return]
