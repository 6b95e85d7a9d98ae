"""Losses."""

from __future__ import annotations

from typing import Any

from .... import losses as m
from ..causes import derivatives, heuristics, options, training
from ..plain import losses as p
from ..plain.rows import through_maximum
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    **{
        f: Explanation(later=(training.perplexity,))
        for f in (m.squared_error, m.absolute_error, m.huber)
    },
    m.hinge: Explanation(mistakes=(training.squared,), later=(training.perplexity,)),
    m.binary_cross_entropy: Explanation(
        plain={"forward": p.binary_cross_entropy, "vjp": p.binary_cross_entropy_vjp},
        later=(training.applied_twice, training.perplexity),
    ),
    m.cross_entropy: Explanation(
        plain={"forward": p.cross_entropy, "vjp": p.cross_entropy_vjp},
        variants={
            "vjp": (through_maximum(p.cross_entropy_vjp), p.cross_entropy_vjp_of_logarithms),
        },
        mistakes=(options.smoothed_over_others, training.smoothed_where_ignored),
        later=(
            training.applied_twice, derivatives.without_target, training.perplexity,
            training.other_means,
        ),
        exponent=heuristics.largest_input,
    ),
    m.linear_cross_entropy: Explanation(
        plain={"forward": p.linear_cross_entropy, "vjp": p.linear_cross_entropy_vjp},
    ),
    m.nll: Explanation(
        later=(training.perplexity, training.other_means),
    ),
    m.gaussian_kl: Explanation(
        plain={"forward": p.gaussian_kl, "vjp": p.gaussian_kl_vjp},
    ),
    m.kl_estimate: Explanation(
        plain={"forward": p.kl_estimate, "vjp": p.kl_estimate_vjp},
    ),
    m.distillation_loss: Explanation(
        plain={"forward": p.distillation_loss, "vjp": p.distillation_loss_vjp},
    ),
    m.info_nce: Explanation(
        plain={"forward": p.info_nce, "vjp": p.info_nce_vjp},
    ),
    m.policy_loss: Explanation(
        mistakes=(training.other_clips,),
    ),
    m.ctc_loss: Explanation(
        mistakes=(training.other_alignments,),
    ),
    m.kl_divergence: Explanation(
        mistakes=(options.other_direction,),
        later=(training.perplexity,),
    ),
}  # fmt: skip
