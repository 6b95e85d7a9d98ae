"""Positions."""

from __future__ import annotations

from typing import Any

from .... import positions as p
from ..causes import inputs
from ..causes import positions as mistakes
from ..causes.training import overwritten
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    p.apply_rope: Explanation(
        later=(inputs.other_positions, inputs.other_bases, inputs.rotation_signs),
    ),
    p.apply_rope_axial: Explanation(
        later=(inputs.other_positions,),
    ),
    p.apply_xpos: Explanation(
        later=(inputs.other_positions, inputs.other_bases),
    ),
    p.t5_bias: Explanation(
        mistakes=(mistakes.other_signs, mistakes.other_buckets),
    ),
    p.learned_positions: Explanation(
        mistakes=(overwritten,),
    ),
    p.rope_frequencies: Explanation(
        mistakes=(mistakes.other_scalings,),
    ),
    p.t5_relative_position_bucket: Explanation(
        mistakes=(mistakes.other_signs, mistakes.other_buckets),
    ),
}  # fmt: skip
