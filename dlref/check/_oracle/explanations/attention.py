"""Attention."""

from __future__ import annotations

import functools
from typing import Any

from .... import attention as a
from ..causes import attention as mistakes
from ..causes import heuristics
from ..plain import attention as plain
from ._explanation import Explanation

OF_SCORES = (
    mistakes.scales,
    mistakes.masks,
    mistakes.soft_caps,
    mistakes.soft_masks,
    mistakes.scaled_with_scores,
    mistakes.heads_tiled,
)
ATTENTION: dict[str, Any] = {
    "forward": plain.attention,
    "vjp": plain.attention_vjp,
    "jvp": plain.attention_jvp,
}
FLASH = {
    form: (functools.partial(formula, weights=plain.weights_by_logsumexp),)
    for form, formula in ATTENTION.items()
}

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
        plain={"vjp": plain.weights_vjp},
        mistakes=OF_SCORES,
    ),
    a.scaled_dot_product_attention: Explanation(
        **SCORES,
        plain=ATTENTION,
        variants=FLASH,
        mistakes=(
            mistakes.scales, mistakes.masks, mistakes.masked_rows, mistakes.soft_caps,
            mistakes.soft_masks, mistakes.scaled_with_scores, mistakes.dropouts, mistakes.online,
            mistakes.over_queries, mistakes.heads_tiled, mistakes.gradients,
        ),
    ),
    a.multiplicative_attention: Explanation(
        mistakes=(mistakes.masks,),
    ),
    a.additive_attention: Explanation(
        plain={"vjp": plain.additive_attention_vjp},
    ),
    a.linear_attention: Explanation(
        plain={"forward": plain.linear_attention, "vjp": plain.linear_attention_vjp},
        heuristics=(heuristics.divided_by_nothing,),
    ),
    a.forgetting_bias: Explanation(
        plain={"forward": plain.forgetting_bias, "vjp": plain.forgetting_bias_vjp},
    ),
    a.differential_attention: Explanation(
        plain={
            "forward": plain.differential_attention, "vjp": plain.differential_attention_vjp,
        },
    ),
    a.multi_head_attention: Explanation(
        mistakes=(mistakes.masks, mistakes.heads_reshaped),
    ),
    a.latent_attention: Explanation(
        mistakes=(mistakes.masks_of_itself,),
    ),
}  # fmt: skip
