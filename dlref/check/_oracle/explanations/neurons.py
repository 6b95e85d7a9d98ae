"""Neurons and layers."""

from __future__ import annotations

from typing import Any

from .... import neurons as n
from ..causes.training import overwritten
from ..plain import layers
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    n.linear: Explanation(
        plain={"forward": layers.linear},
        variants={"vjp": (layers.linear_vjp,)},
    ),
    n.embedding: Explanation(
        mistakes=(overwritten,),
    ),
}  # fmt: skip
