"""Activations."""

from __future__ import annotations

import functools
from typing import Any

from .... import activations as a
from ....formulas import activations as f
from .. import usual as u
from ..causes import derivatives, heuristics, options
from ..formulas import along_diagonal
from ._explanation import Explanation

EXPLANATIONS: dict[Any, Explanation] = {
    a.softplus: Explanation(
        mistakes=(options.linear_beyond_20,),
    ),
    a.gelu: Explanation(
        later=(options.by_a_sigmoid,),
    ),
    a.geglu: Explanation(
        later=(options.gated_by_tanh,),
    ),
    a.softmax: Explanation(
        plain={"jvp": functools.partial(along_diagonal, f.softmax_vjp)},
        variants={
            "vjp": (functools.partial(u.through_maximum, f.softmax_vjp),),
            "jvp": (u.softmax_jvp_shifted,),
        },
        later=(derivatives.without_row_sum,),
        exponent=heuristics.largest_input,
    ),
    a.log_softmax: Explanation(
        each_rounded=True,
        plain={"jvp": u.log_softmax_jvp},
        variants={
            "vjp": (functools.partial(u.through_maximum, f.log_softmax_vjp),),
            "jvp": (u.log_softmax_jvp_shifted,),
        },
        heuristics=(heuristics.unshifted,),
        exponent=heuristics.largest_input,
    ),
    a.logsumexp: Explanation(
        each_rounded=True,
        plain={"jvp": u.logsumexp_jvp},
        variants={"vjp": (functools.partial(u.through_maximum, f.logsumexp_vjp, total=True),)},
        exponent=heuristics.largest_input,
    ),
}  # fmt: skip
