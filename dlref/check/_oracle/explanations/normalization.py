"""Normalization."""

from __future__ import annotations

from typing import Any

from .... import normalization as n
from ..causes import heuristics, inputs, options
from ..causes import normalization as mistakes
from ._explanation import Explanation

CENTERED = (
    inputs.channels_first, mistakes.divided_by_less, mistakes.other_forms,
    mistakes.constant_statistics, mistakes.weighted_gradients,
)  # fmt: skip


def _norm(*, least: bool = True, **fields: Any) -> Explanation:
    """Return the explanation of a normalization; `least` where a variance may be too small."""
    first = (mistakes.least_variance,) if least else ()
    every: dict[str, Any] = {
        "mistakes": first,
        "later": CENTERED,
        "last_heuristics": (heuristics.canceled,),
    }
    return Explanation(**(every | fields))


EXPLANATIONS: dict[Any, Explanation] = {
    n.layer_norm: _norm(
        later=(*CENTERED, mistakes.along_one_axis, mistakes.joined_rows, mistakes.without_tail),
    ),
    n.rms_norm: _norm(
        later=(
            inputs.channels_first, mistakes.other_forms, mistakes.constant_statistics,
            mistakes.weighted_gradients, mistakes.joined_rows, mistakes.without_tail,
        ),
        last_heuristics=(),
    ),
    n.l2_norm: _norm(
        least=False,
        later=(inputs.channels_first,),
        last_heuristics=(),
    ),
    n.batch_norm: _norm(
        later=(*CENTERED, mistakes.along_one_axis),
    ),
    n.batch_norm_inference: _norm(
        least=False,
        later=(),
        last_heuristics=(),
    ),
    n.batch_norm_update: Explanation(
        mistakes=(options.momentum_kept,),
    ),
    n.group_norm: _norm(
        least=False,
        later=(inputs.channels_first, mistakes.divided_by_less),
    ),
    n.instance_norm: _norm(),
    n.batch_norm_train: Explanation(
        mistakes=(mistakes.running_variance,),
    ),
}  # fmt: skip
