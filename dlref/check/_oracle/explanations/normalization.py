"""Normalization."""

from __future__ import annotations

from typing import Any

from .... import normalization as n
from ..causes import heuristics, inputs, options
from ..causes import normalization as mistakes
from ._explanation import Explanation

_LATER = (
    *(inputs.channels_first, mistakes.other_eps),
    *(mistakes.constant_statistics, mistakes.weighted_gradients),
)
_IN_ROWS = mistakes.joined_rows, mistakes.without_tail
_CANCELED = (heuristics.canceled,)

EXPLANATIONS: dict[Any, Explanation] = {
    n.layer_norm: Explanation(later=(*_LATER, *_IN_ROWS), last_heuristics=_CANCELED),
    n.rms_norm: Explanation(later=(*_LATER, *_IN_ROWS)),
    n.l2_norm: Explanation(later=(inputs.channels_first,)),
    n.batch_norm: Explanation(later=_LATER, last_heuristics=_CANCELED),
    n.batch_norm_update: Explanation(mistakes=(options.momentum_kept,)),
    n.group_norm: Explanation(later=(inputs.channels_first,), last_heuristics=_CANCELED),
    n.instance_norm: Explanation(later=_LATER, last_heuristics=_CANCELED),
}
