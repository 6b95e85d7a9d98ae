"""What type checkers make of results that depend on an option: read by mypy in ``tox -e lint``."""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from dlref.attention import (
    AttentionParams,
    multi_head_attention,
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
)
from dlref.interop import from_state_dict
from dlref.normalization import layer_norm_vjp, rms_norm_vjp
from dlref.transformer import LanguageModelConfig, LanguageModelParams

Floats = npt.NDArray[np.floating[Any]]


def attention(q: Floats, params: AttentionParams) -> None:
    out = scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.5)
    assert_type(out, Floats)
    _, weights = scaled_dot_product_attention(q, q, q, return_weights=True)
    assert_type(weights, Any)
    assert_type(scaled_dot_product_attention_jvp((q, q, q), (q, q, q), dbias=q), Floats)
    assert_type(multi_head_attention(q, q, params, num_heads=2), Floats)


def normalization(x: Floats, w: Floats) -> None:
    assert_type(layer_norm_vjp(x, x), Floats)
    assert_type(layer_norm_vjp(x, x, w), tuple[Floats, ...])
    assert_type(layer_norm_vjp(x, x, None, w), tuple[Floats, ...])
    assert_type(rms_norm_vjp(x, x, w, weight_offset=1.0), tuple[Floats, ...])


def ports(state: dict[str, Floats]) -> None:
    pair = from_state_dict(state, "llama", {})
    assert_type(pair, tuple[LanguageModelParams, LanguageModelConfig])
