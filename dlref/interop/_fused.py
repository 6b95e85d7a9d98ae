"""The fused matrices of Qwen's gated delta rules, taken apart and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arguments import as_array
from ..transformer import LanguageModelConfig

#: Matrices that are stored as one, whose rows go from head of keys to head of keys.
FUSED = {"in_proj_qkvz.weight": "qkvz", "in_proj_ba.weight": "ba"}


def key_heads(config: LanguageModelConfig, layer: int) -> int:
    """Return the number of heads of keys of a layer's gated delta rule, or 0 if it has none."""
    block: Any = config.blocks[layer] if isinstance(config.blocks, tuple) else config.blocks
    return (block or {}).get("delta_heads") or 0


def apart(named: dict[str, Any], config: LanguageModelConfig, base: str) -> dict[str, Any]:
    """Return the tensors with a matrix for each of q, k, v, z, b, a, and a flat convolution."""
    tensors = dict(named)
    for layer in range(config.num_layers):
        start, groups = f"{base}layers.{layer}.linear_attn.", key_heads(config, layer)
        needed = [f"{start}{name}" for name in (*FUSED, "A_log", "norm.weight", "conv1d.weight")]
        if not groups or not all(name in tensors for name in needed):
            continue  # a tensor that is missing is named where the layout is read
        arrays = [as_array(name, tensors[name]) for name in needed]
        qkvz, ba, rates, norm, conv = arrays
        per_key = len(rates) // groups
        width = per_key * len(norm)
        keys = (len(qkvz) // groups - 2 * width) // 2
        rows = 2 * groups * (keys + width), 2 * len(rates)
        if keys < 1 or (len(qkvz), len(ba)) != rows or conv.ndim != 3 or conv.shape[1] != 1:
            msg = f"Argument 'state' must fit {groups} heads of keys in the layer {start!r}."
            raise ValueError(msg)
        cuts = (keys, 2 * keys, 2 * keys + width), (per_key,)
        for array, names, cut in zip((qkvz, ba), FUSED.values(), cuts, strict=True):
            parts = np.split(array.reshape(groups, -1, array.shape[-1]), cut, axis=1)
            for name, part in zip(names, parts, strict=True):
                tensors[f"{start}in_proj_{name}.weight"] = part.reshape(-1, array.shape[-1])
        tensors[needed[-1]] = conv[:, 0]
        for name in needed[:2]:
            del tensors[name]
    return tensors


def together(state: dict[str, Any], config: LanguageModelConfig, base: str) -> dict[str, Any]:
    """Return the tensors with fused matrices, the inverse."""
    tensors = dict(state)
    for layer in range(config.num_layers):
        start, groups = f"{base}layers.{layer}.linear_attn.", key_heads(config, layer)
        if not groups:
            continue
        for fused, names in FUSED.items():
            parts = [tensors.pop(f"{start}in_proj_{name}.weight") for name in names]
            rows = [part.reshape(groups, -1, part.shape[-1]) for part in parts]
            tensors[start + fused] = np.concatenate(rows, axis=1).reshape(-1, parts[0].shape[-1])
        tensors[f"{start}conv1d.weight"] = tensors[f"{start}conv1d.weight"][:, None]
    return tensors


def apart_in_rows(named: dict[str, Any], config: LanguageModelConfig, base: str) -> dict[str, Any]:
    """Return the same where q, k and v are one matrix, one after the other (Qwen3.5)."""
    tensors = dict(named)
    for layer in range(config.num_layers):
        start, groups = f"{base}layers.{layer}.linear_attn.", key_heads(config, layer)
        needed = [f"{start}{name}.weight" for name in ("in_proj_qkv", "in_proj_z", "conv1d")]
        if not groups or not all(name in tensors for name in needed):
            continue  # a tensor that is missing is named where the layout is read
        qkv, z, conv = (as_array(name, tensors[name]) for name in needed)
        keys = (len(qkv) - len(z)) // 2
        fits = keys > 0 and len(qkv) == len(z) + 2 * keys and keys % groups == 0
        if not fits or conv.ndim != 3 or conv.shape[1] != 1:
            msg = f"Argument 'state' must fit {groups} heads of keys in the layer {start!r}."
            raise ValueError(msg)
        for name, part in zip("qkv", np.split(qkv, [keys, 2 * keys]), strict=True):
            tensors[f"{start}in_proj_{name}.weight"] = part
        tensors[needed[-1]] = conv[:, 0]
        del tensors[needed[0]]
    return tensors


def together_in_rows(
    state: dict[str, Any], config: LanguageModelConfig, base: str
) -> dict[str, Any]:
    """Return the tensors with a matrix of q, k and v, the inverse."""
    tensors = dict(state)
    for layer in range(config.num_layers):
        start = f"{base}layers.{layer}.linear_attn."
        if key_heads(config, layer):
            parts = [tensors.pop(f"{start}in_proj_{name}.weight") for name in "qkv"]
            tensors[f"{start}in_proj_qkv.weight"] = np.concatenate(parts)
            tensors[f"{start}conv1d.weight"] = tensors[f"{start}conv1d.weight"][:, None]
    return tensors
