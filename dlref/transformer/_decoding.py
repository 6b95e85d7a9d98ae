"""Decoding a token at a time, with the keys and values of earlier tokens in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._math.dense import affine
from ..attention import KVCache
from ._blocks import decoder_block_forward, encoder_block_forward, norm_forward
from ._configuration import LanguageModelConfig, LanguageModelParams, places
from ._language_model import block_options, embed
from ._stacks import stack_options

if TYPE_CHECKING:
    from .._core.arguments import FloatArray
    from ._encoder_decoder import EncoderDecoderParams


def _caches(
    config: LanguageModelConfig, dtype: npt.DTypeLike, batch: tuple[int, ...], length: int
) -> list[KVCache]:
    """Return a cache for each block."""
    shape = batch, config.kv_heads, config.head_width
    return [KVCache.empty(*shape, dtype=dtype, capacity=length) for _ in range(config.layers)]


def _last_logits(
    x: FloatArray, p: LanguageModelParams | EncoderDecoderParams, config: LanguageModelConfig
) -> FloatArray:
    """Return the logits of the last position."""
    x = np.ascontiguousarray(x[..., -1, :])
    if p.norm is not None:
        x = norm_forward(x, p.norm, config.norm, config.eps)[0]
    return affine(x, p.embedding if p.head is None else p.head)


class Decoding:
    """A language model in the middle of `batch` texts of at most `length` tokens."""

    def __init__(
        self, p: LanguageModelParams, config: LanguageModelConfig, batch: int, length: int
    ) -> None:
        self.p, self.config, self.length = p, config, 0
        self.caches = _caches(config, p.embedding.dtype, (batch,), length)

    def feed(self, tokens: npt.NDArray[np.int64]) -> FloatArray:
        """Append tokens (B, t) and return the logits (B, V) of what comes next."""
        p, config, t = self.p, self.config, tokens.shape[-1]
        there = places(config, p.positions, t, p.embedding.dtype, start=self.length)
        x = embed(tokens, p.embedding, there.vectors, config)
        told = block_options(config, there, True)._replace(q_offset=self.length)
        options = stack_options(told, config.layers, 2, x)
        for block, o, cache in zip(p.blocks, options, self.caches, strict=True):
            x = encoder_block_forward(x, block, o, cache)[0]
        self.length += t
        return _last_logits(x, p, config)

    def reorder(self, texts: npt.NDArray[np.int64]) -> None:
        """Go on with these texts, in this order; some may be wanted twice, others not at all."""
        for cache in self.caches:
            cache.reorder(texts)


class EncoderDecoderDecoding:
    """An encoder-decoder model in the middle of the texts it writes about `memory`."""

    def __init__(
        self,
        p: EncoderDecoderParams,
        config: LanguageModelConfig,
        memory: FloatArray,
        memory_mask: npt.NDArray[np.bool_] | None,
        length: int,
    ) -> None:
        self.p, self.config, self.memory, self.mask, self.length = p, config, memory, memory_mask, 0
        *batch, source, _ = memory.shape
        self.own = _caches(config, memory.dtype, (*batch,), length)
        self.read = _caches(config, memory.dtype, (*batch,), source)

    def feed(self, tokens: npt.NDArray[np.int64]) -> FloatArray:
        """Append tokens (..., t) and return the logits (..., V) of what comes next."""
        p, config, t = self.p, self.config, tokens.shape[-1]
        there = places(config, p.positions, t, p.embedding.dtype, start=self.length)
        x = embed(tokens, p.embedding, there.vectors, config)
        told = block_options(config, there, True)
        told = told._replace(q_offset=self.length, memory_mask=self.mask)
        options = stack_options(told, config.layers, 3, x)
        for block, o, caches in zip(
            p.decoder, options, zip(self.own, self.read, strict=True), strict=True
        ):
            x = decoder_block_forward(x, self.memory, block, o, caches)[0]
        self.length += t
        self.memory = self.memory[..., :0, :]  # its keys and values are in the caches now
        return _last_logits(x, p, config)
