"""Losses."""

from __future__ import annotations

import functools
from typing import Any

from .... import losses as m
from ....formulas import losses as formulas
from ..causes import derivatives, heuristics, options, training
from ..usual import through_maximum
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    m.cross_entropy: Explanation(
        variants={"vjp": (functools.partial(through_maximum, formulas.cross_entropy_vjp),)},
        mistakes=(
            options.smoothed_over_others, training.smoothed_where_ignored, training.other_z_losses,
        ),
        later=(
            derivatives.without_target, training.other_means,
        ),
        exponent=heuristics.largest_input,
    ),
    m.nll: Explanation(
        later=(training.other_means,),
    ),
    m.policy_loss: Explanation(
        mistakes=(training.other_clips,),
    ),
    m.ctc_loss: Explanation(
        mistakes=(training.other_alignments,),
    ),
    m.kl_divergence: Explanation(
        mistakes=(options.other_direction,),
    ),
}  # fmt: skip
