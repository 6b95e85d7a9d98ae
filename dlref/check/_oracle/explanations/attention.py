"""Attention."""

from __future__ import annotations

from typing import Any

from .... import attention as a
from ..causes import attention as mistakes
from ..causes import heuristics
from ..usual import attention_jvp, forgetting_bias, gradient_of_decays_by_sums
from ._explanation import Explanation

OF_SCORES = (
    mistakes.scales,
    mistakes.masks,
    mistakes.soft_caps,
    mistakes.soft_masks,
    mistakes.scaled_with_scores,
    mistakes.heads_tiled,
)
SCORES: dict[str, Any] = {
    "heuristics": (heuristics.blind_rows,),
    "exponent": heuristics.largest_score,
}

EXPLANATIONS: dict[Any, Explanation] = {
    a.attention_scores: Explanation(
        **SCORES,
        mistakes=OF_SCORES,
    ),
    a.attention_weights: Explanation(
        **SCORES,
        mistakes=OF_SCORES,
    ),
    a.scaled_dot_product_attention: Explanation(
        **SCORES,
        plain={"jvp": attention_jvp},
        mistakes=(
            mistakes.scales, mistakes.masks, mistakes.masked_rows, mistakes.soft_caps,
            mistakes.soft_masks, mistakes.scaled_with_scores, mistakes.dropouts,
            mistakes.heads_tiled, mistakes.gradients,
        ),
    ),
    a.multiplicative_attention: Explanation(
        mistakes=(mistakes.masks,),
    ),
    a.linear_attention: Explanation(
        heuristics=(heuristics.divided_by_nothing,),
    ),
    a.recurrent_linear_attention: Explanation(
        variants={"vjp": (gradient_of_decays_by_sums,)},
    ),
    a.forgetting_bias: Explanation(
        variants={"forward": (forgetting_bias,)},
    ),
    a.multi_head_attention: Explanation(
        mistakes=(mistakes.masks, mistakes.heads_reshaped),
    ),
    a.latent_attention: Explanation(
        mistakes=(mistakes.masks_of_itself,),
    ),
}  # fmt: skip
