r"""Encoder and decoder: stacks of blocks, with an optional norm at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, check_ndim, check_shape
from .._core.pytree import as_float_trees, as_tree_tangents, rounded
from ._blocks import (
    block_forward,
    block_tangent,
    check_block,
    check_norm,
    norm_forward,
    norm_tangent,
    with_tangent,
)
from ._feed_forward import Pullback
from ._options import BlockOptions, Call, Setup, options_of_blocks, set_up_blocks
from ._params import DecoderBlockParams, EncoderBlockParams, NormParams
from ._structure import as_block, as_norm, sublayer_fields

EncoderParams = tuple[EncoderBlockParams, ...]
DecoderParams = tuple[DecoderBlockParams, ...]


class Stack(NamedTuple):
    """Blocks with their options, the last norm, and the options that it has."""

    blocks: tuple[Any, ...]
    norm: NormParams | None
    setups: list[Setup]
    end: BlockOptions


def stack_forward(
    x: FloatArray, stack: Stack, memory: FloatArray | None = None
) -> tuple[FloatArray, Pullback]:
    """Run the blocks and the last norm; cotangents (dx, dmemory, dblocks, dnorm, dbias)."""
    pullbacks, last = [], None
    for p, s in zip(stack.blocks, stack.setups, strict=True):
        x, back = block_forward(x, p, s, memory)
        pullbacks.append(back)
    if stack.norm is not None:
        x, last = norm_forward(x, stack.norm, stack.end)

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        u, dnorm = (u, None) if last is None else last(u)
        total, grads, dbias = None if memory is None else np.zeros_like(memory), [], None
        for back in reversed(pullbacks):
            u, dmemory, dp, term = back(u)
            grads.append(dp)
            total = total if dmemory is None else total + dmemory
            dbias = term if dbias is None else dbias + term
        return u, total, tuple(reversed(grads)), dnorm, dbias

    return x, pullback


def stack_value(x: FloatArray, stack: Stack, memory: FloatArray | None = None) -> FloatArray:
    """Run as `stack_forward`, keeping nothing."""
    for p, s in zip(stack.blocks, stack.setups, strict=True):
        x = block_forward(x, p, s, memory)[0]
    return x if stack.norm is None else norm_forward(x, stack.norm, stack.end)[0]


def stack_tangent(
    x: FloatArray,
    v: FloatArray,
    stack: Stack,
    dblocks: tuple[Any, ...],
    dnorm: NormParams | None,
    memory: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> tuple[FloatArray, FloatArray]:
    """Run the blocks and the last norm with tangents; `memory` with its own."""
    for p, dp, s in zip(stack.blocks, dblocks, stack.setups, strict=True):
        x, v = block_tangent(x, v, memory, p, dp, s)
    if stack.norm is None or dnorm is None:
        return x, v
    return norm_tangent(x, v, stack.norm, dnorm, stack.end)


# Checks.


def _as_blocks(kind: type[Any], name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list) or isinstance(value, EncoderBlockParams):
        msg = f"Argument {name!r} must be a tuple of blocks, not {type(value).__name__}."
        raise TypeError(msg)
    return tuple(as_block(kind, f"{name}[{i}]", p) for i, p in enumerate(value))


class _Kind(NamedTuple):
    """The parameters that the blocks of a stack have, and the options, as they were given."""

    params: type[Any]
    options: Any
    keywords: Mapping[str, Any]

    def stack(
        self,
        prefix: str,
        x: FloatArray,
        memory: FloatArray | None,
        blocks: tuple[Any, ...],
        norm: NormParams | None,
        call: Call,
    ) -> Stack:
        """Check shapes and options."""
        source = x if memory is None else memory
        check_ndim(f"{prefix}x", x, 2)
        check_ndim(f"{prefix}memory", source, 2)
        each = options_of_blocks(self.options, self.keywords, len(blocks))
        setups = set_up_blocks(each, call, len(blocks), len(sublayer_fields(self.params)), x)
        for i, (p, s) in enumerate(zip(blocks, setups, strict=True)):
            check_block(f"params[{i}]", p, x.shape[-1], source.shape[-1], s.options)
        if norm is not None:
            check_norm("final_norm", norm, x.shape[-1], each[-1])
        return Stack(blocks, norm, setups, each[-1])


def _arguments(
    kind: _Kind, arrays: dict[str, Any], params: Any, norm: Any, call: Call
) -> tuple[Any, list[Any], Stack]:
    blocks = _as_blocks(kind.params, "params", params)
    last = None if norm is None else as_norm("final_norm", norm)
    trees = {**arrays, "params": blocks, "final_norm": last, "bias": call.bias}
    dtype, [*values, blocks, last, bias] = as_float_trees(trees)
    named = dict(zip(arrays, values, strict=True))
    x, memory = named["x"], named.get("memory")
    stack = kind.stack("", x, memory, blocks, last, call._replace(bias=bias))
    if "dout" in named:
        check_shape("dout", named["dout"], x.shape)
    return dtype, values, stack


def _value(kind: _Kind, arrays: dict[str, Any], params: Any, norm: Any, call: Call) -> FloatArray:
    dtype, [x, *memory], stack = _arguments(kind, arrays, params, norm, call)
    return rounded(_own(stack_value(x, stack, *memory), x), dtype)


def _vjp(
    kind: _Kind, arrays: dict[str, Any], params: Any, norm: Any, call: Call
) -> tuple[Any, ...]:
    dtype, [u, x, *memory], stack = _arguments(kind, arrays, params, norm, call)
    back = stack_forward(x, stack, *memory)[1]
    dx, dmemory, dblocks, dnorm, dbias = back(u)
    grads = [_own(dx, u), *([dmemory] if memory else []), dblocks]
    grads += [] if norm is None else [dnorm]
    if call.bias is not None:
        grads.append(np.zeros(np.shape(call.bias), u.dtype) if dbias is None else dbias)
    return rounded(tuple(grads), dtype)


def _jvp(
    kind: _Kind, names: tuple[str, ...], primals: Any, tangents: Any, call: Call
) -> FloatArray:
    if isinstance(primals, tuple | list) and len(primals) == len(names) - 1:  # without a norm
        primals = (*primals, None)
        tangents = (*tangents, None) if isinstance(tangents, tuple | list) else tangents
    dtype, points, moved = as_tree_tangents(names, primals, tangents)
    for word, trees in (("primals", points), ("tangents", moved)):
        trees[-2] = _as_blocks(kind.params, f"{word}.params", trees[-2])
        trees[-1] = None if trees[-1] is None else as_norm(f"{word}.final_norm", trees[-1])
    [x, *memory, blocks, norm], [v, *dmemory, dblocks, dnorm] = points, moved
    source = (memory[0], dmemory[0]) if memory else (None, None)
    stack = kind.stack("primals.", x, source[0], blocks, norm, with_tangent(call))
    out = stack_tangent(x, v, stack, dblocks, dnorm, source)[1]
    return rounded(_own(out, v), dtype)


def _own(array: FloatArray, source: Any) -> FloatArray:
    """Copy an array that is still the caller's: a stack of no blocks changes nothing."""
    return array.copy() if np.shares_memory(array, source) else array


def encoder(
    x: npt.ArrayLike,
    params: EncoderParams,
    final_norm: NormParams | None = None,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    **keywords: Any,
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
    options : BlockOptions or tuple of BlockOptions or None
        Kind of all blocks, or one for each block.
    mask, bias, q_offset : as in `encoder_block`
        The same for all blocks.
    dropout : tuple of tuple or None
        An entry for each block, as `dropout` of `encoder_block`; None drops nothing.
    attention_dropout : tuple of array_like or None
        An entry for each block, as `attention_dropout` of `encoder_block`; None drops nothing.
    **keywords
        Fields of :class:`BlockOptions`: they make the options, or change some of those given.

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
    language_model, sequence_classifier : Built on it.

    Notes
    -----
    .. math:: \operatorname{encoder} = \operatorname{norm} \circ B_K \circ \dots \circ B_1

    **Why a last norm.** A pre-norm block adds to its input and normalizes a copy of it, never the
    sum. If the sub-layers' outputs are uncorrelated and of variance :math:`\sigma^2`, that
    sum, the residual stream, has variance :math:`\sigma_0^2 + 2 K \sigma^2` after K blocks, if it
    begins with :math:`\sigma_0^2`: its standard deviation grows as the square root of the depth.
    Its reader must not depend on that. A post-norm
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
    >>> blocks = init_language_model(rng, LanguageModelConfig(9, 8, 2, num_layers=2)).blocks
    >>> x = rng.normal(size=(3, 8))
    >>> y = encoder_block(encoder_block(x, blocks[0], num_heads=2), blocks[1], num_heads=2)
    >>> bool(np.all(encoder(x, blocks, num_heads=2) == y))
    True
    """
    call = Call(mask, bias, q_offset, dropout, attention_dropout)
    kind = _Kind(EncoderBlockParams, options, keywords)
    return _value(kind, {"x": x}, params, final_norm, call)


def encoder_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: EncoderParams,
    final_norm: NormParams | None = None,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    **keywords: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of an encoder.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent :math:`\mat U` of the output.
    x, params, final_norm, options, mask, bias, q_offset : as in `encoder`
        The same.
    dropout, attention_dropout, **keywords : as in `encoder`
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

        \pdv{L}{\mat H_K} = J_{norm}^\top\, \mat U, \qquad
        \pdv{L}{\mat H_{k-1}} = J_{B_k}^\top \pdv{L}{\mat H_k}, \qquad
        \pdv{L}{\theta_k} = \Bigl( \pdv{\mat H_k}{\theta_k} \Bigr)^\top \pdv{L}{\mat H_k},

    for k from K to 1. In the forward pass each block keeps its intermediate results; so the memory
    is proportional to the depth, and the time is one forward and one backward pass.

    Examples
    --------
    Without blocks or norm the gradient passes as it is:

    >>> from dlref.transformer import encoder_vjp
    >>> encoder_vjp([[1.0, 2.0]], [[3.0, 4.0]], (), num_heads=1)
    (array([[1., 2.]]), ())
    """
    call = Call(mask, bias, q_offset, dropout, attention_dropout)
    kind = _Kind(EncoderBlockParams, options, keywords)
    return _vjp(kind, {"dout": dout, "x": x}, params, final_norm, call)


def encoder_jvp(
    primals: Any,
    tangents: Any,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    dbias: npt.ArrayLike | None = None,
    **keywords: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an encoder.

    Parameters
    ----------
    primals : tuple (x, params) or (x, params, final_norm)
        Vectors (..., T, D), a tuple of :class:`EncoderBlockParams`, and the last norm.
    tangents : tuple (dx, dparams) or (dx, dparams, dfinal_norm)
        Directions in the same structure; None at any place is zero.
    options, mask, bias, q_offset, dropout : as in `encoder`
        The same.
    attention_dropout : as in `encoder`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`, the same for all blocks; None is zero.
    **keywords
        As in `encoder`.

    Returns
    -------
    ndarray, shape (..., T, D)
        Tangent of the output.

    Notes
    -----
    Value and tangent go through the blocks side by side, and then through the norm:

    .. math::

        \dot{\mat H}_k = J_{B_k} \dot{\mat H}_{k-1} + \pdv{\mat H_k}{\theta_k}\, \dot\theta_k,
        \qquad k = 1, \dots, K .

    Nothing is kept, so the memory does not grow with the depth. One pass serves one direction.

    Examples
    --------
    >>> from dlref.transformer import encoder_jvp
    >>> encoder_jvp(([[3.0, 4.0]], ()), ([[1.0, 2.0]], ()), num_heads=1)
    array([[1., 2.]])
    """
    call = Call(mask, bias, q_offset, dropout, attention_dropout, None, dbias)
    kind = _Kind(EncoderBlockParams, options, keywords)
    return _jvp(kind, ("x", "params", "final_norm"), primals, tangents, call)


def decoder(
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderParams,
    final_norm: NormParams | None = None,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    memory_mask: npt.ArrayLike | None = None,
    **keywords: Any,
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
    options : BlockOptions or tuple of BlockOptions or None
        Kind of all blocks, or one for each block.
    mask, bias, q_offset : as in `decoder_block`
        The same for all blocks.
    dropout : tuple of tuple or None
        An entry for each block, as `dropout` of `decoder_block`; None drops nothing.
    attention_dropout : tuple of array_like or None
        An entry for each block, as `attention_dropout` of `decoder_block`; None drops nothing.
    memory_mask : as in `decoder_block`
        The same for all blocks.
    **keywords
        Fields of :class:`BlockOptions`: they make the options, or change some of those given.

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
    encoder_decoder_model : Built on it.

    Notes
    -----
    With the memory :math:`\mat M`,

    .. math::

        \mat H_0 = \mat X, \qquad \mat H_k = B_k(\mat H_{k-1}, \mat M), \qquad
        \operatorname{decoder}(\mat X, \mat M) = \operatorname{norm}(\mat H_K) .

    The encoder runs once, whatever the decoder's blocks and steps are; block k of the decoder
    reads its *last* output, not the output of the encoder's block k.

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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    kind = _Kind(DecoderBlockParams, options, keywords)
    return _value(kind, {"x": x, "memory": memory}, params, final_norm, call)


def decoder_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    memory: npt.ArrayLike,
    params: DecoderParams,
    final_norm: NormParams | None = None,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    memory_mask: npt.ArrayLike | None = None,
    **keywords: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a decoder.

    Parameters
    ----------
    dout : array_like, shape (..., T, D)
        Cotangent of the output.
    x, memory, params, final_norm, options, mask, bias, q_offset : as in `decoder`
        The same.
    dropout, attention_dropout, memory_mask, **keywords : as in `decoder`
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
    All blocks read one memory, so its gradient is the sum over all blocks. With
    :math:`J_{B_k}` and :math:`J_{B_k, M}` for the Jacobians of block k with respect to its input
    and to the memory,

    .. math::

        \pdv{L}{\mat H_{k-1}} = J_{B_k}^\top \pdv{L}{\mat H_k}, \qquad
        \pdv{L}{\mat M} = \sum_{k=1}^K J_{B_k, M}^\top \pdv{L}{\mat H_k},

    for k from K to 1, beginning with the norm as in :func:`encoder_vjp`.

    Examples
    --------
    A position that is not read has no gradient:

    >>> from dlref.transformer import decoder_vjp
    >>> decoder_vjp([[1.0, 2.0]], [[3.0, 4.0]], [[5.0], [6.0]], (), num_heads=1)[:2]
    (array([[1., 2.]]), array([[0.],
           [0.]]))
    """
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    kind = _Kind(DecoderBlockParams, options, keywords)
    arrays = {"dout": dout, "x": x, "memory": memory}
    return _vjp(kind, arrays, params, final_norm, call)


def decoder_jvp(
    primals: Any,
    tangents: Any,
    options: BlockOptions | tuple[BlockOptions, ...] | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    q_offset: int = 0,
    dropout: tuple[tuple[npt.ArrayLike | None, ...], ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    memory_mask: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
    **keywords: Any,
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
    options, mask, bias, q_offset, dropout : as in `decoder`
        The same.
    attention_dropout, memory_mask : as in `decoder`
        Raises the same errors.
    dbias : array_like or None
        Tangent of `bias`, the same for all blocks; None is zero.
    **keywords
        As in `decoder`.

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
    call = Call(mask, bias, q_offset, dropout, attention_dropout, memory_mask, dbias)
    kind = _Kind(DecoderBlockParams, options, keywords)
    return _jvp(kind, ("x", "memory", "params", "final_norm"), primals, tangents, call)
