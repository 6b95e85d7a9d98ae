"""Activations."""

from __future__ import annotations

import functools
from typing import Any

from .... import activations as a
from ..causes import derivatives, heuristics, inputs, options
from ..plain import rows as r
from ..plain import units as u
from ..plain.common import sigmoid
from ._explanation import Explanation


def by_slope(f: Any, slope: Any) -> dict[str, Any]:
    """Return the plain formulas of a map and of its slope."""
    plain = {"vjp": u.in_reverse(slope), "jvp": u.in_forward_mode(slope)}
    return plain if f is None else {"forward": f, **plain}


def symmetric(vjp: Any) -> dict[str, Any]:
    """Return the plain formulas of both modes of a map whose Jacobian is symmetric."""
    return {"vjp": vjp, "jvp": lambda x, dx, **told: vjp(dx, x, **told)}


EXPLANATIONS: dict[Any, Explanation] = {
    a.leaky_relu: Explanation(
        plain=by_slope(u.leaky_relu, u.leaky_relu_deriv),
    ),
    a.elu: Explanation(
        plain=by_slope(u.elu, u.elu_deriv),
        variants={"vjp": (u.in_reverse(u.elu_deriv_of_jax),)},
    ),
    a.selu: Explanation(
        plain=by_slope(u.selu, u.selu_deriv),
        variants={"vjp": (u.in_reverse(u.selu_deriv_of_jax),)},
    ),
    a.celu: Explanation(
        plain=by_slope(u.celu, u.celu_deriv),
    ),
    a.sigmoid: Explanation(
        plain=by_slope(None, u.sigmoid_deriv),
    ),
    a.tanh: Explanation(
        plain=by_slope(None, u.tanh_deriv),
        variants={"vjp": (u.tanh_vjp_of_jax,)},
    ),
    a.softplus: Explanation(
        plain=by_slope(None, u.softplus_deriv),
        mistakes=(options.linear_beyond_20,),
    ),
    a.softsign: Explanation(
        plain=symmetric(u.softsign_vjp),
    ),
    a.silu: Explanation(
        plain=by_slope(u.silu, u.silu_deriv),
    ),
    a.mish: Explanation(
        plain=by_slope(u.mish, u.mish_deriv),
        variants={"vjp": (u.mish_vjp_of_jax,)},
    ),
    a.hard_swish: Explanation(
        plain=by_slope(u.hard_swish, u.hard_swish_deriv),
    ),
    a.gelu: Explanation(
        plain=by_slope(u.gelu, u.gelu_deriv),
        later=(options.by_a_sigmoid,),
    ),
    a.tanhshrink: Explanation(
        plain={"forward": u.tanhshrink, **symmetric(u.tanhshrink_vjp)},
        variants={"vjp": (u.tanhshrink_vjp_of_jax,)},
    ),
    a.thresholded_relu: Explanation(
        plain={"forward": u.thresholded_relu},
    ),
    a.glu: Explanation(
        plain=u.gated(sigmoid, u.sigmoid_deriv),
    ),
    a.swiglu: Explanation(
        plain=u.gated(u.silu, u.silu_deriv),
    ),
    a.geglu: Explanation(
        plain=u.gated(u.gelu, u.gelu_deriv),
        later=(options.gated_by_tanh,),
    ),
    a.softmax: Explanation(
        plain={"forward": r.softmax, **symmetric(r.softmax_vjp)},
        variants={
            "forward": (r.by_logsumexp,),
            "vjp":(
                r.through_maximum(r.softmax_vjp),
                functools.partial(r.softmax_vjp, probabilities=r.by_logsumexp),
                r.softmax_vjp_of_jax,
            ),
            "jvp": (r.softmax_jvp_shifted,),
        },
        later=(inputs.base_two, derivatives.parts_of_softmax),
        exponent=heuristics.largest_input,
    ),
    a.log_softmax: Explanation(
        plain={"forward": r.log_softmax, "vjp": r.log_softmax_vjp, "jvp": r.log_softmax_jvp},
        variants={
            "vjp": (r.through_maximum(r.log_softmax_vjp),), "jvp": (r.log_softmax_jvp_shifted,),
        },
        later=(inputs.base_two, derivatives.parts_of_log_softmax),
        heuristics=(heuristics.unshifted,),
        exponent=heuristics.largest_input,
    ),
    a.logsumexp: Explanation(
        plain={"vjp": r.logsumexp_vjp, "jvp": r.logsumexp_jvp},
        variants={"vjp": (r.through_maximum(r.logsumexp_vjp, total=True),)},
        later=(inputs.base_two,),
        exponent=heuristics.largest_input,
    ),
    a.gumbel_softmax: Explanation(
        plain={"forward": r.gumbel_softmax, "vjp": r.gumbel_softmax_vjp},
    ),
}  # fmt: skip
