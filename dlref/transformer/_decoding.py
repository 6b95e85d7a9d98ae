"""Decoding a token at a time, with the keys and values of earlier tokens in a cache."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from ..attention import AttentionParams, KVCache, LatentAttentionParams
from ..attention._block import keys_before
from ._blocks import block_forward, norm_forward
from ._configuration import LanguageModelConfig, block_options
from ._delta import DeltaCache
from ._model import Text, logits_of
from ._options import BlockOptions, Call
from ._params import EncoderDecoderParams, GatedDeltaParams, LanguageModelParams


def _cache(
    p: AttentionParams | LatentAttentionParams | GatedDeltaParams,
    batch: tuple[int, ...],
    o: BlockOptions,
    dtype: npt.DTypeLike,
    length: int,
    *,
    own: bool,
) -> KVCache | DeltaCache:
    """
    Return a cache of the widths that the projections have; of latents, one for all heads.

    Of the text's own tokens it keeps those that later ones will meet.
    """
    if isinstance(p, GatedDeltaParams):
        return DeltaCache()
    options: Any = {"dtype": dtype, "capacity": length}
    if own:
        options |= {"window": keys_before(o.window), "chunk": o.chunk}
    if isinstance(p, LatentAttentionParams):
        latent = len(p.kv_norm)
        return KVCache.empty(batch, 1, len(p.w_dkv) - latent, latent, **options)
    heads = o.heads().keys
    return KVCache.empty(batch, heads, len(p.w_k) // heads, len(p.w_v) // heads, **options)


class Decoding:
    """A model in the middle of `batch` texts of at most `length` tokens, about a memory if any."""

    def __init__(
        self,
        p: LanguageModelParams | EncoderDecoderParams,
        config: LanguageModelConfig,
        batch: tuple[int, ...],
        length: int,
        memory: FloatArray | None = None,
        memory_mask: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.p, self.config, self.memory, self.length = p, config, memory, 0
        self.call = Call(memory_mask=memory_mask)
        blocks = p.blocks if isinstance(p, LanguageModelParams) else p.decoder
        self.blocks = cast("tuple[Any, ...]", blocks)
        lengths = {"attention": length, "self_attention": length}
        lengths["cross_attention"] = 0 if memory is None else memory.shape[-2]
        each, dtype = block_options(config), p.embedding.dtype
        self.caches = [
            {
                field: _cache(
                    getattr(block, field), batch, o, dtype, lengths[field],
                    own=field != "cross_attention",
                )
                for field in block._fields
                if field in lengths
            }
            for block, o in zip(self.blocks, each, strict=False)  # at least one has options
        ]  # fmt: skip

    def feed(self, tokens: npt.NDArray[np.int64]) -> FloatArray:
        """Append tokens (..., t) and return the logits (..., V) of the next token."""
        p = self.p
        text = Text(tokens, p.embedding, p.positions, self.config, start=self.length)
        text = text._replace(projection=getattr(p, "embedding_in", None))
        x, stack = text.enter(self.blocks, p.norm, self.call)
        for block, s, caches in zip(stack.blocks, stack.setups, self.caches, strict=True):
            x = block_forward(x, block, s, self.memory, caches)[0]
        self.length += tokens.shape[-1]
        if self.memory is not None:  # its keys and values are in the caches now
            self.memory = self.memory[..., :0, :]
        x = norm_forward(np.ascontiguousarray(x[..., -1, :]), p.norm, stack.end)[0]
        return logits_of(x, p, self.config)

    def reorder(self, texts: npt.NDArray[np.int64]) -> None:
        """Go on with these texts, in this order; some may be wanted twice, others not at all."""
        for caches in self.caches:
            for cache in caches.values():
                cache.reorder(texts)
