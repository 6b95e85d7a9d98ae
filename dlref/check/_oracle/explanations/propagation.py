"""Initializations."""

from __future__ import annotations

from typing import Any

from .... import propagation as p
from ..causes import initializations as mistakes
from ._explanation import Explanation

_NORMAL = (p.glorot_normal, p.he_normal, p.lecun_normal)
_UNIFORM = (p.glorot_uniform, p.he_uniform)

EXPLANATIONS: dict[Any, Explanation] = {
    **{f: Explanation(mistakes=(mistakes.variances,)) for f in _NORMAL},
    **{f: Explanation(mistakes=(mistakes.variances, mistakes.bounds)) for f in _UNIFORM},
}
