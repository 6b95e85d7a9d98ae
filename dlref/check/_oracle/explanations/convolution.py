"""Convolution and pooling."""

from __future__ import annotations

from typing import Any

from .... import convolution as c
from ..causes import convolution as mistakes
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    c.conv: Explanation(
        mistakes=(mistakes.reversed_kernel, mistakes.exchanged_axes),
        later=(mistakes.interleaved_groups, mistakes.other_padding),
    ),
    c.conv_transpose: Explanation(
        mistakes=(mistakes.reversed_kernel, mistakes.exchanged_axes),
        later=(mistakes.padded_at_the_start,),
    ),
    c.max_pool: Explanation(mistakes=(mistakes.zeros_win,), later=(mistakes.other_winners,)),
    c.mean_pool: Explanation(mistakes=(mistakes.padding_not_counted,)),
    c.causal_conv: Explanation(
        mistakes=(
            mistakes.reversed_in_time, mistakes.centered, mistakes.state_of_all_documents,
        ),
    ),
}  # fmt: skip
