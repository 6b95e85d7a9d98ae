"""Neurons and layers."""

from __future__ import annotations

from typing import Any

from .... import neurons as n
from ..causes.training import overwritten
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    n.embedding: Explanation(
        mistakes=(overwritten,),
    ),
}  # fmt: skip
