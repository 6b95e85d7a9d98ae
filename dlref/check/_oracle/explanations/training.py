"""Optimizers, schedules and steps."""

from __future__ import annotations

from typing import Any

from .... import training as t
from ..causes import options
from ..causes import training as mistakes
from ._explanation import Explanation


def _optimizer(*later: Any, first: Any = ()) -> Explanation:
    return Explanation(mistakes=(first,) if first else (), later=(mistakes.uphill, *later))


_SCHEDULES = (t.cosine_schedule, t.inverse_sqrt_schedule, t.warmup_schedule)
_ADAM = (mistakes.other_decay, mistakes.uncorrected)

EXPLANATIONS: dict[Any, Explanation] = {
    t.sgd_step: _optimizer(),
    t.momentum_step: _optimizer(first=mistakes.other_momentum),
    t.nesterov_step: _optimizer(first=mistakes.other_momentum),
    t.adagrad_step: _optimizer(first=mistakes.eps_inside),
    t.rmsprop_step: _optimizer(first=mistakes.eps_inside),
    t.adam_step: _optimizer(*_ADAM, first=options.exchanged_betas),
    t.adamw_step: _optimizer(
        *_ADAM, mistakes.decay_without_rate, first=options.exchanged_betas,
    ),
    t.lion_step: _optimizer(mistakes.decay_without_rate, first=options.exchanged_betas),
    t.muon_step: _optimizer(mistakes.decay_without_rate, first=mistakes.summed_gradients),
    t.newton_schulz: Explanation(later=(mistakes.eps_added,)),
    **{f: Explanation(mistakes=(mistakes.other_steps,)) for f in _SCHEDULES},
}  # fmt: skip
