"""Optimizers, schedules and steps."""

from __future__ import annotations

from typing import Any

from .... import training as t
from ..causes import options
from ..causes import training as mistakes
from ._explanation import Explanation

_ADAM = options.exchanged_betas, mistakes.uncorrected
_SCHEDULES = (t.cosine_schedule, t.inverse_sqrt_schedule, t.warmup_schedule)

EXPLANATIONS: dict[Any, Explanation] = {
    t.momentum_step: Explanation(mistakes=(mistakes.other_momentum,)),
    t.nesterov_step: Explanation(mistakes=(mistakes.other_momentum,)),
    t.adam_step: Explanation(mistakes=_ADAM, later=(mistakes.decoupled_decay,)),
    t.adamw_step: Explanation(mistakes=_ADAM),
    t.lion_step: Explanation(mistakes=(options.exchanged_betas,)),
    t.muon_step: Explanation(mistakes=(mistakes.summed_gradients,)),
    **{f: Explanation(mistakes=(mistakes.other_steps,)) for f in _SCHEDULES},
}
