"""Quantization."""

from __future__ import annotations

from typing import Any

from .... import quantization as q
from ..causes import rounding
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    q.fake_quantize: Explanation(
        jumps=True,
        mistakes=(rounding.other_roundings,),
    ),
}  # fmt: skip
